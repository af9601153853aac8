package firing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// watch is what the watcher keeps from look to look.
type watch struct {
	after store.FireKey // where the next look goes on
	// of open fires; an event that is forgotten is appended again, under the same key
	notified map[store.FireKey]notified
}

// Bounds of one look: pages that it reads, and open fires whose events it remembers.
const (
	watchPages  = 8
	maxNotified = 100_000
)

// Watch looks at the open fires of this node's schedules, some thousands at a time. It appends
// their events, fires the schedules that follow them and the due times that wait for them, and
// closes those whose tasks are final. Everything before the closing may be done twice, so a watch
// that was interrupted is simply done again.
func (f *Firer) Watch(ctx context.Context, now time.Time) error {
	waiting := map[string]bool{}
	for range watchPages {
		list, err := f.store.OpenFires(ctx, store.OpenQuery{After: f.watch.after, Limit: page})
		if err != nil {
			return fmt.Errorf("look what became of fires: %w", err)
		}
		mine := make([]*store.OpenFire, 0, len(list))
		for i := range list {
			if o := &list[i]; f.owns(o.Schedule) {
				mine = append(mine, o)
				if o.Outcome == task.FireQueued {
					waiting[o.Schedule] = true
				}
			}
		}
		if err := f.look(ctx, mine, now.UnixMicro()); err != nil {
			return err
		}
		if len(list) < page {
			f.watch.after = store.FireKey{}
			break
		}
		last := &list[len(list)-1]
		f.watch.after = store.FireKey{Schedule: last.Schedule, At: last.At}
	}
	return f.promote(ctx, slices.Sorted(maps.Keys(waiting)), now.UnixMicro())
}

// look does what follows from the states of the tasks of open fires.
func (f *Firer) look(ctx context.Context, list []*store.OpenFire, now int64) error {
	if len(list) == 0 {
		return nil
	}
	defined, err := f.defined(ctx, list)
	if err != nil {
		return err
	}
	var events []store.Event
	var ended []*store.OpenFire
	var ends []store.FireEnd
	known := map[store.FireKey]notified{}
	for _, o := range list {
		s := defined[o.Schedule]
		if s == nil {
			continue // the schedule was deleted meanwhile, or can't be read
		}
		key := store.FireKey{Schedule: o.Schedule, At: o.At}
		v := s.followUp(o, now, f.watch.notified[key])
		events = append(events, v.events...)
		known[key] = v.notified
		if v.end == nil {
			continue
		}
		ends = append(ends, *v.end)
		if o.Outcome == task.FireFired && v.end.Ended != 0 {
			ended = append(ended, o)
		}
	}
	if len(events) > 0 {
		if _, err := f.store.Append(ctx, events); err != nil {
			return fmt.Errorf("append events of fires: %w", err)
		}
		f.conf.EventsAdded()
	}
	f.remember(known)
	late, err := f.follow(ctx, ended, defined, now)
	ends = slices.DeleteFunc(ends, func(e store.FireEnd) bool {
		return e.Ended != 0 && late[e.Schedule]
	})
	return errors.Join(err, f.end(ctx, ends))
}

// remember keeps which events of open fires were appended.
func (f *Firer) remember(list map[store.FireKey]notified) {
	if len(f.watch.notified)+len(list) > maxNotified {
		clear(f.watch.notified)
	}
	for key, what := range list {
		if what != (notified{}) {
			f.watch.notified[key] = what
		}
	}
}

// defined are the schedules of fires, by name.
func (f *Firer) defined(
	ctx context.Context, list []*store.OpenFire,
) (map[string]*scheduleState, error) {
	names := make([]string, 0, len(list))
	for _, o := range list {
		names = append(names, o.Schedule)
	}
	slices.Sort(names)
	return f.named(ctx, slices.Compact(names))
}

func (f *Firer) named(ctx context.Context, names []string) (map[string]*scheduleState, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := f.store.Schedules(ctx, store.ScheduleQuery{Names: names})
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	by := make(map[string]*scheduleState, len(list))
	for i := range list {
		s := &list[i]
		t, err := f.times.of(s)
		if err != nil {
			f.unreadable(s, err)
			continue
		}
		by[s.Name] = &scheduleState{Schedule: s, times: t}
	}
	return by, nil
}

// follow fires what follows fires whose tasks are final. late are those of their schedules of which
// not all was done: it is to be done again.
func (f *Firer) follow(
	ctx context.Context, ended []*store.OpenFire, leaders map[string]*scheduleState, now int64,
) (late map[string]bool, err error) {
	late = map[string]bool{}
	for _, o := range ended {
		late[o.Schedule] = true
	}
	followers, err := f.followers(ctx, slices.Sorted(maps.Keys(late)))
	if err != nil {
		return late, err
	}
	var list []*store.Schedule
	for _, leader := range slices.Sorted(maps.Keys(followers)) {
		list = append(list, followers[leader]...)
	}
	states, err := f.states(ctx, list)
	if err != nil {
		return late, err
	}
	var v fireBatch
	var wrong []error
	leaderOf := map[string]string{}
	undone := map[string]bool{}
	for i := range states {
		s := &states[i]
		leaderOf[s.Name] = s.After
		for _, r := range s.after(ended, leaders[s.After].times) {
			if err := f.cancel(ctx, s, r.cancel); err != nil {
				undone[s.After] = true
				wrong = append(wrong, err)
				continue
			}
			v.add(s, r.part, func(at int64) int64 {
				return now + s.times.jitter(&s.Schedule.Schedule, at)
			})
		}
	}
	done, err := f.sendAll(ctx, v)
	if err != nil {
		return late, errors.Join(append(wrong, err)...)
	}
	for i, part := range done {
		if part.Refused != "" && part.Refused != store.FireGone {
			// the follower was changed meanwhile
			undone[leaderOf[v.parts[i].Schedule]] = true
		}
	}
	return undone, errors.Join(wrong...)
}

// after decides about the due times of the schedule that s follows, whose tasks are final: what
// ended well is fired, also if it did not the first time.
func (s *scheduleState) after(ended []*store.OpenFire, leader *timetable) (list []decision) {
	var well, badly []store.Fire
	for _, o := range ended {
		if o.Schedule != s.After || o.At < s.times.starts || o.At > s.times.ends {
			continue
		}
		f := s.fire(o.At, task.OriginAfter)
		switch {
		case o.Kind != task.KindDone || !o.Found:
			f.Outcome = task.FireSkipped
			f.Reason = fmt.Sprintf("the task of schedule %s for %s %s", s.After, leader.show(o.At),
				fate(o))
			badly = append(badly, f)
			continue
		case s.Paused:
			f.Outcome, f.Reason = task.FireSkipped, "paused"
		}
		well = append(well, f)
	}
	byTime := func(a, b store.Fire) int { return cmp.Compare(a.At, b.At) }
	slices.SortFunc(well, byTime)
	slices.SortFunc(badly, byTime)
	if len(well) > 0 {
		r := s.rule(well)
		r.part.Over = true
		list = append(list, r)
	}
	if len(badly) > 0 {
		list = append(list, s.rule(badly))
	}
	return list
}

// fate says what became of a task that did not end well.
func fate(o *store.OpenFire) string {
	switch {
	case !o.Found:
		return "was removed"
	case o.Kind == task.KindCancelled:
		return "was cancelled"
	case o.Error == "":
		return "is dead: " + o.Kind.String()
	}
	return "is dead: " + strings.ToValidUTF8(o.Error[:min(len(o.Error), 200)], "")
}

// promote fires what waits for earlier tasks, as far as those are final, in order.
func (f *Firer) promote(ctx context.Context, names []string, now int64) error {
	defined, err := f.named(ctx, names)
	if err != nil {
		return err
	}
	open, err := f.open(ctx, names)
	if err != nil {
		return err
	}
	var v fireBatch
	for _, name := range names {
		s := defined[name]
		if s == nil || s.Paused {
			continue
		}
		s.open = open[name]
		if p := s.next(); len(p.Fires) > 0 {
			v.add(s, p, func(int64) int64 { return now })
		}
	}
	_, err = f.sendAll(ctx, v)
	return err
}

// next are the fires whose turn it is.
func (s *scheduleState) next() store.FirePart {
	p := store.FirePart{Schedule: s.Name, Version: s.Version, Over: true}
	free := s.queue().running
	for i := range s.open {
		o := &s.open[i]
		if o.Outcome != task.FireQueued {
			continue
		}
		if free >= int(o.Limit) {
			break // nobody overtakes it
		}
		free++
		f := o.Fire
		f.Outcome, f.Reason, f.Watch = task.FireFired, "", true
		p.Fires = append(p.Fires, f)
	}
	return p
}

// sendAll sends a batch that may be larger than one transaction is to be, and answers for each of
// its parts. A part whose task is refused is skipped, and says so.
func (f *Firer) sendAll(ctx context.Context, v fireBatch) (done []store.FiredPart, err error) {
	for from, to := 0, 0; from < len(v.parts); from = to {
		one := fireBatch{}
		for ; to < len(v.parts) && one.size < fireBatchMax; to++ {
			one.size += len(v.parts[to].Fires)
		}
		one.parts, one.tasks = v.parts[from:to], v.tasks[from:to]
		got, err := f.sendOrSkip(ctx, one)
		if err != nil {
			return nil, err
		}
		done = append(done, got...)
	}
	return done, nil
}

// end writes down what became of tasks: no watcher looks at those that are final again.
func (f *Firer) end(ctx context.Context, ends []store.FireEnd) error {
	if len(ends) == 0 {
		return nil
	}
	if _, err := f.store.Fire(ctx, store.Firing{Node: f.conf.Node, Ends: ends}); err != nil {
		return fmt.Errorf("close fires: %w", err)
	}
	for _, e := range ends {
		if e.Ended != 0 {
			delete(f.watch.notified, store.FireKey{Schedule: e.Schedule, At: e.At})
		}
	}
	return nil
}
