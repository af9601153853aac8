package rules_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A store has loaded a schedule whose cursor stands at 5,000, and a call that fires its due time.
func ExampleFires_Decide() {
	found := rules.Fires{Node: "a", Now: 9_000, Schedules: map[string]*rules.FireSchedule{
		"nightly": {ID: 7, Version: 3, Next: 5_000},
	}}
	due := store.FirePart{Schedule: "nightly", Version: 3, Next: 5_000, Then: 10_000,
		Fires: []store.Fire{
			{At: 5_000, Outcome: task.FireFired, Task: task.ID{Batch: 1}},
		}}
	done := found.Decide([]store.FirePart{due, due}) // the second comes too late

	fmt.Println("rows:", len(done[0].Fires), "at", done[0].Fires[0].At)
	fmt.Println("cursor:", found.Schedules["nightly"].Next)
	fmt.Println("the second:", done[1].Refused)
	// Output:
	// rows: 1 at 5000
	// cursor: 10000
	// the second: the schedule was changed or fired meanwhile
}

const now = 1_000_000

// loaded is schedule s in version 2, its cursor at now - 10, and what change adds.
func loaded(change func(*rules.FireSchedule)) *rules.Fires {
	s := &rules.FireSchedule{ID: 1, Version: 2, Next: now - 10}
	if change != nil {
		change(s)
	}
	return &rules.Fires{
		Node: "a", Now: now, Stands: map[int64]bool{9: true},
		Schedules: map[string]*rules.FireSchedule{"s": s},
	}
}

// fire is one of task n in a batch that does not stand.
func fire(at int64, outcome task.FireOutcome, n int32) store.Fire {
	return store.Fire{At: at, Outcome: outcome, Task: task.ID{Batch: 1, N: n}}
}

// aside is a part that leaves the cursor alone.
func aside(fires ...store.Fire) store.FirePart {
	return store.FirePart{Schedule: "s", Version: 2, Fires: fires}
}

func TestAPartIsDoneOrRefusedAsAWhole(t *testing.T) {
	stood := store.Fire{At: now - 5, Outcome: task.FireFired, Task: task.ID{Batch: 9}}
	good := fire(now-5, task.FireFired, 0)
	for what, c := range map[string]struct {
		part store.FirePart
		want string
	}{
		"at the cursor": {store.FirePart{Schedule: "s", Version: 2, Next: now - 10,
			Then: now + 10, Fires: []store.Fire{good}}, ""},
		"beside the cursor": {aside(good), ""},
		"of no schedule":    {store.FirePart{Schedule: "none", Version: 2}, store.FireGone},
		"of another version": {store.FirePart{Schedule: "s", Version: 1,
			Fires: []store.Fire{good}}, store.FireMoved},
		"at another cursor": {store.FirePart{Schedule: "s", Version: 2, Next: now - 9,
			Then: now + 10}, store.FireMoved},
		"without the cursor": {store.FirePart{Schedule: "s", Version: 2, Then: now + 10},
			store.FireMoved},
		"now": {aside(fire(now, task.FireFired, 0)), ""},
		"before its time": {aside(good, fire(now+1, task.FireSkipped, 1)),
			store.FireEarly},
		"until after now": {aside(store.Fire{At: now - 9, Through: now + 1,
			Outcome: task.FireMissed}), store.FireEarly},
		"of a batch that stands":   {aside(fire(now-6, task.FireFired, 1), stood), store.FireMoved},
		"early, and a batch stood": {aside(stood, fire(now+1, task.FireFired, 1)), store.FireEarly},
	} {
		found := loaded(nil)
		done := found.Decide([]store.FirePart{c.part})[0]
		if done.Refused != c.want {
			t.Errorf("%s: refused %q, want %q", what, done.Refused, c.want)
		}
		if s := found.Schedules["s"]; done.Refused != "" &&
			(len(done.Fires)+len(done.Left) > 0 || s.Moved || s.Next != now-10) {
			t.Errorf("%s: of what was refused remains %+v, and the cursor at %d", what, done,
				s.Next)
		}
		if again := found.Decide([]store.FirePart{aside(good)})[0]; done.Refused != "" &&
			len(again.Fires) != 1 {
			t.Errorf("%s: what comes next is answered %+v", what, again)
		}
	}
}

func TestRowsAreWrittenWhereTheyMay(t *testing.T) {
	over := func(p store.FirePart) store.FirePart {
		p.Over = true
		return p
	}
	rows := func(s *rules.FireSchedule) {
		s.Row(now+1, task.FireFired)
		s.Row(now-20, task.FireFired)
		s.Row(now-30, task.FireQueued)
		s.Row(now-30, task.FireQueued) // loaded twice
		s.Asked(task.ID{Batch: 9, N: 1}, now-20)
		s.Asked(task.ID{Batch: 9, N: 2}, now-30)
	}
	askedBefore := func(n int32) store.Fire {
		return store.Fire{Outcome: task.FireSkipped, Task: task.ID{Batch: 9, N: n}}
	}
	for what, c := range map[string]struct {
		part        store.FirePart
		wrote, left []int64
	}{
		"where there is no row": {aside(fire(now-40, task.FireFired, 0),
			fire(now-25, task.FireFired, 1)), []int64{now - 40, now - 25}, nil},
		"where one stands": {aside(fire(now-30, task.FireFired, 0)), nil,
			[]int64{now - 30}},
		"over one that was not fired": {over(aside(fire(now-30, task.FireFired, 0))),
			[]int64{now - 30}, nil},
		"over one that was fired": {over(aside(fire(now-20, task.FireSkipped, 0))), nil,
			[]int64{now - 20}},
		"twice": {aside(fire(now-5, task.FireSkipped, 0),
			fire(now-5, task.FireFired, 1)), []int64{now - 5}, []int64{now - 5}},
		"over one of the same part": {over(aside(fire(now-30, task.FireSkipped, 0),
			fire(now-30, task.FireFired, 1))), []int64{now - 30}, []int64{now - 30}},
		"now, and now": {aside(fire(0, task.FireFired, 0),
			fire(0, task.FireFired, 1)), []int64{now + 2, now + 3}, nil},
		"now, asked again":          {aside(askedBefore(1)), nil, []int64{now - 20}},
		"now, asked again over one": {over(aside(askedBefore(2))), nil, []int64{now - 30}},
		"of a batch that stands, where one": {aside(store.Fire{At: now - 20,
			Outcome: task.FireFired, Task: task.ID{Batch: 9}}), nil, []int64{now - 20}},
	} {
		done := loaded(rows).Decide([]store.FirePart{c.part})[0]
		var wrote []int64
		for _, f := range done.Fires {
			wrote = append(wrote, f.At)
		}
		if done.Refused != "" || !reflect.DeepEqual(wrote, c.wrote) ||
			!reflect.DeepEqual(done.Left, c.left) {
			t.Errorf("%s: refused %q, wrote %v, left %v; want %v, %v", what, done.Refused, wrote,
				done.Left, c.wrote, c.left)
		}
	}
}

func TestARowSaysWhatTheStoreKnows(t *testing.T) {
	asked := store.Fire{
		At: now - 9, Through: now - 99, Outcome: task.FireFired, Ended: task.KindDone, Seq: 4,
		Tries: 2, Time: 1, Node: "x",
	}
	want := store.Fire{
		Schedule: "s", At: now - 9, Through: now - 9, Count: 1, Outcome: task.FireFired, Seq: -1,
		Time: now, Node: "a", Run: store.FireKey{Schedule: "s", At: now - 9},
	}
	many := store.Fire{At: now - 8, Through: now - 7, Count: 2, Outcome: task.FireMissed}
	wantMany := store.Fire{
		Schedule: "s", At: now - 8, Through: now - 7, Count: 2, Outcome: task.FireMissed, Seq: -1,
		Time: now, Node: "a", Run: store.FireKey{Schedule: "s", At: now - 8},
	}
	for _, followed := range []bool{false, true} {
		found := loaded(func(s *rules.FireSchedule) { s.Followed = followed })
		want.Watch = followed // wantMany has no task to watch
		got := found.Decide([]store.FirePart{aside(asked, many)})[0].Fires
		if !reflect.DeepEqual(got, []store.Fire{want, wantMany}) {
			t.Errorf("followed %v: got %+v", followed, got)
		}
	}
}

func TestPartsOfOneScheduleFindWhatThoseBeforeThemWrote(t *testing.T) {
	on := func(next, then int64, fires ...store.Fire) store.FirePart {
		return store.FirePart{Schedule: "s", Version: 2, Next: next, Then: then, Fires: fires}
	}
	over := aside(fire(now-10, task.FireFired, 1))
	over.Over = true
	found := loaded(nil)
	done := found.Decide([]store.FirePart{
		on(now-10, now-4, fire(now-10, task.FireSkipped, 0)),
		on(now-10, now+4), // the cursor is not there any more
		on(now-4, now+4),
		aside(fire(now-10, task.FireFired, 1)),
		over,
		over, // by now it is fired
	})
	for i, want := range []struct {
		refused     string
		wrote, left int
	}{{"", 1, 0}, {store.FireMoved, 0, 0}, {"", 0, 0}, {"", 0, 1}, {"", 1, 0}, {"", 0, 1}} {
		if got := done[i]; got.Refused != want.refused || len(got.Fires) != want.wrote ||
			len(got.Left) != want.left {
			t.Errorf("part %d: got %+v, want %+v", i, got, want)
		}
	}
	if s := found.Schedules["s"]; s.Next != now+4 || !s.Moved {
		t.Errorf("the cursor is at %d, moved %v", s.Next, s.Moved)
	}
}

func TestMostIsHeldAgainstWhatRanBeforeTheCall(t *testing.T) {
	part := func(n int32, most int32) store.FirePart {
		p := aside(fire(0, task.FireFired, n), fire(0, task.FireQueued, n+1))
		p.Most = most
		return p
	}
	for _, c := range []struct {
		running int64
		most    int32
		refused string
	}{{0, 1, ""}, {1, 2, ""}, {1, 1, store.FireMoved}, {5, 0, ""}} {
		found := loaded(func(s *rules.FireSchedule) { s.Running = c.running })
		for i, done := range found.Decide([]store.FirePart{part(0, c.most), part(2, c.most)}) {
			if done.Refused != c.refused {
				t.Errorf("%d of %d run: part %d is answered %+v", c.running, c.most, i, done)
			}
		}
	}
	none := aside(fire(0, task.FireSkipped, 0))
	none.Most = 1
	found := loaded(func(s *rules.FireSchedule) { s.Running = 3 })
	if done := found.Decide([]store.FirePart{none})[0]; done.Refused != "" {
		t.Errorf("a part that fires nothing: %q", done.Refused)
	}
}

func TestOnlyWhatARowNamesIsSubmitted(t *testing.T) {
	tasks := []store.Task{{N: 0}, {N: 2}, {N: 3}, {N: 7}}
	f := store.Firing{NewQueues: []string{"p", "q"}, Batches: []store.Batch{
		{ID: 1, Queue: "p", Tasks: tasks, Spans: []store.NewSpan{{Hi: 7}}},
		{ID: 2, Queue: "q", Tasks: tasks,
			Spans: []store.NewSpan{{Hi: 1}, {Lo: 2, Hi: 3}, {Lo: 4, Hi: 6}, {Lo: 7, Hi: 9}}},
	}}
	row := func(n int32) store.Fire { return store.Fire{Task: task.ID{Batch: 2, N: n}} }
	got := rules.Submission(&f,
		[]store.FiredPart{
			{Fires: []store.Fire{row(3)}}, {Refused: store.FireMoved},
			{Fires: []store.Fire{row(7), {}}},
		})
	want := store.Submission{NewQueues: []string{"q"}, Batches: []store.Batch{
		{ID: 2, Queue: "q", Tasks: []store.Task{{N: 3}, {N: 7}},
			Spans: []store.NewSpan{{Lo: 2, Hi: 3}, {Lo: 7, Hi: 9}}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(f.Batches[1].Tasks) != 4 || len(f.Batches[1].Spans) != 4 {
		t.Errorf("the call was changed: %+v", f.Batches[1])
	}
}
