package firing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	wrong := []error{err}
	deaths := map[store.FireKey]*store.OpenFire{}
	for _, o := range ended {
		if defined[o.Schedule].stops(o) {
			deaths[store.FireKey{Schedule: o.Schedule, At: o.At}] = o
		}
	}
	ends = slices.DeleteFunc(ends, func(e store.FireEnd) bool {
		if e.Ended == 0 {
			return false
		}
		o := deaths[store.FireKey{Schedule: e.Schedule, At: e.At}]
		if o != nil && !late[e.Schedule] {
			wrong = append(wrong, f.stop(ctx, defined[e.Schedule], o, e))
		}
		return late[e.Schedule] || o != nil
	})
	return errors.Join(append(wrong, f.end(ctx, ends))...)
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
			v.add(s, p, s.delayed(p.Fires, now))
		}
	}
	_, err = f.sendAll(ctx, v)
	return err
}

// next are the fires whose turn it is.
func (s *scheduleState) next() store.FirePart {
	p := store.FirePart{Schedule: s.Name, Version: s.Version, Over: true}
	runs := s.queue().running
	free := runs
	least := int32(0) // of how many tasks, that begin meanwhile, each of them leaves room for
	for i := range s.open {
		o := &s.open[i]
		if o.Outcome != task.FireQueued {
			continue
		}
		if free >= int(o.Limit) {
			break // nobody overtakes it
		}
		// others may fire meanwhile: none of these is one too many then
		spare := o.Limit - int32(free)
		if len(p.Fires) == 0 || spare < least {
			least = spare
		}
		free++
		f := o.Fire
		f.Outcome, f.Reason, f.Watch = task.FireFired, "", true
		p.Fires = append(p.Fires, f)
	}
	if n := len(p.Fires); n > 0 {
		p.Most = int32(runs+n) + least - 1
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
