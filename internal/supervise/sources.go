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
	"net/url"
	"regexp"
	"time"

	"github.com/rotahq/rota/internal/command"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Sources reads lists of jobs.
type Sources struct {
	// HTTP gets what sources of kind url answer. It decides which addresses may be reached.
	// Default: none is read.
	HTTP *http.Client
	// Folder has the files that sources of kind file may name. Default: none is read.
	Folder *Folder
	// Commands allows sources of kind command, which run with the rights of this process. Default:
	// none runs.
	Commands bool
	// Timeout of one reading. Default 30 s.
	Timeout time.Duration
	// Limit is how much a source may say, in bytes. Default limits.MaxSourceSize.
	Limit int64
	// Slots bounds, by its capacity, how many files and commands are read at a time over all who
	// share it, those included that were given up and go on all the same. Default: nothing does.
	Slots chan struct{}
}

// Read reads a source: its jobs, and a hash of what it said. Whatever is wrong with any part of it
// is an error. It returns when ctx or the time is over, whatever the reader does.
func (c Sources) Read(
	ctx context.Context, src task.Source,
) (jobs []task.Job, hash string, err error) {
	got := c.look(ctx, src, nil)
	return got.jobs, got.hash, got.err
}

// look reads a source; if before is given, only when its file has another stamp. What asks the
// system for a file can't be interrupted where the file's server is gone, or the file is none that
// ends: a reader that goes on when the time is over is left behind, and ended says when it has
// ended.
func (c Sources) look(ctx context.Context, src task.Source, before *stamp) reading {
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Limit <= 0 {
		c.Limit = limits.MaxSourceSize
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout,
		fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	slots := c.Slots
	if src.Kind != task.SourceFile && src.Kind != task.SourceCommand {
		slots = nil // it ends with ctx
	}
	if slots != nil {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return reading{
				err: fmt.Errorf("%w, waiting for %d others to be read", context.Cause(ctx),
					cap(slots)),
			}
		}
	}
	answer, ended := make(chan reading, 1), make(chan struct{})
	go func() { // nobody waits for it longer than for ctx
		defer close(ended)
		if slots != nil {
			defer func() { <-slots }()
		}
		answer <- c.looked(ctx, src, before)
	}()
	select {
	case got := <-answer:
		return got
	case <-ctx.Done():
	}
	if src.Kind != task.SourceFile {
		// the others are told to end, and a command that is killed must be waited for
		select {
		case got := <-answer:
			return got
		case <-time.After(command.Grace + time.Second):
		}
	}
	return reading{err: context.Cause(ctx), ended: ended}
}

// looked does what look says, in the caller's goroutine.
func (c Sources) looked(ctx context.Context, src task.Source, before *stamp) (got reading) {
	got.stamp = c.stampOf(src)
	if before != nil && (!before.known || got.stamp == *before) {
		got.same = true
		return got
	}
	got.jobs, got.hash, got.err = c.parsed(ctx, src)
	return got
}

func (c Sources) parsed(
	ctx context.Context, src task.Source,
) (jobs []task.Job, hash string, err error) {
	var text []byte
	switch src.Kind {
	case task.SourceFile:
		text, err = c.Folder.read(ctx, src.Path, c)
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

// unquoted is an error that says where a file is wrong, and not what stands there: the node may
// read files that those may not who see the error.
func unquoted(err error) error {
	if err == errNothing { // which quotes itself
		return err
	}
	return errors.New(quoted.ReplaceAllString(err.Error(), "…"))
}

// parseList reads a list: {"jobs":[…]}, the array alone and, in a file, a job a line. See
// docs/jobs.md.
func parseList(text []byte, lines bool) (jobs []task.Job, err error) {
	first := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(first) == 0:
		return nil, errNothing
	case first[0] == '{':
		jobs, err = wire.ParseJobs(text, limits.MaxJobs)
	case first[0] == '[':
		jobs, err = wire.ParseJobList("body", text, limits.MaxJobs)
	case lines:
		jobs, err = wire.ParseJobLines(text, limits.MaxJobs)
	default:
		return nil, fmt.Errorf("it is no list of jobs: it begins with %.20q", first)
	}
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 && first[0] != '{' {
		return nil, errNothing
	}
	for i := range jobs {
		jobs[i].Name = names.Canonical(jobs[i].Name)
	}
	var wrong task.InvalidError
	limits.CheckJobs(&wrong, "jobs", jobs)
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

// stamp changes when a file does, as far as can be told without reading it.
type stamp struct {
	known bool
	size  int64 // -1 = there is none
	mtime time.Time
}

// stampOf is that of a source's file; of a source that is no file always the same.
func (c Sources) stampOf(src task.Source) stamp {
	if src.Kind != task.SourceFile {
		return stamp{known: true}
	}
	info, err := c.Folder.stat(src.Path)
	if err != nil {
		return stamp{known: true, size: -1}
	}
	return stamp{true, info.Size(), info.ModTime()}
}

func (c Sources) get(ctx context.Context, from string) ([]byte, error) {
	if c.HTTP == nil {
		return nil, errors.New("this node reads no URLs")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, errors.Join(withoutURL(err), timeout(ctx))
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

// withoutURL is the error of a call without its URL, in which there may be a password or a token:
// many read the error, in logs, in events and in the group.
func withoutURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// timeout says that the time is over, if it is.
func timeout(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
