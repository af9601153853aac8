package api

import (
	"net/http"
	"net/url"
	"time"
)

// answer is the response to one call. It knows who called and what became of the call, and limits
// how long the caller may take to read.
type answer struct {
	http.ResponseWriter
	call
	within time.Duration
	head   bool // only the header is asked for
	status int  // 0 = nothing was answered yet
	broken bool // the caller is gone or too slow

	outcome string            // of a problem
	notes   map[string]string // what is told of the change, besides
	quiet   bool              // nothing is

	meta url.Values // of the query: see takeMeta

	// closed when the access tokens are others than those by which the call was let in
	epoch <-chan struct{}
}

func (w *answer) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.limit()
	w.ResponseWriter.WriteHeader(status)
}

// limit begins the time that the caller has to read what is written next.
func (w *answer) limit() {
	// a writer without deadlines is a test's
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.within))
}

// answerStep is how much of an answer its caller must read in the time that it has. Whoever reads
// on has time for the next.
const answerStep = 256 << 10

func (w *answer) Write(b []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	for {
		piece := b[n:min(n+answerStep, len(b))]
		k, err := w.ResponseWriter.Write(piece)
		if n += k; err != nil || n == len(b) {
			w.broken = w.broken || err != nil
			return n, err
		}
		w.limit()
	}
}

func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
