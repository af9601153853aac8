package rota

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/expired"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// TestNodesTellOnceThatTasksExpired: whichever of them let the tasks expire.
func TestNodesTellOnceThatTasksExpired(t *testing.T) {
	for name, dsn := range map[string]string{"sqlite": "", "postgres": database(t)} {
		t.Run(name, func(t *testing.T) {
			n := start(t, Config{Store: dsn, Beat: 100 * time.Millisecond})
			list := make([]task.Submission, 3)
			for i := range list {
				list[i] = task.Submission{Queue: "late", StartWithin: time.Millisecond}
			}
			got, err := n.tasks.Submit(t.Context(), list)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range got {
				v, err := n.tasks.Task(t.Context(), r.ID, 20*time.Second)
				if err != nil || v.State != task.Expired {
					t.Fatalf("the task is %s: %v", v.State, err)
				}
			}
			for judges := n.judges(); !judges(); {
				<-time.After(10 * time.Millisecond) // a beat tells who does
			}
			later := n.storeTime().Add(time.Minute + expired.Settled)
			for range 2 {
				if err := n.expired().Round(t.Context(), later); err != nil {
					t.Fatal(err)
				}
			}
			page, err := n.store.Events(t.Context(),
				store.EventQuery{Kinds: []string{"queue.*"}, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			all := 0 // a full minute may lie between them
			for _, e := range page.Events {
				if e.Kind != expired.Event || e.Subject != "late" {
					t.Errorf("told %+v", e)
				}
				all += int(e.Fields["expired"][0] - '0')
			}
			if all != len(list) || len(page.Events) > 2 {
				t.Errorf("told %+v, want %d tasks", page.Events, len(list))
			}
		})
	}
}
