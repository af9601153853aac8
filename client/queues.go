package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Queue is the configuration of one type of task, and how its tasks stand.
type Queue struct {
	task.Queue
	Counts      task.Counts
	OldestReady time.Time // since when the longest waiting ready task is due; zero = none is ready
	// Limits says how the queue stands beside its limits; nil = it has none.
	Limits *view.QueueLimits
	// Unheard, in the answer to PutQueue, are nodes that may not go by the queue's limits yet: they
	// did not take the change in in time, and do so as soon as they can. Empty = all do.
	Unheard []string
}

// QueueChange says what to change of a queue's configuration; nil leaves it as it is.
type QueueChange struct {
	Timeout      *time.Duration // longest attempt
	Silence      *time.Duration // longest without a sign of life of a worker that beats
	MaxAttempts  *int           // per stage
	Retry        *RetryChange
	HoldLimit    *int           // tasks per hold when the worker names no limit; at most 1,000
	PollInterval *time.Duration // for workers that do not long-poll
	ContextLimit *int64         // bytes
	Retention    *time.Duration // of done and cancelled tasks, from their end
	DeadKept     *time.Duration // of dead ones
	// gets a task for each task that dies, see task.FinalNotice; "" = none
	FinalQueue *string
	MaxRunning *int       // tasks that run at a time, over all nodes; 0 = any number
	Rate       *task.Rate // how fast tasks begin, over all nodes; zero = any speed, and no burst
	Burst      *int       // how many may begin at once after a rest; 0 = the rate's count
	PerKey     *KeyLimitsChange
	Fair       *bool   // group keys take turns, however many tasks each has; else rank decides
	Title      *string // what people call it; "" = nothing
	Owner      *string // who answers for it, a name or a mail address; "" = nobody
}

// RetryChange says what to change of the pauses between attempts; nil leaves it as it is.
type RetryChange struct {
	Initial *time.Duration
	Max     *time.Duration
	Factor  *float64
	Jitter  *float64
}

// KeyLimitsChange says what to change of the limits of each group key by itself; nil leaves it as
// it is. One in which all are nil takes all of them away.
type KeyLimitsChange struct {
	MaxRunning *int       // tasks of a key that run at a time, over all nodes; 0 = any number
	Rate       *task.Rate // how fast tasks of a key begin; zero = any speed, and no burst
	Burst      *int       // how many of a key may begin at once after a rest; 0 = the rate's count
	// OnDead is what becomes of a key that goes in order (MaxRunning 1) when one of its tasks is
	// dead.
	OnDead *task.OnDead
}

// queueFields is a queue's configuration in the API's JSON; nil fields are left out.
type queueFields struct {
	Timeout      *duration    `json:"timeout,omitempty"`
	Silence      *duration    `json:"silence,omitempty"`
	MaxAttempts  *int         `json:"max_attempts,omitempty"`
	Retry        *retryFields `json:"retry,omitempty"`
	HoldLimit    *int         `json:"hold_limit,omitempty"`
	PollInterval *duration    `json:"poll_interval,omitempty"`
	ContextLimit *int64       `json:"context_limit,omitempty"`
	Retention    *duration    `json:"retention,omitempty"`
	DeadKept     *duration    `json:"retention_dead,omitempty"`
	FinalQueue   *string      `json:"final_queue,omitempty"`
	MaxRunning   *int         `json:"max_running,omitempty"`
	Rate         *task.Rate   `json:"rate,omitempty"`
	Burst        *int         `json:"burst,omitempty"`
	PerKey       *perKey      `json:"per_key,omitempty"`
	Fair         *bool        `json:"fair,omitempty"`
	Title        *string      `json:"title,omitempty"`
	Owner        *string      `json:"owner,omitempty"`
}

type perKey struct {
	MaxRunning *int         `json:"max_running,omitempty"`
	Rate       *task.Rate   `json:"rate,omitempty"`
	Burst      *int         `json:"burst,omitempty"`
	OnDead     *task.OnDead `json:"on_dead,omitempty"`
}

type retryFields struct {
	Initial *duration `json:"initial,omitempty"`
	Max     *duration `json:"max,omitempty"`
	Factor  *float64  `json:"factor,omitempty"`
	Jitter  *float64  `json:"jitter,omitempty"`
}

// MarshalJSON writes the fields that are set, as the API reads them.
func (q QueueChange) MarshalJSON() ([]byte, error) {
	f := queueFields{
		Timeout: (*duration)(q.Timeout), Silence: (*duration)(q.Silence),
		MaxAttempts: q.MaxAttempts, HoldLimit: q.HoldLimit,
		PollInterval: (*duration)(q.PollInterval), ContextLimit: q.ContextLimit,
		Retention: (*duration)(q.Retention), DeadKept: (*duration)(q.DeadKept),
		FinalQueue: q.FinalQueue, MaxRunning: q.MaxRunning, Rate: q.Rate, Burst: q.Burst,
		PerKey: (*perKey)(q.PerKey), Fair: q.Fair, Title: q.Title, Owner: q.Owner,
	}
	if r := q.Retry; r != nil {
		f.Retry = &retryFields{(*duration)(r.Initial), (*duration)(r.Max), r.Factor, r.Jitter}
	}
	return json.Marshal(f)
}

// queueView is a queue in the API's JSON. Its configuration is read through pointers into the
// Queue.
type queueView struct {
	Name string `json:"name"`
	queueFields
	Paused      bool        `json:"paused"`
	Counts      task.Counts `json:"counts"`
	OldestReady *time.Time  `json:"oldest_ready"`

	Limits  *view.QueueLimits `json:"limits,omitempty"`
	Unheard []string          `json:"unheard,omitempty"`
}

// over ties the view's fields to those of q.
func over(q *Queue) queueView {
	v := queueView{
		Name: q.Name, Paused: q.Paused, Counts: q.Counts, Limits: q.Limits, Unheard: q.Unheard,
	}
	v.queueFields = queueFields{
		Timeout: (*duration)(&q.Timeout), Silence: (*duration)(&q.Silence),
		MaxAttempts: &q.MaxAttempts,
		Retry: &retryFields{
			(*duration)(&q.Retry.Initial), (*duration)(&q.Retry.Max), &q.Retry.Factor,
			&q.Retry.Jitter,
		},
		HoldLimit: &q.HoldLimit, PollInterval: (*duration)(&q.PollInterval),
		ContextLimit: &q.ContextLimit,
		Retention:    (*duration)(&q.Retention), DeadKept: (*duration)(&q.DeadKept),
		FinalQueue: &q.FinalQueue, MaxRunning: &q.MaxRunning, Rate: &q.Rate, Burst: &q.Burst,
		PerKey: &perKey{
			&q.PerKey.MaxRunning, &q.PerKey.Rate, &q.PerKey.Burst, &q.PerKey.OnDead,
		},
		Fair:  &q.Fair,
		Title: &q.Title, Owner: &q.Owner,
	}
	return v
}

// MarshalJSON writes the queue as the API does.
func (q Queue) MarshalJSON() ([]byte, error) {
	v := over(&q)
	if !q.OldestReady.IsZero() {
		v.OldestReady = &q.OldestReady
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads the queue as the API writes it. What is left out of its configuration stays
// as it is; how it stands is read anew.
func (q *Queue) UnmarshalJSON(b []byte) error {
	v := over(q)
	v.Limits, v.Unheard = nil, nil
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	q.Name, q.Paused, q.Counts, q.OldestReady = v.Name, v.Paused, v.Counts, time.Time{}
	q.Limits, q.Unheard = v.Limits, v.Unheard
	if v.OldestReady != nil {
		q.OldestReady = *v.OldestReady
	}
	return nil
}

func queuePath(name string) string { return "/v1/queues/" + segment(name) }

// Queues lists all queues, by name.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	queues, err := list[Queue](ctx, c, "/v1/queues")
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return queues, nil
}

// list reads all pages at path.
func list[T any](ctx context.Context, c *Client, path string) (all []T, err error) {
	return listBy[T](ctx, c, path, url.Values{})
}

// listBy reads all pages of what a query selects. It adds to the query.
func listBy[T any](
	ctx context.Context, c *Client, path string, query url.Values,
) (all []T, err error) {
	for cursor := ""; ; {
		var p page[T]
		if err := c.get(
			ctx, request{path: path, query: paged(query, cursor, limits.MaxHold)}, &p,
		); err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if p.Next == "" || p.Next == cursor {
			return all, nil
		}
		cursor = p.Next
	}
}

// Queue reads one queue.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	q := Queue{Queue: task.Queue{Name: name}}
	if err := c.get(ctx, request{path: queuePath(name)}, &q); err != nil {
		return Queue{}, fmt.Errorf("read queue %q: %w", name, err)
	}
	return q, nil
}

// PutQueue creates a queue or changes it, and answers its whole configuration, without counts. Of a
// queue with limits it answers when every node goes by them, or names those that do not yet.
func (c *Client) PutQueue(ctx context.Context, name string, change QueueChange) (Queue, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Queue{}, fmt.Errorf("put queue %q: %w", name, err)
	}
	q := Queue{Queue: task.Queue{Name: name}}
	if err := c.send(
		ctx, request{method: http.MethodPut, path: queuePath(name), body: body, safe: true}, &q,
	); err != nil {
		return Queue{}, fmt.Errorf("put queue %q: %w", name, err)
	}
	return q, nil
}

// PauseQueue stops hand-outs of the queue's tasks; what runs goes on.
func (c *Client) PauseQueue(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodPost, path: queuePath(name) + "/pause", safe: true}, nil,
	); err != nil {
		return fmt.Errorf("pause queue %q: %w", name, err)
	}
	return nil
}

// ResumeQueue undoes PauseQueue.
func (c *Client) ResumeQueue(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodPost, path: queuePath(name) + "/resume", safe: true}, nil,
	); err != nil {
		return fmt.Errorf("resume queue %q: %w", name, err)
	}
	return nil
}

// DeleteQueue forgets a queue and its tasks. One with unfinished tasks is refused (ErrConflict)
// unless forced.
func (c *Client) DeleteQueue(ctx context.Context, name string, force bool) error {
	query := url.Values{}
	if force {
		query.Set("force", "true")
	}
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: queuePath(name), query: query}, nil,
	); err != nil {
		return fmt.Errorf("delete queue %q: %w", name, err)
	}
	return nil
}
