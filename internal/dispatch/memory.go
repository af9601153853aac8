package dispatch

import (
	"fmt"
	"math"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// memory is what a node knows and holds: queues, spans and their tasks, and workers. It has no
// lock, no clock of its own, and does no work for which somebody would have to wait: a verb is
// given what happened and when, changes what is remembered, and leaves in do what is to be done
// about it.
//
// What only some verbs touch is a part with these verbs, beside which stands what holds of it. The
// verbs of memory itself are those that touch several parts.
type memory struct {
	// What stands from the start, and may be read without the lock.
	conf  policy
	seals *seal.Sealer
	batchIDs

	do    effects
	clock storeClock

	// Each task that is held has a cell in one span of the holdings, and is in exactly one place;
	// its queue is in queues. A worker's hands hold what is out with it: the items in its out, and
	// the plain tasks of its parcels, and no others.
	queues queues
	holdings
	workers  workers
	expiring expiries  // what is ready or parked here, and expires some time
	waits    waitLooks // of tasks that wait
	edits    edits     // under way
	watchers watchers  // callers that wait for a task to become final

	leftovers // of answers that were lost
	giving    // spans back to the store
	otherNodes
	configs

	lastRound time.Time
	turns     uint32 // rounds that were begun

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
	m := &memory{
		conf: p, seals: seals,
		batchIDs: batchIDs{
			node:   store.NodeHash(p.Holder.Node),
			origin: fmt.Sprintf("%s/%d", p.Holder.Node, p.Holder.Token),
		},
		queues: queues{}, holdings: holdings{spans: map[int64]*span{}, index: newIndex()},
		workers: workers{}, watchers: watchers{}, edits: edits{},
		leftovers: leftovers{
			unmatched: map[int64]int{}, recovered: map[int64]sighting{}, gave: map[int64]sighting{},
		},
	}
	m.expiring.memory, m.waits.memory = m, m
	m.giving.memory, m.configs.memory = m, m
	m.otherNodes = otherNodes{memory: m, others: map[string]*neighbour{}}
	return m
}

// shut tells whether nothing is taken or handed out.
func (m *memory) shut() bool { return m.stopping || m.draining }

// queues are those that were spoken of, by name.
type queues map[string]*queue

// queue is what this node knows and holds of one queue.
type queue struct {
	memory  *memory // that it is in
	name    string  // never changes, so that it is read without the lock; conf is not
	conf    task.Queue
	stored  bool // the store has its configuration
	ready   readyTasks
	waiting balance.Ranking[*waiter]

	// look: the store may have ready spans that are not held. Set by every sign of one; cleared by
	// a take that got less than it asked for and saw no new sign meanwhile.
	look  bool
	signs int // counts signs of ready spans
	news  int // of those, the ones of tasks that may be of any key
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
	// until when nothing is taken, as tasks were given up for an edit at another node
	givenUp time.Time

	wanted time.Time // when somebody with room was last waiting
	handed int       // hand-outs in this beat
	pace   int       // hand-outs in the last beat

	gate gate // its limits
	keys keyWatch
	lap  lap // of takes by group keys
	// behind the round in which what is apart was given back beside the rounds
	gaveApart uint32
	sorts     uint32 // until that round takes by group keys sort all; see sortFor
}

// Ranks of what may be ready in the store.
const (
	noRank      = math.MaxInt64 // nothing is
	unknownRank = math.MinInt64 // something may be, of any rank
)
