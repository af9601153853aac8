package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// Views answers people at any node, from the rows alone: nobody needs to ask the node that
// supervises a group.
type Views struct {
	cache *ClusterCache
	owner func(group string) string
	think *thoughts

	mu       sync.Mutex
	sketches map[string]*sketch // by group: the last one
}

// sketchFor is how long a sketch is used while nothing changed: what it says of penalties and of
// those that may come back goes by the clock.
const sketchFor = 5 * time.Second

// NewViews makes the views of a node. Owner names the node that supervises a group, "" when none
// does.
func NewViews(cache *ClusterCache, owner func(group string) string) *Views {
	return &Views{cache: cache, owner: owner, think: newThoughts(), sketches: map[string]*sketch{}}
}

// sketch is a group at one moment, with what would be decided about it.
type sketch struct {
	*snapshot
	drawn  time.Time
	census census
	state  place.State

	asking  chan struct{} // of size 1: full while somebody finds out why replicas have no worker
	planned map[replica]store.Reason
	demand  func() (place.Demand, error) // what it asks of its workers
	counts  func() store.GroupView       // how many replicas stand how

	// what was computed from it and its neighbours; nil = nothing yet. Guarded by Views.mu
	shared *sharedBudgets
}

// sketch draws a group as it is now.
func (v *Views) sketch(ctx context.Context, group string) (*sketch, error) {
	if err := v.cache.Look(ctx); err != nil {
		return nil, err
	}
	return v.redraw(ctx, group)
}

// redraw draws a group if it changed since it was drawn last, as far as the cache knows.
func (v *Views) redraw(ctx context.Context, group string) (*sketch, error) {
	now := time.Now()
	l, err := v.cache.Catch(ctx, group, false)
	if err == nil {
		v.mu.Lock()
		old := v.sketches[group]
		v.mu.Unlock()
		if current, _ := v.cache.versionsNow(l, now); old != nil && old.seen == current &&
			now.Sub(old.drawn) < sketchFor {
			return old, nil
		}
	}
	var p *snapshot
	if err == nil {
		p, err = v.cache.draw(ctx, group, now)
	}
	if errors.Is(err, errGroupGone) {
		return nil, fmt.Errorf("group %q: %w", group, store.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	s := &sketch{
		snapshot: p, drawn: now, asking: make(chan struct{}, 1),
		census: p.census(),
	}
	s.state = p.state(&plan{}, s.census)
	s.demand = sync.OnceValues(func() (place.Demand, error) {
		return demandOf(group, s.state, p.policy(p.group.Policy.Moves))
	})
	s.counts = sync.OnceValue(s.count)
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, old := range v.sketches {
		if now.Sub(old.drawn) > forgetAfter {
			delete(v.sketches, name)
		}
	}
	v.sketches[group] = s
	return s, nil
}

// Groups lists all groups, by name.
func (v *Views) Groups(ctx context.Context) ([]store.GroupView, error) {
	if err := v.cache.Look(ctx); err != nil {
		return nil, err
	}
	list := []store.GroupView{}
	for _, names := range v.cache.sharing() {
		views, err := v.views(ctx, names)
		if err != nil {
			return nil, err
		}
		list = append(list, views...)
	}
	slices.SortFunc(list, func(x, y store.GroupView) int { return strings.Compare(x.Name, y.Name) })
	return list, nil
}

// Group is one of them.
func (v *Views) Group(ctx context.Context, name string) (store.GroupView, error) {
	if err := v.cache.Look(ctx); err != nil {
		return store.GroupView{}, err
	}
	for _, names := range v.cache.sharing() {
		if !slices.Contains(names, name) {
			continue
		}
		views, err := v.views(ctx, names)
		if err != nil {
			return store.GroupView{}, err
		}
		for i := range views {
			if views[i].Name == name {
				return views[i], nil
			}
		}
	}
	return store.GroupView{}, fmt.Errorf("group %q: %w", name, store.ErrNotFound)
}

// views are groups that share workers.
func (v *Views) views(ctx context.Context, names []string) ([]store.GroupView, error) {
	with, err := v.redrawAll(ctx, names)
	if err != nil || len(with) == 0 {
		return nil, err
	}
	budgets, err := v.budgets(with)
	if err != nil {
		return nil, err
	}
	list := make([]store.GroupView, len(with))
	for i, s := range with {
		list[i] = s.counts()
		list[i].Supervisor, list[i].Budget = v.owner(s.group.Name), budgets[i]
	}
	return list, nil
}

// count counts a group's replicas, once for each sketch: a list of groups asks for all of them.
// What a worker that is gone ran runs no more, though its rows stand until a supervisor may decide.
func (s *sketch) count() store.GroupView {
	g := store.GroupView{Group: s.group, Wanted: len(s.jobs) * s.group.Replicas}
	for _, a := range s.rows {
		if _, gone := s.census.gone[a.Worker]; gone {
			continue
		}
		switch a.State {
		case task.JobRunning:
			g.Running++
		case task.JobStarting:
			g.Starting++
		case task.JobFailed:
			g.Failed++
		case task.JobMoving:
			g.Moving++
		case task.JobEnding:
			g.Ending++
		}
	}
	for range s.walk(store.PlacementQuery{State: task.JobPending}) {
		g.Pending++
	}
	return g
}

// Jobs lists a group's jobs by name, from behind after on.
func (v *Views) Jobs(ctx context.Context, group, after string, limit int) ([]task.Job, error) {
	s, err := v.sketch(ctx, group)
	if err != nil {
		return nil, err
	}
	from, found := slices.BinarySearchFunc(s.jobs, after, func(j *store.GroupJob, name string) int {
		return strings.Compare(j.Name, name)
	})
	if found {
		from++
	}
	list := make([]task.Job, 0, min(limit, len(s.jobs)-from))
	for _, j := range s.jobs[from:min(from+limit, len(s.jobs))] {
		list = append(list, j.Job)
	}
	return list, nil
}

// Placements lists replicas, by their keys.
func (v *Views) Placements(ctx context.Context, q store.PlacementQuery) ([]store.Placement, error) {
	s, err := v.sketch(ctx, q.Group)
	if err != nil {
		return nil, err
	}
	list := []store.Placement{}
	var why map[replica]store.Reason
	for p := range s.walk(q) {
		if p.State == task.JobPending {
			if why == nil {
				if why, err = v.why(ctx, s); err != nil {
					return nil, err
				}
			}
			p.Reason = cmp.Or(why[replica{p.Job, p.Replica}], unthought)
		}
		if list = append(list, p); len(list) == q.Limit {
			break
		}
	}
	return list, nil
}

// unthought is the reason of replicas of a group that is too large to think about when somebody
// asks.
var unthought = store.Reason{
	Code: "unknown",
	Text: "the group is too large to say why: it waits for a worker, or for the next round",
}

// why says of each replica of a sketch without a worker why it has none. It is found out once, by
// the first who asks and stays.
func (v *Views) why(ctx context.Context, s *sketch) (map[replica]store.Reason, error) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.planned != nil {
		return s.planned, nil
	}
	policy, done, err := v.think.begin(ctx, &s.state, s.policy(s.group.Policy.Moves))
	var large *task.InvalidError
	if errors.As(err, &large) { // then nobody can say
		s.planned = map[replica]store.Reason{}
		return s.planned, nil
	}
	if err != nil {
		return nil, err
	}
	defer done()
	s.planned, err = s.waiting(v.owner(s.group.Name), policy)
	return s.planned, err
}

// waiting says of each replica without a worker why it has none.
func (s *sketch) waiting(owner string, policy place.Policy) (map[replica]store.Reason, error) {
	why := map[replica]store.Reason{}
	all := func(code, text string) {
		for p := range s.walk(store.PlacementQuery{State: task.JobPending}) {
			why[replica{p.Job, p.Replica}] = store.Reason{Code: code, Text: text}
		}
	}
	switch {
	case s.group.Paused:
		all("paused", "the group is paused")
		return why, nil
	case owner == "":
		all("no-supervisor", "no node supervises the group at present")
	default:
		all("next-round", "it is placed with one of the next rounds")
	}
	plan, err := place.Compute(divided(s.state), policy)
	if err != nil {
		return nil, fmt.Errorf("plan group %q: %w", s.group.Name, err)
	}
	for _, p := range plan.Pending {
		why[replica{p.Job, p.Replica}] = reasonOf(p.Reason)
	}
	if owner != "" {
		for _, p := range plan.Start {
			why[replica{p.Job, p.Replica}] = store.Reason{
				Code: "next-round",
				Text: fmt.Sprintf("it starts on %s with the next round", p.Worker),
			}
		}
	}
	return why, nil
}

func reasonOf(r place.Reason) store.Reason {
	return store.Reason{Code: string(r.Code), Text: r.String()}
}
