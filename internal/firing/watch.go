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

// watcher looks what became of the tasks of fires, and lets happen what follows. One look at a time
// is made.
type watcher struct {
	*core
	claims    *claims
	reads     *reads
	writes    *writes
	checker   *checker
	edits     *edits
	followers *followers

	// Owned by the look.
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
func (w *watcher) Watch(ctx context.Context, now time.Time) error {
	waiting := map[string]bool{}
	var wrong []error // the others are not to wait for those
	for range watchPages {
		list, err := w.store.OpenFires(ctx, store.OpenQuery{After: w.after, Limit: page})
		if err != nil {
			return errors.Join(append(wrong, fmt.Errorf("look what became of fires: %w", err))...)
		}
		mine := make([]*store.OpenFire, 0, len(list))
		for i := range list {
			if o := &list[i]; w.claims.owns(o.Schedule) {
				mine = append(mine, o)
				if o.Outcome == task.FireQueued {
					waiting[o.Schedule] = true
				}
			}
		}
		if err := w.look(ctx, mine, now.UnixMicro()); err != nil {
			wrong = append(wrong, err)
		}
		if len(list) < page {
			w.after = store.FireKey{}
			break
		}
		last := &list[len(list)-1]
		w.after = store.FireKey{Schedule: last.Schedule, At: last.At}
	}
	err := w.promote(ctx, slices.Sorted(maps.Keys(waiting)), now.UnixMicro())
	return errors.Join(append(wrong, err)...)
}

// look does what follows from the states of the tasks of open fires.
func (w *watcher) look(ctx context.Context, list []*store.OpenFire, now int64) error {
	if len(list) == 0 {
		return nil
	}
	defined, err := w.reads.defined(ctx, list)
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
		v := s.followUp(o, now, w.notified[key])
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
		if _, err := w.store.Append(ctx, events); err != nil {
			return fmt.Errorf("append events of fires: %w", err)
		}
		w.conf.EventsAdded()
	}
	w.remember(known)
	late, err := w.followers.follow(ctx, ended, defined, now)
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
			wrong = append(wrong, w.stop(ctx, defined[e.Schedule], o, e))
		}
		return late[e.Schedule] || o != nil
	})
	return errors.Join(append(wrong, w.end(ctx, ends))...)
}

// remember keeps which events of open fires were appended.
func (w *watcher) remember(list map[store.FireKey]notified) {
	if len(w.notified)+len(list) > maxNotified {
		clear(w.notified)
	}
	for key, what := range list {
		if what != (notified{}) {
			w.notified[key] = what
		}
	}
}

// promote fires what waits for earlier tasks, as far as those are final, in order.
func (w *watcher) promote(ctx context.Context, names []string, now int64) error {
	defined, err := w.reads.named(ctx, names)
	if err != nil {
		return err
	}
	open, err := w.reads.open(ctx, names)
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
	_, err = w.writes.sendAll(ctx, v)
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

// end writes down what became of tasks: no watcher looks at those that are final again.
func (w *watcher) end(ctx context.Context, ends []store.FireEnd) error {
	if len(ends) == 0 {
		return nil
	}
	if _, err := w.store.Fire(ctx, store.Firing{Node: w.conf.Node, Ends: ends}); err != nil {
		return fmt.Errorf("close fires: %w", err)
	}
	for _, e := range ends {
		if e.Ended != 0 {
			delete(w.notified, store.FireKey{Schedule: e.Schedule, At: e.At})
		}
	}
	return nil
}
