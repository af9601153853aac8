//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// minutely makes n schedules whose cursors stand at the beginning of this minute.
func (c *client) minutely(n int) []store.Schedule {
	c.Helper()
	next := c.today().Truncate(time.Minute).UnixMicro()
	change := store.ScheduleChange{Puts: make([]store.SchedulePut, n)}
	for i := range change.Puts {
		p := &change.Puts[i]
		p.Schedule = limits.DefaultSchedule(fmt.Sprintf("schedule-%06d", i))
		p.Cron, p.Queue, p.Context = "* * * * *", "q", []byte(`{"report":"daily","customer":4711}`)
		p.Since, p.Then = next-1, next
	}
	list, err := c.ChangeSchedules(c.Context(), change)
	if err != nil {
		c.Fatal(err)
	}
	return list
}

// firing fires each of some schedules once, with a task, and moves its cursor by a microsecond, so
// that it can be fired again.
func (c *client) firing(list []store.Schedule) store.Firing {
	b := c.batch(len(list), len(list), false)
	b.Rank, b.Due = list[0].Next, list[0].Next
	f := store.Firing{Node: "a", Batches: []store.Batch{b}}
	for i := range list {
		s := &list[i]
		f.Parts = append(f.Parts,
			store.FirePart{Schedule: s.Name, Version: s.Version, Next: s.Next, Then: s.Next + 1,
				Fires: []store.Fire{
					{At: s.Next, Origin: task.OriginSchedule, Outcome: task.FireFired,
						Task: task.ID{
							Batch: b.ID, N: int32(i),
						}},
				}})
		s.Next++
	}
	return f
}

// refusals counts why parts were refused, and those that were done under "".
func refusals(got store.Fired) map[string]int {
	n := map[string]int{}
	for i := range got.Parts {
		n[got.Parts[i].Refused]++
	}
	return n
}

func TestTripsOfSchedules(t *testing.T) {
	story.Whole(t)
	m := &meter{}
	c := join(t, open(t, Config{NoNotify: true, tracer: m}))
	c.settle(c.submit(c.batch(1, 1, true))) // span ids are reserved
	list := c.minutely(500)
	ctx := t.Context()
	fire := func(f store.Firing, want string) func() error {
		return func() error {
			got, err := c.Fire(ctx, f)
			if n := refusals(got); err == nil && n[want] != len(f.Parts) {
				t.Errorf("refused %v, want %q", n, want)
			}
			return err
		}
	}
	first, second := c.firing(list), c.firing(list)
	change := store.ScheduleChange{
		Puts: []store.SchedulePut{{Schedule: limits.DefaultSchedule("other"), Then: store.Never}},
	}
	for _, call := range []struct {
		what string
		want int64
		do   func() error
	}{
		{"fire 500", 2, fire(first, "")},
		{"fire 500 more", 2, fire(second, "")},
		{"fire 500 that others have fired", 2, fire(first, store.FireMoved)},
		{"open fires", 1, func() error {
			_, err := c.OpenFires(ctx, store.OpenQuery{})
			return err
		}},
		{"due", 1, func() error {
			_, err := c.Due(ctx, store.DueQuery{Until: list[0].Next, Limit: 500})
			return err
		}},
		{"keys", 1, func() error { _, err := c.ScheduleKeys(ctx, 256); return err }},
		{"fires", 1, func() error {
			_, err := c.Fires(ctx, store.FireQuery{Schedule: list[0].Name})
			return err
		}},
		{"schedules with their last fires", 1, func() error {
			_, err := c.Schedules(ctx, store.ScheduleQuery{Last: true, Limit: 100})
			return err
		}},
		{"eras", 1, func() error { _, err := c.Eras(ctx, list[0].Name, 0); return err }},
		{"change", 2, func() error { _, err := c.ChangeSchedules(ctx, change); return err }},
		{"delete", 2, func() error { return c.DeleteSchedule(ctx, "other") }},
	} {
		before := m.trips.Load()
		if err := call.do(); err != nil {
			t.Errorf("%s: %v", call.what, err)
		}
		if got := m.trips.Load() - before; got != call.want {
			t.Errorf("%s: %d trips, want %d", call.what, got, call.want)
		}
	}
	if n := c.count("SELECT count(*) FROM rota.tasks"); n != 1+2*500 {
		t.Errorf("%d tasks, want 1001", n)
	}
}

// Who waits for another's firing sees what that did.
func TestFiringThatWaitsForAnotherFindsTheCursorMoved(t *testing.T) {
	o := meanwhile(t)
	f := o.firing(o.minutely(1))
	o.do("UPDATE rota.schedule SET next = next + 1")
	got := make(chan store.Fired, 1)
	go func() { got <- must(o.Fire(t.Context(), f))(t) }()
	o.awaitLock(t)
	o.commits()
	if got := (<-got).Parts[0]; got.Refused != store.FireMoved {
		t.Errorf("got %+v: another had fired it by then", got)
	}
	if n := o.count("SELECT count(*) FROM rota.fire") + o.count(
		"SELECT count(*) FROM rota.tasks",
	); n != 0 {
		t.Errorf("%d rows of what was refused", n)
	}
}

// A due time is handled by what the schedule was, or by what it is, whichever is committed first.
func TestChangeThatWaitsForAFiringIsRefused(t *testing.T) {
	o := meanwhile(t)
	s := o.minutely(1)[0]
	o.do("UPDATE rota.schedule SET next = next + 1")
	put := store.SchedulePut{
		Schedule: s.Schedule, Version: s.Version, Next: s.Next, Since: s.Next - 1, Then: s.Next + 5,
	}
	put.Paused = true
	got := make(chan error, 1)
	go func() {
		_, err := o.ChangeSchedules(t.Context(), store.ScheduleChange{
			Puts: []store.SchedulePut{put},
		})
		got <- err
	}()
	o.awaitLock(t)
	o.commits()
	if err := <-got; !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v, want %v", err, store.ErrConflict)
	}
	if n := o.count("SELECT count(*) FROM rota.era"); n != 0 {
		t.Errorf("%d eras of a schedule that did not change", n)
	}
}

// Whoever locks schedules does it in the order of their names, also one that makes some follow
// others: it has none that comes behind the one that it waits for.
func TestChangesLockSchedulesAndThoseTheyFollowInOneOrder(t *testing.T) {
	o := meanwhile(t)
	list := o.minutely(2)
	leader, s := &list[0], &list[1]
	put := store.SchedulePut{
		Schedule: s.Schedule, Version: s.Version, Next: s.Next, Since: s.Next - 1,
		Then: math.MaxInt64,
	}
	put.Cron, put.After = "", leader.Name
	o.do("SELECT FROM rota.schedule WHERE name = $1 FOR NO KEY UPDATE", leader.Name)
	changed := make(chan error, 1)
	go func() {
		_, err := o.ChangeSchedules(t.Context(), store.ScheduleChange{
			Puts: []store.SchedulePut{put},
		})
		changed <- err
	}()
	o.awaitLock(t)
	// as a firing of both does
	free := 0
	if err := o.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM rota.schedule
WHERE name = $1 FOR NO KEY UPDATE SKIP LOCKED) s`, s.Name).Scan(&free); err != nil {
		t.Fatal(err)
	}
	o.commits()
	if err := <-changed; err != nil {
		t.Error(err)
	}
	if free != 1 {
		t.Error("who fires both waited for the change, which waited for it")
	}
}

// Two changes that each see no harm do none together.
func TestCalendarsAndSchedulesThatNeedOneAnotherWait(t *testing.T) {
	o := meanwhile(t)
	s := o.minutely(2)[0]
	calendar := task.Calendar{Name: "feasts", Skip: []string{"2026-12-25"}}
	must(o.ChangeSchedules(t.Context(), store.ScheduleChange{Calendar: &calendar}))(t)
	o.do("SELECT FROM rota.schedule_head FOR UPDATE") // a change that gives a schedule the calendar
	o.do("UPDATE rota.schedule SET calendar = 'feasts', version = version + 1 WHERE name = $1",
		s.Name)
	got := make(chan error, 2)
	go func() { got <- o.DeleteCalendar(t.Context(), "feasts") }()
	go func() {
		other := task.Calendar{Name: "feasts", Skip: []string{"2027-01-01"}}
		_, err := o.ChangeSchedules(t.Context(), store.ScheduleChange{Calendar: &other})
		got <- err
	}()
	o.awaitLock(t)
	o.commits()
	for range 2 {
		if err := <-got; !errors.Is(err, store.ErrConflict) {
			t.Errorf("got %v, want %v", err, store.ErrConflict)
		}
	}
}

// A replay opens a fire; what somebody saw before does not close it again.
func TestEndThatWaitsForAReplayIsPassedOver(t *testing.T) {
	o := meanwhile(t)
	f := o.firing(o.minutely(1))
	fire := &f.Parts[0].Fires[0]
	fire.Watch = true
	must(o.Fire(t.Context(), f))(t)
	o.do("UPDATE rota.fire SET seq = 1, tries = 1") // a replay: its step is the second
	done := make(chan store.Fired, 1)
	go func() {
		end := store.FireEnd{
			Schedule: f.Parts[0].Schedule, At: fire.At, Task: fire.Task, Ended: task.KindFail,
			Seq: 0,
		}
		done <- must(o.Fire(t.Context(), store.Firing{Node: "a", Ends: []store.FireEnd{end}}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	<-done
	if open := must(o.OpenFires(t.Context(), store.OpenQuery{}))(t); len(open) != 1 ||
		open[0].Tries != 1 || open[0].Seq != 1 {
		t.Errorf("got %+v, want one open fire, tried again", open)
	}
}

// Many nodes fire the same schedules, in other orders, while people change them and tasks begin
// again: they wait for one another, none fails, and each due time has one task.
func TestEveryDueTimeIsFiredOnceWhoeverFires(t *testing.T) {
	const nodes, schedules, dues = 4, 12, 15
	clock := contract.NewClock()
	c := join(t, fresh(t, clock, Config{}))
	first := c.minutely(schedules)[0].Next
	clock.Advance(time.Minute)
	ctx := t.Context()
	var crowd sync.WaitGroup
	for node := range nodes {
		crowd.Go(func() {
			for {
				list := must(c.Schedules(ctx, store.ScheduleQuery{}))(t)
				list = slices.DeleteFunc(list, func(s store.Schedule) bool {
					return s.Next == first+dues
				})
				if len(list) == 0 {
					return
				}
				if node%2 == 1 {
					slices.Reverse(list)
				}
				f := c.firing(list)
				f.Node = fmt.Sprint(node)
				for i := range f.Parts {
					fire := &f.Parts[i].Fires[0]
					fire.Watch = true
					f.Ends = append(f.Ends, store.FireEnd{
						Schedule: f.Parts[i].Schedule, At: fire.At - 1, Ended: task.KindFail,
					})
				}
				if _, err := c.Fire(ctx, f); err != nil {
					t.Errorf("fire: %v", err)
					return
				}
			}
		})
	}
	crowd.Go(func() {
		for i := range 2 * dues {
			s := must(c.Schedules(ctx,
				store.ScheduleQuery{Names: []string{fmt.Sprintf("schedule-%06d",
					i%schedules)}}))(t)[0]
			put := store.SchedulePut{
				Schedule: s.Schedule, Version: s.Version, Next: s.Next, Since: s.Next - 1,
				Then: s.Next,
			}
			put.Stage = fmt.Sprint(i)
			if _, err := c.ChangeSchedules(
				ctx, store.ScheduleChange{Puts: []store.SchedulePut{put}},
			); err != nil && !errors.Is(err, store.ErrConflict) {
				t.Errorf("change: %v", err)
			}
		}
	})
	crowd.Go(func() {
		for range 2 * dues {
			var actions []store.Action
			for _, o := range must(c.OpenFires(ctx, store.OpenQuery{Limit: 20}))(t) {
				actions = append(actions, store.Action{ID: o.Task, Kind: task.KindReplayed})
			}
			slices.Reverse(actions)
			must(c.Act(ctx, actions))(t)
		}
	})
	crowd.Wait()
	const fired = `SELECT count(*) FROM rota.fire f JOIN rota.tasks t ON t.batch = f.batch
AND t.n = f.n`
	for what, text := range map[string]string{
		"fires": "SELECT count(*) FROM rota.fire", "tasks": "SELECT count(*) FROM rota.tasks",
		"fires with a task": fired,
	} {
		if n := c.count(text); n != schedules*dues {
			t.Errorf("%d %s, want %d", n, what, schedules*dues)
		}
	}
	for _, s := range must(c.Schedules(ctx, store.ScheduleQuery{}))(t) {
		ats := must(c.Fires(ctx, store.FireQuery{Schedule: s.Name}))(t)
		for i := range ats {
			if ats[i].At != s.Next-int64(len(ats)-i) {
				t.Errorf("%s has a fire at %d, its cursor is %d", s.Name, ats[i].At, s.Next)
			}
		}
	}
}

// A schedule that has fired for months is forgotten at once; what it left goes in pieces.
func TestDeletingAScheduleDoesNotWaitForItsFires(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	name := c.minutely(1)[0].Name
	runSQL(t, dsn, `INSERT INTO rota.fire (schedule, at, time, count, room, seq, tries, ended,
watch, origin, outcome, node)
SELECT 1, i, rota.micros(NULL), 1, 0, -1, 0, 0, false, 'schedule', 'skipped', 'a'
FROM generate_series(1, 2 * 500 + 1) i`)
	if err := c.DeleteSchedule(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	c.minutely(1)
	if n := len(must(c.Fires(t.Context(), store.FireQuery{Schedule: name}))(t)); n != 0 {
		t.Errorf("the next one of its name has %d of its fires", n)
	}
	const left = "SELECT count(*) FROM rota.fire"
	if n := c.count(left); n != 1001 {
		t.Errorf("%d fires are left behind, want all 1001: they go with Prune", n)
	}
	eventually(t, func() error {
		if n, err := c.Prune(t.Context(), 10_000); err != nil || n > piece {
			t.Errorf("pruned %d at once, %v", n, err)
		}
		if n := c.count(left); n != 0 {
			return fmt.Errorf("%d fires are left", n)
		}
		return nil
	})
}

func TestOtherNodesHearOfTasksThatWereFired(t *testing.T) {
	dsn := contested.database(t)
	a, b := join(t, open(t, Config{DSN: dsn})), open(t, Config{DSN: dsn})
	heard := hear(t, b)
	must(a.Fire(t.Context(), a.firing(a.minutely(1))))(t)
	want(t, heard, Hint{Queue: "q"})
}

// BenchmarkFire fires 500 of 10,000 schedules at a time.
func BenchmarkFire(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("schedules=%d", n), func(b *testing.B) {
			c := durable(b)
			list := c.minutely(n)
			at := 0
			c.measure(b, 1, 500, func() {
				part := list[at : at+500]
				at = (at + 500) % len(list)
				got, err := c.Fire(b.Context(), c.firing(part))
				if n := refusals(got); err != nil || n[""] != 500 {
					b.Fatalf("refused %v, %v", n, err)
				}
			})
		})
	}
}

// BenchmarkDue looks for what is due among 100,000 schedules, of which none is.
func BenchmarkDue(b *testing.B) {
	c := join(b, open(b, Config{}))
	next := c.minutely(100_000)[0].Next
	for b.Loop() {
		if list, err := c.Due(
			b.Context(), store.DueQuery{Until: next - 1, Limit: 1000},
		); err != nil || len(list) > 0 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkChangeSchedules makes 10,000 schedules, then changes them.
func BenchmarkChangeSchedules(b *testing.B) {
	c := join(b, open(b, Config{}))
	list := c.minutely(10_000)
	for b.Loop() {
		change := store.ScheduleChange{Puts: make([]store.SchedulePut, len(list))}
		for i, s := range list {
			change.Puts[i] = store.SchedulePut{
				Schedule: s.Schedule, Version: s.Version, Next: s.Next, Since: s.Next - 1,
				Then: s.Next,
			}
			change.Puts[i].Stage = fmt.Sprint(s.Version)
		}
		var err error
		if list, err = c.ChangeSchedules(b.Context(), change); err != nil {
			b.Fatal(err)
		}
	}
}
