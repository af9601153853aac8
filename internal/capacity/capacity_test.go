package capacity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

var errAway = errors.New("the store is away")

// world is a cluster in which each minute so many tasks come to the queue mail.
type world struct {
	perMinute int
	ready     int64
	workers   int // of four slots
	jobs      int // of the group feeds
	seats     int // of room for ten jobs
	missing   []string
	err       error
	slow      time.Duration
	ahead     time.Duration // of this machine's clock is the store's
	asked     int
}

func (w *world) now() time.Time { return time.Now().Add(w.ahead) }

func (w *world) Counts(context.Context, ...string) ([]store.QueueCounts, error) {
	w.asked++
	time.Sleep(w.slow)
	return []store.QueueCounts{{Queue: "mail", Counts: task.Counts{Ready: w.ready}}}, w.err
}

func (w *world) Queues(context.Context) ([]task.Queue, error) {
	return []task.Queue{{Name: "mail"}, {Name: "idle"}}, w.err
}

func (w *world) Minutes(
	_ context.Context, from, whole int64,
) (list []history.QueueMinute, _ error) {
	for at := from; at <= minuteOf(w.now()); at++ {
		m := history.QueueMinute{Queue: "mail", Minute: at}
		m.Submitted = int64(w.perMinute)
		if at >= whole {
			m.Run.Add(1e6)
		}
		list = append(list, m)
	}
	return list, w.err
}

func (w *world) Workers(context.Context, bool) (list []task.Worker, missing []string, err error) {
	for i := range w.workers {
		list = append(list, task.Worker{
			Name: fmt.Sprint("w", i), State: task.WorkerActive, Capacity: 4, Running: 1, Free: 3,
			Queues: []string{"mail"},
		})
	}
	// none of these takes anything
	for _, state := range []task.WorkerState{
		task.WorkerDraining, task.WorkerSilent, task.WorkerLeft,
	} {
		list = append(list, task.Worker{State: state, Capacity: 100, Free: 100, Queues: []string{"mail"}})
	}
	return list, w.missing, w.err
}

func (w *world) Demands(context.Context) ([][]place.Demand, error) {
	s := place.State{}
	for i := range w.jobs {
		s.Jobs = append(s.Jobs, place.Job{Name: fmt.Sprint("j", i), Load: place.Unit})
	}
	for i := range w.seats {
		s.Workers = append(s.Workers, place.Worker{
			Name: fmt.Sprint("s", i), Capacity: 10 * place.Unit,
		})
	}
	d, err := place.DemandOf("feeds", s, place.Policy{Replicas: 1})
	if err != nil {
		return nil, err
	}
	return [][]place.Demand{{d}}, w.err
}

// node is what a node knows of the world.
func (w *world) node() *Forecasts {
	return New(Config{
		Queues: w, Keys: &keyWorld{}, Workers: w, Groups: w, Now: w.now,
		Keep: func() int { return 1 },
	})
}

func known(t *testing.T, f *Forecasts) forecast.Seen {
	t.Helper()
	seen, err := f.Known(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestForecastsAreGatheredSeldomWhoeverAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{perMinute: 600, workers: 4, jobs: 15, seats: 3}
		f := w.node()
		defer f.Close()
		for range 300 {
			known(t, f)
			time.Sleep(100 * time.Millisecond)
		}
		if w.asked != 3 {
			t.Errorf("gathered %d times in 30 s", w.asked)
		}
		w.slow = 3 * time.Second
		time.Sleep(every)
		known(t, f)
		w.asked = 0
		for range 600 {
			known(t, f)
			time.Sleep(100 * time.Millisecond)
		}
		if w.asked > 1 { // 3 s each, a twentieth of the time
			t.Errorf("gathered %d times in a minute, 3 s each", w.asked)
		}
	})
}

func TestForecastsAreMadeOfWhatTheNodeKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{perMinute: 600, ready: 7, workers: 2, jobs: 15, seats: 3}
		f := w.node()
		defer f.Close()
		seen := known(t, f)
		needs := seen.Model.Needs()
		if len(needs) != 2 || needs[0].Queue != "mail" || needs[0].Workers != 2 ||
			needs[0].Slots != 8 || needs[0].Wanted != 3 || needs[1].Wanted != 0 {
			t.Errorf("%+v", needs)
		}
		if len(seen.Groups) != 1 || seen.Groups[0].Wanted != 3 || seen.Groups[0].Workers != 3 {
			t.Errorf("%+v", seen.Groups)
		}
		if seen.Keep != 1 || !seen.At.Equal(time.Now()) {
			t.Errorf("%+v", seen)
		}
	})
}

// What was known stays known while the store is away; before anything is known the error says why.
func TestWhatWasKnownIsToldWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{err: errAway}
		f := w.node()
		defer f.Close()
		if _, err := f.Known(time.Second); !errors.Is(err, errAway) {
			t.Errorf("before: %v", err)
		}
		w.err = nil
		at := known(t, f).At
		time.Sleep(2 * every)
		w.err = errAway
		if got := known(t, f); !got.At.Equal(at) {
			t.Errorf("of %v, want %v", got.At, at)
		}
		w.slow = time.Second
		late := w.node()
		defer late.Close()
		if _, err := late.Known(0); !errors.Is(err, store.ErrNotYet) {
			t.Errorf("nothing came yet: %v", err)
		}
	})
}

// house is some nodes that watch one world.
type house struct {
	world  *world
	nodes  []*Watch
	judge  int
	events []store.Event
}

func newHouse(t *testing.T, w *world, nodes int) *house {
	h := &house{world: w}
	for i := range nodes {
		f := w.node()
		t.Cleanup(f.Close)
		h.nodes = append(h.nodes, NewWatch(WatchConfig{
			Forecasts: f, Judges: func() bool { return h.judge == i },
			Tell: func(e store.Event) { h.events = append(h.events, e) },
			Log:  slog.New(slog.DiscardHandler),
		}))
	}
	return h
}

// pass lets time pass, in which all nodes look.
func (h *house) pass(t *testing.T, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(look) {
		for _, n := range h.nodes {
			if err := n.Round(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAShortageIsToldOnceWhenItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{perMinute: 600, workers: 2, jobs: 20, seats: 3}
		h := newHouse(t, w, 3)
		h.pass(t, 4*time.Minute)
		w.workers = 3
		h.pass(t, time.Minute)
		if len(h.events) != 0 {
			t.Fatalf("told after four minutes: %+v", h.events)
		}
		w.workers = 2 // it had enough for a minute only
		h.pass(t, 2*time.Minute)
		if len(h.events) != 1 {
			t.Fatalf("told %+v", h.events)
		}
		h.judge = 1 // which knows that it was told
		h.pass(t, 30*time.Minute)
		if len(h.events) != 1 {
			t.Fatalf("told again: %+v", h.events)
		}
		e := h.events[0]
		if e.Kind != Event || e.Subject != "mail" || e.Fields["queue"] != "mail" ||
			e.Fields["workers"] != "2" || e.Fields["wanted"] != "3" || e.Fields["by"] != "" ||
			!strings.HasPrefix(e.Text,
				"queue mail has 2 workers and needs 3: 600 tasks a minute of 1s each") ||
			!strings.HasPrefix(e.Key, "capacity.short/queue/mail/") {
			t.Errorf("%+v", e)
		}
		w.workers = 5
		h.pass(t, 6*time.Minute) // that is over
		w.workers, h.judge = 2, 2
		h.pass(t, 6*time.Minute)
		if len(h.events) != 2 || h.events[1].Key == e.Key {
			t.Errorf("the next time: %+v", h.events)
		}
	})
}

// The store's clock may be set, by its machine or by a failover to another: a shortage has lasted
// no longer by that, nor is it silent until the time comes again.
func TestAShortageLastsNoLongerWhenTheStoresClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{perMinute: 600, workers: 2, jobs: 20, seats: 3}
		h := newHouse(t, w, 1)
		h.pass(t, time.Minute)
		w.ahead = time.Hour
		h.pass(t, 2*time.Minute)
		if len(h.events) != 0 {
			t.Fatalf("told after three minutes: %+v", h.events)
		}
		w.ahead = 0
		h.pass(t, 4*time.Minute)
		if len(h.events) != 1 {
			t.Fatalf("told %+v after seven minutes", h.events)
		}
		w.workers = 5
		h.pass(t, 6*time.Minute)
		w.workers = 2
		h.pass(t, 7*time.Minute)
		if len(h.events) != 2 {
			t.Errorf("the next time: %+v", h.events)
		}
	})
}

func TestNoShortageIsToldOfWhatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{perMinute: 600, workers: 2, jobs: 20, seats: 3, missing: []string{"n2"}}
		h := newHouse(t, w, 1)
		h.pass(t, 20*time.Minute) // n2 may have the workers
		w.missing, w.workers = nil, 0
		h.pass(t, 20*time.Minute) // queue.unserved tells of that
		if len(h.events) != 0 {
			t.Errorf("told %+v", h.events)
		}
	})
}

func TestAGroupIsToldOfInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{workers: 1, jobs: 10, seats: 4}
		h := newHouse(t, w, 2)
		for w.jobs <= 30 && len(h.events) == 0 {
			h.pass(t, 2*time.Minute)
			w.jobs++
		}
		if len(h.events) != 1 || w.jobs > 30 {
			t.Fatalf("at %d jobs of 30 that keep n: %+v", w.jobs, h.events)
		}
		e := h.events[0]
		by, err := time.Parse(time.RFC3339, e.Fields["by"])
		if err != nil || e.Subject != "feeds" || e.Fields["group"] != "feeds" ||
			e.Fields["wanted"] != "5" || !strings.HasPrefix(e.Text,
			"group feeds has 4 workers and needs 5 within ") {
			t.Fatalf("%+v: %v", e, err)
		}
		for w.jobs <= 30 {
			h.pass(t, 2*time.Minute)
			w.jobs++
		}
		if late := time.Since(by); late < -3*time.Minute || late > 3*time.Minute {
			t.Errorf("n was kept until %v, foretold %v", time.Now(), by)
		}
		if len(h.events) != 1 {
			t.Errorf("told again: %+v", h.events)
		}
	})
}
