package explain_test

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/explain"
	"github.com/rotahq/rota/task"
)

func TestWhatABlockedTaskWaitsForIsToldWithTheCommandThatSendsIt(t *testing.T) {
	id := task.ID{Batch: 1 << 60}
	for _, test := range []struct {
		awaits       task.Awaits
		text, change string
	}{
		{task.Awaits{Signal: "paid"}, "It waits for signal paid.",
			"rota task signal " + id.String() + " paid"},
		{task.Awaits{Signal: "paid", Key: "order-7"}, `It waits for signal paid with key "order-7".`,
			"rota signal paid order-7"},
		{task.Awaits{Signal: "paid", Key: "--force"},
			`It waits for signal paid with key "--force".`, "rota signal paid -- '--force'"},
		{task.Awaits{Signal: "paid", Key: "it's $(rm -r /)`"},
			"It waits for signal paid with key \"it's $(rm -r /)`\".",
			`rota signal paid 'it'\''s $(rm -r /)` + "`'"},
		{task.Awaits{Signal: "paid", Until: now.Add(time.Minute), Else: "remind"},
			`It waits for signal paid, for 1m0s more; then it goes on without it in stage "remind".`,
			"rota task signal " + id.String() + " paid"},
		{task.Awaits{Signal: "paid", Until: now.Add(-time.Minute), Else: "ship"},
			"It waits for signal paid, for 0s more; then it goes on without it.",
			"rota task signal " + id.String() + " paid"},
	} {
		e := explain.OfTask(explain.Task{View: task.View{
			ID: id, State: task.Blocked, Stage: "ship", Awaits: &test.awaits,
		}}, explain.Queue{}, now)
		if len(e.Reasons) != 1 || e.Reasons[0].Text != test.text ||
			e.Reasons[0].Change != test.change {
			t.Errorf("%+v:\n got %+v\nwant %s\n     %s", test.awaits, e.Reasons, test.text,
				test.change)
		}
	}
}
