package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// hints tells other nodes what changed that concerns them, and hears what they tell. It writes no
// table. What is told may be lost, so nothing here fails, and nobody waits for it.
type hints struct {
	*database
	notices *notices // nil without notifications; set before Open returns
	// self is whom this process holds spans as, by the last call that said so; nil = none did
	self atomic.Pointer[store.Holder]
}

// hint tells other nodes, soon. It never waits.
func (s *hints) hint(h Hint) {
	n := s.notices
	if n == nil {
		return
	}
	n.mu.Lock()
	if h.Queue != "" {
		n.queues[h.Queue] = true
	}
	if h.Ended != "" {
		n.ended[h.Ended] = true
	}
	to := n.nodes
	if h.Want {
		to = n.wants
	}
	if list := to[h.Node]; len(list)+len(h.Tasks) <= pushed && len(h.Tasks) > 0 {
		to[h.Node] = append(list, h.Tasks...)
	}
	if h.Group != "" {
		n.groups[h.Group] = true
	}
	n.seats = n.seats || h.Seats
	n.limits = n.limits || h.Limits
	if h.Offer.Queue != "" {
		n.offer(h.Offer)
	}
	if h.Room.Node != "" {
		n.room = &h.Room
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// hintReady tells other nodes which queues have free tasks, and who had better take them.
func (s *hints) hintReady(answer *store.Submitted, shares []store.Share) {
	var offers []store.Offer
	for i := range answer.Spans {
		sp := &answer.Spans[i]
		if sp.Token != 0 || sp.Due > answer.Now {
			continue
		}
		if n := len(offers); n > 0 && offers[n-1].Queue == sp.Queue {
			offers[n-1].Rank = min(offers[n-1].Rank, sp.Rank)
			continue
		}
		offers = append(offers, store.Offer{Queue: sp.Queue, Rank: sp.Rank})
	}
	for _, o := range offers {
		for _, share := range shares {
			if share.Queue == o.Queue {
				o.Shares = append(o.Shares, share)
			}
		}
		// a queue may come twice
		shares = slices.DeleteFunc(slices.Clone(shares), func(x store.Share) bool {
			return x.Queue == o.Queue
		})
		s.hint(Hint{Offer: o})
	}
}

// tellAbout tells other nodes.
func (s *hints) tellAbout(a *aftermath) {
	for queue := range a.queues {
		s.hint(Hint{Queue: queue})
	}
	for node, ids := range a.nodes {
		if node != s.node() {
			s.hint(Hint{Node: node, Tasks: ids})
		}
	}
}

// hintWoken tells other nodes of queues that have tasks which are ready since a moment.
func (s *hints) hintWoken(list []store.Ready) {
	for _, ready := range list {
		s.hint(Hint{Queue: ready.Queue})
	}
}

func (s *hints) hintGroups(names []string) {
	for _, name := range names {
		s.hint(Hint{Group: name})
	}
}

// Announce tells other nodes how many tasks the workers that wait at this one could begin, by
// queue. It never waits.
func (s *hints) Announce(node string, queues map[string]int) {
	s.hint(Hint{Room: Room{node, queues}})
}

// TellEnded tells other nodes that tasks of queues with limits have ended.
func (s *hints) TellEnded(queues []string) {
	for _, queue := range queues {
		s.hint(Hint{Ended: queue})
	}
}

// TellLimits tells other nodes that the limits of a queue are others.
func (s *hints) TellLimits() { s.hint(Hint{Limits: true}) }

// notifying tells other nodes as soon as the transaction is committed. PostgreSQL says equal things
// once.
func (s *hints) notifying(sub *store.Submission) []query {
	if s.notices == nil {
		return nil
	}
	var payloads []string
	for i := range sub.Batches {
		payloads = append(payloads, Hint{Queue: sub.Batches[i].Queue}.payload("tx")...)
	}
	return []query{tell(notify, s.conf.Schema, payloads)}
}

// What Listen waits before it connects again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Listen calls heard with what other processes hint at, until ctx ends. It has a connection of its
// own and makes it again when it is lost; each time it begins with the zero Hint. Where there are
// no notifications it only waits.
func (s *hints) Listen(ctx context.Context, heard func(Hint)) error {
	if s.conf.NoNotify {
		<-ctx.Done()
		return nil
	}
	pause := firstPause
	for {
		err := s.listen(ctx, func(h Hint) {
			pause = firstPause
			heard(h)
		})
		if ctx.Err() != nil {
			return nil
		}
		s.conf.Log.Warn("hints are not heard for a while", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// listen listens as long as its connection lasts.
func (s *hints) listen(ctx context.Context, heard func(Hint)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+s.conf.Schema); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	heard(Hint{})
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		switch origin, h, err := parseHint(n.Payload); {
		case err != nil:
			s.conf.Log.Warn("hint is passed over", "error", err)
		case origin != s.notices.origin:
			heard(h)
		}
	}
}

// note remembers whom this process holds spans as.
func (s *hints) note(h store.Holder) {
	if h.Node == "" {
		return
	}
	if old := s.self.Load(); old == nil || *old != h {
		s.self.Store(&h)
	}
}

// node is whom this process holds spans as; "" = it never did.
func (s *hints) node() string {
	if h := s.self.Load(); h != nil {
		return h.Node
	}
	return ""
}

// debounce is how long changes gather after a notification, so that a crowd of them becomes one.
const debounce = 5 * time.Millisecond

// notices are hints on their way to other nodes.
type notices struct {
	*database
	origin string // of this process: it does not listen to itself

	mu     sync.Mutex
	queues map[string]bool
	ended  map[string]bool // queues, as Hint.Ended says
	nodes  map[string][]task.ID
	wants  map[string][]task.ID // of nodes, as Hint.Want says
	groups map[string]bool
	seats  bool
	limits bool
	offers map[string]*store.Offer
	room   *Room

	wake chan struct{} // size 1
	stop chan struct{}
	wg   sync.WaitGroup
}

func newNotices(d *database) *notices {
	n := &notices{
		database: d, origin: strings.ToLower(rand.Text()[:8]), queues: map[string]bool{},
		ended: map[string]bool{},
		nodes: map[string][]task.ID{}, wants: map[string][]task.ID{}, groups: map[string]bool{},
		offers: map[string]*store.Offer{},
		wake:   make(chan struct{}, 1), stop: make(chan struct{}),
	}
	n.wg.Go(n.run)
	return n
}

func (n *notices) close() {
	close(n.stop)
	n.wg.Wait()
}

// pushed is how many tasks of one node wait to be told of; more are left to its beat.
const pushed = 10_000

// offer adds to what is offered of a queue. The lock is held.
func (n *notices) offer(o store.Offer) {
	old := n.offers[o.Queue]
	if old == nil {
		o.Shares = slices.Clone(o.Shares)
		n.offers[o.Queue] = &o
		return
	}
	old.Rank = min(old.Rank, o.Rank)
	for _, s := range o.Shares {
		i := slices.IndexFunc(old.Shares, func(x store.Share) bool { return x.Node == s.Node })
		if i < 0 {
			old.Shares = append(old.Shares, s)
			continue
		}
		old.Shares[i].Tasks += s.Tasks
	}
}

// run sends what gathers: the first change at once, what follows it together.
func (n *notices) run() {
	for {
		select {
		case <-n.stop:
			return
		case <-n.wake:
		}
		n.send()
		select {
		case <-n.stop:
			return
		case <-time.After(debounce):
		}
	}
}

// notify costs a commit. It need not be on the disk: who forgets it has forgotten who was to be
// told.
const notify = `SELECT pg_notify($1, p) FROM unnest($2::text[]) p`

func (n *notices) send() {
	n.mu.Lock()
	var payloads []string
	for _, queue := range slices.Sorted(maps.Keys(n.queues)) {
		payloads = append(payloads, Hint{Queue: queue}.payload(n.origin)...)
	}
	for _, queue := range slices.Sorted(maps.Keys(n.ended)) {
		payloads = append(payloads, Hint{Ended: queue}.payload(n.origin)...)
	}
	for _, node := range slices.Sorted(maps.Keys(n.nodes)) {
		payloads = append(payloads, Hint{Node: node, Tasks: n.nodes[node]}.payload(n.origin)...)
	}
	for _, node := range slices.Sorted(maps.Keys(n.wants)) {
		payloads = append(payloads,
			Hint{Node: node, Tasks: n.wants[node], Want: true}.payload(n.origin)...)
	}
	for _, group := range slices.Sorted(maps.Keys(n.groups)) {
		payloads = append(payloads, Hint{Group: group}.payload(n.origin)...)
	}
	if n.seats {
		payloads = append(payloads, Hint{Seats: true}.payload(n.origin)...)
	}
	if n.limits {
		payloads = append(payloads, Hint{Limits: true}.payload(n.origin)...)
	}
	for _, queue := range slices.Sorted(maps.Keys(n.offers)) {
		payloads = append(payloads, Hint{Offer: *n.offers[queue]}.payload(n.origin)...)
	}
	if n.room != nil {
		payloads = append(payloads, Hint{Room: *n.room}.payload(n.origin)...)
	}
	n.seats, n.limits, n.room = false, false, nil
	clear(n.offers)
	clear(n.groups)
	clear(n.queues)
	clear(n.ended)
	clear(n.nodes)
	clear(n.wants)
	n.mu.Unlock()
	if len(payloads) == 0 {
		return
	}
	err := n.write(context.Background(), func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(setLocal, "synchronous_commit", "off"),
			tell(notify, n.conf.Schema, payloads))
	})
	if err != nil && !errors.Is(err, store.ErrClosed) {
		n.conf.Log.Debug("hints are lost", "error", err)
	}
}
