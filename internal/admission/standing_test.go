package admission

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestTheNthTaskMayBeginWhenTheRateLetsIt(t *testing.T) {
	const late = 90 * second
	two, three := Limits{Rate: rate(2, time.Second, 0)}, Limits{Rate: rate(3, time.Second, 0)}
	empty := Bucket{0, late}
	for name, c := range map[string]struct {
		gate Gate
		n    int64
		want int64 // from late on
	}{
		"no rate":         {Gate{Limits: Limits{Running: 1}, Running: 1}, 9, 0},
		"an empty bucket": {Gate{Limits: two, Bucket: empty}, 1, second / 2},
		"the fifth":       {Gate{Limits: two, Bucket: empty}, 5, 5 * second / 2},
		"after a rest":    {Gate{Limits: two}, 2, 0},
		"behind a burst":  {Gate{Limits: two}, 3, second / 2},
		"a clock put back": {Gate{Limits: two, Bucket: Bucket{0, late + second}}, 1,
			3 * second / 2},
		"no fractions": {Gate{Limits: three, Bucket: empty}, 1, 333_334},
	} {
		if got := c.gate.Next(c.n, late) - late; got != c.want {
			t.Errorf("%s: in %d µs, want %d", name, got, c.want)
		}
	}
}

// What Full and Next say is what Held says, and who comes at the time that Next says is admitted.
func TestStandingAgreesWithWhatIsAdmitted(t *testing.T) {
	for seed := range uint64(500) {
		luck := rand.New(rand.NewPCG(seed, 2))
		g := Gate{
			Limits: Limits{Running: luck.IntN(4),
				Rate: rate(luck.Int64N(5), time.Duration(1+luck.IntN(1000))*time.Microsecond,
					luck.Int64N(8))},
			Running: luck.IntN(5),
		}
		g.Bucket.Level = luck.Int64N(g.Limits.Rate.full() + 1)
		now := luck.Int64N(100)
		next := g.Next(1, now)
		held := g.Held(now)
		if g.Full() != (held.Why == Limit) || held.Why == TooFast && held.Until != next ||
			(next > now) != (held.Why == TooFast) && !g.Full() {
			t.Fatalf("seed %d: %+v is held by %+v; full %v, next %d", seed, g, held, g.Full(), next)
		}
		g.Limits.Running = 0
		n := 1 + luck.Int64N(20)
		at, came := g.Next(n, now), now
		for range n { // as soon as it may
			if came = g.Next(1, came); g.Admit(1, came) != 1 {
				t.Fatalf("seed %d: not admitted at %d", seed, came)
			}
		}
		if came < at || came > at+n {
			t.Fatalf("seed %d: the %dth began at %d, was to begin at %d: %+v", seed, n, came, at, g)
		}
	}
}
