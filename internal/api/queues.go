package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Queues configures queues, and says how their tasks stand. Errors are those of an [Engine].
type Queues interface {
	QueueViews
	// ChangeQueue changes a configuration, or creates it. No other change is lost; see
	// store.Change.
	ChangeQueue(ctx context.Context, name string,
		change store.Change[task.Queue]) (store.Changed[task.Queue], error)
	PauseQueue(ctx context.Context, name string, paused bool) error
	DeleteQueue(ctx context.Context, name string, force bool) error
}

// QueueViews says how the tasks of queues stand.
type QueueViews interface {
	QueueList
	// Counts answers for the named queues, or for all.
	Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error)
	// Gates is how the named queues, or all, that have limits stand beside them, and the store's
	// time at which they stood so.
	Gates(ctx context.Context, queues ...string) (now int64, gates []store.Gate, err error)
}

// QueueList lists queues with their configurations, by name.
type QueueList interface {
	Queues(context.Context) ([]task.Queue, error)
}

// QueueConf is the whole configuration of a queue. It is exported as TaskItem is.
type QueueConf struct {
	Name         string    `json:"name"`
	Timeout      duration  `json:"timeout" doc:"longest attempt"`
	Silence      duration  `json:"silence" doc:"longest without a sign of life of a worker that beats"`
	MaxAttempts  int       `json:"max_attempts" doc:"per stage"`
	Retry        retryConf `json:"retry"`
	HoldLimit    int       `json:"hold_limit" doc:"tasks per hold when the worker names no limit"`
	PollInterval duration  `json:"poll_interval" doc:"for workers that do not long-poll"`
	ContextLimit int64     `json:"context_limit" doc:"bytes"`
	Retention    duration  `json:"retention" doc:"of done and cancelled tasks, from their end"`
	DeadKept     duration  `json:"retention_dead" doc:"of dead ones"`
	FinalQueue   string    `json:"final_queue" doc:"gets a task for each task that dies here; empty = none"`
	MaxRunning   int       `json:"max_running" doc:"tasks that run at a time, over all nodes; 0 = any number"`
	Rate         rateText  `json:"rate" doc:"how fast tasks begin, over all nodes: a count and a time; empty = any speed"`
	Burst        int       `json:"burst" doc:"how many may begin at once after a rest; 0 = the rate's count"`
	PerKey       keyLimits `json:"per_key" doc:"limits of each group key by itself; tasks without a group key have none"`
	Fair         bool      `json:"fair" doc:"group keys take turns, however many tasks each has; else rank decides"`
	Paused       bool      `json:"paused" doc:"nothing is handed out"`
	Title        string    `json:"title" doc:"what people call it; empty = nothing"`
	Owner        string    `json:"owner" doc:"who answers for it, a name or a mail address; empty = nobody said"`
}

// putQueueOut answers a change of a queue.
type putQueueOut struct {
	QueueConf
	Unheard []string `json:"unheard,omitempty" doc:"of a queue with limits: nodes that did not take the change in within 15 s, and do so as soon as they can; left out when all did"`
}

type retryConf struct {
	Initial duration `json:"initial" doc:"before the second attempt"`
	Max     duration `json:"max" doc:"no delay is longer, jitter aside"`
	Factor  float64  `json:"factor" doc:"from one delay to the next; 1 = a fixed interval"`
	Jitter  float64  `json:"jitter" doc:"share of the delay by which it may be longer or shorter"`
}

// queueItem is a queue and how its tasks stand.
type queueItem struct {
	QueueConf
	Counts      task.Counts `json:"counts"`
	OldestReady instant     `json:"oldest_ready" nullable:"true" doc:"since when the longest waiting ready task is due"`
	// of a queue that has limits only
	Limits *view.QueueLimits `json:"limits,omitempty" doc:"how the queue stands beside its limits; left out when it has none"`
}

// queueIn is the body that changes a configuration. What is left out stays as it is, or gets its
// default in a new queue.
type queueIn struct {
	Timeout      *duration `json:"timeout,omitempty" doc:"longest attempt; 10m"`
	Silence      *duration `json:"silence,omitempty" doc:"longest without a sign of life of a worker that beats; 15s"`
	MaxAttempts  *int      `json:"max_attempts,omitempty" minimum:"1" maximum:"1000000" doc:"per stage; 5"`
	Retry        *retryIn  `json:"retry,omitempty"`
	HoldLimit    *int      `json:"hold_limit,omitempty" minimum:"1" doc:"tasks per hold when the worker names no limit; 100; above 1,000 it is 1,000"`
	PollInterval *duration `json:"poll_interval,omitempty" doc:"for workers that do not long-poll; 10s"`
	ContextLimit *int64    `json:"context_limit,omitempty" minimum:"0" maximum:"33554432" doc:"bytes; 16 MiB"`
	Retention    *duration `json:"retention,omitempty" doc:"of done and cancelled tasks, from their end; 7 days"`
	DeadKept     *duration `json:"retention_dead,omitempty" doc:"of dead ones; 30 days"`
	FinalQueue   *string   `json:"final_queue,omitempty" doc:"gets a task for each task that dies here, whatever of, stored in the same transaction and tried until it is done; its context says which and why; empty = none"`
	MaxRunning   limitIn   `json:"max_running,omitempty" minimum:"0" maximum:"100000" doc:"tasks that run at a time, over all nodes; what a dead node or an unheard worker has counts until it is lost; 0 or null = any number"`
	Rate         rateIn    `json:"rate,omitempty" doc:"how fast tasks begin, over all nodes: a count of 1 to 1,000,000 and a time of 1ms to 24h; 0 or null = any speed, and no burst"`
	Burst        limitIn   `json:"burst,omitempty" minimum:"0" maximum:"1000000" doc:"how many may begin at once after a rest, where there is a rate; 0 or null = its count"`
	PerKey       perKeyIn  `json:"per_key,omitempty" doc:"limits of each group key by itself, of which only those given change; tasks without a group key have none; null or {} takes all of them away"`
	Fair         *bool     `json:"fair,omitempty" doc:"group keys take turns, however many tasks each has; false: rank decides"`
	Title        *string   `json:"title,omitempty" maxLength:"256" doc:"what people call it, in any language; empty = nothing"`
	Owner        *string   `json:"owner,omitempty" maxLength:"256" doc:"who answers for it, a name or a mail address; empty = nobody"`
}

// keyLimits are limits of each group key.
type keyLimits struct {
	MaxRunning int      `json:"max_running" doc:"tasks of a key that run at a time, over all nodes; 0 = any number"`
	Rate       rateText `json:"rate" doc:"how fast tasks of a key begin, over all nodes; empty = any speed"`
	Burst      int      `json:"burst" doc:"how many of a key may begin at once after a rest; 0 = the rate's count"`
	// where keys go in order
	OnDead task.OnDead `json:"on_dead" enum:"continue,stop" doc:"with max_running 1 tasks of a key go one after the other, by rank, retries included: what becomes of the key when one of them is dead; stop = none begins until that one is retried and over, or deleted"`
}

type keyLimitsIn struct {
	MaxRunning limitIn      `json:"max_running,omitempty" minimum:"0" maximum:"100000" doc:"tasks of a key that run at a time, over all nodes; 0 or null = any number"`
	Rate       rateIn       `json:"rate,omitempty" doc:"how fast tasks of a key begin, over all nodes; 0 or null = any speed, and no burst"`
	Burst      limitIn      `json:"burst,omitempty" minimum:"0" maximum:"1000000" doc:"how many of a key may begin at once after a rest, where there is a rate; 0 or null = its count"`
	OnDead     *task.OnDead `json:"on_dead,omitempty" enum:"continue,stop" doc:"what becomes of a key when one of its tasks is dead, with max_running 1; continue by default, and when max_running is another"`
}

type retryIn struct {
	Initial *duration `json:"initial,omitempty" doc:"before the second attempt; 1s"`
	Max     *duration `json:"max,omitempty" doc:"no delay is longer, jitter aside; 10s"`
	Factor  *float64  `json:"factor,omitempty" minimum:"1" maximum:"1000" doc:"from one delay to the next; 2; 1 = a fixed interval"`
	Jitter  *float64  `json:"jitter,omitempty" minimum:"0" maximum:"1" doc:"share of the delay by which it may be longer or shorter; 0.1"`
}

// change applies what was given. It is a store.Change.
func (in *queueIn) change(q *task.Queue, _ bool) error {
	setSpan(&q.Timeout, in.Timeout)
	setSpan(&q.Silence, in.Silence)
	set(&q.MaxAttempts, in.MaxAttempts)
	set(&q.HoldLimit, in.HoldLimit)
	setSpan(&q.PollInterval, in.PollInterval)
	set(&q.ContextLimit, in.ContextLimit)
	setSpan(&q.Retention, in.Retention)
	setSpan(&q.DeadKept, in.DeadKept)
	set(&q.FinalQueue, in.FinalQueue)
	in.changeLimits(q)
	set(&q.Title, in.Title)
	set(&q.Owner, in.Owner)
	if in.Retry != nil {
		setSpan(&q.Retry.Initial, in.Retry.Initial)
		setSpan(&q.Retry.Max, in.Retry.Max)
		set(&q.Retry.Factor, in.Retry.Factor)
		set(&q.Retry.Jitter, in.Retry.Jitter)
	}
	return nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func setSpan(to *time.Duration, from *duration) {
	if from != nil {
		*to = from.Duration
	}
}

func confOf(q *task.Queue) QueueConf {
	return QueueConf{
		Name: q.Name, Timeout: duration{q.Timeout}, Silence: duration{q.Silence},
		MaxAttempts: q.MaxAttempts,
		Retry: retryConf{
			duration{q.Retry.Initial}, duration{q.Retry.Max}, q.Retry.Factor, q.Retry.Jitter,
		},
		HoldLimit: q.HoldLimit, PollInterval: duration{q.PollInterval},
		ContextLimit: q.ContextLimit,
		Retention:    duration{q.Retention}, DeadKept: duration{q.DeadKept},
		FinalQueue: q.FinalQueue,
		MaxRunning: q.MaxRunning, Rate: rateText{q.Rate}, Burst: q.Burst,
		PerKey: keyLimits{q.PerKey.MaxRunning, rateText{q.PerKey.Rate}, q.PerKey.Burst,
			cmp.Or(q.PerKey.OnDead, task.OnDeadContinue)},
		Fair: q.Fair, Paused: q.Paused, Title: q.Title, Owner: q.Owner,
	}
}

// QueuePath names a queue.
type QueuePath struct {
	Queue string `path:"queue" doc:"the queue's name" example:"mail"`
}

var putQueueDoc = described{
	op: huma.Operation{
		OperationID: "put-queue", Method: http.MethodPut, Path: "/v1/queues/{queue}",
		Tags:        []string{"Queues"},
		Summary:     "Create a queue or change its configuration",
		Description: "What is left out stays as it is; in a new queue it gets its default. Limits are taken away by 0 or null.",
		Parameters:  []*huma.Param{pathParameter("queue", "the queue's name")},
	},
	status:  http.StatusOK,
	example: `{"timeout":"1m","max_attempts":3,"retry":{"initial":"5s","factor":2,"max":"1m"}}`,
	body:    queueIn{}, answer: putQueueOut{},
	also: map[int]any{http.StatusCreated: putQueueOut{}},
}

// queueCalls are the calls about queues.
type queueCalls struct {
	door   *API
	queues Queues
	makers *queueGate // learns of queues that are put
}

func (c *queueCalls) register() {
	tags := []string{"Queues"}
	c.door.described(putQueueDoc, c.put)
	operation(c.door, huma.Operation{
		OperationID: "list-queues", Method: http.MethodGet, Path: "/v1/queues", Tags: tags,
		Summary: "List queues by name, and how their tasks stand",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "get-queue", Method: http.MethodGet, Path: "/v1/queues/{queue}", Tags: tags,
		Summary: "Read a queue's configuration, and how its tasks stand",
	}, c.get)
	operation(c.door, huma.Operation{
		OperationID: "delete-queue", Method: http.MethodDelete, Path: "/v1/queues/{queue}",
		Tags:    tags,
		Summary: "Delete a queue and its tasks",
	}, c.remove)
	c.pausing("pause", "Stop handing out a queue's tasks; what runs goes on", true)
	c.pausing("resume", "Hand out a queue's tasks again", false)
}

func (c *queueCalls) put(w *answer, r *http.Request) error {
	name := r.PathValue("queue")
	if !limits.ValidName(name) {
		return wrong("path.queue", "%.40q %s", name, limits.NameRule)
	}
	var in queueIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	changed, err := c.queues.ChangeQueue(r.Context(), name,
		func(q *task.Queue, stands bool) error {
			before := q.FinalQueue
			if err := in.change(q, stands); err != nil {
				return err
			}
			if q.FinalQueue == before || q.FinalQueue == "" {
				return nil
			}
			return w.who.mayQueue(q.FinalQueue) // tasks will be submitted there
		})
	if err != nil {
		return err
	}
	c.makers.learn(name)
	status := http.StatusOK
	if changed.Created {
		status = http.StatusCreated
	}
	c.door.writeValue(w, status, putQueueOut{confOf(&changed.Is), changed.Unheard})
	return nil
}

// scopedPaging asks for a page of what is in the scope of the caller's token.
type scopedPaging struct {
	Paging
	Caller
}

func (c *queueCalls) list(ctx context.Context, in *scopedPaging) (*listed[queueItem], error) {
	all, err := c.queues.Queues(ctx)
	if err != nil {
		return nil, err
	}
	all = visible(in.who, all, func(q *task.Queue) bool { return in.who.scope.queue(q.Name) })
	page, next, err := paged(all, func(q *task.Queue) string {
		return q.Name
	}, queueShelf, in.Paging)
	if err != nil {
		return nil, err
	}
	items, err := c.counted(ctx, page)
	if err != nil {
		return nil, err
	}
	return &listed[queueItem]{list[queueItem]{items, next}}, nil
}

// counted adds to queues how their tasks stand.
func (c *queueCalls) counted(ctx context.Context, queues []task.Queue) ([]queueItem, error) {
	items := make([]queueItem, len(queues))
	if len(queues) == 0 {
		return items, nil // no name at all would ask for every queue
	}
	names := make([]string, len(queues))
	for i := range queues {
		names[i] = queues[i].Name
	}
	counts, err := c.queues.Counts(ctx, names...)
	if err != nil {
		return nil, err
	}
	now, gates, err := gatesOf(ctx, c.queues, queues)
	if err != nil {
		return nil, err
	}
	by := make(map[string]*store.QueueCounts, len(counts))
	for i := range counts {
		by[counts[i].Queue] = &counts[i]
	}
	for i := range queues {
		items[i].QueueConf = confOf(&queues[i])
		if sum := by[queues[i].Name]; sum != nil {
			items[i].Counts, items[i].OldestReady = sum.Counts, instantAt(sum.OldestReady)
		}
		items[i].Limits = limitsOf(gates[queues[i].Name], now, &items[i].Counts)
	}
	return items, nil
}

func (c *queueCalls) get(ctx context.Context, in *QueuePath) (*struct{ Body queueItem }, error) {
	conf, err := queueNamed(ctx, c.queues, in.Queue)
	if err != nil {
		return nil, err
	}
	items, err := c.counted(ctx, []task.Queue{*conf})
	if err != nil {
		return nil, err
	}
	return &struct{ Body queueItem }{items[0]}, nil
}

func (c *queueCalls) remove(ctx context.Context, in *struct {
	QueuePath
	Force bool `query:"force" doc:"even if it has unfinished tasks"`
}) (*struct{}, error) {
	return nil, named(c.queues.DeleteQueue(ctx, in.Queue, in.Force), "queue", in.Queue)
}

// pausedOut answers pause and resume.
type pausedOut struct {
	Body struct {
		Name   string `json:"name"`
		Paused bool   `json:"paused"`
	}
}

// pausing registers POST /v1/queues/{queue}/NAME.
func (c *queueCalls) pausing(name, summary string, paused bool) {
	operation(c.door, huma.Operation{
		OperationID: name + "-queue", Method: http.MethodPost, Path: "/v1/queues/{queue}/" + name,
		Tags: []string{"Queues"}, Summary: summary,
	}, func(ctx context.Context, in *QueuePath) (*pausedOut, error) {
		err := error(store.ErrNotFound) // no store is asked for what can't be a name
		if limits.ValidName(in.Queue) {
			err = c.queues.PauseQueue(ctx, in.Queue, paused)
		}
		if err != nil {
			return nil, named(err, "queue", in.Queue)
		}
		out := &pausedOut{}
		out.Body.Name, out.Body.Paused = in.Queue, paused
		return out, nil
	})
}
