package api

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// groupless is a node that looks after no groups: there are none.
type groupless struct{}

var errGroupless = fmt.Errorf("this node looks after no groups: %w", rows.ErrNotFound)

func (groupless) ChangeGroup(context.Context, string, rows.Change[task.Group]) (rows.Changed[task.Group], error) {
	return rows.Changed[task.Group]{}, errGroupless
}

func (groupless) Groups(context.Context) ([]rows.GroupView, error) { return nil, nil }

func (groupless) Group(context.Context, string) (rows.GroupView, error) {
	return rows.GroupView{}, errGroupless
}

func (groupless) DeleteGroup(context.Context, string, bool) error { return errGroupless }

func (groupless) AskGroup(context.Context, string, bool, bool) error { return errGroupless }

func (groupless) ChangeJobs(context.Context, rows.JobChange) (rows.JobsChanged, error) {
	return rows.JobsChanged{}, errGroupless
}

func (groupless) Jobs(context.Context, string, string, int) ([]task.Job, error) {
	return nil, errGroupless
}

func (groupless) AppendJobLog(context.Context, string, string, []task.LogLine) error {
	return errGroupless
}

func (groupless) JobLog(context.Context, string, string, int64, int) (rows.LogPage, error) {
	return rows.LogPage{}, errGroupless
}

func (groupless) Placements(context.Context, rows.PlacementQuery) ([]rows.Placement, error) {
	return nil, errGroupless
}

func (groupless) Explain(context.Context, string, string) (rows.Explanation, error) {
	return rows.Explanation{}, errGroupless
}

func (groupless) Plan(context.Context, string, rows.WhatIf) (rows.Planned, error) {
	return rows.Planned{}, errGroupless
}

func (groupless) DrainEffect(context.Context, string) (string, error) { return "", nil }
