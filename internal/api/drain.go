package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Drains weighs drains of workers, and lets them be.
type Drains interface {
	// Drain says what a drain costs and, unless it is a dry run, lets it be. One that breaks what
	// groups are promised is a store.ErrForcible without force.
	Drain(context.Context, store.WorkerDrain) (store.DrainPrice, error)
}

// priceless are the drains of a node that can't say what they cost.
type priceless struct{ cluster Cluster }

func (p priceless) Drain(ctx context.Context, what store.WorkerDrain) (store.DrainPrice, error) {
	if what.DryRun {
		return store.DrainPrice{}, nil
	}
	return store.DrainPrice{}, p.cluster.DrainWorker(ctx, what.Worker, what.Drain, false)
}

// drainWorkerIn is the body that drains a worker; it may be left out.
type drainWorkerIn struct {
	Shed     *float64 `json:"shed,omitempty" exclusiveMinimum:"0" maximum:"1000000" doc:"so many units of its capacity are to be free; left out = all: it takes nothing new"`
	Deadline string   `json:"deadline,omitempty" example:"10m" doc:"by when, as a duration or a time: what is left then is taken from it. Tasks begin elsewhere, and so do replicas that have a place there; others wait. Left out = it may take as long as it takes"`
	DryRun   bool     `json:"dry_run,omitempty" doc:"only say what it costs"`
	Force    bool     `json:"force,omitempty" doc:"even where replicas have no other place: they stay until the deadline"`
}

// workerUndrained answers undrain.
type workerUndrained struct {
	Name     string `json:"name"`
	Draining bool   `json:"draining"`
}

var drainWorkerDoc = described{
	op: huma.Operation{
		OperationID: "drain-worker", Method: http.MethodPost, Path: "/v1/workers/{worker}/drain",
		Tags:    []string{"Workers"},
		Summary: "Let a worker give up its work, all of it or a part",
		Description: "It finishes its tasks, its replicas of jobs move to other workers, and it takes nothing new, or no more than what it is to carry, " +
			"until it is undrained. The answer says what that costs. Without force it is refused with 409 where replicas have no other place, with what would have " +
			"to be added. One drain at a time is weighed.",
		Parameters: []*huma.Param{pathParameter("worker", "the worker's name"),
			queryParameter("here", "at this node only, unweighed; so one node tells another", nil, "")},
	},
	status: http.StatusOK, body: drainWorkerIn{}, optional: true,
	example: `{"shed":30,"deadline":"10m"}`,
	answer:  view.WorkerDrained{},
}

// longestDrain is how far off a deadline may be.
const longestDrain = 30 * 24 * time.Hour

// wants is what a body asks for.
func (in *drainWorkerIn) wants(worker string, now time.Time) (store.WorkerDrain, error) {
	what := store.WorkerDrain{Worker: worker, Force: in.Force, DryRun: in.DryRun}
	if in.Shed != nil {
		what.Shed = task.Units(math.Round(*in.Shed * float64(task.Unit)))
		if !(*in.Shed > 0 && *in.Shed <= (task.MaxLoad/task.Unit).Float()) || what.Shed == 0 {
			return what, wrong("body.shed", "must be above 0, and at most %d units",
				task.MaxLoad/task.Unit)
		}
	}
	if in.Deadline == "" {
		return what, nil
	}
	const longest = 64 // it is told of
	const form = "must be a duration such as 10m, or a time such as 2026-01-02T15:04:05Z, at most 30 days from now"
	if len(in.Deadline) > longest {
		return what, wrong("body.deadline", form)
	}
	if at, err := time.Parse(time.RFC3339, in.Deadline); err == nil {
		// by another node's clock it may be a little more
		if what.By = at.UnixMicro(); at.Before(now.Add(-longestDrain)) ||
			at.After(now.Add(longestDrain+time.Hour)) {
			return what, wrong("body.deadline", form)
		}
		return what, nil
	}
	var d duration
	if err := d.UnmarshalText([]byte(in.Deadline)); err != nil || d.Duration <= 0 ||
		d.Duration > longestDrain {
		return what, wrong("body.deadline", form)
	}
	what.Within = d.Duration
	return what, nil
}

func (c *workerCalls) drain(w *answer, r *http.Request) error {
	name := r.PathValue("worker")
	var in drainWorkerIn
	query, err := knownQuery(r, "here")
	if err == nil && r.ContentLength != 0 {
		err = c.door.strict(w, r, &in, "here")
	}
	if err != nil {
		return err
	}
	w.dry(in.DryRun)
	what, err := in.wants(name, time.Now())
	if err != nil {
		return err
	}
	here, err := parseFlag(query, "here")
	if err != nil {
		return err
	}
	if here {
		if what.DryRun || what.Within > 0 {
			return wrong("body", "must not have dry_run, nor a duration as its deadline, with here")
		}
		if err := c.workers.DrainWorker(r.Context(), name, what.Drain, true); err != nil {
			return c.door.refusal("POST /v1/workers/{worker}/drain", err)
		}
		c.door.writeValue(w, http.StatusOK, drained(&what, &store.DrainPrice{}))
		return nil
	}
	price, err := c.drains.Drain(r.Context(), what)
	if err != nil {
		p := c.door.refusal("POST /v1/workers/{worker}/drain", err)
		if errors.Is(err, store.ErrForcible) && !in.Force {
			p.Errors = []fault{{"body.force", "true drains it all the same"}}
		}
		return p
	}
	if in.Shed != nil {
		w.note("shed", *in.Shed)
	}
	if in.Deadline != "" {
		w.note("deadline", in.Deadline)
	}
	w.note("force", in.Force)
	c.door.writeValue(w, http.StatusOK, drained(&what, &price))
	return nil
}

// drained is the answer to a drain.
func drained(what *store.WorkerDrain, p *store.DrainPrice) view.WorkerDrained {
	out := view.WorkerDrained{
		Name: what.Worker, Draining: what.Whole() && !what.DryRun, Shed: what.Shed.Float(),
		DryRun: what.DryRun, Moves: p.Moves, Jobs: p.Jobs, Tasks: p.Tasks, Minutes: p.Minutes,
		Breaks: append([]string{}, p.Breaks...), Add: p.Add(), Effect: p.Text,
	}
	if p.By != 0 {
		out.DrainBy = &view.Time{Time: time.UnixMicro(p.By)}
	}
	return out
}
