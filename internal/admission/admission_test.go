package admission

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

const second = int64(1e6)

func rate(count int64, per time.Duration, burst int64) Rate {
	return Rate{task.Rate{Count: count, Per: per}, burst}
}

func TestAsManyBeginAsEveryLimitAllows(t *testing.T) {
	const half, late = second / 2, 90 * second
	seven, two := Limits{Running: 7}, Limits{Rate: rate(2, time.Second, 0)}
	burst := Limits{Rate: rate(2, time.Second, 4)}
	one := Limits{Rate: rate(100, time.Second, 1)}
	for name, c := range map[string]struct {
		gate Gate
		now  int64
		want int // of five
		held Held
	}{
		"no limit":     {Gate{Running: 1000}, 0, 5, Held{}},
		"room":         {Gate{Limits: seven, Running: 1}, 0, 5, Held{}},
		"room for two": {Gate{Limits: seven, Running: 5}, 0, 2, Held{Why: Limit}},
		"full":         {Gate{Limits: seven, Running: 7}, 0, 0, Held{Why: Limit}},
		"over full":    {Gate{Limits: seven, Running: 9}, 0, 0, Held{Why: Limit}},

		"an empty bucket": {Gate{Limits: two}, 0, 0, Held{TooFast, half}},
		"half a second":   {Gate{Limits: two}, half, 1, Held{TooFast, second}},
		"a long rest":     {Gate{Limits: two}, late, 2, Held{TooFast, late + half}},
		"a burst":         {Gate{Limits: burst}, late, 4, Held{TooFast, late + half}},
		"a small burst":   {Gate{Limits: one}, late, 1, Held{TooFast, late + second/100}},
		"a clock put back": {Gate{Limits: two, Bucket: Bucket{0, late}}, second, 0,
			Held{TooFast, late + half}},

		"paused":               {Gate{Paused: second}, 0, 0, Held{Paused, second}},
		"a pause that is over": {Gate{Paused: second}, second, 5, Held{}},
		"paused for good, and full": {Gate{Limits: seven, Running: 7, Paused: Always}, late, 0,
			Held{Why: Paused}},

		"both, the bucket is less": {Gate{Limits: Limits{7, two.Rate}, Running: 3}, second, 2,
			Held{TooFast, second + half}},
		"both, room is less": {Gate{Limits: Limits{7, one.Rate}, Running: 6}, second, 1,
			Held{Why: Limit}},
	} {
		g := c.gate
		if got := g.Left(5, c.now); got != c.want {
			t.Errorf("%s: %d left, want %d", name, got, c.want)
		}
		run := c.gate.Running
		if c.gate.Limits.Running > 0 {
			run += c.want
		}
		if got := g.Admit(5, c.now); got != c.want || g.Running != run {
			t.Errorf("%s: %d admitted, %d run, want %d and %d", name, got, g.Running, c.want, run)
		}
		if got := g.Held(c.now); got != c.held {
			t.Errorf("%s: then held by %+v, want %+v", name, got, c.held)
		}
	}
}

// Whenever and however many tasks ask, a rate holds in every window; and who was told to come later
// may come then, and not a microsecond before.
func TestRatesHoldInEveryWindow(t *testing.T) {
	for seed := range uint64(200) {
		luck := rand.New(rand.NewPCG(seed, 1))
		r := rate(1+luck.Int64N(5), time.Duration(1+luck.IntN(1000))*time.Microsecond,
			luck.Int64N(8))
		g, now := Gate{Limits: Limits{Rate: r}}, int64(0)
		var times []int64
		for range 500 {
			if luck.IntN(20) == 0 {
				now += luck.Int64N(5000)
			}
			for range g.Admit(1+luck.IntN(4), now) {
				times = append(times, now)
			}
			held := g.Held(now)
			if held.Why == "" {
				continue
			}
			if held.Until <= now || g.Left(1, held.Until-1) != 0 {
				t.Fatalf("seed %d: at %d held until %d", seed, now, held.Until)
			}
			g.Bucket = Bucket{g.Bucket.Level, g.Bucket.At} // what a row keeps
			now = held.Until
			if g.Left(1, now) != 1 {
				t.Fatalf("seed %d: told to come at %d, held by %+v", seed, now, g.Held(now))
			}
		}
		holds(t, fmt.Sprint("seed ", seed), r, times)
	}
}

// holds fails where more began in a window than a rate allows.
func holds(t *testing.T, name string, r Rate, times []int64) {
	t.Helper()
	burst := r.full() / r.price()
	for i, from := range times {
		for j := i; j < len(times); j++ {
			window := times[j] - from
			if most := burst + window*r.Count/r.price() + 1; int64(j-i+1) > most {
				t.Fatalf("%s: %d from %d to %d, at most %d: %+v", name, j-i+1, from, times[j],
					most, r)
			}
		}
	}
}

func TestLargestRatesDoNotOverflow(t *testing.T) {
	for name, c := range map[string]struct {
		rate Rate
		now  int64
	}{
		"a burst after a long rest": {rate(1, task.MaxRatePer, task.MaxRateCount), 1 << 62},
		"many after a long rest":    {rate(task.MaxRateCount, task.MaxRatePer, 0), 1 << 62},
		"many at once":              {rate(task.MaxRateCount, task.MinRatePer, 0), 1000},
	} {
		g := Gate{Limits: Limits{Rate: c.rate}}
		if n := g.Left(1<<30, c.now); n != task.MaxRateCount {
			t.Errorf("%s: %d, want %d", name, n, task.MaxRateCount)
		}
	}
	slow := Gate{Limits: Limits{Rate: rate(1, task.MaxRatePer, 0)}}
	if last, all := slow.Next(1e6, 0), slow.Next(math.MaxInt64, 0); all <= last {
		t.Errorf("the last of all begins at %d, the millionth at %d", all, last)
	}
}

func BenchmarkAdmit(b *testing.B) {
	g := Gate{Limits: Limits{Running: 1 << 30, Rate: rate(1_000_000, time.Second, 0)}}
	now := int64(0)
	for b.Loop() {
		now++
		g.Admit(1, now)
	}
}
