package limits_test

import (
	"encoding/json"
	"strings"
	"testing"

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
	} {
		if got := limits.CheckOutcome(&test.outcome); got != test.want {
			t.Errorf("%+v: %q, want %q", test.outcome, got, test.want)
		}
	}
}
