package dispatch

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// house is a dispatcher on the reference model, with the clock and the rounds running, inside a
// synctest bubble.
type house struct {
	t     *testing.T
	ctx   context.Context
	store contract.Store // behind the door
	door  *fault.Door
	lease store.Lease
	d     *Dispatcher
	halt  func() // stops clock and rounds, as SIGSTOP does
}

// settleReports is the verb of settlements that report something; others only delete spans.
const settleReports = "Settle, with reports"

// settleDoor is a door that has a verb of its own for them.
type settleDoor struct{ *fault.Door }

func (d settleDoor) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	if len(s.Reports) == 0 {
		return d.Door.Settle(ctx, s)
	}
	return fault.Through(ctx, d.Door, settleReports, func() (store.Settled, error) {
		return d.Store.Settle(ctx, s)
	})
}

// open starts a node on a store, under a new membership.
func open(t *testing.T, db contract.Store) *house {
	t.Helper()
	return openAs(t, db, "n")
}

// openAs opens a node under a name; change changes its configuration before it runs.
func openAs(t *testing.T, db contract.Store, node string, change ...func(*Config)) *house {
	t.Helper()
	ctx := context.Background()
	lease, err := db.Acquire(ctx, "node/"+node, node, 10*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	holder := store.Holder{Node: node, Token: lease.Token}
	if _, err := db.Free(ctx, holder, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	clock := tick.New(tick.Config{})
	door := fault.NewDoor(db)
	conf := Config{Store: settleDoor{door}, Holder: holder, Clock: clock}
	for _, f := range change {
		f(&conf)
	}
	d, err := New(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, ctx: ctx, store: db, door: door, lease: lease, d: d}
	run, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { clock.Run(run) })
	wg.Go(func() { d.Run(run) })
	wg.Go(func() { h.member(run) })
	h.halt = func() {
		cancel()
		wg.Wait()
	}
	return h
}

// member renews the membership as the scheduler does, and hands on what that brought.
func (h *house) member(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
			asked := time.Now()
			if got, err := h.door.Beat(ctx, []store.Lease{h.lease}, 10*time.Second,
				Words()...); err == nil {
				h.d.HearStore(asked, time.Now(), got)
			}
		}
	}
}

// kill is kill -9: the node reaches nothing any more, and nothing is given back.
func (h *house) kill() {
	h.door.Kill()
	h.halt()
}

// close ends a node in order.
func (h *house) close() {
	h.t.Helper()
	h.sound()
	if err := h.d.Close(h.ctx); err != nil {
		h.t.Error(err)
	}
	h.halt()
}

// sound wants what memory counts to be so.
func (h *house) sound() {
	h.t.Helper()
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	sound(h.t, h.d.mem)
}

// bubble runs a story on a fresh node.
func bubble(t *testing.T, story func(t *testing.T, h *house), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := openAs(t, model.New(time.Now), "n", change...)
		defer h.close()
		story(t, h)
	})
}

func (h *house) submit(subs ...task.Submission) []task.ID {
	h.t.Helper()
	got, err := h.d.Submit(h.ctx, subs)
	if err != nil {
		h.t.Fatal(err)
	}
	ids := make([]task.ID, len(got))
	for i := range got {
		ids[i] = got[i].ID
	}
	return ids
}

// many submits n equal tasks to queue q.
func (h *house) many(n int) []task.ID {
	h.t.Helper()
	subs := make([]task.Submission, n)
	for i := range subs {
		subs[i] = task.Submission{Queue: "q", Context: fmt.Appendf(nil, "%d", i)}
	}
	return h.submit(subs...)
}

// hold holds without waiting.
func (h *house) hold(worker string, limit int) []task.Handout {
	h.t.Helper()
	return h.holdFor(worker, limit, 0)
}

func (h *house) holdFor(worker string, limit int, wait time.Duration) []task.Handout {
	h.t.Helper()
	a, err := h.d.Hold(h.ctx, task.HoldRequest{
		Worker: worker, Queues: []string{"q"}, Limit: limit, Wait: wait,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if a.Written != nil {
		a.Written()
	}
	return a.Tasks
}

// one holds exactly one task.
func (h *house) one(worker string) task.Handout {
	h.t.Helper()
	got := h.holdFor(worker, 1, time.Minute)
	if len(got) != 1 {
		h.t.Fatalf("%s got %d tasks, want 1", worker, len(got))
	}
	return got[0]
}

// report reports one outcome and wants one status.
func (h *house) report(worker string, t task.Handout, o task.Outcome, want task.Status) {
	h.t.Helper()
	got, err := h.d.Report(h.ctx, worker, []task.Report{{ID: t.ID, Token: t.Token, Outcome: o}})
	if err != nil {
		h.t.Fatal(err)
	}
	if got[0].Status != want {
		h.t.Fatalf("report %s of %s: %s (%s), want %s", o.Kind, t.ID, got[0].Status, got[0].Detail,
			want)
	}
}

// beat says that a worker holds the given tasks.
func (h *house) beat(
	worker, incarnation string, capacity float64, held ...task.Handout,
) map[task.ID]task.Action {
	h.t.Helper()
	b := task.Beat{Worker: worker, Incarnation: incarnation, Capacity: capacity}
	for _, t := range held {
		b.Tasks = append(b.Tasks, task.Held{ID: t.ID, Token: t.Token})
	}
	a, err := h.d.Beat(h.ctx, b)
	if err != nil {
		h.t.Fatal(err)
	}
	actions := map[task.ID]task.Action{}
	for _, x := range a.Tasks {
		actions[x.ID] = x.Action
	}
	return actions
}

func (h *house) view(id task.ID) task.View {
	h.t.Helper()
	v, err := h.d.Task(h.ctx, id, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// state wants a task in a state.
func (h *house) state(id task.ID, want task.State) {
	h.t.Helper()
	if v := h.view(id); v.State != want {
		h.t.Fatalf("task %s is %s, want %s; steps: %+v", id, v.State, want, v.Steps)
	}
}

// counts wants the queue's counts.
func (h *house) counts(want task.Counts) {
	h.t.Helper()
	got, err := h.d.Counts(h.ctx, "q")
	if err != nil {
		h.t.Fatal(err)
	}
	if len(got) != 1 || got[0].Counts != want {
		h.t.Fatalf("counts: %+v, want %+v", got, want)
	}
}

// empty wants nothing held, in memory or in the store's spans.
func (h *house) empty() {
	h.t.Helper()
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.d.mem.held() != 0 || len(h.d.mem.spans) != 0 {
		h.t.Fatalf("memory still has %d tasks in %d spans", h.d.mem.held(), len(h.d.mem.spans))
	}
	for name, w := range h.d.mem.workers {
		if w.hands() != 0 {
			h.t.Fatalf("worker %s still has %d tasks", name, w.hands())
		}
	}
}
