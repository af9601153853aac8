package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// However its tasks share them, a call names no more others than it may.
func TestWhatTasksOfACallWaitForIsBounded(t *testing.T) {
	subs := make([]task.Submission, limits.MaxAllAfter/limits.MaxAfter+1)
	for i := range subs {
		for k := range limits.MaxAfter {
			subs[i].After = append(subs[i].After, fmt.Sprint(k))
		}
	}
	last := len(subs) - 1
	subs[last].After = subs[last].After[:1]
	_, err := ParseSubmissions(AppendSubmissions(nil, subs))
	var fault *Error
	if !errors.As(err, &fault) || !fault.Value ||
		fault.Fields[0].Location != fmt.Sprintf("body.tasks[%d].after", last) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := ParseSubmissions(AppendSubmissions(nil, subs[:last])); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	subs[0].After = append(subs[0].After, "x")
	_, err = ParseSubmissions(AppendSubmissions(nil, subs[:1]))
	if !errors.As(err, &fault) || fault.Fields[0].Location != "body.tasks[0].after" {
		t.Errorf("one task with too many: %v", err)
	}
}

// A hand-out that can't be read is found out of what stands around it, whatever the tasks left that
// it has waited for.
func TestAFaultBehindPriorsCostsOneHandout(t *testing.T) {
	id := task.ID{Batch: 1 << 40, N: 1}
	prior := task.Prior{ID: id, State: task.Done, If: task.IfDone, Result: []byte(`{"id":"x"}`)}
	body := string(AppendHandouts(nil, task.HoldAnswer{Tasks: []task.Handout{
		{ID: id, Token: "1.2.3.4", Context: []byte(`"bad"`), After: []task.Prior{prior, prior}},
		{ID: id, Token: "1.2.3.5"},
	}}))
	got, err := ParseHandouts([]byte(strings.Replace(body, `"bad"`, `bad`, 1)))
	if err != nil || len(got.Tasks) != 2 || got.Tasks[0].Fault == "" ||
		got.Tasks[0].Token != "1.2.3.4" || got.Tasks[1].Fault != "" {
		t.Errorf("%v: %+v", err, got.Tasks)
	}
}
