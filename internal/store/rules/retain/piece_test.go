package retain

import (
	"testing"
	"time"
)

const goal = 40 * time.Millisecond

// run lets a store delete pieces at so much time for each row, and answers the size that comes of
// it.
func run(p *Piece, times int, each time.Duration) int {
	for range times {
		n := p.Size(100, 4000)
		p.Took(n, time.Duration(n)*each, goal)
	}
	return p.Size(100, 4000)
}

func TestPiecesGrowWhileTheyAreQuickAndShrinkWhenOthersKeepTheStoreBusy(t *testing.T) {
	var p Piece
	for _, step := range []struct {
		each time.Duration
		want int
	}{
		{20 * time.Microsecond, 2000}, {time.Microsecond, 4000}, {100 * time.Microsecond, 400},
		{time.Millisecond, 100}, {20 * time.Microsecond, 2000},
	} {
		if got := run(&p, 10, step.each); got != step.want {
			t.Errorf("at %v a row: pieces of %d, want %d", step.each, got, step.want)
		}
	}
}

func TestOneShortOrSlowPieceChangesLittle(t *testing.T) {
	var p Piece
	run(&p, 10, 20*time.Microsecond)
	p.Took(3, time.Microsecond, goal)
	if got := p.Size(100, 4000); got != 2000 {
		t.Errorf("after a piece of three rows: %d", got)
	}
	p.Took(2000, time.Minute, goal)
	if got := p.Size(100, 4000); got != 500 {
		t.Errorf("after one that hung: %d", got)
	}
}

func TestWhoIsLateRestsLess(t *testing.T) {
	last := time.Hour
	for _, lag := range []time.Duration{0, 5 * time.Second, 10 * time.Second, time.Minute,
		time.Hour} {
		rest := Rest(time.Second, lag)
		if rest > last || rest < time.Second/4 || rest > 3*time.Second {
			t.Errorf("late by %v: a rest of %v, %v before", lag, rest, last)
		}
		last = rest
	}
}
