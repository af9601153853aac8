package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// overseer looks after groups of jobs: the fake, and the stage.
type overseer interface {
	Groups
	Jobs
	Placements
	Drains
}

// overseerOf is e itself when it knows of groups, else a fake.
func overseerOf(e Engine) overseer {
	if k, ok := e.(overseer); ok {
		return k
	}
	return newFake()
}

// What the fake says of groups: one that it reads from a URL, and one with three jobs on three
// workers, in trouble.

func (f *fake) Groups(context.Context) ([]store.GroupView, error) {
	crawl, tails := limits.DefaultGroup("crawl"), limits.DefaultGroup("tails")
	crawl.Source.Kind = task.SourceURL
	crawl.Source.URL = "https://bot:secret@example.com/jobs"
	crawl.Paused = true
	tails.Replicas, tails.Selector = 2, map[string]string{"disk": "fast"}
	at := moment.UnixMicro()
	return []store.GroupView{
		{
			Group: store.Group{
				Group: crawl, Since: at, Refresh: 3, Read: store.SourceRead{
					Time: at, Refresh: 2, Error: "answered 500",
				},
			},
			Budget: store.JobBudget{Exact: true, Text: "There are no jobs."},
		},
		{
			Group: store.Group{
				Group: tails, Since: at, Version: 9, Jobs: 3, Read: store.SourceRead{
					Time: at, Good: at,
				},
			},
			Wanted: 6, Running: 1, Starting: 1, Failed: 1, Pending: 1, Moving: 1, Supervisor: "n1",
			Budget: store.JobBudget{
				Workers: 0, Weakest: []string{"w1"}, Text: "No worker can die.",
			},
		},
	}, f.err
}

func (f *fake) Group(ctx context.Context, name string) (store.GroupView, error) {
	list, err := f.Groups(ctx)
	i := slices.IndexFunc(list, func(v store.GroupView) bool { return v.Name == name })
	if err == nil && i < 0 {
		err = fmt.Errorf("group %q: %w", name, store.ErrNotFound)
	}
	if err != nil {
		return store.GroupView{}, err
	}
	return list[i], nil
}

// named refuses groups that are not there.
func (f *fake) named(group string) error {
	if group != "crawl" && group != "tails" {
		return fmt.Errorf("group %q: %w", group, store.ErrNotFound)
	}
	return nil
}

func (f *fake) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	got := store.Changed[task.Group]{Is: limits.DefaultGroup(name), Created: true}
	if f.named(name) == nil {
		v, err := f.Group(ctx, name)
		if err != nil {
			return got, err
		}
		got = store.Changed[task.Group]{Is: v.Group.Group}
	}
	err := change(&got.Is, !got.Created)
	if err == nil {
		err = f.change("put group %+v", got.Is)
	}
	return got, err
}

func (f *fake) DeleteGroup(_ context.Context, name string, force bool) error {
	if err := f.named(name); err != nil {
		return err
	}
	if name == "tails" && !force {
		return fmt.Errorf("delete group %q: %w", name, &store.InUse{Count: 3, Noun: "job"})
	}
	return f.change("delete group %s", name)
}

func (f *fake) AskGroup(_ context.Context, name string, refresh, rebalance bool) error {
	if err := f.named(name); err != nil {
		return err
	}
	return f.change("ask group %s, refresh %v, rebalance %v", name, refresh, rebalance)
}

func (f *fake) jobList() []task.Job {
	return []task.Job{
		{Name: "access.log", Load: task.Unit},
		{Name: "error.log", Load: 500, Spec: json.RawMessage(odd)}, {Name: "web.log"},
	}
}

func (f *fake) ChangeJobs(_ context.Context, c store.JobChange) (store.JobsChanged, error) {
	if err := f.named(c.Group); err != nil {
		return store.JobsChanged{}, err
	}
	if c.Group == "crawl" {
		return store.JobsChanged{},
			fmt.Errorf("the jobs of group crawl come from a url: %w", store.ErrConflict)
	}
	var changed store.JobsChanged
	for _, known := range f.jobList() {
		switch {
		case slices.ContainsFunc(c.Put, func(j task.Job) bool { return j.Name == known.Name }):
			changed.Kept++
		case c.Whole || slices.Contains(c.Remove, known.Name):
			changed.Removed++
		}
	}
	changed.Added = len(c.Put) - changed.Kept
	if len(c.Remove) > 0 && changed.Removed == 0 {
		return changed, nil
	}
	return changed,
		f.change("change jobs of %s, whole %v, put %v, remove %q", c.Group, c.Whole, c.Put,
			c.Remove)
}

func (f *fake) Jobs(_ context.Context, group, after string, limit int) ([]task.Job, error) {
	if err := f.named(group); err != nil {
		return nil, err
	}
	jobs := slices.DeleteFunc(f.jobList(), func(j task.Job) bool {
		return group != "tails" || j.Name <= after
	})
	return jobs[:min(limit, len(jobs))], f.err
}

// remove removes a job.
func (f *fake) remove(job string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = job
}

func (f *fake) job(group, job string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if group != "tails" || job == f.gone ||
		!slices.ContainsFunc(f.jobList(), func(j task.Job) bool {
			return j.Name == job
		}) {
		return fmt.Errorf("job %q of group %q: %w", job, group, store.ErrNotFound)
	}
	return nil
}

func (f *fake) AppendJobLog(_ context.Context, group, job string, lines []task.LogLine) error {
	if err := f.job(group, job); err != nil {
		return err
	}
	return f.change("log job %s/%s, %d lines from %q on", group, job, len(lines), lines[0].Text)
}

func (f *fake) JobLog(
	ctx context.Context, group, job string, from int64, limit int,
) (store.LogPage, error) {
	if err := f.job(group, job); err != nil {
		return store.LogPage{}, err
	}
	return f.Lines(ctx, idOf(0), from, limit)
}

func (f *fake) Placements(_ context.Context, q store.PlacementQuery) ([]store.Placement, error) {
	if err := f.named(q.Group); err != nil {
		return nil, err
	}
	at := moment.UnixMicro()
	all := []store.Placement{
		{Job: "access.log", Worker: "w1", State: task.JobRunning, Since: at},
		{Job: "access.log", Replica: 1, Worker: "w2", State: task.JobMoving, Since: at},
		{Job: "access.log", Replica: 1, Worker: "w3", State: task.JobStarting, Since: at},
		{Job: "error.log", Worker: "w1", State: task.JobFailed, Since: at, Reason: store.Reason{
			Code: "failed", Text: "no such file",
		}},
		{Job: "error.log", Replica: 1, State: task.JobPending, Reason: store.Reason{
			Code: "no-capacity", Text: "3 workers have no room.",
		}},
	}
	all = slices.DeleteFunc(all, func(p store.Placement) bool {
		return q.Group != "tails" || q.Job != "" && p.Job != q.Job || q.Worker != "" &&
			p.Worker != q.Worker || q.State != "" && p.State != q.State ||
			q.After != (store.PlacementKey{}) && p.Key().Compare(q.After) <= 0
	})
	return all[:min(q.Limit, len(all))], f.err
}

func (f *fake) Explain(ctx context.Context, group, job string) (store.Explanation, error) {
	if err := f.job(group, job); err != nil {
		return store.Explanation{}, err
	}
	replicas, err := f.Placements(ctx, store.PlacementQuery{Group: group, Job: job, Limit: 10})
	e := store.Explanation{
		Group: group, Job: job, Replicas: replicas,
		Changes: []string{"one more worker with room for 1"},
	}
	for i := range 2 {
		e.Candidates = append(e.Candidates, store.Candidate{
			Worker: fmt.Sprintf("w%d", i), Fits: i == 0, Score: .125, Free: 500, Capacity: 4000,
			Reason: store.Reason{Code: "full", Text: "It is full."},
		})
	}
	return e, err
}

func (f *fake) Plan(_ context.Context, group string, what store.WhatIf) (store.Planned, error) {
	if err := f.named(group); err != nil {
		return store.Planned{}, err
	}
	if f.err != nil {
		return store.Planned{}, f.err
	}
	var e task.InvalidError
	for i, name := range what.Remove {
		if f.worker(name) != nil {
			e.Add(fmt.Sprintf("body.remove_workers[%d]", i), "there is no worker %q", name)
		}
	}
	asked := fmt.Sprintf("%+v", what.Add)
	if what.Jobs != nil {
		asked += fmt.Sprintf(" %+v", *what.Jobs)
	}
	return store.Planned{
		Start: []store.Placement{
			{Job: "access.log", Worker: "w3", Reason: store.Reason{Code: "moved", Text: asked}},
		},
		Stop: []store.Placement{
			{Job: "access.log", Worker: "w1", Reason: store.Reason{
				Code: "gone", Text: "w1 is gone.",
			}},
		},
		Pending: []store.Placement{
			{Job: "error.log", Replica: what.Replicas, Reason: store.Reason{
				Code: "no-capacity", Text: "3 workers have no room.",
			}},
		},
		Moves: 1, Rounds: 2, Before: map[string]float64{"w1": 1.5}, Budget: store.JobBudget{
			Exact: true, Text: "No worker can die.",
		},
	}, e.Err()
}

func (f *fake) Drain(_ context.Context, what store.WorkerDrain) (store.DrainPrice, error) {
	if err := f.worker(what.Worker); err != nil || f.err != nil {
		return store.DrainPrice{}, cmp.Or(err, f.err)
	}
	price := store.DrainPrice{}
	if what.Worker == "w1" {
		price = store.DrainPrice{Tasks: 3, Minutes: 0.5, Text: "2 replicas of tails have to move."}
		price.Moves, price.Jobs = 3, 2
	}
	if what.Shed > 50*task.Unit {
		price.Stays, price.Lacks, price.Breaks = 1, 8*task.Unit, []string{"tails"}
	}
	switch {
	case what.DryRun:
		return price, nil
	case price.Stays > 0 && !what.Force:
		return price, fmt.Errorf("1 replica of tails has no other place: %w", store.ErrForcible)
	}
	return price, f.change("drain %s %v within %v", what.Worker, what.Shed, what.Within)
}

// The stage forwards to the fake of the moment.

func (s *stage) Groups(ctx context.Context) ([]store.GroupView, error) {
	return s.now().Groups(ctx)
}

func (s *stage) Group(ctx context.Context, name string) (store.GroupView, error) {
	return s.now().Group(ctx, name)
}

func (s *stage) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	return s.now().ChangeGroup(ctx, name, change)
}

func (s *stage) DeleteGroup(ctx context.Context, name string, force bool) error {
	return s.now().DeleteGroup(ctx, name, force)
}

func (s *stage) AskGroup(ctx context.Context, name string, refresh, rebalance bool) error {
	return s.now().AskGroup(ctx, name, refresh, rebalance)
}

func (s *stage) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	return s.now().ChangeJobs(ctx, c)
}

func (s *stage) Jobs(ctx context.Context, group, after string, limit int) ([]task.Job, error) {
	return s.now().Jobs(ctx, group, after, limit)
}

func (s *stage) AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error {
	return s.now().AppendJobLog(ctx, group, job, lines)
}

func (s *stage) JobLog(
	ctx context.Context, group, job string, from int64, limit int,
) (store.LogPage, error) {
	return s.now().JobLog(ctx, group, job, from, limit)
}

func (s *stage) Placements(ctx context.Context, q store.PlacementQuery) ([]store.Placement, error) {
	return s.now().Placements(ctx, q)
}

func (s *stage) Explain(ctx context.Context, group, job string) (store.Explanation, error) {
	return s.now().Explain(ctx, group, job)
}

func (s *stage) Plan(ctx context.Context, group string, what store.WhatIf) (store.Planned, error) {
	return s.now().Plan(ctx, group, what)
}

func (s *stage) Drain(ctx context.Context, what store.WorkerDrain) (store.DrainPrice, error) {
	return s.now().Drain(ctx, what)
}
