package api

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// maxFollowsEach is how many of the streams of server-sent events one caller may have, so that it
// leaves some to others.
const maxFollowsEach = 64

// follows are the streams that are under way.
type follows struct {
	limit, limitEach int

	mu   sync.Mutex
	all  int
	each map[string]int // by caller; those that have one
}

// begin takes a place for a stream; refused, it says why.
func (f *follows) begin(caller string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.take(caller)
}

// take does what begin says, under mu.
func (f *follows) take(caller string) error {
	switch {
	case f.each[caller] >= f.limitEach:
		p := busy("this caller has too many streams open")
		p.Detail += ", when another of its streams has ended"
		return p
	case f.all >= f.limit:
		return busy("too many streams are open")
	}
	if f.each == nil {
		f.each = map[string]int{}
	}
	f.all++
	f.each[caller]++
	return nil
}

// open is how many there are.
func (f *follows) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

func (f *follows) end(caller string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	if f.each[caller]--; f.each[caller] == 0 {
		delete(f.each, caller)
	}
}

// maxFollows is how many streams of server-sent events there may be at a time: each costs the store
// some reads a second.
const maxFollows = 256

// quiet is how long a stream says nothing before it sends a comment, so that both ends notice when
// the other is gone.
const quiet = 15 * time.Second

// startStream begins an answer of server-sent events. Who asks only for the header takes no more.
func startStream(w *answer) *http.ResponseController {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	control.Flush()
	w.broken = w.broken || w.head
	return control
}

// pause waits for d; false says that the call, or the server, ended before, or that the access
// tokens changed.
func (a *API) pause(ctx context.Context, epoch <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-epoch:
	case <-a.closing:
	}
	return false
}

// over tells whether the call, or the server, ended, or the access tokens changed: a stream that
// has much to catch up on does not pause before it ends.
func (a *API) over(ctx context.Context, epoch <-chan struct{}) bool {
	select {
	case <-ctx.Done():
	case <-epoch:
	case <-a.closing:
	default:
		return false
	}
	return true
}
