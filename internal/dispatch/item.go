package dispatch

import (
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

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
	odd // of a cell: where the task is its item says
)

// item is a task that is not plain, of a span that this node holds.
type item struct {
	id         task.ID
	span       *span
	cell       *cell // its place in the span, whose item it is until it is gone
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
	meta        store.Meta
	woken       *store.Woken  // what ended the wait before this stage; nil = it did not wait
	after       []store.Prior // what it has waited for before it began; nil = nothing
	maxAttempts int32
	timeout     int64 // microseconds, 0 = the queue's
	// when it expires by the store's clock, unless it was handed out by then; 0 = never, also when
	// it has had an outcome
	expires int64
	expiry  int // where it stands in memory.expiring, and one; 0 = it does not
	timer   *tick.Timer
	parcel  *parcel // whose alarm watches its deadline; nil = its own does
	gen     uint32  // how often it was in the heap

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
	// asked: the store is yet to say whether it may begin. Until then it is nobody's: nothing ends
	// it, and nothing is written down of it. See letBegin.
	asked bool
	// unique: the task has a unique key, so the store is asked before each hand-out whether it may
	// begin: a submission may have replaced it. See store.Loaded.
	unique   bool
	owns     bool    // its key goes in order, and waits for it until it is over
	turn     int64   // of its key, that it took; see lanes
	progress float64 // as its worker's last beat said
	note     string
}

func (it *item) standing() progress.Standing {
	return progress.Standing{Stage: it.stage, Seq: it.seq, Attempt: it.attempt, Base: it.base}
}

// weight is how many bytes the values are that the item keeps.
func (it *item) weight() int {
	n := len(it.context)
	for i := range it.after {
		n += len(it.after[i].Context) + len(it.after[i].Result)
	}
	return n
}

// startedAt is when the present hand-out began; 0 when there is none.
func (it *item) startedAt() int64 {
	if it.worker == nil {
		return 0
	}
	return it.queue.memory.clock.read(it.started)
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
