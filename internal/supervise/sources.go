package supervise

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Sources reads lists of jobs.
type Sources struct {
	// HTTP gets what sources of kind url answer. It decides which addresses may be reached. Default: none is read.
	HTTP *http.Client
	// Commands allows sources of kind command, which run with the rights of this process. Default: none runs.
	Commands bool
	// Timeout of one reading. Default 30 s.
	Timeout time.Duration
	// Limit is how much a source may say, in bytes. Default task.MaxSourceSize.
	Limit int64
}

// Read reads a source: its jobs, and a hash of what it said. Whatever is wrong with any part of it is an error.
func (c Sources) Read(ctx context.Context, src task.Source) (jobs []task.Job, hash string, err error) {
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Limit <= 0 {
		c.Limit = task.MaxSourceSize
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	var text []byte
	switch src.Kind {
	case task.SourceFile:
		text, err = c.file(src.Path)
	case task.SourceURL:
		text, err = c.get(ctx, src.URL)
	case task.SourceCommand:
		text, err = c.command(ctx, src.Command)
	default:
		err = fmt.Errorf("kind %q is not one that is read", src.Kind)
	}
	if err != nil {
		return nil, "", err
	}
	if jobs, err = parseList(text, src.Kind == task.SourceFile); err != nil {
		if src.Kind == task.SourceFile {
			err = unquoted(err)
		}
		return nil, "", err
	}
	sum := sha256.Sum256(text)
	return jobs, hex.EncodeToString(sum[:]), nil
}

// quoted is what an error repeats of a list.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// unquoted is an error that says where a file is wrong, and not what stands there: the node may read files that those may not who see the
// error.
func unquoted(err error) error {
	if err == errNothing { // which quotes itself
		return err
	}
	return errors.New(quoted.ReplaceAllString(err.Error(), "…"))
}

// parseList reads a list: {"jobs":[…]}, the array alone and, in a file, a job a line. See docs/jobs.md.
func parseList(text []byte, lines bool) (jobs []task.Job, err error) {
	first := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(first) == 0:
		return nil, errNothing
	case first[0] == '{':
		jobs, err = wire.ParseJobs(text, task.MaxJobs)
	case first[0] == '[':
		jobs, err = wire.ParseJobList("body", text, task.MaxJobs)
	case lines:
		jobs, err = wire.ParseJobLines(text, task.MaxJobs)
	default:
		return nil, fmt.Errorf("it is no list of jobs: it begins with %.20q", first)
	}
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 && first[0] != '{' {
		return nil, errNothing
	}
	var wrong task.InvalidError
	task.CheckJobs(&wrong, "jobs", jobs)
	return jobs, wrong.Err()
}

// bounded reads all that there is, up to the limit.
func (c Sources) bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, c.Limit+1))
	if err == nil && int64(len(text)) > c.Limit {
		err = c.tooLong()
	}
	return text, err
}

func (c Sources) tooLong() error { return fmt.Errorf("it says more than %d bytes", c.Limit) }

func (c Sources) file(path string) ([]byte, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // a pipe might never end, nor even begin
		return nil, fmt.Errorf("%s is no file", path)
	case info.Size() > c.Limit:
		return nil, c.tooLong()
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return c.bounded(f)
}

// stamp changes when a file does, as far as can be told without reading it.
type stamp struct {
	known bool
	size  int64 // -1 = there is none
	mtime time.Time
}

// stampOf is that of a source's file; of a source that is no file always the same.
func stampOf(src task.Source) stamp {
	if src.Kind != task.SourceFile {
		return stamp{known: true}
	}
	info, err := os.Stat(src.Path)
	if err != nil {
		return stamp{known: true, size: -1}
	}
	return stamp{true, info.Size(), info.ModTime()}
}

func (c Sources) get(ctx context.Context, url string) ([]byte, error) {
	if c.HTTP == nil {
		return nil, errors.New("this node reads no URLs")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, errors.Join(err, timeout(ctx))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", res.Status)
	}
	text, err := c.bounded(res.Body)
	if err != nil {
		return nil, errors.Join(err, timeout(ctx))
	}
	return text, nil
}

// timeout says that the time is over, if it is.
func timeout(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
