package store

import (
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/task"
)

// Span is a run lo..hi of one batch's tasks, the unit in which nodes take tasks.
type Span struct {
	ID     int64
	Batch  int64
	Lo, Hi int32 // both included
	Seq0   int32
	Queue  string
	Rank   int64
	Due    int64
	Holder Holder // zero = free
	Token  int64  // only grows; part of every hand-out's token
	Deaths int32  // holders that died with it
	// Key is the group key of all its tasks, if it is Sorted: as what is taken from queues that go
	// by keys.
	Key    string
	Sorted bool
	Linked Links
}

// Parked tells whether the tasks of the span wait for something else than a time.
func (s *Span) Parked() bool { return s.Due == Never }

// Taking names the present holding of the span.
func (s *Span) Taking() Taking { return Taking{s.ID, s.Token} }

// HeldSpan is a span as its holder reads it: with the tasks that are still its own.
type HeldSpan struct {
	Span
	Tasks []Loaded // ascending N; without those that are final or moved away
	// Keys are the group keys of Tasks, of a span that a take by keys took as it was; nil = they
	// are not said.
	Keys []string
}

// Loaded is one task as its holder reads it.
type Loaded struct {
	N int32
	progress.Standing
	Context     Value
	ContextSeq  int32  // the step in which the context stands, -1 = the task itself
	ContextBy   string // the worker whose report that step records; "" = the task itself
	MaxAttempts int32  // 0 = the queue's
	Timeout     int64  // microseconds, 0 = the queue's
	Meta        Meta
	Due         int64 // when the newest step lets it run again; 0 = at once
	HeadStart   int64 // its priority, microseconds, as it was submitted
	// when it expires unless it is begun before; 0 = never, as for one that was begun: which has an
	// outcome, or a running row
	Expires int64
	Running *Running
	// Unique: the task has a unique key. It is handed out when Begin says so, as submissions may
	// replace it until then.
	Unique bool
	Woken  *Woken  // what ended the wait before its present stage; nil = it did not wait
	Parent task.ID // whose child it is; zero = nobody's
	After  []Prior // what it has waited for, in the order of Task.After; nil = nothing
}

// Running is a hand-out older than about a second: its token stays good when its node dies.
type Running struct {
	ID          task.ID
	Seq         int32
	Span        int64
	Token       int64 // the span's at the hand-out
	Worker      string
	Incarnation string
	Started     int64
	Until       int64 // the attempt's hard limit
}

// TakeRequest asks for ready tasks of one queue, by rank.
type TakeRequest struct {
	Holder Holder
	Queue  string
	Limit  int // tasks; the last span is split to fit
	// Keys makes it go by group keys, and take spans whole; nil = by rank.
	Keys *ByKey
}

// Taken answers a TakeRequest. No spans: nothing is ready, or the holder's lease is gone.
type Taken struct {
	Now       int64
	LeaseGone bool
	Spans     []HeldSpan
	// More tells that ready spans of the queue are left, the first of which has NextRank. They may
	// be locked by others just now.
	More     bool
	NextRank int64
	// when the earliest sleeping span of the queue is due, or what others have locked is to be
	// looked at again; 0 = neither
	NextDue int64
	// Left tells of a take by keys that ready spans are left, sorted or not: what is submitted now
	// is not to overtake them.
	Left bool
	// After is the last key that a take by keys has looked at; nil = it came to the end of them.
	After *string
	// Turns says of keys of the spans how many tasks a turn of theirs has (KeyRule.Turn), where
	// that is not one.
	Turns map[string]int
	// Owners are those of the tasks that own their keys (KeyGate.Owner): they go before all others.
	Owners []task.ID
}

// Ready says that a queue has ready spans that nobody holds.
type Ready struct {
	Queue string
	Rank  int64 // the least of them
}

// SyncRequest writes down what runs and asks what others settled.
type SyncRequest struct {
	Holder Holder
	Insert []Running // hand-outs older than about a second without a row
	Watch  []Watch   // all hand-outs of this node
}

// Watch is the seq of one hand-out.
type Watch struct {
	ID  task.ID
	Seq int32
}

// Synced answers a SyncRequest.
type Synced struct {
	Now       int64
	LeaseGone bool
	Settled   []task.ID // watched hand-outs at whose seq a step stands
	// Of Insert, those that have no row all the same, in its order: they are over, or somebody else
	// had the row of their span just then. Say them again for as long as they run.
	Missing []task.ID
}

// Taking is one time that a span was held: when it is held again, by whomever, the token is
// another.
type Taking struct {
	Span  int64
	Token int64
}

// GiveRequest gives spans back, whole.
type GiveRequest struct {
	Holder Holder
	Spans  []Taking
	// of the spans: when the first of their tasks is due, and its rank. Empty = as they are
	Orders  []Move
	Running []Running // all hand-outs of these spans: their tokens stay good
}

// RestRequest gives the rests of spans back: what begins with a number of theirs.
type RestRequest struct {
	Holder Holder
	Rests  []Rest
}

// Rest is the end of a span.
type Rest struct {
	Taking
	From int32 // its first number
	Move       // when the first of its tasks is due, and its rank
}
