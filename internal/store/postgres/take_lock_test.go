//go:build unix

package postgres

import (
	"testing"

	"github.com/rotahq/rota/internal/store"
)

// Who takes a part of a span that others have changed meanwhile counts what is left by how it is.
func TestRestOfASpanIsCountedByWhatItIs(t *testing.T) {
	o := meanwhile(t)
	o.submit(o.batch(10, 10, false))
	// Somebody else cancels two of its tasks.
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran) SELECT batch, n, 0, -1, 0, 0, 1, 0, -1, 9, '' FROM rota.span, generate_series(0, 1) n`)
	o.do("UPDATE rota.span SET size = size - 2")
	took := make(chan store.Taken, 1)
	go func() {
		took <- must(o.Take(t.Context(), store.TakeRequest{
			Holder: o.holder, Queue: "q", Limit: 4,
		}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if got := <-took; len(got.Spans) != 1 || len(got.Spans[0].Tasks) != 2 {
		t.Errorf("took %+v", got.Spans)
	}
	if n := o.count("SELECT size FROM rota.span WHERE holder IS NULL"); n != 6 {
		t.Errorf("the rest has %d tasks, want 6", n)
	}
}
