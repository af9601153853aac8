package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Limits on what is thought through.
const (
	maxNamed  = 10_000  // workers
	maxMadeUp = 100_000 // workers that might join
)

// planIn is a change that is only thought through.
type planIn struct {
	Remove   []string     `json:"remove_workers,omitempty" nullable:"false" maxItems:"10000" doc:"workers that die"`
	Add      []newWorkers `json:"add_workers,omitempty" nullable:"false" maxItems:"10000" doc:"workers that join; at most 100,000 in all"`
	Drain    []string     `json:"drain_workers,omitempty" nullable:"false" maxItems:"10000" doc:"workers that are drained"`
	Replicas *int         `json:"replicas,omitempty" minimum:"1" maximum:"1000" doc:"of each job; left out = as it is"`
	Jobs     *[]jobIn     `json:"jobs,omitempty" maxItems:"100000" doc:"the whole list; left out = as it is"`
}

type newWorkers struct {
	Capacity float64           `json:"capacity" minimum:"0" maximum:"1000000" doc:"units of load"`
	Labels   map[string]string `json:"labels,omitempty"`
	Zone     string            `json:"zone,omitempty"`
	Count    *int              `json:"count,omitempty" minimum:"1" maximum:"100000" doc:"so many of them; 1"`
}

// planOut is what would come of it in the end.
type planOut struct {
	Start   []plannedItem      `json:"start" nullable:"false" doc:"replicas that would start, with the worker they start on"`
	Stop    []plannedItem      `json:"stop" nullable:"false" doc:"replicas that would end, with the worker that they leave"`
	Pending []plannedItem      `json:"pending" nullable:"false" doc:"replicas that would have no worker, and why"`
	Moves   int                `json:"moves" doc:"how many of those that start would follow one that goes on until then"`
	Rounds  int                `json:"rounds" doc:"so many it would take, by the group's policy"`
	Before  map[string]float64 `json:"loads_before" doc:"units by worker"`
	After   map[string]float64 `json:"loads_after" doc:"units by worker"`
	Budget  jobBudget          `json:"budget" doc:"as it would be then"`
}

type plannedItem struct {
	Group   string `json:"group"`
	Job     string `json:"job"`
	Replica int    `json:"replica"`
	Worker  string `json:"worker"`
	Reason  string `json:"reason,omitempty"`
	Code    string `json:"code,omitempty" doc:"the reason for programs"`
}

var planDoc = described{
	op: huma.Operation{
		OperationID: "plan-group", Method: http.MethodPost, Path: "/v1/groups/{group}/plan",
		Tags:    []string{"Groups"},
		Summary: "Say what would become of a group if …",
		Description: "Thinks a change through on what is there, to the end; nothing is changed. Other groups stay as they are. At most two plans " +
			"at a time at a node; one that would take more than 512 MiB, which is about a million replicas, is refused with 422 before work begins. It ends " +
			"when its caller has left, and after a minute.",
		Parameters: []*huma.Param{pathParameter("group", "the group's name")},
	},
	status: http.StatusOK, body: planIn{},
	example: `{"remove_workers":["w1"],"add_workers":[{"capacity":60,"zone":"a","count":3}]}`,
	answer:  planOut{},
}

// whatIf is the change, checked.
func (in *planIn) whatIf() (store.WhatIf, error) {
	var e task.InvalidError
	what := store.WhatIf{Remove: in.Remove, Drain: in.Drain}
	checkWorkers(&e, "body.remove_workers", in.Remove)
	checkWorkers(&e, "body.drain_workers", in.Drain)
	what.Add = in.joining(&e)
	if in.Replicas != nil {
		if what.Replicas = *in.Replicas; what.Replicas < 1 || what.Replicas > limits.MaxReplicas {
			e.Add("body.replicas", "must be 1 to %d", limits.MaxReplicas)
		}
	}
	if in.Jobs != nil {
		jobs := in.jobs(&e)
		what.Jobs = &jobs
	}
	return what, e.Err()
}

func checkWorkers(e *task.InvalidError, location string, names []string) {
	if len(names) > maxNamed {
		e.Add(location, "must be at most %d", maxNamed)
		return
	}
	for i, name := range names {
		if !limits.ValidName(name) {
			e.Add(fmt.Sprintf("%s[%d]", location, i), "%.40q %s", name, limits.NameRule)
		}
	}
}

// joining are the workers that might join.
func (in *planIn) joining(e *task.InvalidError) []store.NewSeats {
	if len(in.Add) > maxNamed {
		e.Add("body.add_workers", "must be at most %d", maxNamed)
		return nil
	}
	sum := 0
	seats := make([]store.NewSeats, len(in.Add))
	for i := range in.Add {
		add := &in.Add[i]
		at := fmt.Sprintf("body.add_workers[%d]", i)
		capacity, err := task.ParseUnits(add.Capacity)
		if err != nil {
			e.Add(at+".capacity", "%v", err)
		}
		limits.CheckLabels(e, at+".labels", add.Labels)
		if !limits.ValidText(add.Zone, limits.MaxKey) {
			e.Add(at+".zone", "must be at most %d bytes of printable UTF-8", limits.MaxKey)
		}
		n := 1
		if set(&n, add.Count); n < 1 || n > maxMadeUp {
			e.Add(at+".count", "must be 1 to %d", maxMadeUp)
			n = 0
		}
		sum += n
		seats[i] = store.NewSeats{Capacity: capacity, Labels: add.Labels, Zone: add.Zone, Count: n}
	}
	if sum > maxMadeUp {
		e.Add("body.add_workers", "must be at most %d workers in all", maxMadeUp)
	}
	return seats
}

// jobs is the whole list of jobs.
func (in *planIn) jobs(e *task.InvalidError) []task.Job {
	if len(*in.Jobs) > task.MaxJobChange {
		e.Add("body.jobs", "must be at most %d", task.MaxJobChange)
		return nil
	}
	jobs := make([]task.Job, len(*in.Jobs))
	for i, j := range *in.Jobs {
		jobs[i] = task.Job{Name: j.Job, Load: task.Unit, Spec: j.Spec}
		if j.Load == nil || len(e.Fields) >= limits.MaxFaults {
			continue
		}
		load, err := task.ParseUnits(*j.Load)
		if err != nil {
			e.Add(fmt.Sprintf("body.jobs[%d].load", i), "%v", err)
		}
		jobs[i].Load = load
	}
	canonicalJobs(jobs)
	limits.CheckJobs(e, "body.jobs", jobs)
	return jobs
}

func (c *placementCalls) plan(w *answer, r *http.Request) error {
	var in planIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	what, err := in.whatIf()
	if err != nil {
		return err
	}
	group := r.PathValue("group")
	p, err := c.placements.Plan(r.Context(), group, what)
	if errors.Is(err, store.ErrBusy) {
		return busy(err.Error())
	}
	if err != nil {
		return err
	}
	const item = 256 // about so many bytes is one in the answer
	size := int64(item * (len(p.Start) + len(p.Stop) + len(p.Pending) + len(p.Before)))
	if most := c.door.large.limit - c.door.large.limit/4; size > most {
		return wrong("body", "the answer would have %d MiB, and %d MiB is the limit: suppose less",
			size>>20, most>>20)
	}
	if err := c.door.room(r.Context(), &w.call, size); err != nil {
		return err
	}
	c.door.writeValue(w, http.StatusOK, planOut{
		Start: plannedOf(group, p.Start), Stop: plannedOf(group, p.Stop),
		Pending: plannedOf(group, p.Pending),
		Moves:   p.Moves, Rounds: p.Rounds, Before: loadsOf(p.Before), After: loadsOf(p.After),
		Budget: budgetOf(&p.Budget, w.who.scope),
	})
	return nil
}

func plannedOf(group string, list []store.Placement) []plannedItem {
	items := make([]plannedItem, len(list))
	for i := range list {
		p := &list[i]
		items[i] = plannedItem{group, p.Job, p.Replica, p.Worker, p.Reason.Text, p.Reason.Code}
	}
	return items
}

func loadsOf(loads map[string]float64) map[string]float64 {
	if loads == nil {
		return map[string]float64{}
	}
	return loads
}
