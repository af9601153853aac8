package rota

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/forecast"
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
			if err := n.capacity().Round(time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A paused customer, a key in order, and one whose task is to be tried again, want no workers,
// however many tasks they have; three keys in order want three slots. On both stores, and over HTTP
// as an autoscaler reads it.
func TestTasksThatWaitForTheirKeysWantNoWorkers(t *testing.T) {
	for name, dsn := range map[string]string{"sqlite": "", "postgres": database(t)} {
		t.Run(name, func(t *testing.T) {
			n := start(t, Config{Store: dsn, Beat: 100 * time.Millisecond})
			b := backlogs{t, n}
			for _, queue := range []string{"ledger", "orders"} {
				change := client.QueueChange{PerKey: &client.KeyLimitsChange{MaxRunning: new(1)}}
				if _, err := n.PutQueue(t.Context(), queue, change); err != nil {
					t.Fatal(err)
				}
			}
			b.beat("mail", "ledger", "orders")
			b.submit("mail", 1, "")
			b.submit("ledger", 1, "")
			b.submit("orders", 1, "c1")
			mail, ledger, orders := b.hold("mail"), b.hold("ledger"), b.hold("orders")
			began := time.Now()
			b.submit("mail", 8000, "customer-7")
			b.submit("ledger", 2000, "a")
			b.submit("ledger", 2000, "b")
			b.submit("ledger", 2000, "c")
			b.submit("orders", 4000, "c1")
			settled(t, "they run for a while", func() bool {
				return time.Since(began) > time.Second
			})
			b.report("mail", mail, task.Finish(nil))
			b.report("ledger", ledger, task.Finish(nil))
			b.report("orders", orders, task.RetryAfter(time.Hour, errors.New("not yet")))

			b.beat("mail", "ledger", "orders")
			if q := b.forecast()["mail"]; q.Wanted < 10 || !q.Known {
				t.Errorf("before the pause: %+v", q)
			}
			if _, err := n.PauseKey(t.Context(), "mail", "customer-7", 0); err != nil {
				t.Fatal(err)
			}
			for queue, want := range map[string]struct {
				wanted int
				why    string
			}{
				"mail":   {1, "8,000 ready tasks are of keys that are paused, or whose task in front failed or waits"},
				"orders": {1, "4,000 ready tasks are of keys that are paused, or whose task in front failed or waits"},
				"ledger": {3, "its keys let 3 run: more workers are of no use"},
			} {
				var q forecast.Need
				settled(t, queue+" is looked at", func() bool {
					b.beat(queue)
					if queue == "mail" { // that is how a worker that waits brings order into spans
						b.none("mail")
					}
					q = b.forecast()[queue]
					return q.Workers > 0 && strings.Contains(q.Why, want.why)
				})
				if q.Wanted != want.wanted || !q.Known {
					t.Errorf("%+v", q)
				}
			}
			// a busy machine may not come to the keys of each queue at first
			for queue, want := range map[string]string{"mail": `{"value":1}`, "ledger": `{"value":3}`} {
				settled(t, queue+" is said to be "+want, func() bool {
					b.beat("mail", "ledger", "orders")
					w := httptest.NewRecorder()
					n.Handler().ServeHTTP(w, httptest.NewRequest("GET",
						"http://localhost/v1/forecast?format=keda&queue="+queue, nil))
					return w.Code == http.StatusOK && strings.TrimSpace(w.Body.String()) == want
				})
			}
			f, err := n.Forecast(t.Context(), client.ForecastQuery{Queues: []string{"mail"}})
			if err != nil || len(f.Queues) != 1 || f.Queues[0].Wanted != 1 {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

// backlogs makes queues of a node long.
type backlogs struct {
	t *testing.T
	n *Node
}

func (b backlogs) submit(queue string, tasks int, key string) {
	b.t.Helper()
	for range (tasks + 999) / 1000 {
		list := slices.Repeat([]task.Submission{{Queue: queue, GroupKey: key}}, min(tasks, 1000))
		if _, err := b.n.Submit(b.t.Context(), list...); err != nil {
			b.t.Fatal(err)
		}
	}
}

// beat lets workers of one slot be heard that are called like the queue that each takes.
func (b backlogs) beat(queues ...string) {
	b.t.Helper()
	for _, queue := range queues {
		beat := task.Beat{Worker: queue, Incarnation: "1", Capacity: 1, Queues: []string{queue}}
		if _, err := b.n.Beat(b.t.Context(), beat); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b backlogs) hold(queue string) (h task.Handout) {
	b.t.Helper()
	settled(b.t, queue+" hands one out", func() bool {
		got, err := b.n.Hold(b.t.Context(), task.HoldRequest{
			Worker: queue, Queues: []string{queue}, Limit: 1,
		})
		if err != nil {
			b.t.Fatal(err)
		}
		if len(got.Tasks) == 1 {
			h = got.Tasks[0]
		}
		return len(got.Tasks) == 1
	})
	return h
}

// none asks for tasks of which none may begin.
func (b backlogs) none(queue string) {
	b.t.Helper()
	got, err := b.n.Hold(b.t.Context(), task.HoldRequest{
		Worker: queue, Queues: []string{queue}, Limit: 1, Wait: 100 * time.Millisecond,
	})
	if err != nil || len(got.Tasks) > 0 {
		b.t.Fatalf("%+v, %v", got, err)
	}
}

func (b backlogs) report(worker string, h task.Handout, o task.Outcome) {
	b.t.Helper()
	reports := []task.Report{{ID: h.ID, Token: h.Token, Outcome: o}}
	if _, err := b.n.Report(b.t.Context(), worker, reports); err != nil {
		b.t.Fatal(err)
	}
}

// forecast is what a node that begins would say of each queue.
func (b backlogs) forecast() map[string]forecast.Need {
	b.t.Helper()
	f := b.n.newForecasts()
	defer f.Close()
	seen, err := f.Known(10 * time.Second)
	if err != nil {
		b.t.Fatal(err)
	}
	needs := map[string]forecast.Need{}
	for _, n := range seen.Model.Needs() {
		needs[n.Queue] = n
	}
	return needs
}
