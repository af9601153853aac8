package task_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

const s = time.Second

func ExampleBackoff() {
	b := task.Backoff{Initial: time.Second, Max: 10 * time.Second, Factor: 2}
	for attempt := range 6 {
		fmt.Print(b.Delay(attempt+1, 0), " ")
	}
	// Output: 1s 2s 4s 8s 10s 10s
}

func TestBackoffGrowsByItsFactorUpToItsMaximum(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name    string
		backoff task.Backoff
		want    []time.Duration // of attempts 1, 2, 3 …
	}{
		{"the seed's vector", task.Backoff{Initial: s, Max: 10 * s, Factor: 2},
			[]time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s, 10 * s}},
		{"a fixed interval", task.Backoff{Initial: 3 * s, Max: 10 * s, Factor: 1},
			[]time.Duration{3 * s, 3 * s, 3 * s}},
		{"no factor is a fixed interval", task.Backoff{Initial: 3 * s, Max: 10 * s},
			[]time.Duration{3 * s, 3 * s, 3 * s}},
		{"never shrinking", task.Backoff{Initial: 3 * s, Max: 10 * s, Factor: 0.5},
			[]time.Duration{3 * s, 3 * s, 3 * s}},
		{"an initial beyond the maximum", task.Backoff{Initial: 30 * s, Max: 10 * s, Factor: 2},
			[]time.Duration{10 * s, 10 * s}},
		{"zero", task.Backoff{}, []time.Duration{0, 0, 0}},
		{"negative", task.Backoff{Initial: -s, Max: -s, Factor: -2, Jitter: -1},
			[]time.Duration{0, 0, 0}},
		{"no number for a factor", task.Backoff{Initial: s, Max: 10 * s, Factor: nan},
			[]time.Duration{s, 10 * s}},
		{"no number for a jitter", task.Backoff{Initial: s, Max: 10 * s, Factor: 2, Jitter: nan},
			[]time.Duration{s, 2 * s}},
		{"infinite factor", task.Backoff{Initial: s, Max: 10 * s, Factor: math.Inf(1)},
			[]time.Duration{s, 10 * s}},
		{"the longest",
			task.Backoff{Initial: math.MaxInt64, Max: math.MaxInt64, Factor: 1000, Jitter: 0},
			[]time.Duration{math.MaxInt64, math.MaxInt64}},
	} {
		for i, want := range test.want {
			if got := test.backoff.Delay(i+1, 42); got != want {
				t.Errorf("%s: attempt %d waits %v, want %v", test.name, i+1, got, want)
			}
		}
	}
	b := task.Backoff{Initial: s, Max: 10 * s, Factor: 2}
	if got := b.Delay(math.MaxInt, 0); got != 10*s {
		t.Errorf("after endless attempts it waits %v", got)
	}
	if got := (task.Backoff{Max: 10 * s, Factor: 2}).Delay(math.MaxInt, 0); got != 0 {
		t.Errorf("nothing doubled endlessly is %v", got)
	}
	if got := b.Delay(-1, 0); got != s {
		t.Errorf("before any attempt it waits %v", got)
	}
}

func TestJitterSpreadsOverItsShareAndIsReproducible(t *testing.T) {
	b := task.Backoff{Initial: 10 * s, Max: 10 * s, Factor: 2, Jitter: 0.1}
	low, high, seen := time.Duration(math.MaxInt64), time.Duration(0), map[time.Duration]bool{}
	for n := range int32(1000) {
		seed := task.ID{Batch: 1 << 60, N: n}.Seed(0)
		d := b.Delay(1, seed)
		if again := b.Delay(1, seed); again != d {
			t.Fatalf("one seed gives %v and %v", d, again)
		}
		low, high, seen[d] = min(low, d), max(high, d), true
	}
	if low < 9*s || low > 9*s+s/10 || high > 11*s || high < 11*s-s/10 {
		t.Errorf("a thousand tasks wait %v to %v, want nearly 9s to 11s", low, high)
	}
	if len(seen) < 990 {
		t.Errorf("a thousand tasks wait only %d different times", len(seen))
	}
}

func TestSeedsOfTasksAndHandoutsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for batch := range int64(10) {
		for n := range int32(10) {
			for seq := range int32(10) {
				id, name := task.ID{Batch: batch, N: n}, fmt.Sprint(batch, n, seq)
				if other, twice := seen[id.Seed(seq)]; twice {
					t.Fatalf("%s and %s have the same seed", name, other)
				}
				seen[id.Seed(seq)] = name
			}
		}
	}
}

// FuzzBackoff: a delay is never negative nor beyond the maximum by more than the jitter.
func FuzzBackoff(f *testing.F) {
	f.Add(int64(s), int64(10*s), 2.0, 0.1, 3, uint64(7))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), 1000.0, 1.0, math.MaxInt,
		uint64(math.MaxUint64))
	// equal as floats
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64-94), 1000.0, 0.0, 2, uint64(1))
	f.Add(int64(1), int64(-1), math.Inf(1), math.Inf(1), math.MinInt, uint64(0))
	f.Fuzz(func(t *testing.T, initial, limit int64, factor, jitter float64, attempt int,
		seed uint64) {
		b := task.Backoff{
			Initial: time.Duration(initial), Max: time.Duration(limit), Factor: factor,
			Jitter: jitter,
		}
		d := b.Delay(attempt, seed)
		if most := 2 * float64(max(limit, 0)); d < 0 || float64(d) > most {
			t.Errorf("%+v waits %v after attempt %d", b, d, attempt)
		}
		if b.Jitter = 0; b.Delay(attempt, seed) > time.Duration(max(limit, 0)) {
			t.Errorf("%+v waits %v after attempt %d", b, b.Delay(attempt, seed), attempt)
		}
	})
}
