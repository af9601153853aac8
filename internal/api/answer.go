package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Answers with contexts and results in them may be large, and their callers slow. Like bodies they
// take their memory out of a budget, from before they are read out of the store until they are
// written.

const (
	// smallAnswer is up to how many bytes an answer is not counted: the connection's buffers take
	// it, however slow the caller.
	smallAnswer = 64 << 10
	// maxLoads is how many tasks are read at a time whose size nobody knows yet.
	maxLoads = 4
	// patience is how long a call waits for memory before it is refused.
	patience = time.Second
)

// keep takes n more bytes for an answer, unless less than spare would be left, and waits for them
// so long at most. What alone is larger than all there is takes all there is.
func (a *API) keep(ctx context.Context, c *call, n, spare int64, within time.Duration) bool {
	if c.kept == 0 {
		n = min(n, a.large.limit-spare)
	}
	got := a.large.await(ctx, n, spare, within)
	if got {
		c.kept += n
	}
	return got
}

// room takes n more bytes for an answer of a call that is no worker's, or refuses the call.
func (a *API) room(ctx context.Context, c *call, n int64) error {
	if n > smallAnswer && !a.keep(ctx, c, n, a.large.limit/4, patience) {
		return busy("too many large answers are under way")
	}
	return nil
}

// shrink gives n of the bytes back that an answer took.
func (a *API) shrink(c *call, n int64) {
	n = min(n, c.kept)
	a.large.give(n)
	c.kept -= n
}

// view reads a task for an answer. How large it is only reading it tells: so few are read at a
// time, and one that does not fit is dropped and read again when there is room.
func (a *API) view(
	ctx context.Context, w *answer, tasks TaskReader, id task.ID,
) (task.View, error) {
	spare := a.large.limit / 4
	for {
		if !a.loads.await(ctx, 1, 0, patience) {
			return task.View{}, busy("too many tasks are being read")
		}
		v, err := tasks.Task(ctx, id, 0)
		a.loads.give(1)
		size := min(weight(&v), a.large.limit-spare)
		if err != nil || size <= max(w.kept, smallAnswer) ||
			a.keep(ctx, &w.call, size-w.kept, spare, 0) {
			return v, missing(err, id)
		}
		v = task.View{} // nothing is held on to while this one waits
		if !a.keep(ctx, &w.call, size-w.kept, spare, patience) {
			return v, busy("too many large answers are under way")
		}
	}
}

// weight is about how many bytes a task is in an answer.
func weight(v *task.View) int64 {
	n := len(v.Context) + len(v.Result)
	for i := range v.Steps {
		n += 256 + len(v.Steps[i].Error)
	}
	return int64(n)
}

// pageWeight is about how many bytes the page of a list is that a query asks for, if it asks for a
// length of its own.
func pageWeight(u *url.URL) int64 {
	const item = 512
	if u.RawQuery == "" { // else the name may be percent-encoded
		return 0
	}
	n, err := strconv.Atoi(u.Query().Get("limit"))
	if err != nil || n < 1 || n > maxPage {
		return 0 // it will be refused
	}
	return int64(n) * item
}

// jsonType is shared by all answers; net/http only reads it.
var jsonType = []string{"application/json"}

// largestKept is how large a buffer may grow and still be kept for other answers.
const largestKept = 1 << 20

// write answers with JSON, from a buffer that is used again.
func (a *API) write(w *answer, status int, fill func([]byte) []byte) {
	a.writeCut(w, status, func(b []byte) ([]byte, []wire.Cut) { return fill(b), nil })
}

// writeCut is write for a text of which long values are left out: they are written from where they
// are.
func (a *API) writeCut(w *answer, status int, fill func([]byte) ([]byte, []wire.Cut)) {
	buffer := a.buffers.Get().(*[]byte)
	b, cuts := fill((*buffer)[:0])
	size := len(b)
	for _, c := range cuts {
		size += len(c.Value)
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(size)}
	w.WriteHeader(status)
	from := 0
	for _, c := range cuts {
		w.Write(b[from:c.At]) // a caller that is gone needs no answer: here and below
		w.Write(c.Value)
		from = c.At
	}
	w.Write(b[from:])
	if cap(b) <= largestKept {
		*buffer = b
		a.buffers.Put(buffer)
	}
}

// writeValue answers a call that is not hot.
func (a *API) writeValue(w *answer, status int, v any) {
	body := encoded(v)
	a.write(w, status, func(b []byte) []byte { return append(b, body...) })
}

// encoded is a value of our own in JSON. Strings, numbers and times always encode.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", v, err))
	}
	return b
}
