package client

import (
	"testing"

	"github.com/rotahq/rota/task"
)

func TestDeadTasksBeginAgainAsTheAPIReadsIt(t *testing.T) {
	c := told(t)
	id, err := task.ParseID("1jwrrkvpcj00712")
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"as it is": c.Retry(t.Context(), id),
		"stage": c.Retry(t.Context(), id, Replay{Stage: new("")}),
		"whole": c.Retry(t.Context(), id, Replay{Whole: true})} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
