package supervise

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/rows"
)

// clockOnly is a store in which there is nothing but the time.
type clockOnly struct {
	Reader
	ahead time.Duration
}

func (c *clockOnly) Board(context.Context, int64) (rows.Board, error) {
	return rows.Board{Seats: rows.Seats{Now: time.Now().Add(c.ahead).UnixMicro(), Version: 1}}, nil
}

// Whoever has not come back by then had no chance to.
func TestBoardBeginsToCountAnewAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beat = time.Second
		store := &clockOnly{}
		b := NewBoard(store, beat)
		look := func() int64 {
			if err := b.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b.clock.store
		}
		begun := look()
		for _, pause := range []time.Duration{beat, 2 * beat, 3 * beat} {
			if time.Sleep(pause); look() == begun || b.steady != begun {
				t.Errorf("after %v without news: steady since %d, want %d", pause, b.steady, begun)
			}
		}
		time.Sleep(3*beat + time.Millisecond)
		if now := look(); b.steady != now {
			t.Errorf("after a gap: steady since %d, want %d", b.steady, now)
		}
		time.Sleep(beat)
		store.ahead = time.Hour
		if now := look(); b.steady != now {
			t.Errorf("after a jump of the store's clock: steady since %d, want %d", b.steady, now)
		}
	})
}
