package dispatch

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// memory is what a node knows and holds: queues, spans and their tasks, and workers. It has no
// lock, no clock of its own, and does no work for which somebody would have to wait: a verb is
// given what happened and when, changes what is remembered, and leaves in do what is to be done
// about it.
type memory struct {
	// What stands from the start, and may be read without the lock.
	conf  policy
	seals *seal.Sealer
	node  uint32 // hash of the node's name, in batch ids
	// origin marks this process: its batches, so that they are told apart should the clock go back
	// and an id be made twice, and the versions of its answers to beats.
	origin string

	do        effects
	clock     storeClock
	lastBatch int64 // the newest batch's id, as a time

	// Each item is in items under its id, and in exactly one place; its span is in spans, its
	// queue in queues. A worker's hands hold the items that are out with it, and no others.
	queues   map[string]*queue
	items    map[task.ID]*item
	spans    map[int64]*span
	workers  workers
	spent    []int64  // spans to delete with the next settlement
	watchers watchers // callers that wait for a task to become final

	// What answers that were lost may have left behind in the store.
	unmatched map[int64]int // rounds in a row since which a held span was not in memory
	// found by a round because their answer seemed lost: it may come yet
	recovered  map[int64]sighting
	gave       map[int64]sighting // that this node itself gave back while tasks of theirs ran
	unresolved []*item            // settling: where they stand could not be read

	lastRound time.Time
	rounds    int    // in which spans were to be looked for
	turns     uint32 // rounds that were begun

	// when the queues' configurations were read; zero = they are to be read again
	configRead time.Time
	configs    int   // counts their changes here: what was read before one is out of date
	configWord int64 // token of the lease that grows with each change at any node

	others    map[string]*neighbour
	announced map[string]int // what was announced last
	mute      int            // rounds since then
	handing   bool           // something is given back beside the rounds

	// an overdue attempt was left to its holder: this node looks again a beat later
	pending  bool
	stopping bool // nothing is taken or handed out any more
	draining bool // the same, for as long as Config.Working says no
	closed   bool
}

// policy is what of a Config memory goes by.
type policy struct {
	Holder     store.Holder
	Beat       time.Duration
	BeatEvery  time.Duration
	Look       time.Duration
	GiveAfter  time.Duration
	OfferFor   time.Duration
	Ahead      int
	AheadBytes int64
	Alone      bool // there are no other nodes, or they are not heard
	Serving    bool // workers run jobs, too
}

func newMemory(p policy, seals *seal.Sealer) *memory {
	return &memory{
		conf: p, seals: seals, node: store.NodeHash(p.Holder.Node),
		origin: fmt.Sprintf("%s/%d", p.Holder.Node, p.Holder.Token),
		queues: map[string]*queue{}, items: map[task.ID]*item{}, spans: map[int64]*span{},
		workers: workers{}, watchers: watchers{},
		unmatched: map[int64]int{}, recovered: map[int64]sighting{}, gave: map[int64]sighting{},
		others: map[string]*neighbour{},
	}
}

// shut tells whether nothing is taken or handed out.
func (m *memory) shut() bool { return m.stopping || m.draining }

// place says where a task in memory is.
type place uint8

const (
	ready    place = iota // in its queue's heap
	parked                // of a span that killed its holders: waits until its neighbour is settled
	asleep                // until its timer fires
	out                   // with a worker
	settling              // its report is on the way into the store
	// no longer this node's affair; pointers to it may linger in heaps and timers
	gone
)

// item is one task of a span that this node holds.
type item struct {
	id         task.ID
	span       *span
	queue      *queue
	place      place
	rank       int64 // due − priority, microseconds
	priority   time.Duration
	stage      string
	seq        int32 // of the present or next hand-out
	attempt    int32 // charged in this stage
	base       int32
	context    store.Value
	contextSeq int32
	// the context came out of the store, where an earlier version may have put what is no JSON
	unchecked   bool
	contextBy   string // the worker that wrote the context; "" = it was submitted
	maxAttempts int32
	timeout     int64 // microseconds, 0 = the queue's
	timer       *tick.Timer
	gen         uint32 // how often it was in the heap
	round       uint32 // the round after which it was ready

	// The hand-out; meaningful while out or settling.
	worker      *worker
	at          int // where it stands in worker.out, if it does
	token       task.Token
	incarnation string
	started     time.Time
	until       time.Time // hard limit
	written     bool      // the answer is on its way: beats that begin now must name it
	missed      int8      // beats in a row that did not name it
	row         bool      // a running row stands in the store
	progress    float64   // as its worker's last beat said
	note        string
}

func (it *item) standing() progress.Standing {
	return progress.Standing{Stage: it.stage, Seq: it.seq, Attempt: it.attempt, Base: it.base}
}

// due is since when the task may run, or when it may.
func (it *item) due() int64 {
	if it.attempt > 0 {
		return it.rank
	}
	return it.rank + it.priority.Microseconds()
}

// given tells whether the next outcome may be that of a hand-out which a worker has, or had.
func (it *item) given() bool { return it.worker != nil && it.token.Seq == it.seq }

// span is a span that this node holds.
type span struct {
	store.Span
	memory  *memory // that it is in
	left    int     // tasks that are neither final nor moved
	idle    int     // of those, the ones that are not out or settling
	leaving int     // of those, the ones that the flight being planned ends
	deleted bool    // deleted with the flight under way
	giving  bool    // being given back: nothing more of it goes out
	under   int     // of those, the ones that are ready, out or settling
	// this node gave it back, and nobody else had it since: whoever runs its tasks had only this
	// node to speak to
	returned bool
	parked   []*item // of a poisonous span: those that wait until nothing is under way
}

// sighting is a span as this node last saw it: one that a round found held by it, or that it gave
// back.
type sighting struct {
	token int64
	at    time.Time
}

// items are those of the span's tasks that are in memory, by number.
func (sp *span) items() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		for n := sp.Lo; n <= sp.Hi; n++ {
			it := sp.memory.items[task.ID{Batch: sp.Batch, N: n}]
			if it != nil && it.span == sp && !yield(it) {
				return
			}
		}
	}
}

// guarded tells whether hand-outs of the span must be written down before they are answered: a
// holder died with it.
func (s *span) guarded() bool { return s.Deaths >= 1 }

// poisonous tells whether the span's tasks go out one at a time: it has been around too many
// deaths.
func (s *span) poisonous() bool { return s.Deaths >= 3 }

// queue is what this node knows and holds of one queue.
type queue struct {
	memory  *memory // that it is in
	conf    task.Queue
	stored  bool // the store has its configuration
	ready   heap
	waiting balance.Ranking[*waiter]

	// look: the store may have ready spans that are not held. Set by every sign of one; cleared by
	// a take that got less than it asked for and saw no new sign meanwhile.
	look  bool
	signs int // counts signs of ready spans
	// backlog: more is ready in the store than is wanted here, so new submissions go behind it. Set
	// by a sign, cleared by a take that got less than it asked for.
	backlog bool
	// behind is the least rank that a ready span in the store may have, as far as is known: a task
	// of a later rank waits for a take. sooner is the same, of the signs that have come since the
	// take under way began.
	behind, sooner int64
	taking         bool
	took           chan struct{} // closed when the running take ends
	looked         time.Time     // when the store was last asked
	wake           *tick.Timer   // for the earliest sleeping span
	wakeAt         int64

	// Free tasks that are other nodes' to take first: how many of them are this node's, until when
	// it takes no others, and the least rank of what it looks for then.
	share   int
	reserve time.Time
	offered int64

	wanted time.Time // when somebody with room was last waiting
	handed int       // hand-outs in this beat
	pace   int       // hand-outs in the last beat
}

// Ranks of what may be ready in the store.
const (
	noRank      = math.MaxInt64 // nothing is
	unknownRank = math.MinInt64 // something may be, of any rank
)

// heap keeps ready items by rank, then id. A binary heap (Williams 1964); items that left are
// skipped when popped. The keys stand in the heap itself, so that sifting does not chase pointers.
type heap struct {
	entries []entry
	bytes   int64 // of the items' contexts
}

type entry struct {
	rank int64
	id   task.ID
	item *item
	gen  uint32 // of the item, when it came in; an entry of an earlier one is void
}

// void tells whether the item left since.
func (a *entry) void() bool { return a.item.place != ready || a.item.gen != a.gen }

func (a *entry) before(b *entry) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if a.id.Batch != b.id.Batch {
		return a.id.Batch < b.id.Batch
	}
	return a.id.N < b.id.N
}

func (h *heap) push(it *item) {
	it.place = ready
	h.bytes += int64(len(it.context))
	it.gen++
	e := entry{it.rank, it.id, it, it.gen}
	h.entries = append(h.entries, e)
	i := len(h.entries) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h.entries[up]) {
			break
		}
		h.entries[i] = h.entries[up]
		i = up
	}
	h.entries[i] = e
}

// first is the ready item of least rank, nil when there is none.
func (h *heap) first() *entry {
	for len(h.entries) > 0 && h.entries[0].void() {
		h.drop()
	}
	if len(h.entries) == 0 {
		return nil
	}
	return &h.entries[0]
}

// drop removes the first entry and returns its item.
func (h *heap) drop() *item {
	first := h.entries[0].item
	h.bytes -= int64(len(first.context))
	n := len(h.entries) - 1
	last := h.entries[n]
	h.entries[n] = entry{}
	if h.entries = h.entries[:n]; n == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h.entries[child+1].before(&h.entries[child]) {
			child++
		}
		if !h.entries[child].before(&last) {
			break
		}
		h.entries[i] = h.entries[child]
		i = child
	}
	h.entries[i] = last
	return first
}
