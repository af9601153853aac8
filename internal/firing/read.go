package firing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// reads are schedules as the store has them, with what decisions about them need.
type reads struct {
	*core

	mu sync.Mutex
	// faulty are the versions of schedules that this node can't read and has logged; guarded by mu.
	faulty map[string]int64
}

// one reads a schedule; store.ErrNotFound.
func (r *reads) one(ctx context.Context, name string) (*store.Schedule, error) {
	list, err := r.store.Schedules(ctx, store.ScheduleQuery{Names: []string{name}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read schedule %q: %w", name, err)
	case len(list) == 0:
		return nil, fmt.Errorf("schedule %q: %w", name, store.ErrNotFound)
	}
	return &list[0], nil
}

// ancestors reads schedules, whom they follow, and whom those follow, up to the ends of all chains.
// Those that are known already are not read again; nil = none is.
func (r *reads) ancestors(
	ctx context.Context, names []string, known map[string]*store.Schedule,
) (map[string]*store.Schedule, error) {
	if known == nil {
		known = map[string]*store.Schedule{}
	}
	unread := func() (list []string) {
		for _, name := range names {
			if known[name] == nil {
				list = append(list, name)
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	for names = unread(); len(names) > 0; names = unread() {
		list, err := r.store.Schedules(ctx, store.ScheduleQuery{Names: names})
		if err != nil {
			return nil, fmt.Errorf("read schedules: %w", err)
		}
		names = nil
		for i := range list {
			known[list[i].Name] = &list[i]
			names = append(names, list[i].Parents()...)
		}
	}
	return known, nil
}

// states reads what decisions about schedules need. A schedule that this node can't read is left
// out.
func (r *reads) states(ctx context.Context, list []*store.Schedule) ([]scheduleState, error) {
	if len(list) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(list))
	var guarded []string
	for _, s := range list {
		names = append(names, s.Name)
		if s.Overlap != task.OverlapAllow {
			guarded = append(guarded, s.Name)
		}
	}
	followers, err := r.followers(ctx, names)
	if err != nil {
		return nil, err
	}
	open, err := r.open(ctx, guarded)
	if err != nil {
		return nil, err
	}
	states := make([]scheduleState, 0, len(list))
	for _, s := range list {
		t, err := r.times.of(s)
		if err != nil {
			r.unreadable(s, err)
			continue
		}
		states = append(states, scheduleState{
			Schedule: s, times: t, open: open[s.Name], followed: len(followers[s.Name]) > 0,
		})
	}
	return states, nil
}

// stateOf reads one schedule, and all that a decision about it needs. store.ErrNotFound.
func (r *reads) stateOf(ctx context.Context, name string) (*scheduleState, error) {
	s, err := r.one(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := r.states(ctx, []*store.Schedule{s})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errUnreadable
	}
	return &list[0], nil
}

// errUnreadable: the log says why.
var errUnreadable = errors.New("this node can't tell when it is due")

// unreadable logs, once for each version of a schedule, that this node can't tell when it is due:
// the node is older than the one that accepted the schedule, or lacks its time zone.
func (r *reads) unreadable(s *store.Schedule, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.faulty[s.Name] != s.Version {
		r.faulty[s.Name] = s.Version
		r.conf.Log.Error("this node can't fire a schedule", "schedule", s.Name, "error", err)
	}
}

// followers are the schedules that follow the named ones, by the names that they follow.
func (r *reads) followers(
	ctx context.Context, names []string,
) (map[string][]*store.Schedule, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := r.store.Schedules(ctx, store.ScheduleQuery{Follows: names})
	if err != nil {
		return nil, fmt.Errorf("read followers: %w", err)
	}
	by := map[string][]*store.Schedule{}
	for i := range list {
		for _, parent := range list[i].Parents() {
			by[parent] = append(by[parent], &list[i])
		}
	}
	return by, nil
}

// open are the open fires of schedules, by their names.
func (r *reads) open(ctx context.Context, names []string) (map[string][]store.OpenFire, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := r.store.OpenFires(ctx, store.OpenQuery{Schedules: names})
	if err != nil {
		return nil, fmt.Errorf("read open fires: %w", err)
	}
	by := map[string][]store.OpenFire{}
	for i := range list {
		by[list[i].Schedule] = append(by[list[i].Schedule], list[i])
	}
	return by, nil
}

// defined are the schedules of fires, by name.
func (r *reads) defined(
	ctx context.Context, list []*store.OpenFire,
) (map[string]*scheduleState, error) {
	names := make([]string, 0, len(list))
	for _, o := range list {
		names = append(names, o.Schedule)
	}
	slices.Sort(names)
	return r.named(ctx, slices.Compact(names))
}

// named are schedules by name, as far as they are there and can be read.
func (r *reads) named(ctx context.Context, names []string) (map[string]*scheduleState, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := r.store.Schedules(ctx, store.ScheduleQuery{Names: names})
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	by := make(map[string]*scheduleState, len(list))
	for i := range list {
		s := &list[i]
		t, err := r.times.of(s)
		if err != nil {
			r.unreadable(s, err)
			continue
		}
		by[s.Name] = &scheduleState{Schedule: s, times: t}
	}
	return by, nil
}
