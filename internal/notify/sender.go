package notify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Store is where events and notifiers are kept.
type Store interface {
	Log
	Book
}

// Log is the event log.
type Log interface {
	// Append adds those events whose key does not stand in the log yet.
	Append(ctx context.Context, events []store.Event) (appended int, err error)
	// Events reads on in the order of seqs.
	Events(context.Context, store.EventQuery) (store.EventPage, error)
}

// Book has the notifiers, and how far each was served.
type Book interface {
	// ChangeNotifier changes a notifier's configuration, or creates one, served up to the newest
	// event; see store.Change.
	ChangeNotifier(ctx context.Context, name string,
		change store.Change[store.Notifier]) (store.Changed[store.Notifier], error)
	Notifiers(context.Context) ([]store.Notifier, error)
	// DeleteNotifier forgets one; store.ErrNotFound.
	DeleteNotifier(ctx context.Context, name string) error
	// Advance changes how far a notifier was served if that is still from.
	Advance(ctx context.Context, name string, from int64, to store.Progress) (ok bool, err error)
}

// Leases says whose turn it is.
type Leases interface {
	// AcquireAll gives leases to holder that are free or its own, and leaves out the others.
	AcquireAll(ctx context.Context, holder string, wants []store.Lease, ttl time.Duration,
		judge int64) (store.Granted, error)
	// EndAll ends those that still have their tokens.
	EndAll(ctx context.Context, leases []store.Lease, remove bool) error
}

// Config of a Sender. Only Store is needed.
type Config struct {
	Store Store
	// Leases make one node of many serve; Node is who asks. Without them this node is the only one.
	Leases Leases
	Node   string
	// Private are the private, loopback and link-local networks that messages may go to. Default:
	// none.
	Private []netip.Prefix
	// Roots are the authorities that certificates of servers are checked against. Default: the
	// system's.
	Roots *x509.CertPool
	// Every is the time between looks at the log. Default 5 s.
	Every time.Duration
	// Batch is how many messages a notifier gets in one go. Default 20.
	Batch int
	// Timeout of one message. Default 10 s.
	Timeout time.Duration
	// Submit stores the task that an event becomes. Default: notifiers that want it fail.
	Submit func(context.Context, task.Submission) error
	// Owner says who answers for a queue, group or schedule: free text, "" when nobody does, or
	// when it is gone. Default: nobody does.
	Owner func(context.Context, Owned) (string, error)
	// Commands allows notifiers to run programs, with the rights of this process. Default: those
	// that want it fail.
	Commands bool
	// RunFor is how long one program may run. Default 1 min.
	RunFor time.Duration
	// Pace is how long a notifier that submits tasks or runs programs rests for each of them, after
	// a batch, so that what goes round through it goes round slowly. Default 500 ms.
	Pace time.Duration
	// Retry is how long is waited after a message that could not be delivered. Default 1 s, doubled
	// up to 5 min.
	Retry task.Backoff
	// Dead is after how long a notifier that can't be reached is told of. Default 1 h.
	Dead time.Duration
	// Log is where the sender tells what it does. It never sees a secret. Default: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if c.Store == nil {
		wrong = append(wrong, errors.New("no store"))
	}
	if c.Leases != nil && c.Node == "" {
		wrong = append(wrong, errors.New("leases, but no node to hold them"))
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"every", &c.Every, 5 * time.Second}, {"timeout", &c.Timeout, 10 * time.Second},
		{"dead", &c.Dead, time.Hour}, {"run for", &c.RunFor, time.Minute},
		{"pace", &c.Pace, 500 * time.Millisecond},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 {
			wrong = append(wrong, fmt.Errorf("%s %v is below 0", d.name, *d.value))
		}
	}
	if c.Batch == 0 {
		c.Batch = 20
	}
	if c.Batch < 0 {
		wrong = append(wrong, fmt.Errorf("batch %d is below 0", c.Batch))
	}
	if c.Retry == (task.Backoff{}) {
		c.Retry = task.Backoff{Initial: time.Second, Factor: 2, Max: 5 * time.Minute}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(wrong...)
}

// Sender serves the notifiers. Its methods may be called at the same time.
type Sender struct {
	conf  Config
	out   *outgoing
	send  func(context.Context, *store.Notifier, message) error // transmit, but in tests
	hint  chan struct{}
	turns sync.WaitGroup

	asking sync.Mutex
	lease  []store.Lease // the last answer to whose turn it is: none when it is another's
	good   time.Time     // as long as it is good

	mu     sync.Mutex
	rounds int64            // that have begun
	told   map[string]*turn // by notifier
}

// turn is what a sender remembers of serving one notifier.
type turn struct {
	conf string // the configuration that the rest is about
	busy bool
	// the last round that had begun when it ended: what that read of the notifier may be older
	ended  int64
	missed bool      // a round passed over it while it was busy: there may be news for it
	failed int       // tries in a row
	next   time.Time // no try before
}

// New makes a Sender. It sends nothing before Run.
func New(conf Config) (*Sender, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure notifications: %w", err)
	}
	s := &Sender{
		conf: conf, out: newOutgoing(conf.Private, conf.Roots, conf.Timeout),
		hint: make(chan struct{}, 1), told: map[string]*turn{},
	}
	s.send = s.transmit
	return s, nil
}

// Look hints that there may be news: the next round comes at once.
func (s *Sender) Look() {
	select {
	case s.hint <- struct{}{}:
	default: // one hint is enough
	}
}

// Run does a round every while, and when there may be news, until ctx ends.
func (s *Sender) Run(ctx context.Context) error {
	defer s.out.close()
	defer s.leave()
	defer s.turns.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		if err := s.Round(ctx, now); err != nil && ctx.Err() == nil {
			s.conf.Log.Warn("notifications stand still", "error", err)
		}
		timer.Reset(s.pause(now))
		select {
		case <-ctx.Done():
		case <-s.hint:
		case <-timer.C:
		}
	}
	return nil
}

// pause is how long nothing is to be done.
func (s *Sender) pause(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := s.conf.Every
	for _, t := range s.told {
		if t.next.After(now) && !t.busy {
			pause = min(pause, t.next.Sub(now))
		}
	}
	return pause
}

// turnLease is held by the node that serves.
const turnLease = "notify/turn"

// Round begins to serve every notifier that there is news for, if it is this node's turn. It does
// not wait for messages on their way: the next round passes over a notifier that is still being
// served.
func (s *Sender) Round(ctx context.Context, now time.Time) error {
	if mine, err := s.mine(ctx, now); !mine || err != nil {
		return err
	}
	s.mu.Lock()
	s.rounds++
	s.mu.Unlock()
	list, err := s.conf.Store.Notifiers(ctx)
	if err != nil {
		return err
	}
	due := s.due(list, now)
	if len(due) == 0 {
		return nil
	}
	from := due[0].Served.Delivered
	for _, n := range due {
		from = min(from, n.Served.Delivered)
	}
	page, err := s.conf.Store.Events(ctx, store.EventQuery{After: from, Limit: 1})
	if err != nil {
		return err
	}
	if page.Next == from { // nobody has missed anything
		return nil
	}
	for _, n := range due {
		if t := s.begin(n.Name); t != nil {
			s.turns.Go(func() { s.end(t, s.serve(ctx, n)) })
		}
	}
	return nil
}

// mine tells whether it is this node's turn. It asks only when its last answer is no longer
// certain, or no longer likely: a node that serves asks again when half of its lease has passed,
// another when the one who serves may have left.
func (s *Sender) mine(ctx context.Context, now time.Time) (bool, error) {
	if s.conf.Leases == nil {
		return true, nil
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if now.Before(s.good) {
		return len(s.lease) > 0, nil
	}
	ttl := s.conf.Timeout + 2*s.conf.Every
	got, err := s.conf.Leases.AcquireAll(ctx, s.conf.Node, []store.Lease{{Name: turnLease}}, ttl,
		math.MaxInt64)
	if err != nil {
		return false, fmt.Errorf("acquire %q: %w", turnLease, err)
	}
	if s.lease = got.Leases; len(s.lease) > 0 {
		s.good = now.Add(ttl / 2)
	} else {
		s.good = now.Add(2 * s.conf.Every)
	}
	return len(s.lease) > 0, nil
}

// leave lets another node have its turn at once.
func (s *Sender) leave() {
	s.asking.Lock()
	defer s.asking.Unlock()
	if len(s.lease) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.conf.Timeout)
	defer cancel()
	if err := s.conf.Leases.EndAll(ctx, s.lease, false); err != nil {
		s.conf.Log.Info("the turn of notifications ends by itself", "error", err)
	}
	s.lease, s.good = nil, time.Time{}
}

// due are the notifiers that may be served now. What is known of others that are gone or were
// changed is forgotten.
func (s *Sender) due(list []store.Notifier, now time.Time) (due []store.Notifier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.told
	s.told = make(map[string]*turn, len(list))
	for _, n := range list {
		shown, secret, err := n.Columns()
		conf := string(shown) + string(secret)
		t := known[n.Name]
		if t == nil || err != nil || t.conf != conf && !t.busy {
			t = &turn{conf: conf}
		}
		s.told[n.Name] = t
		switch {
		case t.busy:
			t.missed = true
		case t.ended == s.rounds:
			// since the list was asked for: how far it was served may not stand there
			s.Look()
		case !now.Before(t.next):
			due = append(due, n)
		}
	}
	return due
}

// begin begins the turn of a notifier, nil when it is being served.
func (s *Sender) begin(name string) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.told[name]
	if t == nil || t.busy {
		return nil
	}
	t.busy = true
	return t
}

// end notes how a turn ended, and when the next may begin.
func (s *Sender) end(t *turn, r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.ended = s.rounds
	if t.busy = false; !r.failed {
		t.failed, t.next = 0, time.Time{}
		if r.acted > 0 {
			t.next = time.Now().Add(time.Duration(r.acted) * s.conf.Pace)
		}
	} else {
		t.failed++
		t.next = time.Now().Add(max(s.conf.Retry.Delay(t.failed, 0),
			min(r.after, s.conf.Retry.Max)))
	}
	if r.failed || r.more || t.missed {
		t.missed = false
		s.Look()
	}
}
