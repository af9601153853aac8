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
	Capacity float64           `json:"capacity" doc:"units of load it may carry; a task costs 1"`
	Load     task.Load         `json:"load" doc:"of its machine, as shares of the maximum"`
	Labels   map[string]string `json:"labels"`
	Zone     string            `json:"zone"`
	Running  int               `json:"running_tasks"`
	Free     int               `json:"free" doc:"how many more tasks it may be given"`
	Queues   []string          `json:"queues" nullable:"false" doc:"that it takes tasks from, by name"`
	Jobs     int               `json:"jobs" doc:"replicas of jobs that it runs"`
	Seen     instant           `json:"seen" nullable:"true"`
}

func workerOf(w *task.Worker) workerItem {
	labels := w.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return workerItem{
		w.Name, w.Node, w.State, w.Active, w.Draining, w.Capacity, w.Load, labels, w.Zone,
		w.Running, w.Free, append([]string{}, w.Queues...), w.Jobs, instant(w.Seen),
	}
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

func (a *API) registerWorkers() {
	tags := []string{"Workers"}
	operation(a, huma.Operation{
		OperationID: "list-workers", Method: http.MethodGet, Path: "/v1/workers", Tags: tags,
		Summary:     "List workers by name",
		Description: "Those of all nodes; a node that did not answer is missing.",
	}, a.workers)
	operation(a, huma.Operation{
		OperationID: "get-worker", Method: http.MethodGet, Path: "/v1/workers/{worker}", Tags: tags,
		Summary: "Read a worker",
	}, a.worker)
	operation(a, huma.Operation{
		OperationID: "delete-worker", Method: http.MethodDelete, Path: "/v1/workers/{worker}",
		Tags:    tags,
		Summary: "Give a worker's tasks back at once and forget it",
	}, func(ctx context.Context, in *workerIn) (*struct{}, error) {
		return nil, a.conf.Cluster.DeleteWorker(ctx, in.Worker, in.Here)
	})
	a.draining("drain", "Let a worker finish what it has and take nothing new", true)
	a.draining("undrain", "Let a worker take tasks again", false)
}

func (a *API) workers(ctx context.Context, in *workersIn) (*workersOut, error) {
	all, missing, err := a.conf.Cluster.Workers(ctx, in.Here)
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

func (a *API) worker(ctx context.Context, in *workerIn) (*struct{ Body workerItem }, error) {
	all, missing, err := a.conf.Cluster.Workers(ctx, in.Here)
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

// drainedOut answers drain and undrain.
type drainedOut struct {
	Body struct {
		Name     string `json:"name"`
		Draining bool   `json:"draining"`
		Effect   string `json:"effect,omitempty" doc:"what that does to the groups that the worker serves: a sentence"`
	}
}

// draining registers POST /v1/workers/{worker}/NAME.
func (a *API) draining(name, summary string, drain bool) {
	operation(a, huma.Operation{
		OperationID: name + "-worker", Method: http.MethodPost,
		Path: "/v1/workers/{worker}/" + name, Tags: []string{"Workers"}, Summary: summary,
	}, func(ctx context.Context, in *workerIn) (*drainedOut, error) {
		out := &drainedOut{}
		out.Body.Name, out.Body.Draining = in.Worker, drain
		if drain && !in.Here {
			effect, err := a.conf.Placements.DrainEffect(ctx, in.Worker) // told before it is one
			if err != nil {
				return nil, err
			}
			out.Body.Effect = effect
		}
		if err := a.conf.Cluster.DrainWorker(ctx, in.Worker, drain, in.Here); err != nil {
			return nil, err
		}
		return out, nil
	})
}
