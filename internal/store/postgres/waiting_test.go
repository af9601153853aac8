//go:build unix

package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// goAt is where signals of the name go arrive: at a task, or with a key.
func goAt(id task.ID) store.Address    { return store.Address{Task: id, Name: "go"} }
func goBy(key string) store.Address    { return store.Address{Name: "go", Key: key} }
func goKey(key string) []store.Address { return []store.Address{goBy(key)} }

// waits is a report that a task of a span goes on to another stage once a signal came.
func waits(sp *store.Span, n, seq int32, now int64, a store.Await) store.Report {
	r := report(sp, n, seq, now, task.Next("second", nil))
	r.Step.Base, r.Move, r.Await = seq+1, store.Parked(), &a
	return r
}

// blocked submits tasks that wait, and answers their ids.
func (c *client) blocked(n int, await func(id task.ID) store.Await) (ids []task.ID) {
	c.Helper()
	sp := c.submit(c.batch(n, n, true))[0]
	set := store.Settlement{Spent: []store.Taking{sp.Taking()}}
	for i := range int32(n) {
		id := task.ID{Batch: sp.Batch, N: i}
		ids = append(ids, id)
		set.Reports = append(set.Reports, waits(&sp, i, 0, c.today().UnixMicro(), await(id)))
	}
	for i, v := range must(c.Settle(c.Context(), set))(c.TB).Verdicts {
		if v != task.Recorded {
			c.Errorf("report %d: %s", i, v)
		}
	}
	return ids
}

func forItself(id task.ID) store.Await { return store.Await{Address: goAt(id)} }

func forKey(key string) func(task.ID) store.Await {
	return func(task.ID) store.Await { return store.Await{Address: goBy(key)} }
}

// sends sends a signal, and holds the answer against what is wanted.
func (c *client) sends(s store.Signal, want store.Signalled) {
	c.Helper()
	got := must(c.Signal(c.Context(), s))(c.TB)
	got.Now, got.Ready = 0, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.Errorf("signal %v: %+v, want %+v", s.To, got, want)
	}
}

// looks looks, and says how many waits ended.
func (c *client) looks(r store.LookRequest) store.Looked {
	c.Helper()
	if r.Limit == 0 {
		r.Limit = 100
	}
	return must(c.Look(c.Context(), r))(c.TB)
}

// acts does something to a task.
func (c *client) acts(id task.ID, kind task.Kind) store.Acted {
	c.Helper()
	a := store.Action{ID: id, Kind: kind, By: "me", Holder: c.holder}
	if kind == task.KindEdited {
		a.Edit = &store.Edit{GroupKey: new("edited")}
	}
	return must(c.Act(c.Context(), []store.Action{a}))(c.TB)[0]
}

// takes takes what there is.
func (c *client) takesAll() (tasks []store.HeldSpan) {
	c.Helper()
	return must(c.Take(c.Context(), store.TakeRequest{
		Holder: c.holder, Queue: "q", Limit: 1000,
	}))(c.TB).Spans
}

// waitRows holds how many rows there are of waits, open and used signals, changes and parked spans
// against what is wanted.
func (c *client) waitRows(waits, open, used, changes, parked int64) {
	c.Helper()
	for query, want := range map[string]int64{
		"SELECT count(*) FROM rota.wait":                              waits,
		"SELECT count(*) FROM rota.signal WHERE used IS NULL":         open,
		"SELECT count(*) FROM rota.signal WHERE used IS NOT NULL":     used,
		"SELECT count(*) FROM rota.change":                            changes,
		"SELECT count(*) FROM rota.span WHERE rank = " + never:        parked,
		"SELECT count(*) FROM rota.span WHERE due = " + never:         parked,
		"SELECT count(*) FROM rota.span WHERE rank > due AND hi = lo": 0,
	} {
		if got := c.count(query); got != want {
			c.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

func TestTaskWaitsForASignal(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	id := c.blocked(1, forItself)[0]
	c.waitRows(1, 0, 0, 1, 1)
	c.counts(task.Counts{Blocked: 1})
	v := must(c.Task(t.Context(), id))(t)
	if v.State != task.Blocked || !v.Due.IsZero() || v.Awaits == nil || v.Awaits.Signal != "go" {
		t.Errorf("the task is %+v", v)
	}
	taken := must(c.Take(t.Context(), store.TakeRequest{
		Holder: c.holder, Queue: "q", Limit: 10,
	}))(t)
	if len(taken.Spans) != 0 || taken.NextDue != 0 || taken.More {
		t.Errorf("a take finds %+v", taken)
	}
	for state, want := range map[task.State]int{task.Blocked: 1, task.Waiting: 0, task.Ready: 0} {
		page, _, err := c.Tasks(t.Context(), store.Filter{State: state}, task.ID{}, 10)
		if err != nil || len(page) != want {
			t.Errorf("%d tasks are %s, want %d: %v", len(page), state, want, err)
		}
	}
	c.sends(store.Signal{To: goAt(id), Key: "k", Payload: store.Value(`{"x":1}`), By: "me"},
		store.Signalled{Found: true, Delivered: true})
	c.waitRows(0, 0, 1, 0, 0)
	c.sends(store.Signal{To: goAt(id), Key: "k"},
		store.Signalled{Found: true, Repeated: true, Delivered: true})
	c.counts(task.Counts{Ready: 1})
	if v := must(c.Task(t.Context(), id))(t); v.State != task.Ready || v.Result != nil ||
		v.Awaits != nil || len(v.Steps) != 2 {
		t.Errorf("the task is %+v", v)
	}
	woken := func(what string, by *store.Woken) {
		t.Helper()
		if by == nil || by.Signal != "go" || string(by.Payload) != `{"x":1}` || by.By != "me" ||
			by.At == 0 || by.TimedOut {
			t.Errorf("%s: woken by %+v", what, by)
		}
	}
	woken("stand", must(c.Stand(t.Context(), []task.ID{id}))(t)[0].Woken)
	spans := c.takesAll()
	if len(spans) != 1 || len(spans[0].Tasks) != 1 {
		t.Fatalf("took %+v", spans)
	}
	woken("take", spans[0].Tasks[0].Woken)
	if spans[0].Tasks[0].Stage != "second" || spans[0].Tasks[0].Attempt != 0 {
		t.Errorf("it goes out as %+v", spans[0].Tasks[0])
	}
	next := report(&spans[0].Span, id.N, 2, 7, task.Next("third", nil))
	c.settles([]store.Report{next}, all(task.Recorded))
	if by := must(c.Stand(t.Context(), []task.ID{id}))(t)[0].Woken; by != nil {
		t.Errorf("in the stage after it is woken by %+v", by)
	}
}

func TestTimeEndsAWait(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{NoNotify: true, Now: clock.Now}))
	until := clock.Now().Add(time.Minute).UnixMicro()
	ids := c.blocked(3, func(id task.ID) store.Await {
		return store.Await{Address: goAt(id), Until: until + int64(id.N), Else: "late"}
	})
	if l := c.looks(store.LookRequest{}); l.Ended != 0 || l.NextUntil != until || l.More {
		t.Errorf("a look before: %+v, want nothing until %d", l, until)
	}
	c.waitRows(3, 0, 0, 0, 3)
	clock.Advance(time.Minute)
	if l := c.looks(store.LookRequest{}); l.Ended != 1 || l.NextUntil != until+1 || l.More ||
		len(l.Ready) != 1 {
		t.Errorf("a look when the first is over: %+v", l)
	}
	clock.Advance(time.Minute)
	if l := c.looks(store.LookRequest{Limit: 1}); l.Ended != 1 || !l.More {
		t.Errorf("a look that may end one: %+v", l)
	}
	if l := c.looks(store.LookRequest{Addresses: []store.Address{goAt(ids[2])}}); l.Ended != 0 {
		t.Errorf("a look at an address: %+v", l)
	}
	if l := c.looks(store.LookRequest{}); l.Ended != 1 || l.More || l.NextUntil != 0 {
		t.Errorf("a look at the last: %+v", l)
	}
	c.waitRows(0, 0, 0, 0, 0)
	for _, sp := range c.takesAll() {
		if l := sp.Tasks[0]; l.Stage != "late" || l.Woken == nil || !l.Woken.TimedOut {
			t.Errorf("it goes out as %+v, woken by %+v", l, l.Woken)
		}
	}
}

// A sender that dies before it looks has left a change, and so has a settlement.
func TestWhatNobodyHasLookedAtIsLookedAtLater(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	id := c.blocked(1, forItself)[0]
	c.looks(store.LookRequest{})
	c.waitRows(1, 0, 0, 0, 1)
	sig := store.Signal{To: goAt(id)}
	must(c.send(t.Context(), &sig))(t)
	c.sends(sig, store.Signalled{Found: true, Repeated: true})
	c.waitRows(1, 1, 0, 1, 1)
	if l := c.looks(store.LookRequest{}); l.Ended != 1 {
		t.Errorf("a look: %+v", l)
	}
	c.waitRows(0, 0, 1, 0, 0)
}

// Who acts on a blocked task takes its wait along, or ends it.
func TestActionsOnBlockedTasks(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	ids := c.blocked(4, forItself)
	c.looks(store.LookRequest{})
	for i, kind := range []task.Kind{task.KindCancelled, task.KindRemoved, task.KindEdited,
		task.KindMoved} {
		if got := c.acts(ids[i], kind); got.Was != task.Blocked || got.Changed != (i < 3) {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	c.waitRows(2, 0, 0, 0, 2)
	c.counts(task.Counts{Blocked: 2, Cancelled: 1})
	c.sends(store.Signal{To: goAt(ids[0])}, store.Signalled{Found: true, Final: true})
	c.sends(store.Signal{To: goAt(ids[1])}, store.Signalled{})
	c.sends(store.Signal{To: goAt(task.ID{Batch: 7})}, store.Signalled{})
	for _, id := range ids[2:] {
		c.sends(store.Signal{To: goAt(id)}, store.Signalled{Found: true, Delivered: true})
	}
	c.waitRows(0, 0, 2, 0, 0)
	c.counts(task.Counts{Ready: 2, Cancelled: 1})
	if got := c.acts(ids[0], task.KindReplayed); !got.Changed {
		t.Errorf("replay: %+v", got)
	}
	for _, sp := range c.takesAll() {
		for _, l := range sp.Tasks {
			if woken := l.N > 0; (l.Woken != nil) != woken {
				t.Errorf("task %d is woken by %+v", l.N, l.Woken)
			}
		}
	}
}

// One signal with a key ends the oldest wait for it; the next one is a signal of its own once that
// is over.
func TestSignalWithAKeyEndsOneWait(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, fresh(t, clock, Config{NoNotify: true}))
	keep := limits.DefaultKeep.Microseconds()
	sig := store.Signal{To: goBy("a b☃"), Keep: keep}
	c.sends(sig, store.Signalled{Found: true})
	c.sends(sig, store.Signalled{Found: true, Repeated: true})
	c.waitRows(0, 1, 0, 0, 0)
	ids := c.blocked(3, forKey("a b☃"))
	if l := c.looks(store.LookRequest{Addresses: goKey("a b☃")}); l.Ended != 1 || l.More {
		t.Errorf("a look: %+v", l)
	}
	c.waitRows(2, 0, 1, 0, 2)
	c.sends(sig, store.Signalled{Found: true, Repeated: true, Delivered: true})
	if v := must(c.Task(t.Context(), ids[0]))(t); v.State != task.Ready {
		t.Errorf("the oldest is %s", v.State)
	}
	clock.Advance(limits.DefaultKeep)
	c.sends(sig, store.Signalled{Found: true, Delivered: true})
	c.waitRows(1, 0, 1, 0, 1)
	clock.Advance(limits.DefaultKeep)
	if n := c.prune(); n != 1 {
		t.Errorf("pruned %d signals", n)
	}
	c.waitRows(1, 0, 0, 0, 1)
}

// What looks leave because of their limit has somebody look again.
func TestLookWithALimitLeavesAChange(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	ids := c.blocked(1, forItself)
	for i := range 2 {
		c.sends(store.Signal{To: store.Address{Task: ids[0], Name: "other"}, Key: fmt.Sprint(i)},
			store.Signalled{Found: true})
	}
	const n = 5
	for i := range n {
		key := fmt.Sprint(i)
		c.blocked(2, forKey(key))
		runSQL(t, c.conf.DSN, fmt.Sprintf(`INSERT INTO rota.signal
(address, key, sender, at, until) VALUES ('k go %d', '', '', 1, 0)`, i))
	}
	left := int64(n)
	for l := c.looks(store.LookRequest{Limit: 2}); ; l = c.looks(store.LookRequest{Limit: 2}) {
		left -= int64(l.Ended)
		if l.More != (left > 0) || c.count("SELECT count(*) FROM rota.change") != left {
			t.Fatalf("%+v, and %d are left", l, left)
		}
		if !l.More {
			break
		}
	}
	c.waitRows(1+n, 2, n, 0, 1+n)
}

// A task takes so many signals that have ended no wait.
func TestTaskWithManyOpenSignalsTakesNoMore(t *testing.T) {
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	id := c.blocked(1, func(task.ID) store.Await { return store.Await{Address: goBy("none")} })[0]
	runSQL(t, c.conf.DSN, fmt.Sprintf(`INSERT INTO rota.signal
(address, key, batch, n, sender, at, until, used)
SELECT 't %[1]s go', i, %[2]d, 0, '', i, 0, CASE WHEN i > %[3]d THEN 1 END
FROM generate_series(2, %[3]d + 100) i`, id, id.Batch, store.MaxOpenSignals))
	c.sends(store.Signal{To: goAt(id), Key: "1"}, store.Signalled{Found: true})
	c.sends(store.Signal{To: goAt(id), Key: "0"}, store.Signalled{Found: true, Full: true})
	c.sends(store.Signal{To: goAt(id), Key: "1"}, store.Signalled{Found: true, Repeated: true})
}

// Nothing of a task that is deleted stays.
func TestWaitsAndSignalsGoWithTheirTasks(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	for _, linger := range []time.Duration{-1, time.Hour} {
		c := join(t, open(t, Config{NoNotify: true, Now: clock.Now, Linger: linger}))
		must(c.ChangeQueue(t.Context(), "q", func(*task.Queue, bool) error { return nil }))(t)
		ids := c.blocked(3, forItself)
		c.looks(store.LookRequest{})
		for i := range 2 {
			c.sends(store.Signal{To: goAt(ids[2]), Key: fmt.Sprint(i)},
				store.Signalled{Found: true, Delivered: i == 0})
		}
		c.acts(ids[2], task.KindCancelled)
		clock.Advance(40 * 24 * time.Hour)
		c.prune()
		c.waitRows(2, 0, 0, 0, 2)
		c.sends(store.Signal{To: goAt(ids[1]), Key: "k"},
			store.Signalled{Found: true, Delivered: true})
		if err := c.DeleteQueue(t.Context(), "q", true); err != nil {
			t.Fatal(err)
		}
		c.waitRows(0, 0, 0, 0, 0)
	}
}
