package assign

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

var home = store.Holder{Node: "a", Token: 1}

// world is a group and some seats as a store keeps them.
type world struct {
	now     int64
	version int64
	sites   map[[2]string]store.Assignment
	seats   map[string]Seat
}

func newWorld() *world {
	w := &world{version: 2, sites: map[[2]string]store.Assignment{}, seats: map[string]Seat{}}
	for i, name := range []string{"w0", "w1", "w2", "w3"} {
		w.seats[name] = Seat{State: store.SeatTaken, Node: home, Capacity: task.Units(i) * 2}
	}
	w.seats["gone"] = Seat{State: store.SeatLeft, Node: home, Capacity: 100}
	return w
}

// table puts everything on a table; rotate changes the order.
func (w *world) table(rotate int) *Table {
	t := &Table{
		Now: w.now, Group: "g", Replicas: 3, Version: w.version,
		Jobs: map[string]bool{"j0": true, "j1": true, "gone": false}, Seats: map[string]*Seat{},
	}
	for name, s := range w.seats {
		t.Seats[name] = &s
	}
	var list []store.Assignment
	for _, a := range w.sites {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b store.Assignment) int { return compareText(a, b) })
	for i := range list {
		t.Put(list[(i+rotate)%len(list)])
	}
	return t
}

// compareText orders values by how they are printed.
func compareText(a, b any) int {
	return cmp.Compare(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b))
}

// keep writes down what a table says has changed.
func (w *world) keep(t *Table, changed []*store.Assignment) {
	w.version = t.Version
	for _, a := range changed {
		w.sites[[2]string{a.Job, a.Worker}] = *a
	}
	for name, s := range t.Seats {
		s.Changed = false
		w.seats[name] = *s
	}
}

var (
	someJob    = rapid.SampledFrom([]string{"j0", "j0", "j1", "gone", "none"})
	someWorker = rapid.SampledFrom([]string{"w0", "w1", "w2", "w3", "gone", "none"})
)

// known draws an assignment that stands or stood, or one that never was.
func (w *world) known(t *rapid.T) store.Assignment {
	if len(w.sites) > 0 && rapid.IntRange(0, 5).Draw(t, "known") > 0 {
		var keys [][2]string
		for k := range w.sites {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		return w.sites[rapid.SampledFrom(keys).Draw(t, "site")]
	}
	return store.Assignment{
		Job: someJob.Draw(t, "job"), Worker: someWorker.Draw(t, "worker"),
		Token:   rapid.Int64Range(0, 30).Draw(t, "token"),
		Replica: rapid.IntRange(-1, 3).Draw(t, "replica"),
	}
}

func (w *world) drawAssign(t *rapid.T) *store.Assign {
	a := &store.Assign{Group: "g"}
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		at := w.known(t)
		p := store.Place{Job: at.Job, Replica: at.Replica, Worker: at.Worker, Token: at.Token}
		switch rapid.IntRange(0, 5).Draw(t, "part") {
		case 0:
			a.Drop = append(a.Drop, p)
		case 1:
			a.End = append(a.End, p)
		case 2, 3:
			p.From = p.Worker
			p.Worker = someWorker.Draw(t, "to")
			p.Load = task.Units(rapid.IntRange(0, 3).Draw(t, "load"))
			a.Move = append(a.Move, p)
		default:
			p.Job = someJob.Draw(t, "job")
			p.Replica = rapid.IntRange(0, 2).Draw(t, "replica")
			p.Worker = someWorker.Draw(t, "to")
			p.Load = task.Units(rapid.IntRange(0, 3).Draw(t, "load"))
			a.Start = append(a.Start, p)
		}
	}
	return a
}

func (w *world) drawObserved(t *rapid.T) *store.Observed {
	o := &store.Observed{Holder: home}
	for range rapid.IntRange(1, 4).Draw(t, "said") {
		at := w.known(t)
		seen := store.Observation{Group: "g", Job: at.Job, Replica: at.Replica, Worker: at.Worker,
			Token: at.Token + rapid.Int64Range(0, 1).Draw(t, "newer"),
			State: rapid.SampledFrom([]task.JobState{task.JobStarting, task.JobRunning,
				task.JobFailed, store.Ended, task.JobMoving}).Draw(t, "state")}
		if rapid.IntRange(0, 2).Draw(t, "adopt") == 0 {
			seen.Load = task.Units(rapid.IntRange(0, 3).Draw(t, "load"))
			o.Adopt = append(o.Adopt, seen)
		} else {
			o.States = append(o.States, seen)
		}
	}
	return o
}

// check holds the world against what must always hold.
func (w *world) check(t *rapid.T) {
	used := map[string]task.Units{}
	owners := map[string]int{}
	for _, a := range w.sites {
		if a.State != store.Ended {
			used[a.Worker] += a.Load
		}
		if holds(a.State) {
			owners[fmt.Sprint(a.Job, a.Replica)]++
		}
		if a.Token > w.version || a.Version > w.version {
			t.Fatalf("%+v is newer than its group, which is at %d", a, w.version)
		}
	}
	for name, s := range w.seats {
		if s.Used != used[name] {
			t.Fatalf("%d of %s is in use, %d is assigned", s.Used, name, used[name])
		}
		if s.Used > s.Capacity {
			t.Fatalf("%s has %d of %d in use", name, s.Used, s.Capacity)
		}
	}
	for replica, n := range owners {
		if n > 1 {
			t.Fatalf("replica %s has %d workers", replica, n)
		}
	}
	for _, a := range w.sites {
		if a.State == task.JobMoving && owners[fmt.Sprint(a.Job, a.Replica)] == 0 {
			t.Fatalf("%+v moves to nowhere", a)
		}
	}
}

func TestWhateverIsAskedReplicasStayApartAndWithinCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			w.now++
			assign, observed := rapid.Bool().Draw(t, "assign"), (*store.Observed)(nil)
			a := w.drawAssign(t)
			if !assign {
				observed = w.drawObserved(t)
			}
			do := func(table *Table) []*store.Assignment {
				if assign {
					table.Assign(a)
				} else {
					Observe(observed, map[string]*Table{"g": table})
				}
				return table.Close()
			}
			table, other := w.table(0), w.table(1)
			changed, again := do(table), do(other)
			if table.Version != other.Version ||
				!reflect.DeepEqual(byName(changed), byName(again)) ||
				!reflect.DeepEqual(table.Seats, other.Seats) {
				t.Fatalf("the order of rows matters: %v at %d, %v at %d", byName(changed),
					table.Version, byName(again), other.Version)
			}
			if grew := table.Version > w.version; grew != (len(changed) > 0) {
				t.Fatalf("version %d became %d with %d changes", w.version, table.Version,
					len(changed))
			}
			before := w.version
			w.keep(table, changed)
			for _, c := range changed {
				if c.Version != w.version || c.Version <= before {
					t.Fatalf("%+v changed at version %d", c, w.version)
				}
			}
			w.check(t)
		}
	})
}

// byName are rows in an order of their own.
func byName(list []*store.Assignment) (lines []string) {
	for _, a := range list {
		lines = append(lines, fmt.Sprintf("%+v", *a))
	}
	slices.Sort(lines)
	return lines
}

func TestRefusalsSayWhy(t *testing.T) {
	w := newWorld()
	w.sites[[2]string{"j0", "w3"}] = store.Assignment{
		Job: "j0", Worker: "w3", Token: 1, State: task.JobRunning,
	}
	w.sites[[2]string{"j1", "w3"}] = store.Assignment{
		Job: "j1", Worker: "w3", Token: 1, State: task.JobMoving,
	}
	w.sites[[2]string{"j1", "w2"}] = store.Assignment{
		Job: "j1", Worker: "w2", Token: 2, State: task.JobStarting,
	}
	for _, c := range []struct {
		assign store.Assign
		want   string
	}{
		{store.Assign{Start: []store.Place{{Job: "gone", Worker: "w3"}}}, "the job was removed"},
		{store.Assign{Start: []store.Place{{Job: "j0", Replica: 1, Worker: "none"}}},
			"there is no such worker"},
		{store.Assign{Start: []store.Place{{Job: "j0", Replica: 1, Worker: "gone"}}},
			"the worker has left"},
		{store.Assign{Start: []store.Place{{Job: "j0", Replica: 1, Worker: "w3"}}},
			"the worker has a replica of the job already"},
		{store.Assign{Start: []store.Place{{Job: "j0", Replica: 1, Worker: "w1", Load: 2500}}},
			"the worker has 0.002 of 0.002 units free, 2.5 are needed"},
		{store.Assign{Start: []store.Place{{Job: "j0", Worker: "w1"}}},
			"the replica has a worker already"},
		{store.Assign{Move: []store.Place{{Job: "j0", From: "w1", Worker: "w2"}}},
			"the replica is not at w1 any more"},
		{store.Assign{Move: []store.Place{{Job: "j1", From: "w2", Worker: "w1"}}},
			"the replica is moving already"},
	} {
		table := w.table(0)
		refused := table.Assign(&c.assign)
		if len(refused) != 1 || refused[0].Reason != c.want || len(table.Close()) != 0 {
			t.Errorf("%+v: got %+v, want %q", c.assign, refused, c.want)
		}
	}
}

func TestAdoptedIsWhatNoRowSpeaksOf(t *testing.T) {
	run := store.Observation{
		Group: "g", Job: "j0", Replica: 1, Worker: "w3", Token: 10, State: task.JobRunning, Load: 2,
	}
	with := func(change func(*store.Observation)) store.Observation {
		o := run
		change(&o)
		return o
	}
	row := func(worker string, replica int, token int64, state task.JobState) *store.Assignment {
		return &store.Assignment{
			Job: "j0", Worker: worker, Replica: replica, Token: token, State: state,
		}
	}
	for what, c := range map[string]struct {
		run     store.Observation
		row     *store.Assignment // that stands
		refused bool
		adopted bool
	}{
		"of which there is no row": {run, nil, false, true},
		"whose worker had an earlier one": {run, row("w3", 1, 9, store.Ended), false,
			true},
		"whose replica is ending elsewhere": {run, row("w2", 1, 11, task.JobEnding), false,
			true},
		"of the greatest token there may be": {with(func(o *store.Observation) {
			o.Token = math.MaxInt64 / 2
		}), nil, false, true},
		"that was adopted": {run, row("w3", 1, 10, task.JobStarting),
			false, false},
		"that was ended": {run, row("w3", 1, 10, store.Ended), true,
			false},
		"of another replica under the same token": {run, row("w3", 0, 10, task.JobRunning), true,
			false},
		"whose worker had a later one": {run, row("w3", 1, 11, store.Ended), true,
			false},
		"whose worker has an earlier one": {run, row("w3", 1, 9, task.JobRunning), true,
			false},
		"whose replica runs elsewhere": {run, row("w2", 1, 9, task.JobRunning), true,
			false},
		"whose replica moves elsewhere": {run, row("w2", 1, 9, task.JobMoving), true,
			false},
		"of a job that was removed": {with(func(o *store.Observation) {
			o.Job = "gone"
		}), nil, true, false},
		"of a replica that is not wanted": {with(func(o *store.Observation) {
			o.Replica = 3
		}), nil, true, false},
		"of a replica below the first": {with(func(o *store.Observation) {
			o.Replica = -1
		}), nil, true, false},
		"without a token": {with(func(o *store.Observation) {
			o.Token = 0
		}), nil, true, false},
		"of a token past which versions can't grow": {with(func(o *store.Observation) {
			o.Token = math.MaxInt64/2 + 1
		}), nil, true, false},
		"that ends": {with(func(o *store.Observation) {
			o.State = task.JobEnding
		}), nil, true, false},
		"that is too much for its worker": {with(func(o *store.Observation) {
			o.Load = 7
		}), nil, true, false},
		"at a worker that has left": {with(func(o *store.Observation) {
			o.Worker = "gone"
		}), nil, false, false},
		"at a worker that nobody knows": {with(func(o *store.Observation) {
			o.Worker = "none"
		}), nil, false, false},
	} {
		w := newWorld()
		if c.row != nil {
			w.sites[[2]string{c.row.Job, c.row.Worker}] = *c.row
		}
		table := w.table(0)
		refused := Observe(&store.Observed{Holder: home, Adopt: []store.Observation{c.run}},
			map[string]*Table{"g": table})
		changed := slices.DeleteFunc(table.Close(), func(a *store.Assignment) bool {
			return a.Worker != c.run.Worker
		})
		if len(refused) > 0 != c.refused || len(changed) > 0 != c.adopted {
			t.Errorf("a run %s: refused %v, changed %v", what, refused, byName(changed))
		}
		if c.adopted &&
			(changed[0].Token != c.run.Token || table.Version <= c.run.Token ||
				table.Seats["w3"].Used != 2) {
			t.Errorf("a run %s: became %+v in version %d, %d in use", what, *changed[0],
				table.Version, table.Seats["w3"].Used)
		}
	}
}

func TestOnlyTheNodeOfAWorkerSaysWhatItRuns(t *testing.T) {
	for what, c := range map[string]struct {
		at    store.Holder
		state store.SeatState
		heard bool
	}{
		"where it beats":            {home, store.SeatTaken, true},
		"where it beat before":      {home, store.SeatSilent, false},
		"another one":               {store.Holder{Node: "b", Token: 1}, store.SeatTaken, false},
		"the next life of its node": {store.Holder{Node: "a", Token: 2}, store.SeatTaken, false},
	} {
		w := newWorld()
		w.sites[[2]string{"j0", "w3"}] = store.Assignment{
			Job: "j0", Worker: "w3", Token: 1, State: task.JobStarting,
		}
		table := w.table(0)
		table.Seats["w3"].State = c.state
		said := store.Observation{
			Group: "g", Job: "j0", Worker: "w3", Token: 1, State: task.JobRunning,
		}
		Observe(&store.Observed{Holder: c.at, States: []store.Observation{said}}, map[string]*Table{
			"g": table,
		})
		if heard := len(table.Close()) > 0; heard != c.heard {
			t.Errorf("%s: heard %v", what, heard)
		}
	}
}
