package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// Config of a dispatcher. Store, Holder and Clock are needed; zero values of the rest mean the
// defaults.
type Config struct {
	Store  Store
	Holder store.Holder // this node under its membership lease
	Clock  *tick.Clock  // carries every deadline; run by the caller
	Secret seal.Secret  // the store's: seals tokens; the same at every node
	Log    *slog.Logger
	// Working says whether this node takes tasks; asked at each round. While it says no, what the
	// node holds goes back to the store, what its workers run is settled, and holds are refused
	// with ErrDraining. Default: always.
	Working func() bool
	// Reach says why the store is out of reach just now, as store.ErrOutOfReach: what waits for a
	// write is refused then, not tried. nil = it is not. It must not wait. Default: it never is.
	Reach func() error
	// Judges says whether this node is the one that looks for attempts past their limit that no
	// node's clock watches; asked once a beat. It says no as long as the store's clock can't be
	// relied upon. Default: always.
	Judges func() bool
	// Announce tells other nodes, perhaps, how many tasks the workers that wait here could begin
	// now, by queue; it must not wait. They tell it to HearRoom. nil = there are no other nodes, or
	// they are not heard.
	Announce func(queues map[string]int)
	// Ended tells other nodes, perhaps, that tasks of queues with limits have ended; it must not
	// wait. They tell it to HearEnded. nil = there are no other nodes.
	Ended func(queues []string)
	// Changed tells other nodes, perhaps, that the limits of a queue have changed; it must not
	// wait. They tell it to HearChanged. nil = there are no other nodes.
	Changed func()
	Jobs    Jobs // shares the workers' beats and capacities; nil = there are no jobs

	Beat      time.Duration // between rounds; default 1 s
	BeatEvery time.Duration // how often workers should beat; default 5 s
	// the store is asked so often for a queue that somebody waits for, without any sign; default
	// 5 s
	Look      time.Duration
	GiveAfter time.Duration // spans nobody waits for are given back after it; default 2 s
	// OfferFor is how long free tasks are left to the nodes that are named in an offer of them.
	// Default 20 ms.
	OfferFor time.Duration
	Ahead    int // tasks held ready per queue at most; default 16,384
	// AheadBytes is how much their contexts may weigh per queue; what a single take or submission
	// brings may pass it. Default 32 MiB.
	AheadBytes int64
	Gather     int // tasks or reports per transaction at most; default 4,096
	// transactions of submissions under way at most, and of reports; default 1, all that a store
	// with one writer can use. A second one begins only beside one that takes unusually long
	Flights int
	// Company is how long a transaction under load waits for more to go with it, if it would be
	// smaller than the last. Who calls alone never waits. Default: not at all, as a store that
	// gathers by itself wants it.
	Company time.Duration
	// tasks or reports that may wait for a transaction before more is refused; default 200,000
	Room      int
	AnswerMax int64 // bytes of contexts in one answer to a hold; default 32 MiB
}

// Jobs is endless work, which workers run besides tasks. What it wants of the dispatcher it says by
// Reserve.
type Jobs interface {
	// Hear takes in what a beat says of jobs. It is called with the dispatcher locked: it waits for
	// nothing, and calls nothing here.
	Hear(b *task.Beat)
	// Orders answers a beat that was heard: what its worker is to do about its jobs. It waits for
	// no longer than ctx lasts. Its error ends the call.
	Orders(ctx context.Context, b *task.Beat) (task.Orders, error)
	// Away takes in that a worker that serves groups fell silent, and by now has stopped its jobs
	// by itself. Called as Hear is.
	Away(worker string)
	// Patience says how long a worker that serves groups may go unheard before it has stopped its
	// jobs by itself, and how much time at most may lie between its beats. Called as Hear is.
	Patience(worker string) (silence, beat time.Duration)
}

func (c *Config) setDefaults() error {
	var missing []error
	if c.Store == nil {
		missing = append(missing, errors.New("no Store"))
	}
	if c.Clock == nil {
		missing = append(missing, errors.New("no Clock"))
	}
	if c.Holder.Node == "" {
		missing = append(missing, errors.New("no Holder"))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Judges == nil {
		c.Judges = func() bool { return true }
	}
	if c.Reach == nil {
		c.Reach = func() error { return nil }
	}
	setDefault(&c.Beat, time.Second)
	setDefault(&c.BeatEvery, 5*time.Second)
	setDefault(&c.Look, 5*time.Second)
	setDefault(&c.OfferFor, 20*time.Millisecond)
	setDefault(&c.GiveAfter, 2*time.Second)
	setDefault(&c.Ahead, 16_384)
	setDefault(&c.AheadBytes, 32<<20)
	setDefault(&c.Gather, 4096)
	setDefault(&c.Flights, 1)
	setDefault(&c.Room, 200_000)
	setDefault(&c.AnswerMax, 32<<20)
	return errors.Join(missing...)
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// errLeaseGone says that this node may not write at present: its lease has expired, or was ended.
var errLeaseGone = errors.New("this node's lease is gone")

// ErrClosed answers calls that come when the node stops.
var ErrClosed = fmt.Errorf("node is stopping: %w", store.ErrClosed)

// ErrDraining answers holds at a node that is to take no tasks: another node has some.
var ErrDraining = fmt.Errorf("%w: %w", store.ErrDraining, store.ErrBusy)

// Dispatcher is one node's share of the tasks. All methods may be called at the same time.
//
// It is made of parts, one for each way in which memory and store meet. All of them have the core,
// with the lock; what a part needs of another one it has a field for. Each can be read by itself,
// and their calls are the dispatcher's.
type Dispatcher struct {
	*core
	*views       // how things stand
	*submissions // tasks come into the store
	*transfers   // spans come into memory, and go back
	*handouts    // workers get tasks
	*gates       // what may begin
	*settlements // what became of hand-outs
	*reloads     // where tasks stand that others have touched
	*wakes       // tasks that wait go on
	*deadlines   // what is past its time
	*actions     // what people do to tasks
	*queueCalls  // configurations
	*workerCalls // beats, and operators' words
}

// New makes a dispatcher and reads the queues' configurations and what is remembered of workers.
func New(ctx context.Context, conf Config) (*Dispatcher, error) {
	if err := conf.setDefaults(); err != nil {
		return nil, fmt.Errorf("configure dispatcher: %w", err)
	}
	c := &core{
		conf: conf, store: conf.Store, log: conf.Log,
		mem: newMemory(policy{
			Holder: conf.Holder, Beat: conf.Beat, BeatEvery: conf.BeatEvery, Look: conf.Look,
			GiveAfter: conf.GiveAfter, OfferFor: conf.OfferFor, Ahead: conf.Ahead,
			AheadBytes: conf.AheadBytes,
			Alone:      conf.Announce == nil, Serving: conf.Jobs != nil,
		}, seal.NewSealer(conf.Secret)),
		stop: make(chan struct{}), broken: make(chan error, 1),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	d := newParts(c)
	c.errands = d
	if err := d.Refresh(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// newParts makes the parts around a core, each after those that it needs.
func newParts(c *core) *Dispatcher {
	d := &Dispatcher{
		core: c, views: &views{core: c}, submissions: newSubmissions(c),
		transfers: &transfers{c}, reloads: &reloads{c}, wakes: &wakes{c},
		queueCalls: &queueCalls{
			core: c, changing: make(chan struct{}, 1), toFollow: make(chan struct{}, 1),
			following: make(chan struct{}, 1),
		},
	}
	d.gates = &gates{c, d.reloads}
	d.handouts = &handouts{c, d.gates}
	d.settlements = newSettlements(c, d.submissions, d.queueCalls, d.reloads)
	d.deadlines = &deadlines{c, d.settlements, d.gates}
	d.actions = &actions{c, d.views, d.reloads}
	d.workerCalls = &workerCalls{c, d.settlements}
	return d
}

// Refresh reads what time it is in the store, what operators said, and the queues' configurations.
// The rounds and beats of a node do so by themselves.
func (d *Dispatcher) Refresh(ctx context.Context) error {
	asked := time.Now()
	beat, err := d.store.Beat(ctx, nil, remembered, Words()...)
	if err != nil {
		return fmt.Errorf("read operators' words: %w", err)
	}
	d.HearStore(asked, time.Now(), beat)
	return d.follow(ctx)
}

// Run does a round every beat until ctx ends or the store breaks. Beside the rounds, so that they
// never wait for it, it judges what is overdue.
func (d *Dispatcher) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var judging sync.WaitGroup
	defer judging.Wait()
	defer stop()
	judging.Go(func() { d.judgeEachBeat(ctx) })
	beat := time.NewTicker(d.conf.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.broken:
			return err
		case now := <-beat.C:
			if err := d.Round(ctx, now); err != nil && !errors.Is(err, store.ErrOutOfReach) {
				// of which the membership tells once
				d.log.Error("dispatch round", "error", err)
			}
		}
	}
}

// Stop ends all waiting and takes and hands out nothing more; reports are still recorded. Close
// must follow. Safe to call twice.
func (d *Dispatcher) Stop() {
	d.mu.Lock()
	defer d.release()
	if !d.mem.stopping {
		d.mem.stopping = true
		close(d.stop)
	}
}

// Close waits for what is under way and gives everything back to the store. Safe to call twice.
func (d *Dispatcher) Close(ctx context.Context) error {
	d.Stop()
	d.mu.Lock()
	if d.mem.closed {
		d.release()
		return nil
	}
	d.mem.closed = true
	d.mem.stopAlarms()
	for _, q := range d.mem.queues {
		q.wake.Stop()
	}
	d.release()

	d.submits.close()
	d.settles.close()
	d.work.Wait()
	d.mu.Lock()
	give := d.mem.allToGive()
	spent := d.mem.takeSpent(nil)
	d.release()
	var errs []error
	if len(spent) > 0 {
		if _, err := d.store.Settle(ctx, store.Settlement{Spent: spent}); err != nil {
			errs = append(errs, fmt.Errorf("delete spent spans: %w", err))
		}
	}
	if len(give.Spans) > 0 {
		if err := d.store.Give(ctx, give); err != nil {
			errs = append(errs, fmt.Errorf("give spans back: %w", err))
		}
	}
	d.cancel(ErrClosed)
	return errors.Join(errs...)
}

// HearStore takes in what a node's beat brought from the store: what time it is there, and what
// operators said of workers and queues (the leases that begin with Words).
func (d *Dispatcher) HearStore(asked, answered time.Time, beat store.Beat) {
	d.mu.Lock()
	defer d.release()
	d.mem.clock.hear(asked, answered, beat.Now)
	d.mem.recall(asked, answered, beat.Leases)
}
