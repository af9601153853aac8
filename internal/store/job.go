package store

import (
	"fmt"
	"reflect"
	"time"

	"github.com/rotahq/rota/task"
)

// Jobs stand in four tables, all of them mutable and small beside those of tasks:
//
//	job_group   (name, …, version, horizon)                                        what to do, and a counter of all changes
//	job         (grp, job, load, spec, gone, version)
//	assignment  (grp, job, worker, replica, token, state, load, since, note, version)   PK (grp, job, worker)
//	seat        (worker, node, htok, incarnation, …, used)                         a worker that serves groups, at the node that it beats at
//
// Every transaction that changes a group, its jobs or its assignments locks the group's row and
// gives what it wrote the group's next version: who has read up to a version reads on from there,
// and misses nothing. What is over stays for a while as a tombstone (Gone, Ended) so that those who
// read on learn of it; the group's horizon is the greatest version of a tombstone that was purged.
// Who has read less far reads everything anew.
//
// The primary key of assignment keeps two replicas of a job off one worker, and seat.used, counted
// in the same transactions, keeps a worker within its capacity, whoever supervises whichever group.

// Group is a group as it stands.
type Group struct {
	task.Group
	Version   int64 // of the newest change of it, its jobs or its assignments
	Refresh   int64 // grows when somebody asks for the source to be read
	Rebalance int64 // grows when somebody asks for the move budget to be spent
	Since     int64 // created
	Read      SourceRead
	Jobs      int64 // that are not gone
}

// SourceRead is what came of the newest reading of a group's source.
type SourceRead struct {
	Time    int64  // when it was tried last; 0 = never
	Good    int64  // when it worked last
	Refresh int64  // the group's Refresh that it answers
	Hash    string // of what it said; the same again changes nothing
	Error   string // why it failed, for people; "" = it did not
}

// JobChange replaces, adds or removes jobs of a group.
type JobChange struct {
	Group  string
	Whole  bool       // Put is the whole list: what is not in it goes
	Put    []task.Job // added, or given another load or spec; names differ
	Remove []string
	// Claim, when its Name is not empty, must stand (as in Assign), and Read becomes what came of
	// the source.
	Claim Lease
	Read  *SourceRead
	From  *task.Source // that was read, and must still be the group's; nil = it does not matter
}

// Refusal is why a group whose list comes from such a source can't be changed so, or nil: what
// somebody changed by hand would stand only until the source says something else, and what an
// earlier source said would replace what the present one says, or people.
func (c *JobChange) Refusal(source *task.Source) error {
	switch {
	case c.From != nil && !reflect.DeepEqual(c.From, source):
		return fmt.Errorf("its list comes from another source by now: %w", ErrConflict)
	case c.Claim.Name != "" || source.Kind == task.SourceAPI || source.Kind == "":
		return nil
	}
	return fmt.Errorf("its list comes from a %s, change it there: %w", source.Kind, ErrConflict)
}

// JobsChanged answers a JobChange. A job with another load or spec counts as kept.
type JobsChanged struct {
	Added, Removed, Kept int
	Version              int64
}

// GroupJob is a job as it stands.
type GroupJob struct {
	task.Job
	Gone    bool // it was removed
	Version int64
}

// Ended is the state of an assignment that is over: a tombstone.
const Ended task.JobState = "ended"

// What stays for a while after it is over.
const (
	EndedKept    = time.Hour      // tombstones of jobs and assignments
	SeatsKept    = 24 * time.Hour // seats of workers that are gone and have no assignment
	Incarnations = 8              // of a worker, earlier ones
)

// Assignment is one replica on one worker.
type Assignment struct {
	Group, Job string
	Replica    int
	Worker     string
	Token      int64 // the version at which it was made; part of what its worker is given
	State      task.JobState
	Load       task.Units
	Since      int64  // of the state
	Failed     int64  // when it failed last; 0 = never
	Note       string // what its worker said of the failure
	// Quiet, of a failed one: its worker says that it runs, but its handler gave no sign for longer
	// than the group's JobSilence. Its worker does not start it anew by itself.
	Quiet   bool
	Version int64
}

// Changes are what changed in a group after a version.
type Changes struct {
	Now     int64
	Version int64 // read on from here
	// everything is here, and of tombstones only those of what failed within MaxPenalty: what
	// the reader knew is void
	Whole       bool
	Jobs        []GroupJob
	Assignments []Assignment
}

// Assign changes who runs what. Nothing is changed unless the claim stands: its lease has Holder
// and Token and has not expired. Parts that can't be done any more are refused one by one.
type Assign struct {
	Group string
	Claim Lease   // Name, Holder and Token of the supervisor's lease
	Start []Place // new replicas
	// new replicas whose predecessors (From) go on until the new ones run: these become moving
	Move []Place
	End  []Place // Worker's assignments with Token; they become ending
	// Drop are assignments of workers that are dead: they become ended at once. What is of a worker
	// that is there (SeatTaken) is refused: it came back after this was decided, and may run it.
	Drop []Place
}

// Place is one replica of a job on a worker.
type Place struct {
	Job     string
	Replica int
	Worker  string
	From    string     // of Move
	Token   int64      // of End and Drop
	Load    task.Units // of Start and Move
}

// Assigned answers an Assign.
type Assigned struct {
	Now       int64
	ClaimGone bool // nothing was changed
	Version   int64
	Refused   []Refused
}

// Refused is a part of an Assign that was not done.
type Refused struct {
	Place
	Reason string // for people: the worker is gone, is full, has the job already
}

// SeatState is how a worker stands, as the node says at which it beats.
type SeatState string

const (
	SeatTaken SeatState = "taken" // the worker beats
	// it was silent for longer than its limit: by now it has stopped its jobs itself
	SeatSilent SeatState = "silent"
	SeatLeft   SeatState = "left"   // it said goodbye
	SeatOrphan SeatState = "orphan" // its node died, and it was not heard at another yet
)

// Seat is a worker that serves groups.
type Seat struct {
	Worker      string
	Node        Holder // at which it beats; zero of an orphan
	Incarnation string
	// Incarnations that it had before, newest first: who still speaks as one of them is told to
	// stop
	Before   []string
	Capacity task.Units
	Used     task.Units // by assignments that are not ended
	Labels   map[string]string
	Zone     string
	Groups   []string // sorted
	Draining bool
	Shed     task.Units // of its capacity that is to be free, and is not draining; 0 = nothing
	DrainBy  int64      // when what is left to give up is taken from it; 0 = never
	// Silence is how long the worker may go without an answered beat before it has stopped its jobs
	// by itself: no node ever told it a longer time than what stands here. 0 =
	// limits.DefaultSilence.
	Silence time.Duration
	// Overlap is until when, by the store's clock, the node at which the worker beat before may go
	// on to answer it, not knowing yet that it beats here: its silence counts from then at the
	// earliest. 0 = no other node may.
	Overlap int64
	State   SeatState
	Since   int64 // of the state
	Joined  int64 // of the incarnation
}

// SeatRequest writes down what a node heard of workers. Without the node's lease nothing is
// changed.
type SeatRequest struct {
	Holder Holder
	// Taken are workers that beat here: they sit here from now on. One of an incarnation that its
	// row names as earlier is refused.
	Taken []Seat
	// Overlap is for how long a node may answer workers without having read the store, at most:
	// the seats of those that beat at another node until now get it.
	Overlap time.Duration
	// Away are workers that sat here and fell silent or left; one that sits elsewhere by now is
	// passed over.
	Away []Seat
}

// Seated answers a SeatRequest.
type Seated struct {
	Now        int64
	LeaseGone  bool
	Version    int64    // of all seats
	Superseded []string // workers whose beat was that of an earlier incarnation
}

// Seats are all workers that serve groups.
type Seats struct {
	Now     int64
	Version int64 // grows with every change of any seat, Used left aside, and when a group goes
	Seats   []Seat
}

// Board is what a node looks at every beat.
type Board struct {
	Groups []Group // all, by name
	Seats  Seats   // with their list only if there is anything newer than what the node knows
}

// Observed is what workers that beat at a node said of their jobs. Without the node's lease, and of
// workers that sit elsewhere, nothing is changed; an assignment with another token is passed over.
type Observed struct {
	Holder Holder
	States []Observation // starting, running, failed or Ended
	// Adopt are runs with a good seal that no row speaks of: they become assignments again, unless
	// the job is not wanted, its replica has a worker, or its worker has a replica of the job or is
	// full. The group's version grows past their tokens.
	Adopt []Observation
}

// Observation is one assignment as its worker said.
type Observation struct {
	Group, Job string
	Replica    int
	Worker     string
	Token      int64
	State      task.JobState
	Load       task.Units // of Adopt
	Note       string
	Quiet      bool // of a failed one of States; see Assignment.Quiet
	// Anew, of States: the worker has begun anew and does not have it. Starting, running or failed,
	// it becomes starting under a new token, so that what the worker's earlier incarnation still
	// does can be told from what this one does.
	Anew bool
}

// Observing answers an Observed.
type Observing struct {
	Now       int64
	LeaseGone bool
	Refused   []Observation // of Adopt
}
