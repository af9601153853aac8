package firing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// rounds is how often something is tried: often, or as often as is enough for the race detector,
// which looks for what no seed and no place of a fault decides. The whole runs without it.
func rounds(often, enough int) int {
	if testing.Short() {
		return enough
	}
	return often
}

const (
	beat  = time.Second
	lease = 10 * time.Second
)

// node is one life of a node: what the module's root ties together.
type node struct {
	name   string
	door   *door
	rounds *scheduler.Scheduler
	tasks  *dispatch.Dispatcher
	firer  *Firer
	ctx    context.Context
	stop   context.CancelFunc
	loops  sync.WaitGroup
}

// house is a cluster in a bubble, on the reference model. Its store has a clock of its own.
type house struct {
	t       *testing.T
	store   *model.Model
	alone   bool
	deleted bool // schedules were deleted, so there are tasks without one

	mu     sync.Mutex
	skew   time.Duration // of the store's clock to the bubble's
	starts int
	nodes  map[string]*node
	fault  func(verb string) fault.Fault // of calls of the store, at every node; nil = none
	// node n1 dies at the call for which it answers one; nil = at none
	crash func(verb string) fault.Fault
	log   *journal

	handled []store.Fire // that nodes said that they handled
}

// journal keeps the lines of a log.
type journal struct {
	to io.Writer

	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return j.to.Write(line)
}

func (j *journal) count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// inHouse runs a story in a bubble whose store begins at a time, and audits how it ended.
func inHouse(t *testing.T, begin string, story func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		at, err := time.Parse(time.DateTime, begin)
		if err != nil {
			t.Fatal(err)
		}
		h := &house{
			t: t, skew: time.Until(at), nodes: map[string]*node{}, log: &journal{to: t.Output()},
		}
		h.store = model.New(h.now)
		defer h.close()
		story(h)
		h.audit()
	})
}

// alone runs a story with one node that works alone on its store.
func alone(t *testing.T, begin string, story func(h *house)) {
	t.Helper()
	inHouse(t, begin, func(h *house) {
		h.alone = true
		h.start("n1")
		story(h)
	})
}

// three runs a story with three nodes that have claimed what there is.
func three(t *testing.T, begin string, story func(h *house)) {
	t.Helper()
	inHouse(t, begin, func(h *house) {
		h.start("n1", "n2", "n3")
		story(h)
	})
}

// fail lets calls of the store fail as a function says; nil = none does.
func (h *house) fail(fault func(verb string) fault.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = fault
}

func (h *house) faults() func(verb string) fault.Fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fault
}

// now is what the store's clock reads.
func (h *house) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.skew)
}

// jump moves the store's clock.
func (h *house) jump(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.skew += d
}

func (h *house) close() {
	for name := range h.nodes {
		h.kill(name)
	}
	synctest.Wait()
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) start(names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.startOne(name)
		time.Sleep(beat * 137 / 1000) // so that their beats don't fall together
	}
}

func (h *house) startOne(name string) {
	h.t.Helper()
	h.mu.Lock()
	h.starts++
	start := fmt.Sprint("start", h.starts)
	h.mu.Unlock()
	log := slog.New(slog.NewTextHandler(h.log, nil)).With("node", name)
	n := &node{name: name, door: &door{Model: h.store, house: h}}
	if name == "n1" {
		n.door.crash = h.crash
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	n.ctx, n.stop = ctx, stop
	var err error
	n.rounds, err = scheduler.New(scheduler.Config{
		Leases: n.door, Chores: chores{n}, Name: name, Start: start, Alone: h.alone, TTL: lease,
		Beat: beat, Along: dispatch.Words(), Passing: []string{dispatch.AlivePrefix},
		Log: log,
		Heard: func(asked, answered time.Time, got store.Beat) {
			if n.tasks != nil {
				n.tasks.HearStore(asked, answered, got)
			}
		},
	})
	h.must(err)
	holder, err := n.rounds.Join(ctx)
	h.must(err)
	clock := tick.New(tick.Config{})
	n.tasks, err = dispatch.New(ctx, dispatch.Config{
		Store: n.door, Holder: holder, Clock: clock, Secret: seal.Secret{Key: [32]byte{47, 11}},
		Working: n.rounds.Working, Log: log,
	})
	h.must(err)
	n.firer, err = New(Config{
		Store: n.door, Tasks: n.tasks, Clock: clock, Node: name, Beat: beat, Alone: h.alone,
		Log:    log,
		Now:    func() time.Time { return time.Now().Add(-n.tasks.ClockOffset()) },
		Owners: func() map[string]string { return n.rounds.Cluster().Owned },
		Handled: func(f *store.Fire) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.handled = append(h.handled, *f)
		},
	})
	h.must(err)
	h.must(n.rounds.Claim(scheduler.Kind{
		Name: Kind, Keys: n.firer.Keys, Look: func(ctx context.Context, c scheduler.Claim) {
			n.firer.Look(ctx, c.Key)
		},
	}))
	for _, loop := range []func(context.Context) error{clock.Run, n.tasks.Run, n.firer.Run,
		n.rounds.Run} {
		n.loops.Go(func() { loop(ctx) })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[name] = n
}

// chores are those of the store; who does them fires what others leave lying.
type chores struct{ node *node }

func (c chores) Free(ctx context.Context, self store.Holder, judge int64) (int, error) {
	if c.node.firer != nil {
		c.node.firer.Backstop()
	}
	return c.node.door.Free(ctx, self, judge)
}

func (c chores) Retention() store.Retention { return c.node.door.Retention() }

func (c chores) Prune(ctx context.Context, limit int) (int, error) {
	return c.node.door.Prune(ctx, limit)
}
func (c chores) Check(ctx context.Context) error { return c.node.door.Check(ctx) }
func (c chores) FreeEnded(ctx context.Context) (int, error) {
	return c.node.door.FreeEnded(ctx)
}

// kill ends a node at once: from now on it reaches nothing.
func (h *house) kill(name string) {
	n := h.nodes[name]
	if n.door.dead() {
		return
	}
	n.door.cut(true)
	n.stop()
	n.tasks.Stop()
	n.loops.Wait()
	n.tasks.Close(context.Background())
	n.door.end()
}

// live is some node that lives.
func (h *house) live() *node {
	for _, name := range []string{"n1", "n2", "n3"} {
		if n := h.nodes[name]; n != nil && !n.door.dead() && !n.door.down() {
			return n
		}
	}
	h.t.Fatal("no node lives")
	return nil
}

// pass lets time go by, up to a time by the store's clock.
func (h *house) until(clock string) {
	h.t.Helper()
	at, err := time.Parse(time.DateTime, clock)
	h.must(err)
	h.pass(at.Sub(h.now()))
}

func (h *house) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// put makes a schedule, by some node.
func (h *house) put(name, cron string, change ...func(*store.ScheduleEdit)) store.Edited {
	h.t.Helper()
	e := store.ScheduleEdit{Schedule: limits.DefaultSchedule(name)}
	e.Cron, e.Queue = cron, "q"
	for _, f := range change {
		f(&e)
	}
	got, err := h.live().firer.Put(h.t.Context(), e)
	h.must(err)
	return got[0]
}

// fires lists what came of a schedule's due times, as "15:04:05 outcome".
func (h *house) fires(name string) (list []string) {
	h.t.Helper()
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
	h.t.Helper()
	list, err := h.store.Fires(context.Background(), store.FireQuery{Schedule: name})
	h.must(err)
	return list
}

// want compares what came of a schedule's due times.
func (h *house) want(name string, want ...string) {
	h.t.Helper()
	if got := h.fires(name); !slices.Equal(got, want) {
		h.t.Fatalf("%s: fires\n%s\nwant\n%s", name, strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// tasks lists the tasks of a queue, oldest first.
func (h *house) tasks(queue string) []task.View {
	h.t.Helper()
	var list []task.View
	for after := (task.ID{}); ; {
		page, next, err := h.store.Tasks(context.Background(), store.Filter{Queue: queue}, after,
			1000)
		h.must(err)
		list = append(list, page...)
		if after = next; next == (task.ID{}) {
			slices.Reverse(list)
			return list
		}
	}
}

// work lets a worker at a node end each task of a queue as end says, after it took a while.
func (h *house) work(name, queue string, takes time.Duration, end func(task.Handout) task.Outcome) {
	n := h.nodes[name]
	n.loops.Go(func() {
		for n.ctx.Err() == nil {
			got, err := n.tasks.Hold(n.ctx, task.HoldRequest{
				Worker: "w-" + name, Queues: []string{queue}, Limit: 1, Wait: time.Minute,
			})
			if err != nil {
				pause(n.ctx, beat)
			}
			for _, t := range got.Tasks {
				if pause(n.ctx, takes) == nil {
					n.tasks.Report(n.ctx, "w-"+name,
						[]task.Report{{ID: t.ID, Token: t.Token, Outcome: end(t)}})
				}
			}
		}
	})
}

func finish(task.Handout) task.Outcome { return task.Finish(nil) }

// events lists the texts of events of a kind.
func (h *house) events(kind string) (list []string) {
	h.t.Helper()
	page, err := h.store.Events(context.Background(), store.EventQuery{
		Kinds: []string{kind}, Limit: 1000,
	})
	h.must(err)
	for _, e := range page.Events {
		list = append(list, e.Text)
	}
	return list
}
