package task_test

import (
	"errors"
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

func TestPriorityIsAHeadStartInTheQueue(t *testing.T) {
	const due = int64(1_790_000_000_000_000)
	for _, test := range []struct {
		priority time.Duration
		want     int64
	}{
		{0, due}, {s, due - 1e6}, {time.Microsecond, due - 1}, {time.Nanosecond, due},
		{task.MaxPriority, due - 365*24*3600*1e6},
	} {
		if got := task.Rank(due, test.priority); got != test.want {
			t.Errorf("Rank(due, %v) = due%+d, want due%+d", test.priority, got-due, test.want-due)
		}
	}
}

func TestDecide(t *testing.T) {
	id := task.ID{Batch: 1 << 60, N: 7}
	limits := task.Limits{MaxAttempts: 3, Retry: task.Backoff{Initial: s, Max: 10 * s, Factor: 2}}
	at := func(attempt int32) task.Standing {
		return task.Standing{Stage: "read", Seq: 4, Attempt: attempt}
	}
	for _, test := range []struct {
		name     string
		standing task.Standing
		outcome  task.Outcome
		want     task.Decision
	}{
		{"done", at(0), task.Finish(nil), task.Decision{
			Final: task.Done, Stage: "read", Attempt: 1,
		}},
		{"done at the last attempt", at(2), task.Finish(nil), task.Decision{
			Final: task.Done, Stage: "read", Attempt: 3,
		}},
		{"next begins at none", at(2), task.Next("digest", nil), task.Decision{Stage: "digest"}},
		{"next into the same stage", at(2), task.Next("read", nil), task.Decision{Stage: "read"}},
		{"fail", at(0), task.Fail(nil), task.Decision{Final: task.Dead, Stage: "read", Attempt: 1}},
		{"release is not charged", at(2), task.Release(), task.Decision{Stage: "read", Attempt: 2}},
		{"first retry", at(0), task.Retry(nil), task.Decision{Stage: "read", Attempt: 1, Delay: s}},
		{"second retry", at(1), task.Retry(nil), task.Decision{
			Stage: "read", Attempt: 2, Delay: 2 * s,
		}},
		{"retry after the last attempt", at(2), task.Retry(nil), task.Decision{
			Final: task.Dead, Stage: "read", Attempt: 3,
		}},
		{"retry beyond the last, the limit was lowered", at(7), task.Retry(nil), task.Decision{
			Final: task.Dead, Stage: "read", Attempt: 8,
		}},
		{"retry after its own delay", at(1), task.RetryAfter(5*s, nil), task.Decision{
			Stage: "read", Attempt: 2, Delay: 5 * s,
		}},
		{"retry after its own delay at the last attempt", at(2), task.RetryAfter(5*s, nil),
			task.Decision{Final: task.Dead, Stage: "read", Attempt: 3}},
		{"retry after a negative delay", at(0), task.RetryAfter(-s, nil), task.Decision{
			Stage: "read", Attempt: 1, Delay: s,
		}},
		{"retry after just a minute", at(0), task.RetryAfter(time.Minute, nil), task.Decision{
			Stage: "read", Attempt: 1, Delay: time.Minute,
		}},
		{"retry after more than a minute", at(0), task.RetryAfter(time.Minute+1, nil),
			task.Decision{Stage: "read", Attempt: 1, Delay: time.Minute + 1, Moved: true}},
		{"lost goes out again at once", at(0), task.Outcome{Kind: task.KindLost}, task.Decision{
			Stage: "read", Attempt: 1,
		}},
		{"lost at the last attempt", at(2), task.Outcome{Kind: task.KindLost}, task.Decision{
			Final: task.Dead, Stage: "read", Attempt: 3,
		}},
		{"timeout backs off", at(0), task.Outcome{Kind: task.KindTimeout}, task.Decision{
			Stage: "read", Attempt: 1, Delay: s,
		}},
		{"timeout at the last attempt", at(2), task.Outcome{Kind: task.KindTimeout}, task.Decision{
			Final: task.Dead, Stage: "read", Attempt: 3,
		}},
		{"a found outcome takes no delay", at(0),
			task.Outcome{Kind: task.KindTimeout, Delay: 5 * s}, task.Decision{
				Stage: "read", Attempt: 1, Delay: s,
			}},
		{"snooze is not charged", at(2), task.Snooze(5 * s), task.Decision{
			Stage: "read", Attempt: 2, Delay: 5 * s,
		}},
		{"long snooze", at(0), task.Snooze(time.Hour), task.Decision{
			Stage: "read", Delay: time.Hour, Moved: true,
		}},
		{"negative snooze", at(0), task.Snooze(-s), task.Decision{Stage: "read"}},
		{"cancelled is not charged", at(1), task.Outcome{Kind: task.KindCancelled}, task.Decision{
			Final: task.Cancelled, Stage: "read", Attempt: 1,
		}},
		{"moved", at(1), task.Outcome{Kind: task.KindMoved}, task.Decision{
			Stage: "read", Attempt: 1, Moved: true,
		}},
		{"replayed begins at none", at(3), task.Outcome{Kind: task.KindReplayed}, task.Decision{
			Stage: "read", Moved: true,
		}},
	} {
		if got := task.Decide(id, test.standing, test.outcome, limits); got != test.want {
			t.Errorf("%s:\n got %+v\nwant %+v", test.name, got, test.want)
		}
	}
	once := task.Decision{Final: task.Dead, Stage: "read", Attempt: 1}
	if got := task.Decide(id, at(0), task.Retry(nil), task.Limits{}); got != once {
		t.Errorf("no limits: %+v, want one attempt", got)
	}
	jittered := task.Limits{MaxAttempts: 3, Retry: task.DefaultBackoff}
	if got := task.Decide(id, at(0), task.Retry(nil),
		jittered).Delay; got != task.DefaultBackoff.Delay(1, id.Seed(4)) {
		t.Errorf("the jitter of a retry is not that of its hand-out: %v", got)
	}
}

func TestATasksOwnAttemptsGoBeforeItsQueues(t *testing.T) {
	q := task.DefaultQueue("q")
	for own, want := range map[int]int{-1: 5, 0: 5, 1: 1, 9: 9} {
		if got := q.Limits(own); got.MaxAttempts != want || got.Retry != task.DefaultBackoff {
			t.Errorf("own %d: %+v, want %d attempts", own, got, want)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	id := task.ID{Batch: 1 << 60, N: 7}
	limits := task.DefaultQueue("q").Limits(0)
	for name, o := range map[string]task.Outcome{"Done": task.Finish(nil),
		"Retry": task.Retry(errors.New("no"))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				task.Decide(id, task.Standing{Stage: "read", Seq: 1, Attempt: 2}, o, limits)
			}
		})
	}
}
