package api

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// groupless is a node that looks after no groups: there are none.
type groupless struct{}

var errGroupless = fmt.Errorf("this node looks after no groups: %w", store.ErrNotFound)

func (groupless) ChangeGroup(
	context.Context, string, store.Change[task.Group],
) (store.Changed[task.Group], error) {
	return store.Changed[task.Group]{}, errGroupless
}

func (groupless) Groups(context.Context) ([]store.GroupView, error) { return nil, nil }

func (groupless) Group(context.Context, string) (store.GroupView, error) {
	return store.GroupView{}, errGroupless
}

func (groupless) DeleteGroup(context.Context, string, bool) error { return errGroupless }

func (groupless) AskGroup(context.Context, string, bool, bool) error { return errGroupless }

func (groupless) ChangeJobs(context.Context, store.JobChange) (store.JobsChanged, error) {
	return store.JobsChanged{}, errGroupless
}

func (groupless) Jobs(context.Context, string, string, int) ([]task.Job, error) {
	return nil, errGroupless
}

func (groupless) AppendJobLog(context.Context, string, string, []task.LogLine) error {
	return errGroupless
}

func (groupless) JobLog(context.Context, string, string, int64, int) (store.LogPage, error) {
	return store.LogPage{}, errGroupless
}

func (groupless) Placements(context.Context, store.PlacementQuery) ([]store.Placement, error) {
	return nil, errGroupless
}

func (groupless) Explain(context.Context, string, string) (store.Explanation, error) {
	return store.Explanation{}, errGroupless
}

func (groupless) Plan(context.Context, string, store.WhatIf) (store.Planned, error) {
	return store.Planned{}, errGroupless
}
