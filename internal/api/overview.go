package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/internal/overview"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Minutes says what happened lately.
type Minutes interface {
	// Minutes says what happened in each queue minute by minute, from a minute since 1970 on, by
	// the store's clock, in no order.
	Minutes(ctx context.Context, from, whole int64) ([]history.QueueMinute, error)
}

// What overviews cost does not depend on how many ask for them: each part is asked for at most once
// a second, and takes at most a twentieth of the time.
const (
	overviewEvery = time.Second
	overviewRest  = 20
	// asking other nodes takes the time that the slowest of them takes, and nobody's work
	overviewRestOfNodes = 2
	// how long one that nothing is known of may take, and how long what is not answered keeps those
	// waiting who could be told what was known before
	overviewFirst    = 5 * time.Second
	overviewPatience = time.Second
	// overviewMoves is how often it is told that nothing changed but the time.
	overviewMoves = 5 * time.Second
)

// overviews makes overviews of what this node knows.
type overviews struct {
	of        overviewSources
	tasks     part[seenTasks]
	schedules part[seenSchedules]
	cluster   part[seenCluster]
	workers   part[seenWorkers]

	counting sync.Mutex     // one reading of what happened at a time
	sums     *overview.Sums // the newest

	stands stands

	mu   sync.Mutex
	made overviewMade
}

// part is what an overview is made of that is asked for together.
type part[T any] struct {
	*observe.Value[T]
	ask func(context.Context) (T, error)
}

type seenTasks struct {
	now    int64 // by the store's clock
	counts []store.QueueCounts
	paused map[string]bool
	gates  map[string]*limitGate // of queues that have limits
	gated  int64                 // the store's time at which they stood so
	sums   *overview.Sums
}

type seenSchedules struct {
	stands  []store.ScheduleStand
	overdue time.Duration // since the earliest due time that nobody has handled
}

type seenCluster struct {
	cluster *store.Cluster // nil = this node has just joined, and has not seen the others yet
	groups  []store.GroupView
}

type seenWorkers struct {
	list    []task.Worker
	missing []string
}

// overviewParts are the times of the parts that an overview was made of.
type overviewParts struct{ tasks, schedules, cluster, workers time.Time }

// oldest is when the oldest of them was asked for; zero when one is not known.
func (p overviewParts) oldest() time.Time {
	oldest := p.tasks
	for _, at := range []time.Time{p.schedules, p.cluster, p.workers} {
		if at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// overviewMade is the newest overviews: to make one takes some 20 ms of 10,000 queues, and others
// wait meanwhile, so that those with the same token share it, however many they are.
type overviewMade struct {
	of   overviewParts
	told map[*scope]overview.Told // by what callers may see; nil = everything
}

// maxOverviews is how many tokens with a scope have one; others have theirs made anew each time.
const maxOverviews = 100

// overviewSources are what overviews are made from.
type overviewSources struct {
	queues     QueueViews
	minutes    Minutes
	plans      ScheduleStands
	cluster    ClusterView
	groups     GroupViews
	workers    WorkerList
	storeClock func() (ahead time.Duration, steps int)
	// of this node
	name, version string
}

func newOverviews(of overviewSources) *overviews {
	v := &overviews{of: of}
	v.tasks = seldom(v.askTasks, overviewRest)
	v.schedules = seldom(v.askSchedules, overviewRest)
	v.cluster = seldom(v.askCluster, overviewRest)
	v.workers = seldom(v.askWorkers, overviewRestOfNodes)
	return v
}

func seldom[T any](ask func(context.Context) (T, error), rest int) part[T] {
	return part[T]{
		observe.New(observe.Config[T]{Ask: ask, Fresh: overviewEvery, Rest: rest}), ask,
	}
}

// known is what is known of a part.
func (p part[T]) known(ctx context.Context) (observe.Known[T], error) {
	is, _ := p.GetSoon(overviewPatience)
	if is.At.IsZero() {
		is, _ = p.GetSoon(overviewFirst)
	}
	switch {
	case !is.At.IsZero():
		return is, nil
	case is.Err != nil:
		return is, is.Err
	}
	var err error // nobody is asked any more: the node stops, and answers its last callers
	is.At = time.Now()
	is.Value, err = p.ask(ctx)
	return is, err
}

func (v *overviews) close() {
	v.tasks.Close()
	v.schedules.Close()
	v.cluster.Close()
	v.workers.Close()
}

// storeNow is what the store's clock reads.
func (v *overviews) storeNow() time.Time {
	ahead, _ := v.of.storeClock()
	return time.Now().Add(-ahead)
}

func (v *overviews) askTasks(ctx context.Context) (s seenTasks, err error) {
	now := v.storeNow()
	if s.counts, err = v.of.queues.Counts(ctx); err != nil {
		return s, err
	}
	queues, err := v.of.queues.Queues(ctx)
	if err != nil {
		return s, err
	}
	if s.gated, s.gates, err = gatesOf(ctx, v.of.queues, queues); err != nil {
		return s, err
	}
	v.counting.Lock()
	defer v.counting.Unlock()
	minute := now.Unix() / 60
	minutes, err := v.of.minutes.Minutes(ctx, v.sums.From(minute), v.sums.Whole(minute))
	if err != nil {
		return s, err
	}
	v.sums = v.sums.Add(minute, minutes, s.counts)
	s.now, s.sums, s.paused = now.UnixMicro(), v.sums, map[string]bool{}
	for i := range queues {
		if queues[i].Paused {
			s.paused[queues[i].Name] = true
		}
	}
	return s, nil
}

// limited are the queues of which a limit holds ready tasks back.
func (s *seenTasks) limited() map[string]bool {
	if len(s.gates) == 0 {
		return nil
	}
	held := map[string]bool{}
	for i := range s.counts {
		c := &s.counts[i]
		if g := s.gates[c.Queue]; g != nil && waitingFor(g, s.gated, &c.Counts).Any() {
			held[c.Queue] = true
		}
	}
	return held
}

func (v *overviews) askSchedules(ctx context.Context) (seenSchedules, error) {
	return v.stands.of(ctx, v.of.plans, v.storeNow())
}

func (v *overviews) askCluster(ctx context.Context) (s seenCluster, err error) {
	cluster, err := v.of.cluster.Cluster(ctx)
	switch {
	case err == nil:
		s.cluster = &cluster
	case !errors.Is(err, store.ErrNotYet):
		return s, err
	}
	s.groups, err = v.of.groups.Groups(ctx)
	return s, err
}

func (v *overviews) askWorkers(ctx context.Context) (s seenWorkers, err error) {
	s.list, s.missing, err = v.of.workers.Workers(ctx, false)
	return s, err
}

// get is the overview for a caller and when it is of. It waits for a store that is silent for a
// moment only, unless nothing is known yet.
func (v *overviews) get(
	ctx context.Context, who principal,
) (told overview.Told, at time.Time, err error) {
	v.tasks.Get(0) // all are asked before one is waited for
	v.schedules.Get(0)
	v.cluster.Get(0)
	v.workers.Get(0)
	tasks, err1 := v.tasks.known(ctx)
	schedules, err2 := v.schedules.known(ctx)
	cluster, err3 := v.cluster.known(ctx)
	workers, err4 := v.workers.known(ctx)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return nil, at, err
	}
	of := overviewParts{tasks.At, schedules.At, cluster.At, workers.At}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made.of != of {
		v.made = overviewMade{of, map[*scope]overview.Told{}}
	}
	if told, made := v.made.told[who.scope]; made {
		return told, of.oldest(), nil
	}
	var in overview.Scope
	if who.scope != nil {
		in = overview.Scope{Queue: who.scope.queue, Group: who.scope.group}
	}
	o := overview.Of(&overview.Facts{
		Now: tasks.Value.now, Queues: tasks.Value.counts, Paused: tasks.Value.paused,
		Limited: tasks.Value.limited(),
		Sums:    tasks.Value.sums, Schedules: schedules.Value.stands,
		Groups: cluster.Value.groups, Cluster: cluster.Value.cluster,
		Workers: workers.Value.list, Missing: workers.Value.missing,
	}, in)
	o.At, o.Node, o.Version = view.Time{Time: of.oldest()}, v.of.name, v.of.version
	if told, err = overview.Tell(o); err == nil &&
		(who.scope == nil || len(v.made.told) < maxOverviews) {
		v.made.told[who.scope] = told
	}
	return told, of.oldest(), err
}

var overviewDoc = described{
	op: huma.Operation{
		OperationID: "get-overview", Method: http.MethodGet, Path: "/v1/overview",
		Tags:    []string{"Overview"},
		Summary: "Read how everything stands",
		Description: "The sums, and of queues, nodes and workers those that matter most; lists have all. What it tells is at most a second old where the store " +
			"answers, and what was known before where it does not: at says of when it is. A token with a scope sees the queues, schedules and groups that it names, " +
			"the sums of these, and no workers.",
	},
	status: http.StatusOK, answer: view.Overview{},
}

// overviewCalls are the calls about how everything stands.
type overviewCalls struct {
	door      *API
	overviews *overviews
}

func (c *overviewCalls) register() {
	c.door.described(overviewDoc, c.get)
	// a tag says of no object that it may be null
	fields := c.door.huma.OpenAPI().Components.Schemas.Map()["Overview"].Properties
	oldest := fields["oldest_ready"]
	fields["oldest_ready"] = &huma.Schema{
		OneOf: []*huma.Schema{{Ref: oldest.Ref}, {Type: "null"}}, Description: oldest.Description,
	}
	operation(c.door, huma.Operation{
		OperationID: "stream-overview", Method: http.MethodGet, Path: "/v1/overview/stream",
		Tags:    []string{"Overview"},
		Summary: "Follow how everything stands",
		Description: "Server-sent events: first one of the type snapshot, whose data is the overview, then, at most once a second and when something changed, " +
			"one of the type patch: a JSON merge patch (RFC 7396) against what this stream told before. What the patch makes null is null. That only at moved is told " +
			"every five seconds. A comment comes when nothing else did for 15 s.",
		Responses: map[string]*huma.Response{"200": {
			Description: http.StatusText(http.StatusOK),
			Content: map[string]*huma.MediaType{
				"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
			},
		}},
	}, c.stream)
}

func (c *overviewCalls) get(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	told, at, err := c.overviews.get(r.Context(), w.who)
	if err != nil {
		return err
	}
	if err := c.door.room(r.Context(), &w.call, told.Size()); err != nil {
		return err
	}
	c.door.write(w, http.StatusOK, told.Aged(time.Since(at)).Append)
	return nil
}

func (c *overviewCalls) stream(
	ctx context.Context, in *struct{ Caller },
) (*huma.StreamResponse, error) {
	told, at, err := c.overviews.get(ctx, in.who)
	if err != nil {
		return nil, err
	}
	if err := c.door.follows.begin(in.key()); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer c.door.follows.end(in.key())
		_, w := humago.Unwrap(hctx)
		c.follow(ctx, w.(*answer), in.who, told.Aged(time.Since(at)))
	}}, nil
}

// follow streams an overview, and what changes of it. Errors end the stream; the reader
// comes back, and is told all anew.
func (c *overviewCalls) follow(ctx context.Context, w *answer, who principal, told overview.Told) {
	control := startStream(w)
	event := append([]byte("event: snapshot\ndata: "), told.Append(nil)...)
	event = append(event, "\n\n"...)
	said, moved := time.Now(), time.Now()
	for {
		if len(event) == 0 && time.Since(said) >= quiet {
			event = append(event, ":\n\n"...)
		}
		if len(event) > 0 {
			said = time.Now()
			w.limit()
			w.Write(event)
			control.Flush()
			event = event[:0]
		}
		if w.broken || !c.door.pause(ctx, w.epoch, overviewEvery) {
			return
		}
		now, at, err := c.overviews.get(ctx, who)
		if err != nil {
			return
		}
		now = now.Aged(time.Since(at))
		patch := overview.Patch(told, now, time.Since(moved) >= overviewMoves)
		if len(patch) > 0 {
			told, moved = now, time.Now()
			event = append(patch.Append(append(event, "event: patch\ndata: "...)), "\n\n"...)
		}
	}
}
