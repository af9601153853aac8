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

// Reasons tells what keeps a task from running. Errors are those of an [Engine].
type Reasons interface {
	// Turn is where a task stands among the others of its queue.
	Turn(context.Context, task.ID) (store.Turn, error)
	// States are the queues and states of tasks, in the same order; none of one that is unknown.
	States(ctx context.Context, ids []task.ID) ([]task.View, error)
	// KeyGates is how group keys of a queue stand beside the limits that each has, and the store's
	// time at which they stood so. Of a queue without such limits it tells of none.
	KeyGates(ctx context.Context, queue string, keys []string) (now int64, gates []store.KeyGate,
		err error)
}

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

// explainCalls are the calls that say why something does not run.
type explainCalls struct {
	door    *API
	tasks   TaskReader
	reasons Reasons
	queues  QueueViews
	workers WorkerList
	nodes   ClusterView
	claims  ClaimList
}

func (c *explainCalls) register() {
	c.door.described(explainTaskDoc, c.task)
	operation(c.door, huma.Operation{
		OperationID: "explain-queue", Method: http.MethodGet, Path: "/v1/queues/{queue}/explain",
		Tags:    []string{"Queues"},
		Summary: "Say why the tasks of a queue do not run",
	}, c.queue)
	operation(c.door, huma.Operation{
		OperationID: "explain-claim", Method: http.MethodGet, Path: "/v1/claims/{key}/explain",
		Tags:    []string{"Cluster"},
		Summary: "Say why no node looks after a key, or why it is not where somebody wants it",
	}, c.claim)
}

func (c *explainCalls) claim(
	ctx context.Context, in *ClaimPath,
) (*struct{ Body view.Explanation }, error) {
	claim, err := claimOfKey(ctx, c.claims, in.Key)
	if err != nil {
		return nil, err
	}
	seen, err := c.nodes.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("read who is a member: %w", err)
	}
	return &struct{ Body view.Explanation }{explain.OfClaim(claim, nodesOf(seen.Nodes))}, nil
}

func (c *explainCalls) task(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	ctx := r.Context()
	v, err := c.door.view(ctx, w, c.tasks, id)
	if err != nil {
		return err
	}
	v.Context, v.Result = nil, nil // the explanation says nothing of them
	turn, err := c.reasons.Turn(ctx, id)
	if err != nil {
		return missing(err, id)
	}
	t := explain.Task{View: v, Ahead: turn.Ahead,
		Usual: time.Duration(turn.Usual) * time.Microsecond}
	if t.Away, err = c.awayHolder(ctx, turn.Holder.Node); err != nil {
		return err
	}
	q, err := c.queueFacts(ctx, v.Queue)
	if err != nil {
		return err
	}
	if err := c.keyFacts(ctx, &t, &q); err != nil {
		return err
	}
	if err := c.otherFacts(ctx, w.who, &t); err != nil {
		return err
	}
	c.door.writeValue(w, http.StatusOK, explain.OfTask(t, q, time.UnixMicro(turn.Now)))
	return nil
}

// keyFacts adds to a ready task how its group key stands beside the limits of each key of its
// queue, and whether it is paused.
func (c *explainCalls) keyFacts(ctx context.Context, t *explain.Task, q *explain.Queue) error {
	if t.GroupKey == "" || t.State != task.Ready || q.PerKey.None() && !q.KeyRules {
		return nil
	}
	now, gates, err := c.reasons.KeyGates(ctx, q.Name, []string{t.GroupKey})
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
func (c *explainCalls) awayHolder(ctx context.Context, node string) (string, error) {
	if node == "" {
		return "", nil
	}
	seen, err := c.nodes.Cluster(ctx)
	if err != nil {
		return "", fmt.Errorf("read who is a member: %w", err)
	}
	for i := range seen.Nodes {
		if seen.Nodes[i].Name != node {
			continue
		}
		switch view.NodeState(seen.Nodes[i].State) {
		case view.NodeWorking, view.NodeDraining, view.NodeDrained:
			return "", nil
		}
	}
	return node, nil
}

func (c *explainCalls) queue(
	ctx context.Context, in *QueuePath,
) (*struct{ Body view.Explanation }, error) {
	q, err := c.queueFacts(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	return &struct{ Body view.Explanation }{explain.OfQueue(q)}, nil
}

// queueFacts gathers what is known of a queue and of the workers of all nodes.
func (c *explainCalls) queueFacts(ctx context.Context, name string) (q explain.Queue, err error) {
	conf, err := queueNamed(ctx, c.queues, name)
	if err != nil {
		return q, err
	}
	q = explain.Queue{
		Name: name, Paused: conf.Paused, Silence: conf.Silence,
		PerKey: admission.KeyLimitsOf(conf), Fair: conf.Fair, KeyRules: conf.KeyRules,
	}
	counts, err := c.queues.Counts(ctx, name)
	if err != nil {
		return q, err
	}
	if len(counts) > 0 {
		q.Counts = counts[0].Counts
	}
	now, gates, err := gatesOf(ctx, c.queues, []task.Queue{*conf})
	if err != nil {
		return q, err
	}
	if g := gates[name]; g != nil {
		q.Gate, q.At = g.Gate.Gate, now
		q.FullKeys, q.PausedKeys = g.FullKeys, g.PausedKeys
	}
	q.Workers, q.Missing, err = c.workers.Workers(ctx, false)
	return q, err
}

// queueNamed is a queue's configuration.
func queueNamed(ctx context.Context, queues QueueList, name string) (*task.Queue, error) {
	all, err := queues.Queues(ctx)
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

// otherFacts adds to a task that waits for others how the first of those stand that it waits for.
// Of those whose queue the caller's token does not reach, nothing is said.
func (c *explainCalls) otherFacts(ctx context.Context, who principal, t *explain.Task) error {
	if t.Awaits == nil || !t.Awaits.Others {
		return nil
	}
	var ids []task.ID
	for _, p := range t.After {
		if p.State != "" {
			continue
		}
		if t.OthersOpen++; len(ids) < explain.ShownOthers {
			t.Others = append(t.Others, explain.Other{Prior: p})
			ids = append(ids, p.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	states, err := c.reasons.States(ctx, ids)
	if err != nil {
		return err
	}
	for i := range states {
		o, s := &t.Others[i], &states[i]
		if o.Unseen = s.Queue != "" && !who.scope.queue(s.Queue); !o.Unseen {
			o.Queue, o.Now = s.Queue, s.State
		}
	}
	return nil
}
