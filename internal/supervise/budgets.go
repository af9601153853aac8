package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
)

// sharedBudgets is how many workers groups can lose that share workers. Each of their sketches
// points to it, and it is good for as long as none of them was replaced.
type sharedBudgets struct {
	with    []*sketch
	budgets []store.JobBudget
}

// budgets computes how many workers groups can lose; the sketches are of all groups that share
// workers, by name.
func (v *Views) budgets(with []*sketch) ([]store.JobBudget, error) {
	v.mu.Lock()
	known := with[0].shared
	v.mu.Unlock()
	if known != nil && slices.Equal(known.with, with) {
		return known.budgets, nil
	}
	demands := make([]place.Demand, len(with))
	for i, s := range with {
		var err error
		if demands[i], err = s.demand(); err != nil {
			return nil, err
		}
	}
	known = &sharedBudgets{with: with, budgets: make([]store.JobBudget, len(with))}
	for i, b := range place.SharedBudgets(demands) {
		known.budgets[i] = budgetOf(&demands[i], &b)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range with {
		s.shared = known
	}
	return known.budgets, nil
}

// Demands is what all groups ask of their workers, which have all their capacity for them: one list
// for those that share workers, be it by way of others.
func (v *Views) Demands(ctx context.Context) ([][]place.Demand, error) {
	if err := v.cache.Look(ctx); err != nil {
		return nil, err
	}
	var lists [][]place.Demand
	for _, names := range v.cache.sharing() {
		with, err := v.redrawAll(ctx, names)
		if err != nil {
			return nil, err
		}
		list := make([]place.Demand, len(with))
		for i, s := range with {
			if list[i], err = s.demand(); err != nil {
				return nil, err
			}
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// neighbours are the sketches of a group and of all groups that share workers with it, by name.
func (v *Views) neighbours(ctx context.Context, group string) ([]*sketch, error) {
	for _, names := range v.cache.sharing() {
		if slices.Contains(names, group) {
			return v.redrawAll(ctx, names)
		}
	}
	return nil, fmt.Errorf("group %q: %w", group, store.ErrNotFound)
}

// redrawAll draws groups, as far as they are still there.
func (v *Views) redrawAll(ctx context.Context, names []string) ([]*sketch, error) {
	list := make([]*sketch, 0, len(names))
	for _, name := range names {
		s, err := v.redraw(ctx, name)
		if errors.Is(err, store.ErrNotFound) { // deleted in between
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// sharing divides the groups into those that have workers in common, be it by way of others. Each
// list is sorted by name, and so are the lists by their first name.
func (b *ClusterCache) sharing() [][]string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	lists := make(map[string][]string, len(b.groups)) // of each group, the list that it is in
	for name := range b.groups {
		lists[name] = []string{name}
	}
	root := make(map[string]string, len(b.groups))
	find := func(name string) string {
		for root[name] != "" {
			name = root[name]
		}
		return name
	}
	for _, s := range b.seats {
		first := ""
		for _, name := range s.Groups {
			if _, there := b.groups[name]; !there {
				continue
			}
			if name = find(name); first == "" {
				first = name
			} else if name != first {
				if len(lists[name]) > len(lists[first]) {
					name, first = first, name
				}
				lists[first] = append(lists[first], lists[name]...)
				delete(lists, name)
				root[name] = first
			}
		}
	}
	all := slices.Collect(maps.Values(lists))
	for _, list := range all {
		slices.Sort(list)
	}
	slices.SortFunc(all, func(x, y []string) int { return strings.Compare(x[0], y[0]) })
	return all
}

// demandOf is what a group asks of its workers, which have all their capacity for the groups that
// share them: what these use of it is part of their own demands.
func demandOf(group string, s place.State, p place.Policy) (place.Demand, error) {
	s.Workers = slices.Clone(s.Workers)
	for i := range s.Workers {
		s.Workers[i].Used = 0
	}
	d, err := place.DemandOf(group, s, p)
	if err != nil {
		return place.Demand{}, fmt.Errorf("compute the budget of group %q: %w", group, err)
	}
	return d, nil
}

// namedMost is how many workers or groups a sentence names.
const namedMost = 20

// named lists names in a sentence.
func named(names []string) string {
	if more := len(names) - namedMost; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedMost], ", "), more)
	}
	return strings.Join(names, ", ")
}

// budgetOf says in words how many workers a group can lose.
func budgetOf(d *place.Demand, b *place.Budget) store.JobBudget {
	out := store.JobBudget{
		Workers: max(b.Workers, 0), Exact: b.Workers == b.AtMost,
		Breaking: b.Breaking(), Groups: b.Groups,
	}
	out.Weakest = b.Weakest[:min(out.Workers+1, len(b.Weakest))]
	of := "" // whose replicas
	if slices.ContainsFunc(b.Groups, func(group string) bool { return group != d.Group }) {
		of = " of " + named(b.Groups)
	}
	short := "at least " + count(b.Short, "replica"+of+" has", "replicas"+of+" have") + " no place"
	left := "a place left for every replica" + of
	switch names := named(out.Weakest); {
	case len(d.Sizes) == 0:
		out.Text = "there are no jobs"
	case b.Broken():
		out.Text = "not even the workers that there are have room for all: " + short
	case out.Exact && out.Workers == 0:
		out.Text = fmt.Sprintf("no worker can be spared: without %s %s", names, short)
	case out.Exact && out.Workers == 1:
		out.Text = fmt.Sprintf("any one worker can die with %s; %s together cannot", left, names)
	case out.Exact:
		out.Text = fmt.Sprintf("any %d workers can die at once with %s; %s together cannot",
			out.Workers, left, names)
	default:
		out.Text = fmt.Sprintf("at least %d and at most %d workers can die at once with %s; %s together cannot",
			out.Workers, max(b.AtMost, 0), left, named(out.Breaking))
	}
	return out
}
