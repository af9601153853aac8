package rota

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/capacity"
	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/firing"
	"github.com/rotahq/rota/internal/inbound"
	"github.com/rotahq/rota/internal/logshare"
	"github.com/rotahq/rota/internal/meter"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/notify"
	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/internal/outbox"
	"github.com/rotahq/rota/internal/peers"
	"github.com/rotahq/rota/internal/proclock"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
	"github.com/rotahq/rota/worker"
)

// A remote worker is the same worker on another queue.
var (
	_ worker.Queue = (*dispatch.Dispatcher)(nil)
	_ worker.Queue = (*client.Client)(nil)
	_ api.Engine   = (*dispatch.Dispatcher)(nil)
)

// Errors of Open and of a node's calls that a caller may want to tell apart, with errors.Is.
var (
	ErrConfig = errors.New("configure rota") // Config is wrong: nothing was opened

	// What the refusal of a call means; a client of a server says the same by the same errors.

	ErrInvalid  = task.ErrInvalid  // it is wrong: a *task.InvalidError has the places
	ErrNotFound = task.ErrNotFound // no such task, queue, group, job or schedule
	ErrConflict = task.ErrConflict // not in a state that allows it
	ErrFull     = task.ErrFull     // no room on the disk: nothing was stored
	// ErrUnavailable: it can't be done just now, and nothing was changed.
	ErrUnavailable = task.ErrUnavailable
	// ErrOutcomeUnknown: perhaps stored. Only a submission with a key may be repeated safely.
	ErrOutcomeUnknown = task.ErrOutcomeUnknown

	ErrBusy = store.ErrBusy // an ErrUnavailable: too much waits already
	// an ErrUnavailable: no connection to the store is to be had
	ErrOutOfReach = store.ErrOutOfReach

	ErrBroken = store.ErrBroken // the store can't be trusted any more: Run ends with it

	// ErrOusted: the node was cut off from the store for longer than its lease, and the others have
	// taken over what it held. Run ends with it (it is an ErrBroken, too). Node.Reopen makes the
	// node a member again.
	ErrOusted = scheduler.ErrOusted
)

// Node is one peer: a store, and everything that works on it. All methods may be called at the same
// time.
//
// Whatever a client of a server can do a node can, by the same calls: it has all methods of the
// Client beside its own, whose calls stay in this process.
type Node struct {
	// Client makes calls of the API in this process: without a network, and without access tokens,
	// as somebody who may do everything. It ends with the node.
	*client.Client

	conf  Config
	log   *slog.Logger
	store backend
	// of the node's name in this store; nil when the store admits one process only
	guard  *proclock.Lock
	clock  *tick.Clock
	tasks  *dispatch.Dispatcher
	rounds *scheduler.Scheduler
	peers  *peers.Peers
	outbox *outbox.Outbox // of events that this node has to tell
	sender *notify.Sender
	hooks  *inbound.Book // that other programs call
	jobs   *jobs
	logs   *logshare.Gate    // what all lines of logs at this node pass through
	folder *supervise.Folder // that sources are read from; nil = none
	firer  *firing.Firer
	token  int64 // of the membership
	// how many workers queues and groups need, as this node knows it
	forecasts *capacity.Forecasts
	door      *door
	server    *http.Server // serves the door on listen; nil = nothing does
	listen    net.Listener
	joined    time.Time

	meter    *meter.Meter              // of what this node does
	check    *observe.Value[string]    // what the store said of itself last
	steps    clockSteps                // of the store's clock
	answered atomic.Pointer[time.Time] // when it answered a beat last; nil = never

	mu     sync.Mutex
	worker *worker.Worker // made at the first Handle
	finals [][2]string    // queues, and those that are to get their final notices
	// what is put around the worker's handlers when Run begins
	around   []func(worker.Handler) worker.Handler
	problem  error  // with a handler; Run says so
	running  bool   // Run was called
	closed   bool   // Close was called: Run begins no more
	endRun   func() // ends Run and waits for that; nil = it has not begun
	closing  sync.Once
	closeErr error
}

// Open opens the store and joins it. The node serves nothing before Run, but tasks can be
// submitted. Close it when Run was not called; Run closes it by itself.
func Open(ctx context.Context, conf Config) (*Node, error) { return open(ctx, conf, nil) }

// Reopen opens a node again whose Run has ended with ErrOusted: configured as it was, at the same
// address. What is found must be the store that it worked on: another one that stands in its place
// is ErrBroken, and is left alone. While the store is away it is ErrOutOfReach: try again. Handlers
// and claims are those of the new node.
func (n *Node) Reopen(ctx context.Context) (*Node, error) {
	conf := n.conf
	conf.Listen = n.Addr() // port 0 is chosen once
	return open(ctx, conf, n)
}

// open opens a node on the store that it worked on before, or, if before is nil, on whichever is
// there.
func open(ctx context.Context, conf Config, before *Node) (*Node, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	n := &Node{
		conf: conf, log: conf.Log, clock: tick.New(tick.Config{}),
		logs: logshare.New(logshare.Config{}), meter: meter.New(),
	}
	if err := n.open(ctx, before); err != nil {
		return nil, errors.Join(err, n.giveUp(ctx))
	}
	return n, nil
}

func (n *Node) open(ctx context.Context, before *Node) (err error) {
	if n.conf.Listen != "" {
		if n.listen, err = net.Listen("tcp", n.conf.Listen); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	if n.folder, err = supervise.OpenFolder(n.conf.SourceFolder); err != nil {
		return err
	}
	if n.store, err = openStore(ctx, n.conf, storeOf(before)); err != nil {
		return err
	}
	n.check = newCheck(n.store)
	if !n.alone() {
		n.guard = proclock.New(peers.GuardName(n.store.PeerKey(), n.conf.Name))
	}
	n.peers = peers.New(peers.Config{
		Node: n.conf.Name, Key: n.store.PeerKey(), Now: n.storeTime,
	})
	if n.sender, err = notify.New(n.notifications()); err != nil {
		return err
	}
	n.hooks = inbound.New(n.store)
	n.outbox = outbox.New(outbox.Config{
		Node: n.conf.Name, Append: n.store.Append, Written: n.sender.Look, Log: n.log,
	})
	if n.rounds, err = scheduler.New(n.membership()); err != nil {
		return err
	}
	holder, err := n.rounds.Join(ctx)
	if err != nil {
		return err
	}
	n.joined, n.token = time.Now(), holder.Token
	if n.secluded() {
		n.log.Warn(noAddress, "mend",
			"advertise the URL at which they reach it, as --advertise http://10.0.0.7:7700")
	}
	n.outbox.AddMember(store.NodeOnline, "came", n.token)
	if n.alone() { // what the last process held is there to be taken from the start
		if _, err := n.store.Free(ctx, holder, math.MaxInt64); err != nil {
			return err
		}
	}
	if err := n.openJobs(holder); err != nil {
		return err
	}
	if n.tasks, err = dispatch.New(ctx, n.dispatching(holder)); err != nil {
		return err
	}
	if err := n.openSchedules(); err != nil {
		return err
	}
	n.forecasts = n.newForecasts()
	return n.openDoor(before)
}

// dispatching is how the node hands out tasks.
func (n *Node) dispatching(holder store.Holder) dispatch.Config {
	c := dispatch.Config{
		Store: timedStore{n.store, n.meter}, Holder: holder, Secret: n.store.Secret(),
		Clock: n.clock, Beat: n.conf.Beat, OfferFor: n.conf.offerFor,
		Log: n.log, Working: n.rounds.Working, Jobs: &heardJobs{n.jobs.sessions, n.outbox.Add},
	}
	if !n.alone() {
		c.Reach, c.Judges = n.rounds.Reach, n.rounds.Judges
		c.Flights = 2 // one of them may wait for somebody's lock
		c.Company = 2 * time.Millisecond
		c.Changed = func() {}
		if s, ok := n.store.(*shared); ok && s.told {
			c.Changed = s.TellLimits
			c.Announce = func(queues map[string]int) { s.Announce(n.conf.Name, queues) }
			c.Ended = s.TellEnded
		}
		c.Look = n.conf.Beat // hints of what other nodes did may be lost, or there are none
	}
	return c
}

// address is where other nodes reach this one: what the configuration says, or where it listens, if
// that says more than "everywhere".
func (n *Node) address() string {
	if n.conf.Advertise != "" || n.listen == nil {
		return n.conf.Advertise
	}
	if a, ok := n.listen.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		return ""
	}
	return "http://" + n.listen.Addr().String()
}

// alone tells whether no other process can work on the store.
func (n *Node) alone() bool {
	_, yes := n.store.(*embedded)
	return yes
}

// membership is how the node takes part in the cluster.
func (n *Node) membership() scheduler.Config {
	c := scheduler.Config{
		Leases: timedLeases{n.store, n.meter}, Renewed: n.renewed,
		Chores: chores{checkedChores{n.store, n.outbox}, n},
		Tell:   schedulerEvents{n.outbox}.Tell, Name: n.conf.Name,
		Start: strings.ToLower(rand.Text()), Alone: n.alone(), Address: n.address(),
		TTL: n.conf.Lease, Beat: n.conf.Beat,
		StopGrace: n.conf.StopGrace, Tolerance: n.conf.Tolerance, Alarm: n.conf.Alarm, Busy: n.busy,
		Holds: n.holds, Log: n.log,
		Along: dispatch.Words(), Heard: n.heard,
		Passing: []string{dispatch.AlivePrefix, dispatch.FollowPrefix},
	}
	if c.Alone {
		c.Start = "" // its predecessor is certainly dead
	} else {
		c.Peers, c.Guard = n.peers, n.guard
	}
	if c.Chosen = n.conf.Rebalance != ""; n.conf.Rebalance == "manual" {
		c.Limits.Rebalance = balance.RebalanceManual
	}
	return c
}

// renewed measures a renewal of the membership.
func (n *Node) renewed(r scheduler.Renewal) {
	outcome := meter.Renewed
	switch {
	case r.Err != nil:
		outcome = meter.Failed
	case r.Lost:
		outcome = meter.Lost
	case r.Left <= 0:
		outcome = meter.Lapsed
	}
	n.meter.Renewal(outcome, r.Left)
}

// storeTime is what the store's clock reads, which all nodes share.
func (n *Node) storeTime() time.Time { return time.Now().Add(-n.tasks.ClockOffset()) }

// notifications is how events are told of: by one node of a store.
func (n *Node) notifications() notify.Config {
	c := notify.Config{
		Store: n.store, Private: n.conf.AllowPrivate, Every: 5 * n.conf.Beat, Log: n.log,
		Owner:    n.ownerOf,
		Commands: n.conf.AllowCommands,
		Submit: func(ctx context.Context, t task.Submission) error {
			_, err := n.tasks.Submit(ctx, []task.Submission{t})
			return err
		},
	}
	if !n.alone() {
		c.Leases, c.Node = n.store, n.conf.Name
	}
	return c
}

// ownerOf is who answers for a queue, group or schedule; "" when nobody said, or it is gone.
func (n *Node) ownerOf(ctx context.Context, of notify.Owned) (string, error) {
	switch of.Kind {
	case notify.OwnedQueue:
		list, err := n.store.Queues(ctx)
		for _, q := range list {
			if q.Name == of.Name {
				return q.Owner, err
			}
		}
		return "", err
	case notify.OwnedGroup:
		g, err := n.jobs.Group(ctx, of.Name)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil
		}
		return g.Owner, err
	case notify.OwnedSchedule:
		list, err := n.store.Schedules(ctx, store.ScheduleQuery{Names: []string{of.Name}})
		if err != nil || len(list) == 0 {
			return "", err
		}
		return list[0].Responsible, nil
	}
	return "", nil
}

// chores tells the node's own dispatcher of what was freed; the other nodes are told by the store.
// Who does them also fires what nobody else does.
type chores struct {
	scheduler.Chores
	node *Node
}

func (c chores) Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error) {
	c.node.firer.Backstop()
	if freed, err = c.Chores.Free(ctx, self, judge); freed > 0 {
		c.node.tasks.Hear("", nil)
	}
	return freed, err
}

// busy is how busy the node is, for the choice of who does what one must do.
func (n *Node) busy() balance.Busyness {
	var b balance.Busyness
	if n.conf.Load != nil {
		load := n.conf.Load()
		b.CPU = balance.Part{Used: load.CPU, Max: 1}
		b.Memory = balance.Part{Used: load.Memory, Max: 1}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.worker != nil {
		b.Executors = balance.Part{
			Used: float64(n.worker.Stats().Running), Max: float64(n.conf.Capacity),
		}
	}
	return b
}

// holds counts the tasks in the node's hands; before there is a dispatcher there are none.
func (n *Node) holds() int {
	if n.tasks == nil {
		return 0
	}
	return n.tasks.Holding()
}

// Name is the node's name among its peers, and that of its own worker.
func (n *Node) Name() string { return n.conf.Name }

// Addr is the address that the API listens on; empty without one.
func (n *Node) Addr() string {
	if n.listen == nil {
		return ""
	}
	return n.listen.Addr().String()
}

// schema is that of the store's tables; "" when the store is no PostgreSQL.
func (n *Node) schema() string {
	if s, ok := n.store.(*shared); ok {
		return s.Schema()
	}
	return ""
}

// Durability is what an answered commit survives: "local" (a crash of the store's machine), "async"
// (that, but standbys may lack what came last) or "sync" (the loss of the primary, too).
func (n *Node) Durability(ctx context.Context) (string, error) { return n.store.Durability(ctx) }

// Submit stores tasks, all or none, durably before it returns. Errors: *task.InvalidError, ErrFull,
// ErrUnavailable, ErrOutcomeUnknown.
func (n *Node) Submit(ctx context.Context, tasks ...task.Submission) ([]task.Receipt, error) {
	if err := wire.CheckContexts(tasks); err != nil {
		return nil, err
	}
	return n.tasks.Submit(ctx, tasks)
}

// Task answers with all that is known of a task; with wait > 0 it waits so long for the task to
// become final. ErrNotFound.
func (n *Node) Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error) {
	return n.tasks.Task(ctx, id, wait)
}

// Handle lets this node work off a queue with h: Config.Capacity calls at once, over all queues.
// Call it before Run, which says what is wrong with it.
func (n *Node) Handle(queue string, h worker.Handler) {
	queue = names.Canonical(queue)
	if w := n.ownWorker(); w != nil {
		w.Handle(queue, h)
	}
}

// HandleStages is Handle with a function for each stage.
func (n *Node) HandleStages(queue string, stages worker.Stages) {
	queue = names.Canonical(queue)
	if w := n.ownWorker(); w != nil {
		w.HandleStages(queue, stages)
	}
}

// HandleStage is Handle with a function for one stage; see worker.Worker.HandleStage.
func (n *Node) HandleStage(queue, stage string, h worker.Handler) {
	queue = names.Canonical(queue)
	if w := n.ownWorker(); w != nil {
		w.HandleStage(queue, stage, h)
	}
}

// Use puts wrap around each handler of tasks: what the first call puts around is the outermost.
// Call it before Run.
func (n *Node) Use(wrap func(worker.Handler) worker.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.around = append(n.around, wrap)
}

// HandleHooks is Handle with hooks. With Final, the queue is configured, when Run begins, to give
// its final notices to hooks.FinalQueue, by default the queue's name and "-final"; and this node
// does them.
func (n *Node) HandleHooks(queue string, hooks worker.Hooks) {
	queue, hooks.FinalQueue = names.Canonical(queue), names.Canonical(hooks.FinalQueue)
	if hooks.Final != nil {
		hooks.FinalQueue = cmp.Or(hooks.FinalQueue, queue+"-final")
	}
	w := n.ownWorker()
	if w == nil {
		return
	}
	w.HandleHooks(queue, hooks)
	if hooks.FinalQueue != "" {
		n.mu.Lock()
		n.finals = append(n.finals, [2]string{queue, hooks.FinalQueue})
		n.mu.Unlock()
	}
}

// HandleFinal lets f be told how tasks died whose queues are configured with this one for their
// final notices (client.QueueChange.FinalQueue), until it returns nil.
func (n *Node) HandleFinal(queue string, f func(context.Context, task.FinalNotice) error) {
	queue = names.Canonical(queue)
	if w := n.ownWorker(); w != nil {
		w.HandleFinal(queue, f)
	}
}

// ownWorker is the node's worker, made at the first call; nil when it can't be made, which Run
// says.
func (n *Node) ownWorker() *worker.Worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.worker == nil && n.problem == nil && !n.running {
		n.worker, n.problem = worker.New(worker.Config{
			Queue: ownQueue{n.tasks, n.logs}, JobLogs: ownJobLogs{n.store, n.logs},
			Name: n.conf.Name, Capacity: n.conf.Capacity, StopGrace: n.conf.StopGrace, Log: n.log,
			Schema: n.schema(),
		})
	}
	if n.running { // too late: Run has looked
		n.log.Error("handle: the node runs already")
		return nil
	}
	return n.worker
}
