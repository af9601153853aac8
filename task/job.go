package task

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// MaxLoad is the largest load of a job, and the largest capacity of a worker.
const MaxLoad = Units(1e6 * 1000)

// MaxJobChange is how many jobs one call may give.
const MaxJobChange = 100_000

// Units are an amount of load or capacity in thousandths of a unit: exact, so that sums never
// drift.
type Units int64

// Unit is one unit: what a task costs, and a job that says nothing else.
const Unit Units = 1000

// ParseUnits takes a number of units with at most 3 decimals, from 0 to MaxLoad.
func ParseUnits(f float64) (Units, error) {
	switch u := math.Round(f * 1000); {
	case !(f >= 0 && u <= float64(MaxLoad)): // NaN, too
		return 0, fmt.Errorf("%v: must be 0 to %d", f, MaxLoad/Unit)
	case u/1000 != f:
		return 0, fmt.Errorf("%v: at most 3 decimals", f)
	default:
		return Units(u), nil
	}
}

// Float is the number of units.
func (u Units) Float() float64 { return float64(u) / 1000 }

// Job is endless work of a group, which always is to run on as many workers as the group has
// replicas.
type Job struct {
	Name string
	Load Units           // of a worker's capacity; 0 is allowed
	Spec json.RawMessage // any JSON value, kept byte for byte and passed on; nil = none
}

// JobState is how one replica of a job stands.
type JobState string

const (
	JobPending  JobState = "pending"  // has no worker yet
	JobStarting JobState = "starting" // its worker was or will be told
	JobRunning  JobState = "running"  // its worker says that it runs
	// it returned or crashed; its worker will try again after a while
	JobFailed JobState = "failed"
	JobMoving JobState = "moving" // runs until its successor on another worker does
	JobEnding JobState = "ending" // its worker is to end it, and takes capacity until it has
)

// Assignment is one replica of a job in a worker's hands.
type Assignment struct {
	Group   string
	Job     string
	Replica int      // from 0
	Token   JobToken // greater for every later assignment of the group
	Load    Units
	Spec    json.RawMessage
}

// Run is one assignment as its worker's beat tells of it.
type Run struct {
	Group   string
	Job     string
	Replica int
	Token   string   // as it was given; of what was never given anything, which is told to end
	State   JobState // starting, running or failed
	Error   string   // of a failed one, for people
	// Alive is when its handler gave its last sign: by the worker's clock, so that only a change of
	// it means something. Zero = the worker does not tell.
	Alive time.Time
}

// Orders tell a worker what to do about its jobs: they are what differs from what its beat said
// that it runs.
type Orders struct {
	// Add is all that it is to run: everything else ends, what is in both goes on
	Reset bool
	Add   []Assignment // start these
	End   []Run        // end these; only group, job, replica and token are set
	// Silence is how long the worker may go without an answered beat before others get its jobs: it
	// stops them by itself before that. 0 = what DefaultSilence says.
	Silence time.Duration
	// Signs asks for Run.Alive: without it beats need not tell it.
	Signs bool
}

// Source says where a group's list of jobs comes from.
type Source struct {
	Kind    string        // api, file, url or command
	Path    string        // of a file, on the nodes' machines
	URL     string        // answers {"jobs": […]}
	Command []string      // prints {"jobs": […]}; only where the operator's flag allows it
	Every   time.Duration // between two readings; default 30 minutes
}

// The kinds of source.
const (
	SourceAPI     = "api"
	SourceFile    = "file"
	SourceURL     = "url"
	SourceCommand = "command"
)

// JobPolicy bounds what a group's supervisor does by itself.
type JobPolicy struct {
	Moves   int           // voluntary moves a round
	New     int           // new replicas a worker and round
	Penalty time.Duration // so long is a worker avoided on which a job just failed
	Warmup  time.Duration // so long does a new supervisor wait for workers to report, at most
}

// Group is a named set of jobs with one policy.
type Group struct {
	Name     string
	Replicas int               // of each job, on different workers
	Selector map[string]string // labels that a worker must have
	Spread   string            // SpreadZone or SpreadWorker
	Source   Source
	Policy   JobPolicy
	Paused   bool // nothing is assigned, moved or ended; what runs goes on
	// Silence is how long nothing may be heard of a worker before it loses the group's replicas. A
	// worker that serves several groups goes by the shortest. Default DefaultSilence.
	Silence time.Duration
	// JobSilence is how long a replica's handler may give no sign before it is started elsewhere;
	// 0 = for ever.
	JobSilence time.Duration
	Title      string // what people call it, in any language; "" = nothing
	Owner      string // who answers for it, a name or a mail address; "" = nobody said
}

// What the replicas of a job are spread over.
const (
	SpreadZone   = "zone"   // zones where workers say theirs, else workers
	SpreadWorker = "worker" // workers only
)

// JobToken is the right to run one assignment, and the fencing number of its side effects: of two
// assignments of one group the later has the greater Number.
type JobToken struct {
	Number int64  // 0 = none
	Seal   uint64 // binds the number to the group, job, replica and worker
}

func (t JobToken) String() string {
	b := appendDigits(make([]byte, 0, 24), uint64(t.Number))
	return string(appendDigits(append(b, tokenDot), t.Seal))
}

// ParseJobToken is the inverse of JobToken.String.
func ParseJobToken(s string) (JobToken, error) {
	number, rest, ok := parseDigits(s)
	if ok && strings.HasPrefix(rest, string(tokenDot)) {
		if seal, rest, ok := parseDigits(rest[1:]); ok && rest == "" && number <= 1<<63-1 {
			return JobToken{Number: int64(number), Seal: seal}, nil
		}
	}
	return JobToken{}, fmt.Errorf("parse token %.60q: not an assignment's token", strings.Clone(s))
}
