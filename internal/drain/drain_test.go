package drain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// floor is a cluster in which each of some workers has one replica, and a place for so many of
// those that drain.
type floor struct {
	*model.Model
	list    []task.Worker
	places  int
	slow    time.Duration // of weighing
	broken  error         // of weighing
	tasks   []task.View
	run     history.Histogram
	missing []string
}

func (f *floor) DrainPrice(
	_ context.Context, worker string, what store.Drain, said map[string]store.Drain,
) (store.GroupsPrice, error) {
	time.Sleep(f.slow)
	if f.broken != nil {
		return store.GroupsPrice{}, f.broken
	}
	p := store.GroupsPrice{Moves: 1, Jobs: 1, Rounds: 3}
	others := len(said)
	if _, mine := said[worker]; mine {
		others--
	}
	if others >= f.places {
		p = store.GroupsPrice{Stays: 1, Lacks: 8 * task.Unit, Breaks: []string{"g"}}
	}
	return p, nil
}

func (f *floor) Workers(context.Context, bool) ([]task.Worker, []string, error) {
	return f.list, f.missing, nil
}

func (f *floor) DrainWorker(ctx context.Context, name string, what store.Drain, _ bool) error {
	word, err := what.Lease(name)
	if err == nil {
		_, err = f.AcquireAll(ctx, "any", []store.Lease{word}, time.Hour, 1<<62)
	}
	return err
}

func (f *floor) Tasks(
	context.Context, store.Filter, task.ID, int,
) ([]task.View, task.ID, error) {
	return f.tasks, task.ID{}, nil
}

func (f *floor) History(context.Context, history.Question) ([]history.Period, error) {
	return []history.Period{{Record: history.Record{Run: f.run}}}, nil
}

func (f *floor) drains(holder string) *Drains {
	return New(Config{
		Leases: f, Groups: f, Workers: f, Tasks: f, History: f, Holder: holder,
	})
}

func inFloor(t *testing.T, test func(t *testing.T, f *floor)) {
	synctest.Test(t, func(t *testing.T) {
		f := &floor{Model: model.New(time.Now), places: 1}
		for i := range 4 {
			f.list = append(f.list, task.Worker{
				Name: fmt.Sprintf("w%d", i), Active: true, Capacity: 8, Queues: []string{"q"},
			})
		}
		test(t, f)
	})
}

// TestDrainsAtOnceDoNotCountOnTheSamePlace: of four workers that are drained at once at two nodes,
// with a place for one, one drains.
func TestDrainsAtOnceDoNotCountOnTheSamePlace(t *testing.T) {
	inFloor(t, func(t *testing.T, f *floor) {
		f.slow = 200 * time.Millisecond
		nodes := []*Drains{f.drains("a@1"), f.drains("b@1")}
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				_, errs[i] = nodes[i%2].Drain(t.Context(),
					store.WorkerDrain{Worker: fmt.Sprintf("w%d", i)})
			})
		}
		all.Wait()
		drained := 0
		for _, err := range errs {
			if err == nil {
				drained++
			} else if !errors.Is(err, store.ErrForcible) ||
				!strings.Contains(err.Error(), "with room for 8") {
				t.Error(err)
			}
		}
		if drained != 1 {
			t.Errorf("%d drained: %v", drained, errs)
		}
	})
}

func TestDrainIsRefusedAsItSays(t *testing.T) {
	inFloor(t, func(t *testing.T, f *floor) {
		d := f.drains("a@1")
		drain := func(what store.WorkerDrain) (store.DrainPrice, error) {
			return d.Drain(t.Context(), what)
		}
		if p, err := drain(store.WorkerDrain{Worker: "w0", DryRun: true}); err != nil ||
			p.Moves != 1 || p.Jobs != 1 || p.Minutes != 0.3 || p.Add() != "" {
			t.Errorf("a dry run: %+v, %v", p, err)
		}
		if _, err := drain(store.WorkerDrain{Worker: "w0"}); err != nil {
			t.Error(err)
		}
		if p, err := drain(store.WorkerDrain{Worker: "w1", DryRun: true}); err != nil ||
			len(p.Breaks) != 1 {
			t.Errorf("a dry run of what breaks: %+v, %v", p, err)
		}
		refused := (*RefusedError)(nil)
		if _, err := drain(store.WorkerDrain{Worker: "w1"}); !errors.As(err, &refused) ||
			refused.Price.Stays != 1 {
			t.Errorf("what breaks: %v", err)
		}
		if _, err := drain(store.WorkerDrain{Worker: "w1", Force: true}); err != nil {
			t.Errorf("forced: %v", err)
		}
		// said again, or less of it, it is not refused
		less := store.WorkerDrain{Worker: "w1", Drain: store.Drain{Shed: task.Unit}}
		for _, what := range []store.WorkerDrain{{Worker: "w1"}, less} {
			if _, err := drain(what); err != nil {
				t.Errorf("again: %v", err)
			}
		}
		more := store.WorkerDrain{Worker: "w1", Drain: store.Drain{Shed: 2 * task.Unit}}
		if _, err := drain(more); !errors.Is(err, store.ErrForcible) {
			t.Errorf("more of it: %v", err)
		}
		if _, err := drain(store.WorkerDrain{Worker: "nobody"}); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
		f.missing = []string{"n2"}
		if _, err := drain(store.WorkerDrain{Worker: "nobody"}); !errors.Is(err, store.ErrAway) {
			t.Errorf("nobody, while a node does not answer: %v", err)
		}
	})
}

// TestForceNeedsNoPrice: who has to take a worker away can, whatever is wrong with the groups.
func TestForceNeedsNoPrice(t *testing.T) {
	inFloor(t, func(t *testing.T, f *floor) {
		f.broken = store.ErrBusy
		d := f.drains("a@1")
		if _, err := d.Drain(t.Context(), store.WorkerDrain{Worker: "w0"}); !errors.Is(err,
			store.ErrBusy) {
			t.Error(err)
		}
		p, err := d.Drain(t.Context(), store.WorkerDrain{
			Worker: "w0", Force: true, Within: time.Minute,
		})
		_, said, _ := d.said(t.Context())
		if _, drains := said["w0"]; err != nil || !drains || p.By == 0 ||
			!strings.HasPrefix(p.Text, "What it costs is not known: ") {
			t.Errorf("forced: %+v, %v; said %v", p, err, said)
		}
		if _, err := d.Drain(t.Context(), store.WorkerDrain{
			Worker: "nobody", Force: true,
		}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
	})
}

func TestDeadlineIsByTheStoresClock(t *testing.T) {
	inFloor(t, func(t *testing.T, f *floor) {
		p, err := f.drains("a@1").Drain(t.Context(),
			store.WorkerDrain{Worker: "w0", Within: time.Minute})
		if want := time.Now().Add(time.Minute).UnixMicro(); err != nil || p.By != want {
			t.Errorf("%d, %v, want %d", p.By, err, want)
		}
	})
}

func TestPriceCountsTasksAndHowLongTheyTake(t *testing.T) {
	inFloor(t, func(t *testing.T, f *floor) {
		d := f.drains("a@1")
		f.list[0].Running = 6
		for range 100 {
			f.run.Add((10 * time.Minute).Microseconds())
		}
		f.tasks = []task.View{
			{Queue: "q", Started: time.Now().Add(-7 * time.Minute)},
			{Queue: "q", Started: time.Now().Add(-20 * time.Minute)},
		}
		for _, test := range []struct {
			shed  task.Units
			tasks int
			least float64
		}{{0, 6, 2.6}, {1, 0, 0.3}, {4, 2, 2.6}, {8, 6, 2.6}} {
			p, err := d.Drain(t.Context(), store.WorkerDrain{
				Worker: "w0", Drain: store.Drain{Shed: test.shed * task.Unit}, DryRun: true,
			})
			if err != nil || p.Tasks != test.tasks || p.Minutes < test.least ||
				p.Minutes > test.least+0.7 {
				t.Errorf("shed %d: %+v, %v", test.shed, p, err)
			}
		}
	})
}

func TestQueuesThatNobodyElseServesAreNamed(t *testing.T) {
	inFloor(t, func(t *testing.T, f *floor) {
		d := f.drains("a@1")
		f.list[0].Queues = []string{"alone", "q"}
		f.list[1].Queues, f.list[1].Active = []string{"alone"}, false
		p, err := d.Drain(t.Context(), store.WorkerDrain{Worker: "w0", DryRun: true})
		if err != nil || p.Text != "Nobody else takes tasks of alone." {
			t.Errorf("%q, %v", p.Text, err)
		}
		p, err = d.Drain(t.Context(), store.WorkerDrain{
			Worker: "w0", DryRun: true, Drain: store.Drain{Shed: task.Unit},
		})
		if err != nil || p.Text != "" {
			t.Errorf("of a part: %q, %v", p.Text, err)
		}
	})
}
