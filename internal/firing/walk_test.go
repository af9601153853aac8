package firing

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// Whatever happens to nodes, schedules, the store and its clock: in the end every due time of every
// schedule has one row, each that was fired one task, and what was to follow has followed.
func TestWhateverHappensEveryDueTimeIsHandledOnce(t *testing.T) {
	for seed := range uint64(story.Often(20, 2)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inHouse(t, "2026-11-21 09:59:30", func(h *house) { newWalk(h, seed).takes() })
		})
	}
}

// walk is a random story.
type walk struct {
	*house
	*rand.Rand
	names []string // of nodes
	ill   bool     // the store fails now and then
	acts  map[string]func()
}

func newWalk(h *house, seed uint64) *walk {
	w := &walk{house: h, Rand: rand.New(rand.NewPCG(seed, 1)), names: []string{"n1", "n2", "n3"}}
	faults := rand.New(rand.NewPCG(seed, 2)) // of its own: it is drawn from by many
	h.Fail(func(verb string) fault.Fault {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !w.ill || !ofSchedules(verb) || faults.IntN(4) > 0 {
			return fault.None
		}
		return fault.Before + fault.Fault(faults.IntN(2))
	})
	w.acts = map[string]func(){
		"kill": func() {
			h.Kill(w.some())
		}, "start": w.startNode, "cut": w.cutNode, "ill": func() {
			w.illness(true)
		}, "well": func() { w.illness(false) },
		"ahead": func() {
			h.Jump(time.Duration(w.IntN(300_000)) * time.Millisecond)
		}, "back": func() { h.Jump(-time.Duration(w.IntN(60_000)) * time.Millisecond) },
		"edit": w.edit, "pause": w.pauseOne, "run": w.run, "backfill": w.backfill,
		"calendar": w.calendar, "again": w.again, "rest": func() {
			h.Pass(30 * time.Second)
		},
	}
	return w
}

// ofSchedules tells whether a call is made for schedules, or for their tasks. Without some of the
// others a node would be no member, or could not start.
func ofSchedules(verb string) bool {
	return slices.Contains([]string{"Free", "Take", "Settle", "Act", "Append", "Schedules", "Due",
		"OpenFires", "Fires", "Stand", "Fire", closeFires, "ChangeSchedules", "DeleteSchedule",
	}, verb)
}

// crons are due so often that much comes together.
func (w *walk) cron() string {
	crons := []string{
		"*/3 * * * * *", "*/10 * * * * *", "*/7 * * * * *", "* * * * *", "@every 90s", "0 0 1 1 *",
	}
	return crons[w.IntN(len(crons))]
}

func (w *walk) schedule() string { return fmt.Sprint("s", w.IntN(6)) }

func (w *walk) takes() {
	w.Start(w.names...)
	for range 6 {
		w.edit()
	}
	w.attempt(func(f *Firer) error { return put(w.house, f, "lead", "*/10 * * * * *") })
	w.attempt(func(f *Firer) error { return put(w.house, f, "follow", "", after("lead")) })
	w.attempt(func(f *Firer) error {
		return put(w.house, f, "also", "", after("lead"), on(task.AfterEnded))
	})
	w.attempt(func(f *Firer) error {
		return put(w.house, f, "both", "", after("lead,also"), on(task.AfterEnded))
	})
	w.attempt(func(f *Firer) error { return put(w.house, f, "mixed", "", after("also,s0,s1")) })
	w.attempt(func(f *Firer) error {
		return put(w.house, f, "any", "", after("lead,s2"), mode(task.AfterAny))
	})
	for _, name := range w.names {
		w.work(name, "q", time.Second, w.end)
	}
	names := slices.Sorted(maps.Keys(w.acts))
	for range 25 {
		w.acts[names[w.IntN(len(names))]]()
		w.Pass(time.Duration(w.IntN(6000)) * time.Millisecond)
	}
	w.mend()
	w.follows()
}

// mend ends all trouble, and lets what is under way be ended.
func (w *walk) mend() {
	w.illness(false)
	for _, name := range w.names {
		w.Node(name).Door.Restore()
		if w.Node(name).Dead() {
			w.Start(name)
		}
		for range 3 {
			w.work(name, "q", time.Millisecond, finish)
		}
	}
	w.Pass(30 * time.Second)
	w.attempt(func(f *Firer) error { return put(w.house, f, "lead", "0 0 1 1 *") })
	w.Pass(3 * time.Minute)
}

// end lets one task in five fail for good.
func (w *walk) end(t task.Handout) task.Outcome {
	if t.ID.Batch/1024%5 == 0 {
		return task.Fail(fmt.Errorf("it is ill"))
	}
	return task.Finish(nil)
}

// follows checks that whatever ended well was followed, and nothing else was.
func (w *walk) follows() {
	w.T.Helper()
	if n := open(w.house, "lead"); n > 0 {
		w.T.Errorf("%d fires of lead are open", n)
	}
	follow := map[int64]task.FireOutcome{}
	for _, f := range w.rows("follow") {
		follow[f.At] = f.Outcome
	}
	both := map[int64]task.FireOutcome{}
	for _, f := range w.rows("both") {
		both[f.At] = f.Outcome
	}
	for _, f := range fired(w.house, "also") {
		if got := both[f.At]; got != task.FireFired && f.Ended != task.KindRemoved {
			w.T.Errorf("also at %s ended, and both is %q", at(f.At), got)
		}
	}
	for _, f := range fired(w.house, "lead") {
		v, err := w.Store.Task(w.T.Context(), f.Task)
		w.Must(err)
		want := task.FireSkipped
		if v.State == task.Done {
			want = task.FireFired
		}
		if got := follow[f.At]; got != want {
			w.T.Errorf("lead at %s is %s, and follow %q, want %s", at(f.At), v.State, got, want)
		}
	}
}

// some is any node.
func (w *walk) some() string { return w.names[w.IntN(len(w.names))] }

// attempt asks some node, which may be dead or cut off, for something.
func (w *walk) attempt(ask func(*Firer) error) {
	if err := ask(w.firerOf(w.some())); err != nil && strings.Contains(err.Error(), "invalid") {
		w.T.Error(err)
	}
}

func (w *walk) startNode() {
	for _, name := range w.names {
		if w.Node(name).Dead() {
			w.Start(name)
			w.work(name, "q", time.Second, w.end)
			return
		}
	}
}

func (w *walk) cutNode() {
	n := w.Node(w.some())
	n.Door.Cut()
	w.Pass(time.Duration(w.IntN(15_000)) * time.Millisecond)
	n.Door.Restore()
}

func (w *walk) edit() {
	name, cron := w.schedule(), w.cron()
	w.attempt(func(f *Firer) error {
		return put(w.house, f, name, cron, func(e *store.ScheduleEdit) {
			e.Overlap = []task.Overlap{task.OverlapAllow, task.OverlapSkip, task.OverlapQueue,
				task.OverlapReplace}[w.IntN(4)]
			if e.Overlap != task.OverlapAllow {
				e.Parallel = w.IntN(4)
			}
			e.Misfire = []task.Misfire{task.MisfireSkip, task.MisfireOnce,
				task.MisfireAll}[w.IntN(3)]
			e.Jitter.Share = float64(w.IntN(2))
			if w.IntN(4) == 0 {
				e.First = w.Now().UnixMicro() + int64(w.IntN(30e6))
			}
		})
	})
}

func (w *walk) pauseOne() {
	name, paused := w.schedule(), w.IntN(2) == 0
	w.attempt(func(f *Firer) error { _, err := f.Pause(w.T.Context(), name, paused); return err })
}

func (w *walk) run() {
	name := w.schedule()
	w.attempt(func(f *Firer) error { _, err := f.RunNow(w.T.Context(), name); return err })
}

func (w *walk) backfill() {
	to := w.Now().UnixMicro() - int64(w.IntN(120e6))
	ask := store.BackfillRequest{From: to - int64(w.IntN(60e6)) - 1, To: to, Limit: w.IntN(3)}
	name := w.schedule()
	w.attempt(func(f *Firer) error { _, err := f.Backfill(w.T.Context(), name, ask); return err })
}

func (w *walk) calendar() {
	day := w.Now().AddDate(0, 0, w.IntN(3)-1).Format(time.DateOnly)
	w.attempt(func(f *Firer) error {
		_, err := f.PutCalendar(w.T.Context(), task.Calendar{Name: "days", Skip: []string{day}})
		return err
	})
	name := w.schedule()
	w.attempt(func(f *Firer) error {
		return put(w.house, f, name, "*/10 * * * * *", func(e *store.ScheduleEdit) {
			e.Calendar = "days"
		})
	})
}

// again lets a dead task of the leader begin again.
func (w *walk) again() {
	for _, f := range fired(w.house, "lead") {
		n := w.Node(w.some())
		if n.Tasks.Act(w.T.Context(), task.KindReplayed, "test", f.Task) == nil {
			return
		}
	}
}

func (w *walk) illness(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ill = yes
}
