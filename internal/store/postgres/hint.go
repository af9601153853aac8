package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Hint tells a node that something changed which concerns it. Hints may be lost, come late or
// twice: looking again every beat is the truth. The zero Hint says that some may have been lost.
type Hint struct {
	Queue string      // has tasks that are ready since a moment
	Ended string      // a queue with limits, of which tasks have ended
	Node  string      // holds the spans of Tasks
	Tasks []task.ID   // to which somebody else did something
	Want  bool        // no: somebody else wants to change them, and the node is to give them back
	Group string      // of jobs: it, its jobs or its assignments are others
	Seats bool        // of workers that serve groups are others
	Offer store.Offer // free tasks, and who had better take them
	Room  Room
}

// Room is how many tasks the workers that wait at a node could begin now, by queue.
type Room struct {
	Node   string
	Queues map[string]int
}

// debounce is how long changes gather after a notification, so that a crowd of them becomes one.
const debounce = 5 * time.Millisecond

// notices are hints on their way to other nodes.
type notices struct {
	s      *Store
	origin string // of this process: it does not listen to itself

	mu     sync.Mutex
	queues map[string]bool
	ended  map[string]bool // queues, as Hint.Ended says
	nodes  map[string][]task.ID
	wants  map[string][]task.ID // of nodes, as Hint.Want says
	groups map[string]bool
	seats  bool
	offers map[string]*store.Offer
	room   *Room

	wake chan struct{} // size 1
	stop chan struct{}
	wg   sync.WaitGroup
}

func newNotices(s *Store) *notices {
	n := &notices{
		s: s, origin: strings.ToLower(rand.Text()[:8]), queues: map[string]bool{},
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

// hint tells other nodes, soon. It never waits.
func (s *Store) hint(h Hint) {
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
	for _, queue := range slices.Sorted(maps.Keys(n.offers)) {
		payloads = append(payloads, Hint{Offer: *n.offers[queue]}.payload(n.origin)...)
	}
	if n.room != nil {
		payloads = append(payloads, Hint{Room: *n.room}.payload(n.origin)...)
	}
	n.seats, n.room = false, nil
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
	err := n.s.write(context.Background(), func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(setLocal, "synchronous_commit", "off"),
			tell(notify, n.s.conf.Schema, payloads))
	})
	if err != nil && !errors.Is(err, store.ErrClosed) {
		n.s.conf.Log.Debug("hints are lost", "error", err)
	}
}

// payloadLimit is PostgreSQL's, in bytes, and a little less.
const payloadLimit = 7900

// payload is a hint as text: "ORIGIN queue NAME", "ORIGIN ended NAME", "ORIGIN group NAME", "ORIGIN
// seats", "ORIGIN node NAME ID ID …" or "ORIGIN want NAME ID ID …", in as many pieces as are
// needed; "ORIGIN ready QUEUE RANK NODE=TASKS …" or "ORIGIN room NODE QUEUE=TASKS …", as far as one
// piece carries them.
func (h Hint) payload(origin string) (list []string) {
	switch {
	case h.Queue != "":
		return []string{origin + " queue " + h.Queue}
	case h.Ended != "":
		return []string{origin + " ended " + h.Ended}
	case h.Group != "":
		return []string{origin + " group " + h.Group}
	case h.Seats:
		return []string{origin + " seats"}
	case h.Offer.Queue != "":
		text := fmt.Sprintf("%s ready %s %d", origin, h.Offer.Queue, h.Offer.Rank)
		for _, s := range h.Offer.Shares {
			text = withCount(text, s.Node, s.Tasks)
		}
		return []string{text}
	case h.Room.Node != "":
		text := origin + " room " + h.Room.Node
		for _, queue := range slices.Sorted(maps.Keys(h.Room.Queues)) {
			text = withCount(text, queue, h.Room.Queues[queue])
		}
		return []string{text}
	}
	word := " node "
	if h.Want {
		word = " want "
	}
	var b strings.Builder
	for _, id := range h.Tasks {
		if b.Len() > 0 && b.Len()+32 > payloadLimit {
			list = append(list, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(origin + word + h.Node)
		}
		b.WriteString(" " + id.String())
	}
	return append(list, b.String())
}

// withCount adds a name with a number to a payload that has room for it.
func withCount(text, name string, n int) string {
	if word := fmt.Sprintf(" %s=%d", name, n); len(text)+len(word) <= payloadLimit {
		return text + word
	}
	return text
}

// parseCount is the inverse of withCount.
func parseCount(word string) (name string, n int, err error) {
	name, digits, _ := strings.Cut(word, "=")
	n, err = strconv.Atoi(digits)
	if err != nil || name == "" || strconv.Itoa(n) != digits || n < 1 {
		return "", 0, errPayload
	}
	return name, n, nil
}

// parseOffer reads the words of an offer.
func parseOffer(words []string) (h Hint, err error) {
	h.Offer.Queue = words[0]
	if h.Offer.Rank, err = strconv.ParseInt(words[1], 10, 64); err != nil ||
		strconv.FormatInt(h.Offer.Rank, 10) != words[1] {
		return Hint{}, errPayload
	}
	for _, word := range words[2:] {
		node, n, err := parseCount(word)
		if err != nil {
			return Hint{}, err
		}
		h.Offer.Shares = append(h.Offer.Shares, store.Share{
			Queue: h.Offer.Queue, Node: node, Tasks: n,
		})
	}
	return h, nil
}

// parseRoom reads the words of a room.
func parseRoom(words []string) (h Hint, err error) {
	h.Room = Room{Node: words[0], Queues: map[string]int{}}
	last := ""
	for _, word := range words[1:] {
		queue, n, err := parseCount(word)
		if err != nil || queue <= last {
			return Hint{}, errPayload
		}
		h.Room.Queues[queue], last = n, queue
	}
	return h, nil
}

var errPayload = errors.New("not a hint")

// parseHint is the inverse of payload.
func parseHint(text string) (origin string, h Hint, err error) {
	words := strings.Split(text, " ")
	switch {
	case len(words) == 3 && words[1] == "queue" && words[2] != "":
		return words[0], Hint{Queue: words[2]}, nil
	case len(words) == 3 && words[1] == "ended" && words[2] != "":
		return words[0], Hint{Ended: words[2]}, nil
	case len(words) == 3 && words[1] == "group" && words[2] != "":
		return words[0], Hint{Group: words[2]}, nil
	case len(words) == 2 && words[1] == "seats":
		return words[0], Hint{Seats: true}, nil
	case len(words) >= 4 && words[1] == "ready" && words[2] != "":
		if h, err = parseOffer(words[2:]); err != nil {
			err = fmt.Errorf("read %.60q: %w", text, err)
		}
		return words[0], h, err
	case len(words) >= 3 && words[1] == "room" && words[2] != "":
		if h, err = parseRoom(words[2:]); err != nil {
			err = fmt.Errorf("read %.60q: %w", text, err)
		}
		return words[0], h, err
	case len(words) < 4 || words[1] != "node" && words[1] != "want" || words[2] == "":
		return "", Hint{}, fmt.Errorf("read %.60q: %w", text, errPayload)
	}
	h.Node, h.Want = words[2], words[1] == "want"
	for _, word := range words[3:] {
		id, err := task.ParseID(word)
		if err != nil {
			return "", Hint{}, fmt.Errorf("read %.60q: %w: %w", text, errPayload, err)
		}
		h.Tasks = append(h.Tasks, id)
	}
	return words[0], h, nil
}

// What Listen waits before it connects again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Listen calls heard with what other processes hint at, until ctx ends. It has a connection of its
// own and makes it again when it is lost; each time it begins with the zero Hint. Where there are
// no notifications it only waits.
func (s *Store) Listen(ctx context.Context, heard func(Hint)) error {
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
func (s *Store) listen(ctx context.Context, heard func(Hint)) error {
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
func (s *Store) note(h store.Holder) {
	if h.Node == "" {
		return
	}
	if old := s.self.Load(); old == nil || *old != h {
		s.self.Store(&h)
	}
}
