package rota

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/notify"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// groupKind is the kind of the claims on groups.
const groupKind = "group"

// groups is what operators change about groups and their workers, in the store.
type groups interface {
	ChangeGroup(ctx context.Context, name string,
		change store.Change[task.Group]) (store.Changed[task.Group], error)
	DeleteGroup(ctx context.Context, name string, force bool) error
	AskGroup(ctx context.Context, name string, refresh, rebalance bool) error
	DeleteSeat(ctx context.Context, worker string) error
	AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error
	JobLog(ctx context.Context, group, job string, from int64, limit int) (store.LogPage, error)
}

var (
	_ api.Groups     = (*jobs)(nil)
	_ api.Jobs       = (*jobs)(nil)
	_ api.Placements = (*jobs)(nil)
	_ worker.JobLogs = (groups)(nil)
)

// jobs is what this node does about endless work: its sessions know the workers that beat here, its
// supervisors look after the groups that it claims, and the views answer people about all groups,
// whoever looks after them.
type jobs struct {
	store    backend
	cache    *supervise.ClusterCache
	sessions *supervise.Sessions
	views    *supervise.Views
	folder   *supervise.Folder // nil: this node reads no files
	slots    chan struct{}     // see supervise.Sources
}

// readersAtOnce is how many files and commands of sources are read at a time, those that hang
// included: each may keep a thread.
const readersAtOnce = 64

// openJobs makes them. They do nothing before Run.
func (n *Node) openJobs(holder store.Holder) (err error) {
	j := &jobs{
		store: n.store, cache: supervise.NewClusterCache(n.store, n.conf.Beat), folder: n.folder,
		slots: make(chan struct{}, readersAtOnce),
	}
	sessions := supervise.SessionsConfig{
		Cache: j.cache, Store: timedRuns{n.store, n.meter}, Holder: holder,
		Secret: n.store.Secret(), Beat: n.conf.Beat, Log: n.log,
		Reserve: func(worker string, load task.Units) { n.tasks.Reserve(worker, load) },
	}
	if !n.alone() { // else nobody can give anything away, and jobs go on while the store is away
		sessions.Held = n.rounds.Held
		sessions.MaxAge = n.conf.Lease * 3 / 4 // as long as the node's own lease may go unheard
	}
	if j.sessions, err = supervise.NewSessions(sessions); err != nil {
		return err
	}
	j.views = supervise.NewViews(j.cache, func(group string) string {
		return n.rounds.Cluster().Owned[groupKind+"/"+group]
	})
	n.jobs = j
	return n.rounds.Claim(scheduler.Kind{Name: groupKind, Keys: j.cache.Names, Look: n.supervise})
}

// heardJobs are the sessions, and record an event that tells how workers come to be away.
type heardJobs struct {
	*supervise.Sessions
	tell func(store.Event)
}

// Kinds of events about workers, besides those that supervisors tell.
const (
	workerLeft   = supervise.WorkerLeft
	workerSilent = "worker.silent"
)

// Hear tells once of each start of a worker that it left.
func (h *heardJobs) Hear(b *task.Beat) {
	if b.Leaving {
		h.tell(store.Event{
			Kind: workerLeft, Subject: b.Worker,
			Key:  workerLeft + "/" + b.Worker + "/" + b.Incarnation,
			Text: "worker " + b.Worker + " said that it leaves", Fields: map[string]string{
				"worker": b.Worker,
			},
		})
	}
	h.Sessions.Hear(b)
}

// Away tells that a worker fell silent. What it ran starts elsewhere, of which supervisors tell.
func (h *heardJobs) Away(worker string) {
	h.tell(store.Event{
		Kind: workerSilent, Subject: worker,
		Text:   "worker " + worker + " was not heard of for longer than its limit",
		Fields: map[string]string{"worker": worker},
	})
	h.Sessions.Away(worker)
}

// supervise looks after a group for as long as this node has the claim on it.
func (n *Node) supervise(ctx context.Context, c scheduler.Claim) {
	s, err := supervise.New(supervise.Config{
		Cache: n.jobs.cache, Store: timedPlans{n.store, n.meter},
		Group: c.Key, Claim: c.Lease(), Beat: n.conf.Beat,
		Warmup: n.conf.Warmup, Tell: n.outbox.Add, Log: n.log,
		Moved: func(change supervise.Change, why supervise.Why) {
			n.meter.Moved(c.Key, string(change), string(why))
		},
		Gone: func() { n.meter.Forget(c.Key) },
		Sources: supervise.Sources{
			HTTP: notify.Client(n.conf.AllowPrivate, sourceTimeout), Folder: n.jobs.folder,
			Commands: n.conf.AllowCommands,
			Timeout:  sourceTimeout, Slots: n.jobs.slots,
		},
	})
	if err == nil {
		err = s.Run(ctx)
	}
	if err != nil {
		n.log.Error("group is not looked after", "group", c.Key, "error", err)
	}
}

// sourceTimeout is how long the reading of a group's source may take.
const sourceTimeout = 30 * time.Second

// HandleJob lets this node run jobs of a group with h: one call for each replica that is assigned
// to it, as worker.Worker.HandleJob says. Call it before Run, which says what is wrong with it.
// Config.Capacity is shared with the tasks that the node handles.
func (n *Node) HandleJob(group string, h worker.JobHandler) {
	group = names.Canonical(group)
	if w := n.ownWorker(); w != nil {
		w.HandleJob(group, h)
	}
}

func (j *jobs) ChangeGroup(
	ctx context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	defer j.cache.LookSoon()
	return j.store.ChangeGroup(ctx, name, func(is *task.Group, stands bool) error {
		was := is.Source
		if err := change(is, stands); err != nil {
			return err
		}
		return j.readable(was, is.Source)
	})
}

// readable refuses a new source that this node would not read. One that stands already may stay:
// other nodes may read it.
func (j *jobs) readable(was, is task.Source) error {
	if is.Kind != task.SourceFile || was.Kind == is.Kind && was.Path == is.Path {
		return nil
	}
	if _, err := j.folder.Inside(is.Path); err != nil {
		var e task.InvalidError
		e.Add("body.source.path", "%v", err)
		return e.Err()
	}
	return nil
}

func (j *jobs) Groups(ctx context.Context) ([]store.GroupView, error) { return j.views.Groups(ctx) }

func (j *jobs) Group(ctx context.Context, name string) (store.GroupView, error) {
	return j.views.Group(ctx, name)
}

func (j *jobs) DeleteGroup(ctx context.Context, name string, force bool) error {
	defer j.cache.LookSoon()
	return j.store.DeleteGroup(ctx, name, force)
}

func (j *jobs) AskGroup(ctx context.Context, name string, refresh, rebalance bool) error {
	defer j.cache.LookSoon()
	return j.store.AskGroup(ctx, name, refresh, rebalance)
}

func (j *jobs) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	defer j.cache.LookSoon()
	return j.store.ChangeJobs(ctx, c)
}

func (j *jobs) Jobs(ctx context.Context, group, after string, limit int) ([]task.Job, error) {
	return j.views.Jobs(ctx, group, after, limit)
}

func (j *jobs) AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error {
	return j.store.AppendJobLog(ctx, group, job, lines)
}

func (j *jobs) JobLog(
	ctx context.Context, group, job string, from int64, limit int,
) (store.LogPage, error) {
	return j.store.JobLog(ctx, group, job, from, limit)
}

func (j *jobs) Placements(ctx context.Context, q store.PlacementQuery) ([]store.Placement, error) {
	return j.views.Placements(ctx, q)
}

func (j *jobs) Explain(ctx context.Context, group, job string) (store.Explanation, error) {
	return j.views.Explain(ctx, group, job)
}

func (j *jobs) Plan(ctx context.Context, group string, what store.WhatIf) (store.Planned, error) {
	return j.views.Plan(ctx, group, what)
}
