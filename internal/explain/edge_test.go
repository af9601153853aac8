package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/explain"
	"github.com/rotahq/rota/task"
)

// A store that takes a moment to answer tells a time that is behind the due time of a task that was
// read as waiting.
func TestTaskThatWasDueAMomentAgoIsNotDueInLessThanNoTime(t *testing.T) {
	e := explain.OfTask(explain.Task{View: task.View{
		Queue: "mail", State: task.Waiting, Attempt: 1, Due: now.Add(-2 * time.Second),
	}}, explain.Queue{Name: "mail"}, now)
	for _, r := range e.Reasons {
		if strings.Contains(r.Text, "in -") {
			t.Error(r.Text)
		}
	}
}

// So many tasks come first, and so long each runs, that the time does not fit into a duration.
func TestStartThatIsCenturiesAwayIsNotToldAsOneOfThePast(t *testing.T) {
	q := explain.Queue{
		Name: "mail", Counts: task.Counts{Ready: 2_000_000},
		Workers: []task.Worker{{
			Name: "w1", State: task.WorkerActive, Queues: []string{"mail"}, Capacity: 1, Running: 1,
		}},
	}
	for _, fair := range []bool{false, true} {
		q.Fair = fair
		of := explain.Task{View: task.View{Queue: "mail", State: task.Ready, Attempt: 1}}
		of.Ahead.Tasks, of.Usual = 2_000_000, 2*time.Hour
		if e := explain.OfTask(of, q, now); !e.Starts.IsZero() {
			t.Errorf("fair %v: it starts at %v", fair, e.Starts)
		}
	}
}
