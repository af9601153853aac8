package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/explain"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

var explainTaskDoc = described{
	op: huma.Operation{
		OperationID: "explain-task", Method: http.MethodGet, Path: "/v1/tasks/{id}/explain",
		Tags:    []string{"Tasks"},
		Summary: "Say why a task does not run",
		Description: "What holds it back now, what would change that and, where it can be said, when it will probably begin. " +
			"Every node is asked which workers it knows; what comes before the task is counted up to some thousands.",
		Parameters: []*huma.Param{pathParameter("id", "the task's id")},
	},
	status: http.StatusOK, answer: view.Explanation{},
}

func (a *API) registerExplanations() {
	a.described(explainTaskDoc, a.explainTask)
	operation(a, huma.Operation{
		OperationID: "explain-queue", Method: http.MethodGet, Path: "/v1/queues/{queue}/explain",
		Tags:    []string{"Queues"},
		Summary: "Say why the tasks of a queue do not run",
	}, a.explainQueue)
	operation(a, huma.Operation{
		OperationID: "explain-claim", Method: http.MethodGet, Path: "/v1/claims/{key}/explain",
		Tags:    []string{"Cluster"},
		Summary: "Say why no node looks after a key, or why it is not where somebody wants it",
	}, a.explainClaim)
}

func (a *API) explainClaim(
	ctx context.Context, in *ClaimPath,
) (*struct{ Body view.Explanation }, error) {
	claim, err := a.claim(ctx, in)
	if err != nil {
		return nil, err
	}
	c, err := a.conf.Cluster.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("read who is a member: %w", err)
	}
	return &struct{ Body view.Explanation }{explain.OfClaim(claim.Body, nodesOf(c.Nodes))}, nil
}

func (a *API) explainTask(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	ctx := r.Context()
	v, err := a.view(ctx, w, id)
	if err != nil {
		return err
	}
	v.Context, v.Result = nil, nil // the explanation says nothing of them
	turn, err := a.conf.Engine.Turn(ctx, id)
	if err != nil {
		return missing(err, id)
	}
	t := explain.Task{View: v, Ahead: turn.Ahead,
		Usual: time.Duration(turn.Usual) * time.Microsecond}
	if t.Away, err = a.awayHolder(ctx, turn.Holder.Node); err != nil {
		return err
	}
	q, err := a.queueFacts(ctx, v.Queue)
	if err != nil {
		return err
	}
	if err := a.keyFacts(ctx, &t, &q); err != nil {
		return err
	}
	if err := a.otherFacts(ctx, &t); err != nil {
		return err
	}
	a.writeValue(w, http.StatusOK, explain.OfTask(t, q, time.UnixMicro(turn.Now)))
	return nil
}

// keyFacts adds to a ready task how its group key stands beside the limits of each key of its
// queue.
func (a *API) keyFacts(ctx context.Context, t *explain.Task, q *explain.Queue) error {
	if t.GroupKey == "" || t.State != task.Ready || q.PerKey.None() {
		return nil
	}
	now, gates, err := a.conf.Engine.KeyGates(ctx, q.Name, []string{t.GroupKey})
	if err != nil {
		return fmt.Errorf("read how a group key stands beside its limits: %w", err)
	}
	for i := range gates {
		if gates[i].Key == t.GroupKey {
			t.KeyGate, t.KeyAt = gates[i].Gate, now
			t.KeyOwner, t.KeyStopped = gates[i].Owner, gates[i].Stopped
		}
	}
	return nil
}

// awayHolder is the node that holds a task if nothing is heard of that node, else "".
func (a *API) awayHolder(ctx context.Context, node string) (string, error) {
	if node == "" {
		return "", nil
	}
	c, err := a.conf.Cluster.Cluster(ctx)
	if err != nil {
		return "", fmt.Errorf("read who is a member: %w", err)
	}
	for i := range c.Nodes {
		if c.Nodes[i].Name != node {
			continue
		}
		switch view.NodeState(c.Nodes[i].State) {
		case view.NodeWorking, view.NodeDraining, view.NodeDrained:
			return "", nil
		}
	}
	return node, nil
}

func (a *API) explainQueue(
	ctx context.Context, in *QueuePath,
) (*struct{ Body view.Explanation }, error) {
	q, err := a.queueFacts(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	return &struct{ Body view.Explanation }{explain.OfQueue(q)}, nil
}

// queueFacts gathers what is known of a queue and of the workers of all nodes.
func (a *API) queueFacts(ctx context.Context, name string) (q explain.Queue, err error) {
	conf, err := a.queueNamed(ctx, name)
	if err != nil {
		return q, err
	}
	q = explain.Queue{
		Name: name, Paused: conf.Paused, Silence: conf.Silence,
		PerKey: admission.KeyLimitsOf(conf), Fair: conf.Fair,
	}
	counts, err := a.conf.Engine.Counts(ctx, name)
	if err != nil {
		return q, err
	}
	if len(counts) > 0 {
		q.Counts = counts[0].Counts
	}
	now, gates, err := a.gates(ctx, []task.Queue{*conf})
	if err != nil {
		return q, err
	}
	if g := gates[name]; g != nil {
		q.Gate, q.At, q.FullKeys = g.Gate.Gate, now, g.FullKeys
	}
	q.Workers, q.Missing, err = a.conf.Cluster.Workers(ctx, false)
	return q, err
}

// queueNamed is a queue's configuration.
func (a *API) queueNamed(ctx context.Context, name string) (*task.Queue, error) {
	all, err := a.conf.Engine.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("queue %.140q: %w", name, store.ErrNotFound)
}
