package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// workerItem is a worker.
type workerItem struct {
	Name     string            `json:"name"`
	Node     string            `json:"node" doc:"the node it talks to"`
	State    task.WorkerState  `json:"state" enum:"active,draining,silent,left" doc:"silent: not heard of for longer than the limit; left: it said that it leaves"`
	Active   bool              `json:"active" doc:"it has not left, and was heard of within the silence limit"`
	Draining bool              `json:"draining" doc:"takes nothing new"`
	Shed     float64           `json:"shed,omitempty" doc:"units of its capacity that are to be free until it is undrained"`
	DrainBy  *instant          `json:"drain_by,omitempty" doc:"when what is left to give up is taken from it"`
	Capacity float64           `json:"capacity" doc:"units of load it may carry; a task costs 1"`
	Used     float64           `json:"used" doc:"units that its jobs and the tasks in its hands take"`
	Load     task.Load         `json:"load" doc:"of its machine, as shares of the maximum"`
	Labels   map[string]string `json:"labels"`
	Zone     string            `json:"zone"`
	Running  int               `json:"running_tasks"`
	Free     int               `json:"free" doc:"how many more tasks it may be given"`
	Queues   []string          `json:"queues" nullable:"false" doc:"that it takes tasks from, by name"`
	Jobs     int               `json:"jobs" doc:"replicas of jobs that it runs"`
	Version  string            `json:"version,omitempty" doc:"of its program, as it says"`
	Seen     instant           `json:"seen" nullable:"true"`
}

func workerOf(w *task.Worker) workerItem {
	labels := w.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	item := workerItem{
		Name: w.Name, Node: w.Node, State: w.State, Active: w.Active, Draining: w.Draining,
		Shed: w.Shed, Capacity: w.Capacity, Used: w.Used, Load: w.Load, Labels: labels,
		Zone: w.Zone, Running: w.Running, Free: w.Free, Queues: append([]string{}, w.Queues...),
		Jobs: w.Jobs, Version: w.Version, Seen: instant(w.Seen),
	}
	if !w.DrainBy.IsZero() {
		item.DrainBy = new(instant(w.DrainBy))
	}
	return item
}

// WorkerPath names a worker.
type WorkerPath struct {
	Worker string `path:"worker" doc:"the worker's name" example:"w1"`
}

// Scope says of which nodes. It is exported for huma.
type Scope struct {
	Here bool `query:"here" doc:"of this node only; so one node asks another"`
}

type workerIn struct {
	WorkerPath
	Scope
}

type workersIn struct {
	Paging
	Scope
}

// workersOut lists workers.
type workersOut struct {
	Body struct {
		Items   []workerItem `json:"items" nullable:"false"`
		Next    string       `json:"next" doc:"cursor of the next page; empty after the last"`
		Missing []string     `json:"missing" nullable:"false" doc:"nodes that did not answer: their workers are not in the list"`
	}
}

// workerCalls are the calls about the workers of all nodes.
type workerCalls struct {
	door    *API
	workers Workers
	drains  Drains
}

func (c *workerCalls) register() {
	tags := []string{"Workers"}
	operation(c.door, huma.Operation{
		OperationID: "list-workers", Method: http.MethodGet, Path: "/v1/workers", Tags: tags,
		Summary:     "List workers by name",
		Description: "Those of all nodes; a node that did not answer is missing.",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "get-worker", Method: http.MethodGet, Path: "/v1/workers/{worker}", Tags: tags,
		Summary: "Read a worker",
	}, c.get)
	operation(c.door, huma.Operation{
		OperationID: "delete-worker", Method: http.MethodDelete, Path: "/v1/workers/{worker}",
		Tags:    tags,
		Summary: "Give a worker's tasks back at once and forget it",
	}, func(ctx context.Context, in *workerIn) (*struct{}, error) {
		return nil, c.workers.DeleteWorker(ctx, in.Worker, in.Here)
	})
	c.door.described(drainWorkerDoc, c.drain)
	operation(c.door, huma.Operation{
		OperationID: "undrain-worker", Method: http.MethodPost,
		Path: "/v1/workers/{worker}/undrain", Tags: tags, Summary: "Let a worker take work again",
	}, func(ctx context.Context, in *workerIn) (*struct{ Body workerUndrained }, error) {
		return &struct{ Body workerUndrained }{workerUndrained{in.Worker, false}},
			c.workers.UndrainWorker(ctx, in.Worker, in.Here)
	})
}

func (c *workerCalls) list(ctx context.Context, in *workersIn) (*workersOut, error) {
	all, missing, err := c.workers.Workers(ctx, in.Here)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(all, func(w *task.Worker) string {
		return w.Name
	}, workerShelf, in.Paging)
	if err != nil {
		return nil, err
	}
	items := make([]workerItem, len(page))
	for i := range page {
		items[i] = workerOf(&page[i])
	}
	out := &workersOut{}
	out.Body.Items, out.Body.Next, out.Body.Missing = items, next, append([]string{}, missing...)
	return out, nil
}

func (c *workerCalls) get(ctx context.Context, in *workerIn) (*struct{ Body workerItem }, error) {
	all, missing, err := c.workers.Workers(ctx, in.Here)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == in.Worker {
			return &struct{ Body workerItem }{workerOf(&all[i])}, nil
		}
	}
	if len(missing) > 0 {
		return nil, refuse(http.StatusServiceUnavailable,
			"no node that answers knows worker %.140q, and %s did not answer", in.Worker,
			strings.Join(missing, ", "))
	}
	return nil, fmt.Errorf("worker %.140q: %w", in.Worker, store.ErrNotFound)
}
