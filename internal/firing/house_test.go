package firing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

const beat = nodetest.Beat

// house is a cluster whose nodes have firers. Its store has a clock of its own.
type house struct {
	*nodetest.House[*Firer]
	deleted bool // schedules were deleted, so there are tasks without one

	mu      sync.Mutex
	handled []store.Fire // that nodes said that they handled
}

// inHouse runs a story in a bubble whose store begins at a time, and audits how it ended.
func inHouse(t *testing.T, begin string, story func(h *house)) {
	t.Helper()
	inHouseOf(t, nodetest.Config[*Firer]{Begin: begin}, story)
}

// alone runs a story with one node that works alone on its store.
func alone(t *testing.T, begin string, story func(h *house)) {
	t.Helper()
	inHouseOf(t, nodetest.Config[*Firer]{Begin: begin, Alone: true}, func(h *house) {
		h.Start("n1")
		story(h)
	})
}

// three runs a story with three nodes that have claimed what there is.
func three(t *testing.T, begin string, story func(h *house)) {
	t.Helper()
	inHouse(t, begin, func(h *house) {
		h.Start("n1", "n2", "n3")
		story(h)
	})
}

func inHouseOf(t *testing.T, conf nodetest.Config[*Firer], story func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{}
		conf.Scheduler = func(n *nodetest.Node[*Firer], c *scheduler.Config) error {
			c.Chores = chores{n.Door, n}
			return nil
		}
		conf.Tie = func(n *nodetest.Node[*Firer]) error { return h.tie(n, conf.Alone) }
		h.House = nodetest.New(t, conf)
		defer h.Close()
		story(h)
		h.audit()
	})
}

// tie gives a node its firer.
func (h *house) tie(n *nodetest.Node[*Firer], alone bool) (err error) {
	n.Own, err = New(Config{
		Store: closing{n.Door}, Tasks: n.Tasks, Clock: n.Clock, Node: n.Name, Beat: beat,
		Alone: alone, Log: n.Log,
		Now:    func() time.Time { return time.Now().Add(-n.Tasks.ClockOffset()) },
		Owners: func() map[string]string { return n.Rounds.Cluster().Owned },
		Handled: func(f *store.Fire) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.handled = append(h.handled, *f)
		},
	})
	if err != nil {
		return err
	}
	n.Loop(n.Own.Run)
	return n.Rounds.Claim(scheduler.Kind{
		Name: Kind, Keys: n.Own.Keys, Look: func(ctx context.Context, c scheduler.Claim) {
			n.Own.Look(ctx, c.Key)
		},
	})
}

// closeFires is the verb of a Fire without parts, which only closes fires.
const closeFires = "Fire, to close"

// closing is a door that has a verb of its own for what closes fires.
type closing struct{ *fault.Door }

func (c closing) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	if len(f.Parts) > 0 {
		return c.Door.Fire(ctx, f)
	}
	return fault.Through(ctx, c.Door, closeFires, func() (store.Fired, error) {
		return c.Store.Fire(ctx, f)
	})
}

// chores are those of the store; who does them fires what others leave lying.
type chores struct {
	*fault.Door
	node *nodetest.Node[*Firer]
}

func (c chores) Free(ctx context.Context, self store.Holder, judge int64) (int, error) {
	if c.node.Own != nil {
		c.node.Own.Backstop()
	}
	return c.Door.Free(ctx, self, judge)
}

// firer is that of some node that lives.
func (h *house) firer() *Firer {
	h.T.Helper()
	return h.Live().Own
}

// firerOf is that of a node.
func (h *house) firerOf(name string) *Firer { return h.Node(name).Own }

// put makes a schedule, by some node.
func (h *house) put(name, cron string, change ...func(*store.ScheduleEdit)) store.Edited {
	h.T.Helper()
	e := store.ScheduleEdit{Schedule: limits.DefaultSchedule(name)}
	e.Cron, e.Queue = cron, "q"
	for _, f := range change {
		f(&e)
	}
	got, err := h.firer().Put(h.T.Context(), e)
	h.Must(err)
	return got[0]
}

// fires lists what came of a schedule's due times, as "15:04:05 outcome".
func (h *house) fires(name string) (list []string) {
	h.T.Helper()
	for _, f := range h.rows(name) {
		s := at(f.At) + " " + string(f.Outcome)
		if f.Count > 1 {
			s += fmt.Sprintf(" ×%d", f.Count)
		}
		list = append(list, s)
	}
	return list
}

func at(us int64) string { return time.UnixMicro(us).UTC().Format("15:04:05") }

func (h *house) rows(name string) []store.Fire {
	h.T.Helper()
	list, err := h.Store.Fires(context.Background(), store.FireQuery{Schedule: name})
	h.Must(err)
	return list
}

// want compares what came of a schedule's due times.
func (h *house) want(name string, want ...string) {
	h.T.Helper()
	if got := h.fires(name); !slices.Equal(got, want) {
		h.T.Fatalf("%s: fires\n%s\nwant\n%s", name, strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// tasks lists the tasks of a queue, oldest first.
func (h *house) tasks(queue string) []task.View {
	h.T.Helper()
	var list []task.View
	for after := (task.ID{}); ; {
		page, next, err := h.Store.Tasks(context.Background(), store.Filter{Queue: queue}, after,
			1000)
		h.Must(err)
		list = append(list, page...)
		if after = next; next == (task.ID{}) {
			slices.Reverse(list)
			return list
		}
	}
}

// work lets a worker at a node end each task of a queue as end says, after it took a while.
func (h *house) work(name, queue string, takes time.Duration, end func(task.Handout) task.Outcome) {
	n := h.Node(name)
	n.Go(func(ctx context.Context) {
		for ctx.Err() == nil {
			got, err := n.Tasks.Hold(ctx, task.HoldRequest{
				Worker: "w-" + name, Queues: []string{queue}, Limit: 1, Wait: time.Minute,
			})
			if err != nil {
				pause(ctx, beat)
			}
			for _, t := range got.Tasks {
				if pause(ctx, takes) == nil {
					n.Tasks.Report(ctx, "w-"+name,
						[]task.Report{{ID: t.ID, Token: t.Token, Outcome: end(t)}})
				}
			}
		}
	})
}

func finish(task.Handout) task.Outcome { return task.Finish(nil) }
