package rota

import (
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// What is done in a queue and what serves a group is what the forecast is made of, on both stores;
// the event, the metrics and KEDA tell the same numbers.
func TestForecastIsMadeOfWhatIsDone(t *testing.T) {
	for name, dsn := range map[string]string{"sqlite": "", "postgres": database(t)} {
		t.Run(name, func(t *testing.T) {
			n := start(t, Config{Store: dsn, Beat: 100 * time.Millisecond})
			ctx := t.Context()
			list := make([]task.Submission, 12)
			for i := range list {
				list[i] = task.Submission{Queue: "mail"}
			}
			if _, err := n.Submit(ctx, list...); err != nil {
				t.Fatal(err)
			}
			if _, err := n.PutGroup(ctx, "feeds", client.GroupChange{}); err != nil {
				t.Fatal(err)
			}
			if _, err := n.PutJobs(ctx, "feeds", task.Job{Name: "a"}); err != nil {
				t.Fatal(err)
			}
			beat := task.Beat{
				Worker: "w", Incarnation: "1", Capacity: 4, Groups: []string{"feeds"},
				Queues: []string{"mail"},
			}
			if _, err := n.Beat(ctx, beat); err != nil {
				t.Fatal(err)
			}
			got, err := n.Hold(ctx, task.HoldRequest{
				Worker: "w", Queues: []string{"mail"}, Limit: 3,
			})
			if err != nil || len(got.Tasks) == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			reports := make([]task.Report, len(got.Tasks))
			for i, h := range got.Tasks {
				reports[i] = task.Report{ID: h.ID, Token: h.Token, Outcome: task.Finish(nil)}
			}
			if _, err := n.Report(ctx, "w", reports); err != nil {
				t.Fatal(err)
			}
			settled(t, "the group has its worker", func() bool {
				g, err := n.Group(ctx, "feeds")
				return err == nil && g.Running+g.Starting+g.Pending > 0 && len(g.Budget.Weakest) > 0
			})
			f, err := n.Forecast(ctx, client.ForecastQuery{})
			if err != nil || len(f.Queues) != 1 || len(f.Groups) != 1 {
				t.Fatalf("%+v, %v", f, err)
			}
			// the job takes a slot, or will
			if q := f.Queues[0]; q.Queue != "mail" || q.Workers != 1 || q.Wanted != 1 || !q.Known ||
				q.Slots < 3 || q.Slots > 4 || q.WaitP95 == nil ||
				!strings.HasPrefix(q.Why, "1.2 tasks a minute of ") {
				t.Errorf("%+v", q)
			}
			if g := f.Groups[0]; g.Group != "feeds" || g.Workers != 1 || g.Wanted != 2 ||
				g.By != nil || !strings.Contains(g.Why, "1 more like w, with room for 4, to keep n = 1") {
				t.Errorf("%+v", g)
			}
			if err := n.capacity().Round(); err != nil {
				t.Error(err)
			}
		})
	}
}
