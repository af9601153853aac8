package progress_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/task"
)

const s = time.Second

func ExampleDecide() {
	q := limits.DefaultQueue("mail")
	lim := progress.LimitsOf(&q, 2)
	lim.Retry.Jitter = 0
	id, now := task.ID{Batch: 1 << 60}, progress.Standing{Stage: "send"}
	d := progress.Decide(id, now, task.Retry(errors.New("no answer")), lim)
	fmt.Println("attempt", d.Attempt, "failed; again in", d.Delay)

	now = progress.Standing{Stage: d.Stage, Attempt: d.Attempt, Seq: 1}
	d = progress.Decide(id, now, task.Retry(errors.New("no answer")), lim)
	fmt.Println("attempt", d.Attempt, "failed; the task is", d.Final)
	// Output:
	// attempt 1 failed; again in 1s
	// attempt 2 failed; the task is dead
}

func TestPriorityIsAHeadStartInTheQueue(t *testing.T) {
	const due = int64(1_790_000_000_000_000)
	for _, test := range []struct {
		priority time.Duration
		want     int64
	}{
		{0, due}, {s, due - 1e6}, {time.Microsecond, due - 1}, {time.Nanosecond, due},
		{limits.MaxPriority, due - 365*24*3600*1e6},
	} {
		if got := progress.Rank(due, test.priority); got != test.want {
			t.Errorf("Rank(due, %v) = due%+d, want due%+d", test.priority, got-due, test.want-due)
		}
	}
}

func TestDecide(t *testing.T) {
	id := task.ID{Batch: 1 << 60, N: 7}
	lim := progress.Limits{
		MaxAttempts: 3, Retry: task.Backoff{Initial: s, Max: 10 * s, Factor: 2},
	}
	at := func(attempt int32) progress.Standing {
		return progress.Standing{Stage: "read", Seq: 4, Attempt: attempt}
	}
	for _, test := range []struct {
		name     string
		standing progress.Standing
		outcome  task.Outcome
		want     progress.Decision
	}{
		{"done", at(0), task.Finish(nil), progress.Decision{
			Final: task.Done, Stage: "read", Attempt: 1,
		}},
		{"done at the last attempt", at(2), task.Finish(nil), progress.Decision{
			Final: task.Done, Stage: "read", Attempt: 3,
		}},
		{"next begins at none", at(2), task.Next("digest", nil), progress.Decision{
			Stage: "digest",
		}},
		{"next into the same stage", at(2), task.Next("read", nil), progress.Decision{
			Stage: "read",
		}},
		{"fail", at(0), task.Fail(nil), progress.Decision{
			Final: task.Dead, Stage: "read", Attempt: 1,
		}},
		{"release is not charged", at(2), task.Release(), progress.Decision{
			Stage: "read", Attempt: 2,
		}},
		{"first retry", at(0), task.Retry(nil), progress.Decision{
			Stage: "read", Attempt: 1, Delay: s,
		}},
		{"second retry", at(1), task.Retry(nil), progress.Decision{
			Stage: "read", Attempt: 2, Delay: 2 * s,
		}},
		{"retry after the last attempt", at(2), task.Retry(nil), progress.Decision{
			Final: task.Dead, Stage: "read", Attempt: 3,
		}},
		{"retry beyond the last, the limit was lowered", at(7), task.Retry(nil), progress.Decision{
			Final: task.Dead, Stage: "read", Attempt: 8,
		}},
		{"retry after its own delay", at(1), task.RetryAfter(5*s, nil), progress.Decision{
			Stage: "read", Attempt: 2, Delay: 5 * s,
		}},
		{"retry after its own delay at the last attempt", at(2), task.RetryAfter(5*s, nil),
			progress.Decision{Final: task.Dead, Stage: "read", Attempt: 3}},
		{"retry after a negative delay", at(0), task.RetryAfter(-s, nil), progress.Decision{
			Stage: "read", Attempt: 1, Delay: s,
		}},
		{"retry after just a minute", at(0), task.RetryAfter(time.Minute, nil), progress.Decision{
			Stage: "read", Attempt: 1, Delay: time.Minute,
		}},
		{"retry after more than a minute", at(0), task.RetryAfter(time.Minute+1, nil),
			progress.Decision{Stage: "read", Attempt: 1, Delay: time.Minute + 1, Moved: true}},
		{"lost goes out again at once", at(0), task.Outcome{Kind: task.KindLost}, progress.Decision{
			Stage: "read", Attempt: 1,
		}},
		{"lost at the last attempt", at(2), task.Outcome{Kind: task.KindLost}, progress.Decision{
			Final: task.Dead, Stage: "read", Attempt: 3,
		}},
		{"timeout backs off", at(0), task.Outcome{Kind: task.KindTimeout}, progress.Decision{
			Stage: "read", Attempt: 1, Delay: s,
		}},
		{"timeout at the last attempt", at(2), task.Outcome{Kind: task.KindTimeout},
			progress.Decision{
				Final: task.Dead, Stage: "read", Attempt: 3,
			}},
		{"a found outcome takes no delay", at(0),
			task.Outcome{Kind: task.KindTimeout, Delay: 5 * s}, progress.Decision{
				Stage: "read", Attempt: 1, Delay: s,
			}},
		{"snooze is not charged", at(2), task.Snooze(5 * s), progress.Decision{
			Stage: "read", Attempt: 2, Delay: 5 * s,
		}},
		{"long snooze", at(0), task.Snooze(time.Hour), progress.Decision{
			Stage: "read", Delay: time.Hour, Moved: true,
		}},
		{"negative snooze", at(0), task.Snooze(-s), progress.Decision{Stage: "read"}},
		{"next after a wait", at(2), task.NextAfter(5*s, "parse", nil), progress.Decision{
			Stage: "parse", Delay: 5 * s,
		}},
		{"next after a long wait", at(2), task.NextAfter(time.Hour, "parse", nil),
			progress.Decision{Stage: "parse", Delay: time.Hour, Moved: true}},
		{"next after a negative wait", at(1), task.NextAfter(-s, "parse", nil), progress.Decision{
			Stage: "parse",
		}},
		{"next on a signal is parked", at(2), task.NextOn(task.Await{
			Signal: "paid", Timeout: time.Hour, Else: "remind",
		}, "ship", nil), progress.Decision{Stage: "ship", Moved: true, Parked: true}},
		{"next on children is parked", at(2), task.NextOn(task.Await{
			Children: task.AllChildren,
		}, "join", nil).Spawning(task.Submission{Queue: "q"}),
			progress.Decision{Stage: "join", Moved: true, Parked: true}},
		{"done with children is done", at(2), task.Finish(nil).Spawning(task.Submission{
			Queue: "q",
		}), progress.Decision{Final: task.Done, Stage: "read", Attempt: 3}},
		{"next with children goes on", at(2), task.Next("join", nil).Spawning(task.Submission{
			Queue: "q",
		}), progress.Decision{Stage: "join"}},
		{"cancelled is not charged", at(1), task.Outcome{Kind: task.KindCancelled},
			progress.Decision{
				Final: task.Cancelled, Stage: "read", Attempt: 1,
			}},
		{"moved", at(1), task.Outcome{Kind: task.KindMoved}, progress.Decision{
			Stage: "read", Attempt: 1, Moved: true,
		}},
		{"replayed begins at none", at(3), task.Outcome{Kind: task.KindReplayed}, progress.Decision{
			Stage: "read", Moved: true,
		}},
	} {
		if got := progress.Decide(id, test.standing, test.outcome, lim); got != test.want {
			t.Errorf("%s:\n got %+v\nwant %+v", test.name, got, test.want)
		}
	}
	once := progress.Decision{Final: task.Dead, Stage: "read", Attempt: 1}
	if got := progress.Decide(id, at(0), task.Retry(nil), progress.Limits{}); got != once {
		t.Errorf("no limits: %+v, want one attempt", got)
	}
	jittered := progress.Limits{MaxAttempts: 3, Retry: limits.DefaultBackoff}
	if got := progress.Decide(id, at(0), task.Retry(nil),
		jittered).Delay; got != limits.DefaultBackoff.Delay(1, id.Seed(4)) {
		t.Errorf("the jitter of a retry is not that of its hand-out: %v", got)
	}
}

func TestATasksOwnAttemptsGoBeforeItsQueues(t *testing.T) {
	q := limits.DefaultQueue("q")
	for own, want := range map[int]int{-1: 5, 0: 5, 1: 1, 9: 9} {
		if got := progress.LimitsOf(&q, own); got.MaxAttempts != want ||
			got.Retry != limits.DefaultBackoff {
			t.Errorf("own %d: %+v, want %d attempts", own, got, want)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	id := task.ID{Batch: 1 << 60, N: 7}
	q := limits.DefaultQueue("q")
	lim := progress.LimitsOf(&q, 0)
	for name, o := range map[string]task.Outcome{"Done": task.Finish(nil),
		"Retry": task.Retry(errors.New("no"))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				progress.Decide(id, progress.Standing{Stage: "read", Seq: 1, Attempt: 2}, o, lim)
			}
		})
	}
}
