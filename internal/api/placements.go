package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Placements says where the replicas of jobs are, and where they would be. Errors are those of an
// [Engine].
type Placements interface {
	PlacementList
	Explain(ctx context.Context, group, job string) (store.Explanation, error)
	// Plan thinks a change through, which was checked. A *task.InvalidError names workers that
	// nobody knows at body.remove_workers[i] and body.drain_workers[i].
	Plan(ctx context.Context, group string, what store.WhatIf) (store.Planned, error)
}

// PlacementList says where replicas are.
type PlacementList interface {
	// Placements lists replicas as the query says, ordered by their keys; pending ones and those
	// whose state has a reason carry it.
	Placements(context.Context, store.PlacementQuery) ([]store.Placement, error)
}

// PlacementItem is one replica of a job. It is exported as TaskItem is.
type PlacementItem struct {
	Job     string        `json:"job"`
	Replica int           `json:"replica" doc:"from 0"`
	Worker  string        `json:"worker" doc:"empty while it is pending"`
	State   task.JobState `json:"state" enum:"pending,starting,running,failed,moving,ending"`
	Since   instant       `json:"since" nullable:"true" doc:"of the state"`
	Reason  string        `json:"reason,omitempty" doc:"why it is so; pending ones always say"`
	Code    string        `json:"code,omitempty" doc:"the reason for programs, as in no-capacity"`
}

func placementOf(p *store.Placement) PlacementItem {
	return PlacementItem{
		p.Job, p.Replica, p.Worker, p.State, instantAt(p.Since), p.Reason.Text, p.Reason.Code,
	}
}

func placementsOf(list []store.Placement) []PlacementItem {
	items := make([]PlacementItem, len(list))
	for i := range list {
		items[i] = placementOf(&list[i])
	}
	return items
}

// explainOut says why a job is where it is.
type explainOut struct {
	Group      string          `json:"group"`
	Job        string          `json:"job"`
	Replicas   []PlacementItem `json:"replicas" nullable:"false"`
	Candidates []candidateItem `json:"candidates" nullable:"false" doc:"workers as places for one more replica, the best first; the first 100"`
	Workers    int             `json:"workers" doc:"how many candidates there are"`
	Changes    []string        `json:"changes" nullable:"false" doc:"what would change it, each by itself"`
}

type candidateItem struct {
	Worker   string  `json:"worker"`
	Fits     bool    `json:"fits"`
	Score    float64 `json:"score" doc:"the share of its capacity that is free; of those that fit the greatest gets the next replica"`
	Free     float64 `json:"free" doc:"units"`
	Capacity float64 `json:"capacity" doc:"units"`
	Reason   string  `json:"reason,omitempty" doc:"why it does not fit, or why it does"`
	Code     string  `json:"code,omitempty" doc:"the reason for programs"`
}

// maxCandidates is how many an explanation shows.
const maxCandidates = 100

// assignmentsIn selects replicas.
type assignmentsIn struct {
	GroupPath
	Job    string `query:"job" doc:"those of this job"`
	Worker string `query:"worker" doc:"those on this worker"`
	State  string `query:"state" enum:"pending,starting,running,failed,moving,ending" doc:"those in this state"`
	Paging
}

// placementCalls are the calls about where jobs run, why, and what would change that.
type placementCalls struct {
	door       *API
	placements Placements
}

func (c *placementCalls) register() {
	tags := []string{"Groups"}
	operation(c.door, huma.Operation{
		OperationID: "list-assignments", Method: http.MethodGet,
		Path: "/v1/groups/{group}/assignments", Tags: tags,
		Summary:     "List the replicas of a group's jobs, and where they are",
		Description: "By job, replica and worker. A replica that moves is there twice, until its successor runs.",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "explain-job", Method: http.MethodGet,
		Path: "/v1/groups/{group}/jobs/{job}/explain", Tags: tags,
		Summary: "Say why a job is where it is or why it waits, and what would change that",
	}, c.explain)
	c.door.described(planDoc, c.plan)
}

func (c *placementCalls) list(
	ctx context.Context, in *assignmentsIn,
) (*listed[PlacementItem], error) {
	after, err := parsePlacementCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	page, err := c.placements.Placements(ctx, store.PlacementQuery{
		Group: in.Group, Job: in.Job, Worker: in.Worker, State: task.JobState(in.State),
		After: after, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, err
	}
	next := ""
	if len(page) > in.Limit {
		page = page[:in.Limit]
		next = placementCursor(page[in.Limit-1].Key())
	}
	return &listed[PlacementItem]{list[PlacementItem]{placementsOf(page), next}}, nil
}

func placementCursor(k store.PlacementKey) string {
	return cursor(placeShelf, k.Job+"/"+strconv.Itoa(k.Replica)+"/"+k.Worker)
}

// parsePlacementCursor is the inverse of placementCursor. No name has a slash in it.
func parsePlacementCursor(text string) (k store.PlacementKey, err error) {
	place, err := parseCursor(placeShelf, text)
	if err != nil || place == "" {
		return k, err
	}
	parts := strings.Split(place, "/")
	if len(parts) == 3 {
		k.Job, k.Worker = parts[0], parts[2]
		k.Replica, err = strconv.Atoi(parts[1])
	}
	if err != nil || placementCursor(k) != text {
		return store.PlacementKey{}, wrong("query.cursor", "is not a cursor of this list")
	}
	return k, nil
}

func (c *placementCalls) explain(
	ctx context.Context, in *JobPath,
) (*struct{ Body explainOut }, error) {
	e, err := c.placements.Explain(ctx, in.Group, in.Job)
	if err != nil {
		return nil, err
	}
	out := explainOut{
		Group: e.Group, Job: e.Job, Replicas: placementsOf(e.Replicas), Workers: len(e.Candidates),
		Changes:    append([]string{}, e.Changes...),
		Candidates: make([]candidateItem, min(len(e.Candidates), maxCandidates)),
	}
	for i := range out.Candidates {
		one := &e.Candidates[i]
		out.Candidates[i] = candidateItem{
			one.Worker, one.Fits, one.Score, one.Free.Float(), one.Capacity.Float(),
			one.Reason.Text, one.Reason.Code,
		}
	}
	return &struct{ Body explainOut }{out}, nil
}
