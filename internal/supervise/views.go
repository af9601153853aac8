package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// Views answers people at any node, from the rows alone: nobody needs to ask the node that supervises a group.
type Views struct {
	board *Board
	owner func(group string) string

	mu       sync.Mutex
	sketches map[string]*sketch // by group: the last one
}

// sketchFor is how long a sketch is used while nothing changed: what it says of penalties and of those that may come back goes by the clock.
const sketchFor = 5 * time.Second

// NewViews makes the views of a node. Owner names the node that supervises a group, "" when none does.
func NewViews(board *Board, owner func(group string) string) *Views {
	return &Views{board: board, owner: owner, sketches: map[string]*sketch{}}
}

// sketch is a group at one moment, with what would be decided about it.
type sketch struct {
	*picture
	drawn  time.Time
	census census
	state  place.State

	planned func() (map[replica]rows.Reason, error) // why replicas have no worker
	budget  func() (rows.JobBudget, error)
}

// sketch draws a group as it is now.
func (v *Views) sketch(ctx context.Context, group string) (*sketch, error) {
	if err := v.board.Look(ctx); err != nil {
		return nil, err
	}
	return v.redraw(ctx, group)
}

// redraw draws a group if it changed since it was drawn last, as far as the board knows.
func (v *Views) redraw(ctx context.Context, group string) (*sketch, error) {
	now := time.Now()
	l, err := v.board.Catch(ctx, group, false)
	if err == nil {
		v.mu.Lock()
		old := v.sketches[group]
		v.mu.Unlock()
		if sight, _ := v.board.sight(l, now); old != nil && old.seen == sight && now.Sub(old.drawn) < sketchFor {
			return old, nil
		}
	}
	var p *picture
	if err == nil {
		p, err = v.board.draw(ctx, group, now)
	}
	if errors.Is(err, errGroupGone) {
		return nil, fmt.Errorf("group %q: %w", group, rows.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	s := &sketch{picture: p, drawn: now, census: p.census(task.DefaultSilence)}
	s.state = p.state(&intent{}, s.census)
	s.planned = sync.OnceValues(func() (map[replica]rows.Reason, error) { return s.waiting(v.owner(group)) })
	s.budget = sync.OnceValues(func() (rows.JobBudget, error) { return budgetOf(s.state, p.policy(p.group.Policy.Moves)) })
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
func (v *Views) Groups(ctx context.Context) ([]rows.GroupView, error) {
	if err := v.board.Look(ctx); err != nil {
		return nil, err
	}
	names, err := v.board.Names(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]rows.GroupView, 0, len(names))
	for _, name := range names {
		s, err := v.redraw(ctx, name)
		if errors.Is(err, rows.ErrNotFound) { // deleted in between
			continue
		}
		if err != nil {
			return nil, err
		}
		view, err := s.view(v.owner(name))
		if err != nil {
			return nil, err
		}
		list = append(list, view)
	}
	return list, nil
}

// Group is one of them.
func (v *Views) Group(ctx context.Context, name string) (rows.GroupView, error) {
	s, err := v.sketch(ctx, name)
	if err != nil {
		return rows.GroupView{}, err
	}
	return s.view(v.owner(name))
}

// view counts a group's replicas.
func (s *sketch) view(owner string) (rows.GroupView, error) {
	g := rows.GroupView{Group: s.group, Wanted: len(s.jobs) * s.group.Replicas, Supervisor: owner}
	for _, a := range s.rows {
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
	for range s.walk(rows.PlacementQuery{State: task.JobPending}) {
		g.Pending++
	}
	var err error
	g.Budget, err = s.budget()
	return g, err
}

// Jobs lists a group's jobs by name, from behind after on.
func (v *Views) Jobs(ctx context.Context, group, after string, limit int) ([]task.Job, error) {
	s, err := v.sketch(ctx, group)
	if err != nil {
		return nil, err
	}
	from, found := slices.BinarySearchFunc(s.jobs, after, func(j *rows.GroupJob, name string) int { return strings.Compare(j.Name, name) })
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
func (v *Views) Placements(ctx context.Context, q rows.PlacementQuery) ([]rows.Placement, error) {
	s, err := v.sketch(ctx, q.Group)
	if err != nil {
		return nil, err
	}
	list := []rows.Placement{}
	for p := range s.walk(q) {
		if p.State == task.JobPending {
			why, err := s.planned()
			if err != nil {
				return nil, err
			}
			p.Reason = why[replica{p.Job, p.Replica}]
		}
		if list = append(list, p); len(list) == q.Limit {
			break
		}
	}
	return list, nil
}

// waiting says of each replica without a worker why it has none.
func (s *sketch) waiting(owner string) (map[replica]rows.Reason, error) {
	why := map[replica]rows.Reason{}
	all := func(code, text string) {
		for p := range s.walk(rows.PlacementQuery{State: task.JobPending}) {
			why[replica{p.Job, p.Replica}] = rows.Reason{Code: code, Text: text}
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
	plan, err := place.Compute(s.state, s.policy(s.group.Policy.Moves))
	if err != nil {
		return nil, fmt.Errorf("plan group %q: %w", s.group.Name, err)
	}
	for _, p := range plan.Pending {
		why[replica{p.Job, p.Replica}] = reasonOf(p.Reason)
	}
	if owner != "" {
		for _, p := range plan.Start {
			why[replica{p.Job, p.Replica}] = rows.Reason{Code: "next-round", Text: fmt.Sprintf("it starts on %s with the next round", p.Worker)}
		}
	}
	return why, nil
}

func reasonOf(r place.Reason) rows.Reason { return rows.Reason{Code: string(r.Code), Text: r.String()} }

// budgetOf is how many workers a group can lose.
func budgetOf(s place.State, p place.Policy) (rows.JobBudget, error) {
	b, err := place.FaultBudget(s, p)
	if err != nil {
		return rows.JobBudget{}, err
	}
	out := rows.JobBudget{Workers: max(b.Workers, 0), Exact: b.Workers == b.AtMost}
	out.Weakest = b.Weakest[:min(out.Workers+1, len(b.Weakest))]
	switch names := strings.Join(out.Weakest, ", "); {
	case len(s.Jobs) == 0:
		out.Text = "there are no jobs"
	case b.Broken():
		out.Text = fmt.Sprintf("not even the workers that there are have room for all: at least %s no place", count(b.Short, "replica has", "replicas have"))
	case len(out.Weakest) <= out.Workers:
		out.Text = "all workers can be spared: nothing has to run"
	case out.Workers == 0 && out.Exact:
		out.Text = fmt.Sprintf("no worker can be spared: without %s at least %s no place", names, count(b.Short, "replica has", "replicas have"))
	case out.Exact && out.Workers == 1:
		out.Text = fmt.Sprintf("any one worker can die with a place left for every replica; %s together cannot", names)
	case out.Exact:
		out.Text = fmt.Sprintf("any %d workers can die at once with a place left for every replica; %s together cannot", out.Workers, names)
	default:
		out.Text = fmt.Sprintf("at least %d and at most %d workers can die at once with a place left for every replica", out.Workers, max(b.AtMost, 0))
	}
	return out, nil
}
