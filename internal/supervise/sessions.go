package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// SessionsConfig configures the sessions of a node. Cache, Store and Holder are needed.
type SessionsConfig struct {
	Cache  *ClusterCache
	Store  Listener
	Holder store.Holder // this node under its membership lease
	Secret seal.Secret  // the store's: seals the tokens of assignments
	// Held says why this node can't be sure that it is a member at this moment; nil = it is. While
	// it is not, no beat is answered, so that workers stop their jobs, or go to another node,
	// before anybody takes them for dead. Default: it always is.
	Held func() error
	// MaxAge is how old what was read of the store may be by which a beat is answered: somebody
	// else may have the worker since. A worker that comes from another node is taken for dead this
	// much later, so it is the same at all nodes. Default 0: any, no other node can have it.
	MaxAge time.Duration
	// Reserve is told what a worker's assignments take of its capacity, and that a beat of it that
	// waits is to be answered. Default: nobody is.
	Reserve func(worker string, load task.Units)
	Beat    time.Duration // between rounds; default 1 s
	// Patience is how long the first beat of a worker at this node waits until it is known what the
	// worker is to run. Default 3 s.
	Patience time.Duration
	Log      *slog.Logger // default: nowhere
}

func (c SessionsConfig) withDefaults() (SessionsConfig, error) {
	var missing []error
	if c.Cache == nil || c.Store == nil {
		missing = append(missing, errors.New("no Cache or no Store"))
	}
	if c.Holder.Node == "" {
		missing = append(missing, errors.New("no Holder"))
	}
	if c.Held == nil {
		c.Held = func() error { return nil }
	}
	if c.Reserve == nil {
		c.Reserve = func(string, task.Units) {}
	}
	if c.Beat <= 0 {
		c.Beat = time.Second
	}
	if c.Patience <= 0 {
		c.Patience = 3 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(missing...)
}

// ErrSuperseded answers a beat of a worker whose name another one has taken: the newer one wins,
// this one is to stop.
var ErrSuperseded error = supersededError{}

type supersededError struct{}

func (supersededError) Error() string {
	return "another worker has come under this name: this one is to stop its jobs and end"
}

// Superseded marks the error for whoever does not know this package.
func (supersededError) Superseded() bool { return true }

var (
	// errUnresolved answers a beat with jobs of which it is not known yet whether they are to go
	// on: the worker asks again, here or elsewhere.
	errUnresolved = fmt.Errorf("it is not known yet what this worker is to run, ask again: %w",
		store.ErrBusy)
	// errAlone answers a beat at a node that may be no member any more.
	errAlone = fmt.Errorf("this node has not heard the store for too long, ask another one: %w",
		store.ErrBusy)
	// errNoMember: a write changed nothing, because this node's lease has expired or was ended.
	errNoMember = errors.New("this node's lease is gone")
)

// Sessions are the sessions of the workers that beat at one node and serve groups. They write down
// who these are and what they say of their jobs, and tell them what to run, from the cache alone.
// All methods may be called at the same time, but only one goroutine may call Round.
type Sessions struct {
	seals *seal.Sealer
	conf  SessionsConfig
	cache *ClusterCache
	log   *slog.Logger

	mu      sync.Mutex
	entries map[string]*entry
	drained map[string]store.Drain // workers that are to give up work

	stopped chan struct{} // closed when Run has returned
}

// session is what a worker that beats here has said, and how far its session has come. The session
// in entry is guarded by the lock of Sessions; a round works on a copy, so what groups and refused
// point to is replaced, never changed.
type session struct {
	name  string
	state sessionState
	// how it departs: left or silent; without meaning unless state.departing()
	departure   store.SeatState
	incarnation string // of its newest beat
	// incarnations that it had before, the newest first; never the present one
	before []string
	beat   task.Beat // the newest
	// that it serves, served or spoke of and that there are, sorted: what it has to end may be of
	// any
	groups  []string
	beats   int // that were taken in
	checked int // how many of them rounds have gone through; checked <= beats
	// elsewhere is the number of the last beat of a worker that may have been at another node
	// before it; elsewhere <= beats. While elsewhere > checked no beat is answered.
	elsewhere int
	at        time.Time // of the newest beat
	// the newest beat was sent by one that was here: what it lacks has ended, or was lost
	continued bool
	reset     bool   // the next answer says all that it is to run
	given     []site // by answers after its newest beat was taken in
	// tokens of runs that nobody wants; nil unless a round has found some since it arrived
	refused map[string]bool
	promise promise // how long it may go without an answered beat
}

// entry is a session, those who wait for it, and what was reported of it. Guarded by the lock of
// Sessions.
type entry struct {
	session
	changed chan struct{} // closed, and replaced, when waiting beats are to look again
	waits   bool          // a beat waits for changed
	load    task.Units    // as Reserve was told
	print   uint64        // of what it is to run, as Reserve was told

	// What follows only rounds look at.
	heard time.Time       // when the beat came from which signs are
	signs map[string]sign // by the tokens of its runs
}

// site is where at most one replica of a job is, on a worker.
type site struct{ group, job string }

// NewSessions makes the sessions of a node.
func NewSessions(conf SessionsConfig) (*Sessions, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure sessions: %w", err)
	}
	return &Sessions{conf: conf, seals: seal.NewSealer(conf.Secret), cache: conf.Cache,
		log: conf.Log, entries: map[string]*entry{}, drained: map[string]store.Drain{},
		stopped: make(chan struct{})}, nil
}

// Run does a round every beat, and when somebody came or left, until ctx ends.
func (r *Sessions) Run(ctx context.Context) error {
	defer close(r.stopped)
	beat := time.NewTicker(r.conf.Beat)
	defer beat.Stop()
	for {
		err := r.Round(ctx, time.Now())
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrOutOfReach) {
			// of which the membership tells once
			r.log.Error("sessions round", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		case <-r.cache.wake:
		}
	}
}

// Hear takes in a worker's beat. It waits for nothing; the next round goes through it.
func (r *Sessions) Hear(b *task.Beat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.entries[b.Worker]
	if s == nil {
		if len(b.Groups)+len(b.Jobs) == 0 {
			return
		}
		s = &entry{session: session{name: b.Worker}, changed: make(chan struct{})}
		r.entries[b.Worker] = s
	}
	spoken := len(s.groups)
	if !s.hear(b, time.Now()) {
		return
	}
	if len(s.groups) > spoken {
		s.forgetGroups(r.cache)
	}
	if !s.state.known() || b.Leaving {
		r.cache.LookSoon()
	}
}

// hear takes in a beat, and reports whether it is one of the newest incarnation.
func (s *session) hear(b *task.Beat, now time.Time) bool {
	if slices.Contains(s.before, b.Incarnation) {
		return false
	}
	if s.incarnation != b.Incarnation {
		if s.incarnation != "" {
			s.before = append([]string{s.incarnation}, s.before...)
			s.before = s.before[:min(len(s.before), store.Incarnations)]
		}
		s.incarnation = b.Incarnation
		s.observe(replaced)
	}
	s.beat = *b
	s.beat.Tasks = nil
	s.beat.Groups = slices.Compact(slices.Sorted(slices.Values(b.Groups)))
	s.given = s.given[:0]
	s.speaksOf(groupsOf(b))
	s.beats++
	s.at = now
	if b.Version == "" { // it does not continue an answer of this node's
		s.elsewhere = s.beats
	}
	s.continued = s.state.known() && s.elsewhere < s.beats
	if b.Leaving {
		s.observe(goodbye)
	} else {
		s.observe(beaten)
	}
	return true
}

// speaksOf notes groups, sorted ones.
func (s *session) speaksOf(groups []string) {
	unknown := func(group string) bool {
		_, found := slices.BinarySearch(s.groups, group)
		return !found
	}
	if !slices.ContainsFunc(groups, unknown) {
		return
	}
	// a new list: a round may be reading the old one
	s.groups = append(slices.Clone(s.groups), groups...)
	slices.Sort(s.groups)
	s.groups = slices.Compact(s.groups)
}

// forgetGroups forgets those that there are not, but for those that the newest beat speaks of: a
// worker may name any, and of what it runs of such a group no row says anything.
func (s *session) forgetGroups(cache *ClusterCache) {
	spoken := groupsOf(&s.beat)
	// a new list: a round may be reading the old one
	s.groups = slices.DeleteFunc(slices.Clone(s.groups), func(group string) bool {
		_, there := cache.known(group)
		_, found := slices.BinarySearch(spoken, group)
		return !there && !found
	})
}

// wake lets the beats that wait look again.
func (s *entry) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.waits = false
}

// Away takes in that a worker fell silent, for so long that by now it has stopped its jobs by
// itself.
func (r *Sessions) Away(worker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.entries[worker]; s != nil && s.observe(silence) {
		r.cache.LookSoon()
	}
}

// HearStore takes in the leases that a node's beat brought: those of workers say which are to give
// up work.
func (r *Sessions) HearStore(leases []store.Lease) {
	drained := map[string]store.Drain{}
	for i := range leases {
		if name, drain, ok := store.DrainOf(&leases[i]); ok {
			drained[name] = drain
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(drained, r.drained) {
		r.drained = drained
		r.cache.LookSoon()
	}
}

// Orders answers a beat: what differs between what its worker runs and what it is to run. The first
// beat of a worker here waits until that is known, and is answered with all of it. It waits for no
// longer than ctx lasts: a worker in this process, too, has to stop its jobs in time.
// ErrSuperseded: the worker is to end.
func (r *Sessions) Orders(ctx context.Context, b *task.Beat) (task.Orders, error) {
	if b.Leaving || len(b.Groups)+len(b.Jobs) == 0 && !r.knows(b.Worker) {
		return task.Orders{}, nil
	}
	var over <-chan time.Time
	for {
		if err := r.conf.Held(); err != nil {
			return task.Orders{}, fmt.Errorf("answer worker %q: %w: %w", b.Worker, errAlone, err)
		}
		orders, wait, err := r.answer(b)
		if wait == nil {
			return orders, err
		}
		if over == nil {
			patience := time.NewTimer(r.conf.Patience)
			defer patience.Stop()
			over = patience.C
		}
		select {
		case <-wait:
			continue
		case <-ctx.Done():
			return task.Orders{}, fmt.Errorf("answer worker %q: %w", b.Worker, context.Cause(ctx))
		case <-over:
		case <-r.stopped:
		}
		if len(b.Jobs) == 0 { // nothing runs that might have to stop
			return task.Orders{}, nil
		}
		return task.Orders{}, fmt.Errorf("answer worker %q: %w", b.Worker, errUnresolved)
	}
}

func (r *Sessions) knows(worker string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries[worker] != nil
}

// answer is what Orders says now, or what it waits for.
func (r *Sessions) answer(b *task.Beat) (orders task.Orders, wait chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.entries[b.Worker]
	if s == nil { // its session ended while its beat waited
		return orders, nil, fmt.Errorf("answer worker %q: %w", b.Worker, errUnresolved)
	}
	switch s.reply(b.Incarnation) {
	case replySuperseded:
		return orders, nil, fmt.Errorf("answer worker %q: %w", b.Worker, ErrSuperseded)
	case replyWait:
		s.waits = true
		return orders, s.changed, nil
	}
	if age := r.cache.age(time.Now()); r.conf.MaxAge > 0 && age > r.conf.MaxAge {
		return orders, nil, fmt.Errorf("answer worker %q: %w: it read it %v ago", b.Worker,
			errAlone, age.Round(time.Millisecond))
	}
	orders = r.orders(&s.session, b)
	limits := r.cache.silences(b.Groups)
	orders.Silence = s.promise.tell(limits.worker, silenceOf(r.cache.seat(b.Worker)), time.Now())
	orders.Signs = limits.job > 0
	return orders, nil, nil
}
