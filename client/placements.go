package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rotahq/rota/task"
)

// Placement is one replica of a job and where it is, or why it is nowhere.
type Placement struct {
	Job     string        `json:"job"`
	Replica int           `json:"replica"` // from 0
	Worker  string        `json:"worker"`  // "" of a pending one
	State   task.JobState `json:"state"`
	Since   *time.Time    `json:"since"`            // of the state; nil of a pending one
	Reason  string        `json:"reason,omitempty"` // a sentence: why it is so
	Code    string        `json:"code,omitempty"`   // the reason for programs, as in no-capacity
}

// PlacementFilter selects replicas. Zero fields select everything.
type PlacementFilter struct {
	Job    string
	Worker string
	State  task.JobState
}

// Assignments lists the replicas of a group's jobs, by job and replica: at most limit (0 =
// 100, at most 1,000) from cursor on ("" = the start). next is the cursor of the following page, ""
// after the last. A replica that moves is there twice. [All] reads all pages.
func (c *Client) Assignments(
	ctx context.Context, group string, f PlacementFilter, cursor string, limit int,
) (replicas []Placement, next string, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"job": f.Job, "worker": f.Worker,
		"state": string(f.State)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var p page[Placement]
	if err := c.get(ctx,
		request{path: groupPath(group) + "/assignments", query: paged(query, cursor, limit)},
		&p); err != nil {
		return nil, "", fmt.Errorf("list assignments of group %q: %w", group, err)
	}
	return p.Items, p.Next, nil
}

// JobExplanation says why a job is where it is or why it waits, and what would change that.
type JobExplanation struct {
	Group      string      `json:"group"`
	Job        string      `json:"job"`
	Replicas   []Placement `json:"replicas"`
	Candidates []Candidate `json:"candidates"` // the best first, at most 100
	Workers    int         `json:"workers"`    // how many candidates there are
	Changes    []string    `json:"changes"`    // what would change it, each by itself
}

// Candidate is a worker as a place for one more replica of a job.
type Candidate struct {
	Worker string `json:"worker"`
	Fits   bool   `json:"fits"`
	// the share of its capacity that is free; of those that fit the greatest gets the next replica
	Score    float64 `json:"score"`
	Free     float64 `json:"free"`
	Capacity float64 `json:"capacity"`
	Reason   string  `json:"reason,omitempty"`
	Code     string  `json:"code,omitempty"`
}

// ExplainJob says why a job is where it is.
func (c *Client) ExplainJob(ctx context.Context, group, job string) (e JobExplanation, err error) {
	if err := c.get(ctx, request{path: jobPath(group, job) + "/explain"}, &e); err != nil {
		return e, fmt.Errorf("explain job %q of group %q: %w", job, group, err)
	}
	return e, nil
}

// WhatIf is a change of a group that is only thought through.
type WhatIf struct {
	Remove   []string     // workers that die
	Drain    []string     // workers that are drained
	Add      []NewWorkers // workers that join
	Replicas int          // of each job; 0 = as it is
	Jobs     *[]task.Job  // the whole list, at most task.MaxJobChange; nil = as it is
}

// NewWorkers are equal workers that might join.
type NewWorkers struct {
	Capacity float64           `json:"capacity"`
	Labels   map[string]string `json:"labels,omitempty"`
	Zone     string            `json:"zone,omitempty"`
	Count    int               `json:"count,omitempty"` // so many of them; 0 = 1
}

// MarshalJSON writes the change as the API reads it, specs aside: they move nothing.
func (w WhatIf) MarshalJSON() ([]byte, error) {
	f := struct {
		Remove   []string     `json:"remove_workers,omitempty"`
		Drain    []string     `json:"drain_workers,omitempty"`
		Add      []NewWorkers `json:"add_workers,omitempty"`
		Replicas int          `json:"replicas,omitempty"`
		Jobs     *[]jobView   `json:"jobs,omitempty"`
	}{w.Remove, w.Drain, w.Add, w.Replicas, nil}
	if w.Jobs != nil {
		jobs := make([]jobView, len(*w.Jobs))
		for i, job := range *w.Jobs {
			jobs[i] = jobView{Job: job.Name, Load: job.Load.Float()}
		}
		f.Jobs = &jobs
	}
	return json.Marshal(f)
}

// Plan is what would come of a change in the end.
type Plan struct {
	Start []Planned `json:"start"` // replicas that would start, and where
	// replicas that would end, and the workers that they leave
	Stop    []Planned `json:"stop"`
	Pending []Planned `json:"pending"` // replicas that would have no worker, and why
	// of Start: how many would follow one that goes on until then
	Moves  int                `json:"moves"`
	Rounds int                `json:"rounds"` // so many it would take
	Before map[string]float64 `json:"loads_before"`
	After  map[string]float64 `json:"loads_after"`
	Budget JobBudget          `json:"budget"` // as it would be then
}

// Planned is one replica in a Plan.
type Planned struct {
	Group   string `json:"group"`
	Job     string `json:"job"`
	Replica int    `json:"replica"`
	Worker  string `json:"worker"`
	Reason  string `json:"reason,omitempty"`
	Code    string `json:"code,omitempty"`
}

// PlanGroup thinks a change of a group through; nothing is changed.
func (c *Client) PlanGroup(ctx context.Context, group string, what WhatIf) (p Plan, err error) {
	body, err := json.Marshal(what)
	if err == nil {
		err = c.send(ctx,
			request{
				method: http.MethodPost, path: groupPath(group) + "/plan", body: body, safe: true,
			}, &p)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("plan for group %q: %w", group, err)
	}
	return p, nil
}
