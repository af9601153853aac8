package demo

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// The stages of a file's task. Its context grows from one to the next: a subject, its facts, and
// its digest.
const (
	stageRead   = "read"   // the size, and the digest of each chunk
	stageDigest = "digest" // the digest of the whole file
	stageVerify = "verify" // both again, and compare
)

// subject names a file in JSON, whatever bytes its name is made of.
type subject struct {
	Path string `json:"path"` // for people: what is not UTF-8 in it is replaced
	// the path itself when it is not UTF-8, which no JSON string can hold
	Raw []byte `json:"raw,omitempty"`
}

func subjectOf(path string) subject {
	if utf8.ValidString(path) {
		return subject{Path: path}
	}
	return subject{Path: strings.ToValidUTF8(path, "\uFFFD"), Raw: []byte(path)}
}

// name is the path to open.
func (s subject) name() string {
	if s.Raw != nil {
		return string(s.Raw)
	}
	return s.Path
}

// fileFacts are what a task knows of its file so far. They grow with the file, so those of a larger
// one (see chunkSize) go to the blob folder.
type fileFacts struct {
	subject
	Size   int64    `json:"size"`
	Chunk  int      `json:"chunk"`  // bytes of every chunk but the last
	Chunks []string `json:"chunks"` // SHA-256 of each
	SHA256 string   `json:"sha256,omitempty"`
}

// account is the result of a file's task.
type account struct {
	subject
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256,omitempty"`
	Changed    bool   `json:"changed,omitempty"`    // two readings differed
	Unreadable string `json:"unreadable,omitempty"` // why it could not be read
}

const (
	minChunk  = 4 << 10 // a context of more than 4,096 bytes from a file of about 240 KiB on
	maxChunks = 10_000  // a context of at most 700 KB, whatever the file's size
)

// chunkSize cuts a file of the given size into at most maxChunks chunks.
func chunkSize(size int64) int {
	chunk := minChunk
	for size/int64(chunk) >= maxChunks {
		chunk *= 2
	}
	return chunk
}

// digests are all that one reading of a file can say of its content.
type digests struct {
	size   int64
	chunks []string
	whole  string
}

// readChunks reads a file in chunks from its beginning to its end.
func readChunks(ctx context.Context, name string, chunk int) (digests, error) {
	f, err := os.Open(name)
	if err != nil {
		return digests{}, err
	}
	defer f.Close()
	var d digests
	whole, piece := sha256.New(), make([]byte, chunk)
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return digests{}, err
		}
		n, err := io.ReadFull(in, piece)
		if n > 0 {
			sum := sha256.Sum256(piece[:n])
			d.size += int64(n)
			d.chunks = append(d.chunks, hex.EncodeToString(sum[:]))
			whole.Write(piece[:n])
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			d.whole = hex.EncodeToString(whole.Sum(nil))
			return d, nil
		case err != nil:
			return digests{}, err
		}
	}
}

// readStage finds the size and the chunks.
func readStage(ctx context.Context, f fileFacts) task.Outcome {
	info, err := os.Stat(f.name())
	if err != nil {
		return givenUp(ctx, f, err)
	}
	f.Chunk = chunkSize(info.Size())
	d, err := readChunks(ctx, f.name(), f.Chunk)
	if err != nil {
		return givenUp(ctx, f, err)
	}
	f.Size, f.Chunks = d.size, d.chunks
	return task.Next(stageDigest, f)
}

// digestStage adds the digest of the whole file.
func digestStage(ctx context.Context, f fileFacts) task.Outcome {
	d, err := readChunks(ctx, f.name(), f.Chunk)
	if err != nil {
		return givenUp(ctx, f, err)
	}
	f.SHA256 = d.whole
	return task.Next(stageVerify, f)
}

// verifyStage reads once more and compares with all that was found before.
func verifyStage(ctx context.Context, f fileFacts) task.Outcome {
	d, err := readChunks(ctx, f.name(), f.Chunk)
	if err != nil {
		return givenUp(ctx, f, err)
	}
	same := d.size == f.Size && d.whole == f.SHA256 && slices.Equal(d.chunks, f.Chunks)
	return task.Finish(account{subject: f.subject, Size: d.size, SHA256: d.whole, Changed: !same})
}

// givenUp ends the task of a file that can't be read: that it can't is the result. When only the
// worker's time is over the task goes back instead.
func givenUp(ctx context.Context, f fileFacts, err error) task.Outcome {
	if ctx.Err() != nil {
		return task.Retry(context.Cause(ctx))
	}
	return task.Finish(account{subject: f.subject, Unreadable: reason(err)})
}

// reason is why a file can't be read, without its path.
func reason(err error) string {
	var e *os.PathError
	if errors.As(err, &e) {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return err.Error()
}
