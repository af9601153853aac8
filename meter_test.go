package rota

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// shownBy are the series that a node shows in a program's own registry, without their values:
// NAME, or NAME and the values of its labels, by the labels' names.
func shownBy(t *testing.T, n *Node) map[string]bool {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(n.Collector())
	list, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, family := range list {
		for _, m := range family.GetMetric() {
			series := family.GetName()
			for _, l := range m.GetLabel() {
				series += " " + l.GetValue()
			}
			shown[series] = true
		}
	}
	return shown
}

// A node shows what it has done, and nothing of what it has not.
func TestANodeMeasuresWhatItDoes(t *testing.T) {
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Handle("q", func(context.Context, task.Handout) task.Outcome {
		return task.Finish(nil)
	})
	n.HandleJob("g", func(ctx context.Context, _ task.Assignment) error {
		<-ctx.Done()
		return nil
	})
	running(t, n)
	idle := shownBy(t, n)
	done := []string{ // what only work brings about
		"rota_store_seconds submit", "rota_store_seconds settle", "rota_store_seconds fire",
		"rota_store_seconds observe", "rota_store_seconds assign",
		"rota_schedule_fires_total fired", "rota_schedule_lateness_seconds",
		"rota_schedule_overdue_seconds", "rota_group_moves_total start g ",
	}
	for _, series := range done {
		if idle[series] {
			t.Errorf("an idle node shows %s", series)
		}
	}
	if _, err := n.PutGroup(t.Context(), "g", client.GroupChange{}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.PutJobs(t.Context(), "g", task.Job{Name: "j"}); err != nil {
		t.Fatal(err)
	}
	everySecond, queue := "* * * * * *", "q"
	if _, err := n.PutSchedule(t.Context(), "s", client.ScheduleChange{
		Cron: &everySecond, Queue: &queue,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	want := append(done, "rota_store_seconds beat", "rota_store_seconds take",
		"rota_lease_renewals_total renewed", "rota_lease_left_seconds")
	for _, series := range want {
		settled(t, "it shows "+series, func() bool { return shownBy(t, n)[series] })
	}
}
