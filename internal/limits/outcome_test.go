package limits_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func TestOutcomeCheck(t *testing.T) {
	raw := json.RawMessage(`1`)
	for _, test := range []struct {
		outcome task.Outcome
		want    string
	}{
		{task.Outcome{}, "outcome: must be done, next, retry, snooze, fail or release"},
		{task.Outcome{Kind: task.KindLost},
			"outcome: must be done, next, retry, snooze, fail or release"},
		{task.Outcome{Kind: task.KindNext}, "stage: next needs the stage that follows"},
		{task.Outcome{Kind: task.KindDone, Stage: "s"}, "stage: only next names a stage"},
		{task.Outcome{Kind: task.KindNext, Stage: strings.Repeat("s", limits.MaxStage)}, ""},
		{task.Outcome{Kind: task.KindNext, Stage: strings.Repeat("s", limits.MaxStage+1)},
			"stage: must be at most 256 bytes of printable UTF-8"},
		{task.Outcome{Kind: task.KindNext, Stage: "a\nb"},
			"stage: must be at most 256 bytes of printable UTF-8"},
		{task.Outcome{Kind: task.KindRetry, Delay: -1}, "delay: must be 0 to 100 years"},
		{task.Outcome{Kind: task.KindRetry, Delay: limits.MaxDuration}, ""},
		{task.Outcome{Kind: task.KindSnooze, Delay: limits.MaxDuration + 1},
			"delay: must be 0 to 100 years"},
		{task.Outcome{Kind: task.KindNext, Stage: "s", Delay: limits.MaxDuration}, ""},
		{task.Outcome{Kind: task.KindNext, Stage: "s", Delay: -1}, "delay: must be 0 to 100 years"},
		{task.Outcome{Kind: task.KindRelease, Delay: 1},
			"delay: only next, retry and snooze take a delay"},
		{task.Outcome{Kind: task.KindFail, Delay: 1},
			"delay: only next, retry and snooze take a delay"},
		{task.Outcome{Kind: task.KindNext, Stage: "s", Result: raw},
			"result: only done and fail keep a result"},
		{task.Outcome{Kind: task.KindFail, Result: raw, Context: raw}, ""},
		{on(task.Await{Signal: "paid"}), ""},
		{on(task.Await{Signal: "bezahlt-é", Key: "order 7", Timeout: time.Hour, Else: "remind"}), ""},
		{on(task.Await{Signal: "paid", Key: strings.Repeat("k", limits.MaxKey)}), ""},
		{task.Outcome{Kind: task.KindDone, Await: &task.Await{Signal: "paid"}},
			"await: only next waits"},
		{task.Outcome{Kind: task.KindSnooze, Delay: 1, Await: &task.Await{Signal: "paid"}},
			"await: only next waits"},
		{task.Outcome{
			Kind: task.KindNext, Stage: "s", Delay: 1, Await: &task.Await{Signal: "paid"},
		}, "await: give await or delay, not both"},
		{on(task.Await{}), `await.signal: "" ` + limits.NameRule},
		{on(task.Await{Signal: "a b"}), `await.signal: "a b" ` + limits.NameRule},
		{on(task.Await{Signal: "paid", Key: strings.Repeat("k", limits.MaxKey+1)}),
			"await.key: must be at most 256 bytes of printable UTF-8"},
		{on(task.Await{Signal: "paid", Key: "a\x00"}),
			"await.key: must be at most 256 bytes of printable UTF-8"},
		{on(task.Await{Signal: "paid", Timeout: -1}),
			"await.timeout: must be 1ms to 100 years, or left out"},
		{on(task.Await{Signal: "paid", Timeout: time.Microsecond}),
			"await.timeout: must be 1ms to 100 years, or left out"},
		{on(task.Await{Signal: "paid", Timeout: limits.MaxDuration}), ""},
		{on(task.Await{Signal: "paid", Timeout: limits.MaxDuration + 1}),
			"await.timeout: must be 1ms to 100 years, or left out"},
		{on(task.Await{Signal: "paid", Timeout: 1e9, Else: strings.Repeat("s", limits.MaxStage+1)}),
			"await.else: must be at most 256 bytes of printable UTF-8"},
		{on(task.Await{Signal: "paid", Else: "remind"}),
			"await.else: is for when the time is over: give a timeout, too"},
		{on(task.Await{Children: task.AllChildren}), ""},
		{on(task.Await{Children: task.FirstDead, Timeout: time.Hour, Else: "late"}), ""},
		{on(task.Await{Children: "some"}), "await.children: must be all or first_dead"},
		{on(task.Await{Children: task.AllChildren, Signal: "paid"}),
			"await: give signal or children, not both"},
		{on(task.Await{Children: task.AllChildren, Key: "7"}), "await.key: is for signals"},
		{task.Outcome{Kind: task.KindDone, Await: &task.Await{Children: task.AllChildren}},
			"await: only next waits"},
		{task.Finish(nil).Spawning(task.Submission{Queue: "mail"}), ""},
		{task.Next("s", nil).Spawning(task.Submission{Queue: "mail"}), ""},
		{task.Outcome{Kind: task.KindRetry, Spawn: make([]task.Submission, 1)},
			"spawn: only done and next submit children"},
		{task.Outcome{Kind: task.KindDone, Spawn: make([]task.Submission, task.MaxSubmissions)}, ""},
		{task.Outcome{Kind: task.KindDone, Spawn: make([]task.Submission, task.MaxSubmissions+1)},
			"spawn: 10001 tasks are too many: at most 10000"},
	} {
		if got := limits.CheckOutcome(&test.outcome); got != test.want {
			t.Errorf("%.300v: %q, want %q", test.outcome, got, test.want)
		}
	}
}

func on(a task.Await) task.Outcome { return task.NextOn(a, "ship", nil) }

func TestATransactionRecordsNoAwait(t *testing.T) {
	r := &task.Report{Committed: true, Outcome: on(task.Await{Signal: "paid"})}
	if got := limits.CheckReport(r); got != "committed: a transaction records no await" {
		t.Errorf("%q", got)
	}
	r.Outcome = task.Finish(nil).Spawning(task.Submission{Queue: "mail"})
	if got := limits.CheckReport(r); got != "committed: a transaction submits no children" {
		t.Errorf("%q", got)
	}
}

func TestSignalCheck(t *testing.T) {
	one := task.ID{Batch: 1}
	long := json.RawMessage(`"` + strings.Repeat("x", limits.MaxPayload-2) + `"`)
	for _, test := range []struct {
		signal task.SignalRequest
		want   string
	}{
		{task.SignalRequest{Task: one, Name: "paid"}, ""},
		{task.SignalRequest{Task: one, Name: "paid", Key: "1", Payload: json.RawMessage(`1`)}, ""},
		{task.SignalRequest{Task: one, Name: "paid", Payload: long}, ""},
		{task.SignalRequest{Task: one, Name: "paid", Payload: append(long, ' ')},
			"body.payload: 65537 bytes are more than the 65536 that a signal may carry"},
		{task.SignalRequest{Task: one, Name: " "}, `body.name: " " ` + limits.NameRule},
		{task.SignalRequest{Task: one, Name: "paid", Keep: time.Hour},
			"body.keep: a signal to a task stands as long as the task does"},
		{task.SignalRequest{Name: "paid"},
			"body.key: is needed: what the waiting task names as await.key"},
		{task.SignalRequest{Name: "paid", Key: "order 7", Keep: time.Second}, ""},
		{task.SignalRequest{Name: "paid", Key: "order 7", Keep: time.Second - 1},
			"body.keep: must be 1s to 876000h0m0s"},
		{task.SignalRequest{Name: "paid", Key: "order 7", Keep: -time.Second},
			"body.keep: must be 1s to 876000h0m0s"},
		{task.SignalRequest{Name: "paid", Key: strings.Repeat("k", 257)},
			"body.key: must be at most 256 bytes of printable UTF-8"},
	} {
		e := &task.InvalidError{}
		limits.CheckSignal(&test.signal, e, "body")
		if got := e.Error(); got != test.want {
			t.Errorf("%.60v: %q, want %q", test.signal, got, test.want)
		}
	}
}
