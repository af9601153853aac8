package model

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// jobTables are the model's groups and the seats of the workers that serve them.
type jobTables struct {
	groups map[string]*jobGroup
	// the greatest version of any group that is gone: one that comes under its name begins after it
	past   int64
	seats  map[string]*store.Seat
	seated int64 // the version of all seats: see store.Seats
}

// jobGroup is a group with its jobs and assignments.
type jobGroup struct {
	store.Group
	// the greatest version of a tombstone that was purged; at first the version at which it was
	// made
	horizon int64
	jobs    map[string]*groupJob
	places  map[site]*store.Assignment
}

type groupJob struct {
	store.GroupJob
	since int64 // it was removed
	log   taskLog
}

// site is where at most one replica of a job is.
type site struct{ job, worker string }

// edit is what one transaction changes in a group. Everything that it touched gets the group's next
// version.
type edit struct {
	*jobGroup
	now     int64
	floor   int64 // the next version is greater
	touched []*store.Assignment
	made    []*store.Assignment // of those: the version is their token
	listed  []*groupJob
	row     bool // the group's own row changed
}

func (m *Model) edit(group string, now int64) (*edit, error) {
	g := m.jobs.groups[group]
	if g == nil {
		return nil, fmt.Errorf("group %q: %w", group, store.ErrNotFound)
	}
	return &edit{jobGroup: g, now: now}, nil
}

// end gives what was touched its version, if anything was.
func (e *edit) end() int64 {
	if e.row || len(e.touched)+len(e.listed) > 0 {
		e.Version = max(e.Version, e.floor) + 1
	}
	for _, a := range e.touched {
		a.Version = e.Version
	}
	for _, a := range e.made {
		a.Token = e.Version
	}
	for _, j := range e.listed {
		j.Version = e.Version
	}
	return e.Version
}

// claimed tells whether a claim stands.
func (m *Model) claimed(claim store.Lease, now int64) bool {
	l, ok := m.leases[claim.Name]
	return ok && l.Holder == claim.Holder && l.Token == claim.Token && m.until(l) > now
}

// ChangeGroup implements [contract.Groups].
func (m *Model) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Changed[task.Group]{}, err
	}
	defer m.mu.Unlock()
	g, t := limits.DefaultGroup(name), &m.jobs
	stands := t.groups[name] != nil
	if stands {
		g = cloneGroup(t.groups[name].Group.Group)
	}
	if err := change(&g, stands); err != nil {
		return store.Changed[task.Group]{}, fmt.Errorf("change group %q: %w", name, err)
	}
	if !stands {
		t.groups[name] = &jobGroup{
			Group: store.Group{Version: t.past, Since: now}, horizon: t.past + 1,
			jobs: map[string]*groupJob{}, places: map[site]*store.Assignment{},
		}
	}
	g.Name = name
	e, err := m.edit(name, now)
	if err == nil {
		e.Group.Group = cloneGroup(g)
		e.row = true
		e.end()
	}
	return store.Changed[task.Group]{Is: g, Created: !stands}, err
}

func cloneGroup(g task.Group) task.Group {
	g.Selector, g.Source.Command = maps.Clone(g.Selector), slices.Clone(g.Source.Command)
	return g
}

// Groups implements [contract.Groups].
func (m *Model) Groups(ctx context.Context) ([]store.Group, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.listGroups(), nil
}

func (m *Model) listGroups() (list []store.Group) {
	for _, name := range slices.Sorted(maps.Keys(m.jobs.groups)) {
		g := m.jobs.groups[name].Group
		g.Group, g.Jobs = cloneGroup(g.Group), m.jobs.groups[name].wanted()
		list = append(list, g)
	}
	return list
}

// wanted counts the jobs that are not gone.
func (g *jobGroup) wanted() (n int64) {
	for _, j := range g.jobs {
		if !j.Gone {
			n++
		}
	}
	return n
}

// DeleteGroup implements [contract.Groups].
func (m *Model) DeleteGroup(ctx context.Context, name string, force bool) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	e, err := m.edit(name, now)
	if err != nil {
		return err
	}
	if n := e.wanted(); n > 0 && !force {
		return fmt.Errorf("delete group %q: %w", name, &store.InUse{Count: n, Noun: "job"})
	}
	for _, a := range e.places {
		m.over(e, a)
	}
	m.jobs.past = max(m.jobs.past, e.Version)
	m.jobs.seated++
	delete(m.jobs.groups, name)
	return nil
}

// AskGroup implements [contract.Groups].
func (m *Model) AskGroup(ctx context.Context, name string, refresh, rebalance bool) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	e, err := m.edit(name, now)
	if err != nil {
		return err
	}
	if refresh {
		e.Refresh++
	}
	if rebalance {
		e.Rebalance++
	}
	e.row = refresh || rebalance
	e.end()
	return nil
}

// NoteSource implements [contract.Groups].
func (m *Model) NoteSource(
	ctx context.Context, group string, claim store.Lease, read store.SourceRead,
) error {
	_, err := m.ChangeJobs(ctx, store.JobChange{Group: group, Claim: claim, Read: &read})
	return err
}

// ChangeJobs implements [contract.Groups].
func (m *Model) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.JobsChanged{}, err
	}
	defer m.mu.Unlock()
	e, err := m.edit(c.Group, now)
	if err != nil {
		return store.JobsChanged{}, err
	}
	if err := c.Refusal(&e.Source); err != nil {
		return store.JobsChanged{}, fmt.Errorf("group %q: %w", c.Group, err)
	}
	if c.Claim.Name != "" && !m.claimed(c.Claim, now) {
		return store.JobsChanged{},
			fmt.Errorf("group %q is not looked after by %q: %w", c.Group, c.Claim.Holder,
				store.ErrConflict)
	}
	put := map[string]bool{}
	for _, j := range c.Put {
		put[j.Name] = true
	}
	gone := c.Remove
	if c.Whole {
		gone = slices.DeleteFunc(slices.Collect(maps.Keys(e.jobs)), func(name string) bool {
			return put[name]
		})
	}
	left := e.wanted()
	for _, name := range gone {
		if e.has(name) {
			left--
		}
	}
	for name := range put {
		if !e.has(name) {
			left++
		}
	}
	if left > limits.MaxJobs {
		return store.JobsChanged{},
			fmt.Errorf("group %q would have %d jobs: %w", c.Group, left, store.ErrConflict)
	}
	var answer store.JobsChanged
	for _, name := range gone {
		answer.Removed += e.remove(name)
	}
	for _, j := range c.Put {
		added := e.put(j)
		answer.Added += added
		answer.Kept += 1 - added
	}
	if c.Read != nil {
		e.Read, e.row = *c.Read, true
	}
	answer.Version = e.end()
	return answer, nil
}

func (e *edit) has(name string) bool {
	j := e.jobs[name]
	return j != nil && !j.Gone
}

// remove makes a job a tombstone, and says how many it removed.
func (e *edit) remove(name string) int {
	if !e.has(name) {
		return 0
	}
	j := e.jobs[name]
	j.Gone, j.since = true, e.now
	e.listed = append(e.listed, j)
	return 1
}

// put adds or changes a job, and says how many it added.
func (e *edit) put(job task.Job) (added int) {
	old := e.jobs[job.Name]
	switch {
	case old == nil:
		old = &groupJob{}
		e.jobs[job.Name] = old
		added = 1
	case old.Gone:
		added = 1
	case old.Load == job.Load && bytes.Equal(old.Spec, job.Spec):
		return 0
	}
	job.Spec = bytes.Clone(job.Spec)
	old.GroupJob, old.since = store.GroupJob{Job: job}, 0
	e.listed = append(e.listed, old)
	return added
}

// Changes implements [contract.Assignments].
func (m *Model) Changes(ctx context.Context, group string, after int64) (store.Changes, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Changes{}, err
	}
	defer m.mu.Unlock()
	g := m.jobs.groups[group]
	if g == nil {
		return store.Changes{}, fmt.Errorf("group %q: %w", group, store.ErrNotFound)
	}
	c := store.Changes{
		Now: now, Version: g.Version, Whole: after == 0 || after < g.horizon || after > g.Version,
	}
	for _, j := range g.jobs {
		if !c.Whole && j.Version > after || c.Whole && !j.Gone {
			row := j.GroupJob
			row.Spec = bytes.Clone(row.Spec)
			c.Jobs = append(c.Jobs, row)
		}
	}
	for _, a := range g.places {
		if !c.Whole && a.Version > after || c.Whole &&
			(a.State != store.Ended || a.Failed > now-limits.MaxPenalty.Microseconds()) {
			c.Assignments = append(c.Assignments, *a)
		}
	}
	return c, nil
}

// AppendJobLog implements [contract.JobTexts].
func (m *Model) AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	l, err := m.jobLog(group, job)
	if err == nil {
		l.append(lines)
	}
	return err
}

// JobLog implements [contract.JobTexts].
func (m *Model) JobLog(
	ctx context.Context, group, job string, from int64, limit int,
) (store.LogPage, error) {
	if _, err := m.begin(ctx); err != nil {
		return store.LogPage{}, err
	}
	defer m.mu.Unlock()
	l, err := m.jobLog(group, job)
	if err != nil {
		return store.LogPage{}, err
	}
	return l.page(from, limit), nil
}

// jobLog is the log of a job, also of one that is a tombstone.
func (m *Model) jobLog(group, job string) (*taskLog, error) {
	if g := m.jobs.groups[group]; g != nil && g.jobs[job] != nil {
		return &g.jobs[job].log, nil
	}
	return nil, fmt.Errorf("job %q of group %q: %w", job, group, store.ErrNotFound)
}

// pruneJobs purges tombstones, and seats that nobody sits in.
func (m *Model) pruneJobs(now int64, limit int) (pruned int) {
	old := func(since int64) bool {
		return pruned < limit && since+store.EndedKept.Microseconds() <= now
	}
	for _, g := range m.jobs.groups {
		for name, j := range g.jobs {
			if j.Gone && old(j.since) {
				delete(g.jobs, name)
				g.horizon = max(g.horizon, j.Version)
				pruned++
			}
		}
		for at, a := range g.places {
			if a.State == store.Ended && old(a.Since) {
				delete(g.places, at)
				g.horizon = max(g.horizon, a.Version)
				pruned++
			}
		}
	}
	before := len(m.jobs.seats)
	maps.DeleteFunc(m.jobs.seats, func(_ string, s *store.Seat) bool {
		idle := s.State != store.SeatTaken && s.Used == 0 &&
			s.Since+store.SeatsKept.Microseconds() <= now && pruned < limit
		if idle {
			pruned++
		}
		return idle
	})
	if len(m.jobs.seats) < before {
		m.jobs.seated++
	}
	return pruned
}

// maxToken bounds the tokens that are adopted: versions, which grow past them, must not overflow.
const maxToken = math.MaxInt64 / 2
