package dispatch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// TestEachDeathLeavesOneFinalNotice: whatever a task dies of, its notice is stored with the death,
// and is handed out until it is done.
func TestEachDeathLeavesOneFinalNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		h := open(t, db)
		h.configure(func(q *task.Queue) {
			q.FinalQueue = "told"
			q.MaxAttempts = 1
			q.Timeout = 20 * time.Second
			q.Silence = 5 * time.Second
		})
		got := map[task.ID]task.FinalNotice{}
		notice := func(id task.ID, kind task.Kind) {
			t.Helper()
			for try := range 3 { // it fails twice, and is still there
				a, err := h.d.Hold(h.ctx, task.HoldRequest{
					Worker: "teller", Queues: []string{"told"}, Limit: 1, Wait: time.Minute,
				})
				if err != nil || len(a.Tasks) != 1 {
					t.Fatalf("held %d notices, %v", len(a.Tasks), err)
				}
				a.Written()
				var n task.FinalNotice
				if err := json.Unmarshal(a.Tasks[0].Context, &n); err != nil {
					t.Fatal(err)
				}
				if n.Task != id || n.Queue != "q" || n.State != task.Dead || n.Outcome != kind ||
					string(n.Context) != `{ "a":1e400}` || n.Attempt != 1 ||
					n.Meta["customer"] != "7" || a.Tasks[0].Meta["customer"] != "7" {
					t.Errorf("notice %+v, want one of %s, %s", n, id, kind)
				}
				got[id] = n
				o := task.Retry(errors.New("nobody listens"))
				if try == 2 {
					o = task.Finish(nil)
				}
				h.report("teller", a.Tasks[0], o, task.Recorded)
			}
			h.state(id, task.Dead)
		}
		submit := func() task.ID {
			return h.submit(task.Submission{Queue: "q",
				Context: json.RawMessage(`{ "a":1e400}`),
				Meta:    map[string]string{"customer": "7"}})[0]
		}

		id := submit()
		x := h.one("w")
		h.report("w", x, task.Fail(errors.New("bad")), task.Recorded)
		h.report("w", x, task.Fail(errors.New("bad")), task.Repeated)
		notice(id, task.KindFail)

		id = submit()
		// the server's count
		h.report("w", h.one("w"), task.Retry(errors.New("again")), task.Recorded)
		notice(id, task.KindRetry)

		id = submit()
		h.one("w") // never reported
		time.Sleep(30 * time.Second)
		notice(id, task.KindTimeout)

		id = submit()
		h.beat("w", "1", 1)
		h.one("w") // falls silent
		time.Sleep(15 * time.Second)
		notice(id, task.KindLost)

		done := submit()
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		if a, err := h.d.Hold(
			h.ctx, task.HoldRequest{Worker: "teller", Queues: []string{"told"}, Limit: 1},
		); err != nil || len(a.Tasks) != 0 {
			t.Errorf("there are notices of %s, too: %+v, %v", done, a.Tasks, err)
		}
		if len(got) != 4 {
			t.Errorf("%d notices, want 4", len(got))
		}
		h.close()
	})
}

// configure changes queue q.
func (h *house) configure(change func(*task.Queue)) {
	h.t.Helper()
	_, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
		change(q)
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestNoticeLeavesOutWhatIsLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		h.configure(func(q *task.Queue) { q.FinalQueue = "told" })
		large, err := json.Marshal(make([]byte, store.InlineLimit-100))
		if err != nil {
			t.Fatal(err)
		}
		h.submit(task.Submission{Queue: "q", Context: large})
		why := make([]byte, limits.MaxError)
		for i := range why {
			why[i] = '<'
		}
		h.report("w", h.one("w"), task.Fail(errors.New(string(why))), task.Recorded)
		a, err := h.d.Hold(h.ctx, task.HoldRequest{
			Worker: "teller", Queues: []string{"told"}, Limit: 1, Wait: time.Minute,
		})
		if err != nil || len(a.Tasks) != 1 || len(a.Tasks[0].Context) > store.InlineLimit {
			t.Fatalf("held %d notices, %v", len(a.Tasks), err)
		}
		var n task.FinalNotice
		if err := json.Unmarshal(a.Tasks[0].Context, &n); err != nil || !n.Short ||
			n.Context != nil || n.Error == "" {
			t.Errorf("%v, short %v, %d bytes of context, error of %d", err, n.Short, len(n.Context),
				len(n.Error))
		}
		a.Written()
		h.close()
	})
}

// Notices that die would leave notices for ever where final queues go in a circle.
func TestFinalQueuesGoInNoCircle(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		leaves := func(queue, final, want string) {
			t.Helper()
			_, err := h.d.ChangeQueue(h.ctx, queue, func(q *task.Queue, _ bool) error {
				q.FinalQueue = final
				return nil
			})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("queue %s leaves notices to %s: %v, want %q", queue, final, err, want)
			}
		}
		leaves("a", "b", "")
		leaves("b", "a", `body.final_queue: must not lead back here, as by the final queue of "a"`)
		leaves("b", "c", "")
		leaves("c", "a", `as by the final queue of "b"`)
		leaves("c", "d", "")
		leaves("b", "", "")
		leaves("c", "a", "")
		leaves("b", "c", `as by the final queue of "a"`)
	})
}
