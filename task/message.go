package task

import (
	"encoding/json"
	"time"
)

// Submission is one task to be. Only Queue is needed.
type Submission struct {
	Queue       string
	Stage       string          // handed to the worker as it is; may be empty
	Context     json.RawMessage // any JSON value, kept byte for byte; nil = none
	Priority    time.Duration   // head start in the queue, >= 0
	Due         time.Time       // zero = now; not together with Delay
	Delay       time.Duration   // due so long after the submission
	Key         string          // makes the submission idempotent inside its queue; empty = none
	KeyFor      time.Duration   // how long the key is remembered; 0 = 7 days
	GroupKey    string          // for its queue's limits per key, and turns; "" = none
	MaxAttempts int             // 0 = the queue's
	Timeout     time.Duration   // of one attempt; 0 = the queue's
	// StartWithin is how long after it is due the task may wait for its first hand-out: one that
	// nobody has begun by then is over, Expired. A task that was handed out once never expires.
	// 0 = it waits for ever.
	StartWithin time.Duration

	// Unique makes the task the only one of its queue with a key; nil = any number. OnExisting
	// says what becomes of the submission while another task has that key; "" = OnExistingKeep.
	Unique     *Unique
	OnExisting OnExisting

	// Meta are up to 16 short strings that go with the task wherever it goes: into the hands of
	// workers, views, notices and what it causes. Lists can be filtered by them. nil = none.
	Meta map[string]string

	// Orphan lets a child stay when its parent is dead, cancelled or expired: others are cancelled
	// then, unless they have begun. Only children have it (Outcome.Spawn).
	Orphan bool

	// After names tasks that have to end before this one may begin, at most 1,000: by the Ref of
	// another one in the same call, or by id. Until then its state is Blocked. If says how they
	// have to end: one that ends otherwise cancels this one. What they left the handler is told
	// (Handout.After). Not together with StartWithin or Unique.
	After []string
	If    Condition // "" = IfDone
	// Ref is what other tasks of the same call name this one by. It is no id, and forgotten after
	// the call, but that those which waited for the task are told it.
	Ref string

	// Err says why Type.New could not write Context: the task is refused when it is submitted.
	Err error
}

// MaxSubmissions is how many tasks one call may submit.
const MaxSubmissions = 10_000

// Receipt answers one Submission: its id, or that of the task which has the same key.
type Receipt struct {
	ID       ID
	Existing bool // the id is that of a task that was there before
	Action   Submitted
}

// HoldRequest asks for tasks.
type HoldRequest struct {
	Worker string
	Queues []string      // served in this order of preference only among equal ranks
	Limit  int           // at most so many; 0 = the queue's hold limit; above 1,000 it is 1,000
	Wait   time.Duration // for the first task; at most a minute

	// Ahead is how many of the tasks may wait at the worker until something that it runs has ended:
	// its capacity limits what runs, and with this what it holds. They are only given while no
	// worker with free capacity waits.
	Ahead int
	// Incarnation is that of the worker's beats; "" for a worker that does not beat. It lets a
	// server that has not heard a beat since its start know that this worker's silence will mean
	// something.
	Incarnation string
	// Room, when not nil, is asked before contexts are read from the store for the answer: whether
	// memory has room for n bytes more of them. What has none is given back unrun. With n below
	// 0 less was needed than asked for. It goes to no server.
	Room func(n int64) bool
}

// HoldAnswer carries the tasks, and how long to wait before asking again when a worker does not
// long-poll.
type HoldAnswer struct {
	Tasks        []Handout
	PollInterval time.Duration
	// Written, when not nil, is to be called once the answer is on its way to the worker or can't
	// be sent. Beats that begin before it say nothing about these tasks.
	Written func()
}

// Handout is one task in a worker's hands.
type Handout struct {
	ID      ID
	Queue   string
	Stage   string
	Context json.RawMessage
	Attempt int // 1 for the first in this stage
	// give it back with the report; greater for every later hand-out (see ParseToken)
	Token    string
	Deadline time.Time // the outcome is refused after it
	// since when the task might run: it was due, its back-off was over, or what it waited for had
	// come. Limits and a lack of workers let it wait from then on. Zero = the server does not say
	Ready time.Time
	Meta  map[string]string // as it was submitted, or edited; nil = none
	// Fault, when not empty, says why the rest could not be read: only ID and Token are known then.
	// There is nothing to run: report it as failed, with this for a reason, as package worker does.
	Fault string

	// ContextBy is the worker that wrote the context, in a report of an earlier stage; empty = it
	// stands as it was submitted. InScope says that this worker's access token names the queue, or
	// that the server has no access tokens: what it writes is as good as a submission.
	ContextBy string
	InScope   bool

	// What ended the wait before this stage (Outcome.Await), at each of its attempts: the signal
	// that came, or TimedOut. nil and false = it did not wait.
	Signal   *Signal
	TimedOut bool

	Parent ID // the task that submitted this one as its child; zero = it is nobody's
	// Children tell how those of the task had ended when they ended the wait before this stage; at
	// each of its attempts. nil = it did not wait for them, or TimedOut.
	Children *Children

	// After are the tasks that had to end before this one could begin, in the order of its
	// Submission.After, with what they left; at each hand-out. nil = it did not wait for any.
	After []Prior
}

// Report says what became of one hand-out.
type Report struct {
	ID    ID
	Token string
	Outcome
	// Committed says that a transaction of the worker's own has recorded the outcome, done or next,
	// in the database of the store: the answer is Repeated if it has. If it has not, what it wrote
	// is not there either: the task is tried again, as after a retry, and the answer is Stale.
	Committed bool
}

// Status answers one Report.
type Status string

const (
	Recorded Status = "recorded" // stands now
	Repeated Status = "repeated" // stood already, from the same report
	Stale    Status = "stale"    // the hand-out is no longer the worker's
	Unknown  Status = "unknown"  // no such task
	Invalid  Status = "invalid"  // the report itself is wrong; Detail says what
)

// Answer is what became of one Report.
type Answer struct {
	ID     ID
	Status Status
	Detail string
	// Spawned are the tasks of Outcome.Spawn, in that order, also of a report that is Repeated. One
	// whose key another task has is not submitted, and is none of the children: that one's id.
	Spawned []ID
}

// Beat is what a worker says of itself every few seconds.
type Beat struct {
	Worker      string            `json:"-"`
	Incarnation string            `json:"incarnation"` // new with every start of the worker
	Capacity    float64           `json:"capacity"`    // units of load it may carry; a task costs 1
	Labels      map[string]string `json:"labels,omitempty"`
	Zone        string            `json:"zone,omitempty"`
	Build       string            `json:"version,omitempty"` // of the worker's program, for people
	Load        Load              `json:"load,omitzero"`
	Groups      []string          `json:"groups,omitempty"` // whose jobs it runs
	Queues      []string          `json:"queues,omitempty"` // whose tasks it takes
	Tasks       []Held            `json:"tasks"`
	Jobs        []Run             `json:"jobs,omitempty"` // assignments it runs
	Leaving     bool              `json:"leaving,omitempty"`
	// answer early when something changes, at latest after Wait
	Wait    time.Duration `json:"-"`
	Version string        `json:"-"` // of the last answer
}

// Load is the machine's load as shares of its maximum, 0 to 1.
type Load struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Held is one hand-out that a worker says it holds.
type Held struct {
	ID       ID      `json:"id"`
	Token    string  `json:"token"`
	Progress float64 `json:"progress,omitempty"` // 0 to 1
	Note     string  `json:"note,omitempty"`
}

// BeatAnswer tells a worker what to do with what it holds.
type BeatAnswer struct {
	Version string        `json:"version"`
	Beat    time.Duration `json:"-"` // how long until the next beat
	Tasks   []HeldAction  `json:"tasks"`
	Jobs    Orders        `json:"jobs"`
}

// Action is what a worker should do with a hand-out it holds.
type Action string

const (
	ActionContinue Action = "continue"
	ActionCancel   Action = "cancel" // stop it: the task was cancelled
	// stop it: the hand-out is somebody else's now, or its time is over
	ActionStale Action = "stale"
)

// HeldAction is the answer to one Held.
type HeldAction struct {
	ID     ID     `json:"id"`
	Action Action `json:"action"`
}

// LogLine is one line of a task's log.
type LogLine struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream"` // stdout, stderr or a word of the handler's own
	Text   string    `json:"text"`
}

// Queue is the configuration of one type of task.
type Queue struct {
	Name         string
	Timeout      time.Duration // longest attempt
	Silence      time.Duration // longest without a sign of life of a worker that beats
	MaxAttempts  int           // per stage
	Retry        Backoff
	HoldLimit    int           // tasks per hold when the worker names no limit; at most 1,000
	PollInterval time.Duration // for workers that do not long-poll
	ContextLimit int64         // bytes
	Retention    time.Duration // of done and cancelled tasks, from their end
	DeadKept     time.Duration // of dead and expired ones
	// FinalQueue, when not empty, gets a task for each task of this queue that dies, whatever it
	// dies of: its context is a FinalNotice. It is submitted in the transaction in which the task
	// dies.
	FinalQueue string
	// Limits that hold over all nodes together. What a dead node or an unheard worker has counts
	// until it is recorded as lost.
	MaxRunning int  // tasks that run at a time; 0 = any number
	Rate       Rate // how fast tasks begin; zero = any speed
	Burst      int  // how many may begin at once after a rest; 0 = Rate.Count
	// PerKey limits the tasks of each group key by itself. Those without a key it does not limit.
	PerKey KeyLimits
	Fair   bool // group keys take turns, however many tasks each has; else rank decides
	// KeyRules: something is said of single group keys, a pause or a weight. The store sets it.
	KeyRules bool
	Paused   bool
	Title    string // what people call it, in any language; "" = nothing
	Owner    string // who answers for it, a name or a mail address; "" = nobody said
}

// KeyLimits are limits of each group key of a queue, over all nodes together.
type KeyLimits struct {
	MaxRunning int  // tasks of a key that run at a time; 0 = any number
	Rate       Rate // how fast tasks of a key begin; zero = any speed
	Burst      int  // how many of a key may begin at once after a rest; 0 = Rate.Count
	// OnDead says what becomes of a key whose tasks go in order when one of them is dead; "" =
	// OnDeadContinue.
	OnDead OnDead
}

// InOrder tells whether the tasks of a key go one after the other, by rank: when one has begun,
// none begins before it is over, whatever that takes, retries and further stages included.
func (l *KeyLimits) InOrder() bool { return l.MaxRunning == 1 }

// ByKeys tells whether the queue looks at its tasks' group keys.
func (q *Queue) ByKeys() bool {
	p := &q.PerKey
	return q.Fair || q.KeyRules || p.MaxRunning > 0 || p.Rate != (Rate{})
}

// Counts are the tasks of a queue by state. Done, Dead, Cancelled and Expired count what retention
// still keeps.
type Counts struct {
	Blocked   int64 `json:"blocked"`
	Waiting   int64 `json:"waiting"`
	Ready     int64 `json:"ready"`
	Running   int64 `json:"running"`
	Done      int64 `json:"done"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
}

// View is everything the store knows of one task.
type View struct {
	ID       ID
	Queue    string
	State    State
	Stage    string
	Context  json.RawMessage
	Result   json.RawMessage
	Attempt  int // of the present, the next or, when final, the last hand-out
	Priority time.Duration
	Due      time.Time
	// Expires is when the task expires unless somebody begins it before; zero = never, as for one
	// that was begun
	Expires time.Time
	Created time.Time
	Worker  string    // the last one
	Started time.Time // of a running task: when the present hand-out began
	Stuck   string    // of a running task that seems stuck, in lists that ask for such: why
	// of a running task, 0 to 1, as its worker's last beat said; with a note for people
	Progress float64
	Note     string
	Key      string
	GroupKey string
	Meta     map[string]string
	Error    string // of the newest step, as the last attempt that failed; "" = it had none
	// of a blocked task, in the view of a single one: what it waits for
	Awaits *Awaits
	// of a child, in the view of a single task: whose it is; zero = nobody's
	Parent ID
	// in the view of a single task: how its children stand; nil = it has none in its present run
	Children *Children
	// in the view of a single task: the tasks that had to end before it, or have to, without what
	// they left
	After []Prior
	Steps []Step // oldest first; only in the view of a single task
}

// Step is what became of one hand-out.
type Step struct {
	Seq      int32
	Kind     Kind
	Stage    string // the stage that ran
	Worker   string
	Started  time.Time // zero for steps that were asked for, not run
	Finished time.Time
	Error    string
	Changed  string // of KindEdited: what it changed, by the names of the API, with ", " between
}

// StageContext is what a stage of a task was handed: the context from a step on. There is one for
// what was submitted, and one for each step from which on the task had another stage or another
// context than before.
type StageContext struct {
	Seq     int32  // the step from which on it stands; -1 = it was submitted
	Stage   string // that was handed it; where the task was over, the one in which it ended
	Outcome Kind   // of that step; 0 = it was submitted
	By      string // the worker that reported it, or who asked for it; "" = it was submitted
	Time    time.Time
	Context json.RawMessage // byte for byte; nil = none
}

// WorkerState is how a worker stands.
type WorkerState string

// The states of a worker.
const (
	WorkerActive   WorkerState = "active"
	WorkerDraining WorkerState = "draining" // takes nothing new
	WorkerSilent   WorkerState = "silent"   // not heard of for longer than the silence limit
	WorkerLeft     WorkerState = "left"     // it said that it leaves
)

// Worker is what is known of one worker.
type Worker struct {
	Name  string      `json:"name"`
	Node  string      `json:"node"` // the node it talks to
	State WorkerState `json:"state"`
	// it has not left, and was heard of within the silence limit
	Active   bool `json:"active"`
	Draining bool `json:"draining"` // takes nothing new
	// Shed is how much of its capacity is to be free until it is undrained; 0 = nothing.
	Shed float64 `json:"shed,omitempty"`
	// DrainBy is when what is left to give up is taken from it; the zero time = never.
	DrainBy  time.Time `json:"drain_by,omitzero"`
	Capacity float64   `json:"capacity"`
	// Used is what its jobs and the tasks in its hands take of its capacity.
	Used    float64           `json:"used"`
	Load    Load              `json:"load"`
	Labels  map[string]string `json:"labels"`
	Zone    string            `json:"zone,omitempty"`
	Running int               `json:"running_tasks"` // hand-outs in its hands
	Free    int               `json:"free"`          // how many more tasks it may be given
	Queues  []string          `json:"queues"`        // that it takes tasks from, by name
	Jobs    int               `json:"jobs"`
	Version string            `json:"version,omitempty"` // of its program, as it says
	Seen    time.Time         `json:"seen"`
}
