package supervise

import (
	"testing"
	"time"
)

// A seat says the most that a worker may go by, whatever answers tell and groups want.
func TestSeatNeverSaysLessThanAnswersToldLately(t *testing.T) {
	const second = time.Second
	var p promise
	seat, at := 15*second, time.Unix(0, 0)
	for i, step := range []struct {
		after, want time.Duration
		answered    bool
		told, seat  time.Duration
	}{
		{0, 15 * second, true, 15 * second, 15 * second},
		{second, 40 * second, true, 15 * second, 40 * second}, // written first, told by the next
		{second, 40 * second, true, 40 * second, 40 * second},
		{second, 6 * second, false, 0, 40 * second}, // nobody told it yet
		{second, 6 * second, true, 6 * second, 40 * second},
		{39 * second, 6 * second, true, 6 * second, 40 * second},
		{0, 20 * second, true, 20 * second, 40 * second}, // more than that was not told either
		{second, 20 * second, false, 0, 20 * second},
		{0, 6 * second, true, 6 * second, 20 * second}, // less: it counts anew
		{19 * second, 6 * second, true, 6 * second, 20 * second},
		{second, 6 * second, true, 6 * second, 6 * second},
	} {
		at = at.Add(step.after)
		if step.answered {
			if told := p.tell(step.want, seat, at); told != step.told || told > seat {
				t.Errorf("step %d: told %v, want %v; the seat says %v", i, told, step.told, seat)
			}
		}
		if seat = p.next(step.want, seat, at); seat != step.seat {
			t.Errorf("step %d: the seat says %v, want %v", i, seat, step.seat)
		}
	}
}

func TestHandlerIsQuietForTheTimeThatBeatsWereHeard(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var s sign
	for i, beat := range []struct {
		alive time.Time
		step  time.Duration
		quiet time.Duration
	}{
		{at(100), 5 * time.Second, 0}, // the first that is heard of it
		{at(100), 3 * time.Second, 3 * time.Second},
		{at(100), 3 * time.Second, 6 * time.Second},
		{at(100), time.Hour, 16 * time.Second}, // this node was stopped
		{at(100), -time.Hour, 16 * time.Second},
		{at(90), 3 * time.Second, 0}, // the worker's clock was set back: a sign all the same
		{at(90), 3 * time.Second, 3 * time.Second},
		{time.Time{}, 3 * time.Second, 0}, // it does not tell
		{time.Time{}, 3 * time.Second, 0},
	} {
		if s = s.listen(beat.alive, beat.step); s.quiet != beat.quiet {
			t.Errorf("beat %d: quiet for %v, want %v", i, s.quiet, beat.quiet)
		}
	}
}
