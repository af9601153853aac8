package tasks

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

func TestProgressOfARunningTaskIsShown(t *testing.T) {
	a := commands{&app.App{Output: term.Output{Now: time.Now}}}
	v := task.View{
		ID: task.ID{Batch: 1 << 40}, State: task.Running, Progress: 0.37, Note: "page 3\nof 8",
	}
	if got := ansi.Strip(Text(a.App, v)); !strings.Contains(got, "progress   37% page 3 of 8\n") {
		t.Errorf("text =\n%s", got)
	}
	doc, err := json.Marshal(taskview.Of(v))
	if err != nil || !strings.Contains(string(doc), `"progress":0.37,"note":"page 3\nof 8"`) {
		t.Errorf("document = %s, %v", doc, err)
	}
	v.Progress, v.Note = 0, ""
	if got := Text(a.App, v); strings.Contains(got, "progress") {
		t.Errorf("of one that says nothing the text is\n%s", got)
	}
}

func TestErrorsOfTasksAreReadWholeAt80Columns(t *testing.T) {
	const why = "smtp.example.com: connection refused after 3 tries, the last of them with 连接被拒绝：请稍后再试"
	v := task.View{
		ID: task.ID{Batch: 1 << 40}, Queue: "订单邮件", State: task.Dead, Attempt: 5,
		Worker: "box-4711", Created: time.Now(), Error: why,
	}
	for _, width := range []int{80, 200} {
		a := commands{&app.App{Output: term.Output{Now: time.Now, Columns: width}}}
		got := ansi.Strip(a.table([]task.View{v}))
		for line := range strings.Lines(got) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d wide: %q", w, line)
			}
		}
		flat := strings.Join(strings.Fields(got), " ")
		if !strings.Contains(flat, why) || width == 200 && strings.Count(got, "\n") != 2 {
			t.Errorf("at %d columns it is\n%s", width, got)
		}
	}
	v.Error = ""
	a := commands{&app.App{Output: term.Output{Now: time.Now, Columns: 80}}}
	if got := a.table([]task.View{v}); strings.Contains(got, "ERROR") {
		t.Errorf("without errors there is a column for them:\n%s", got)
	}
}
