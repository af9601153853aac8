package contract

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Groups keeps groups of jobs: what is to run. store.ErrNotFound: no such group (any more).
type Groups interface {
	// ChangeGroup changes a configuration, or creates it. Of changes at the same time none is lost.
	// A group that is created anew has greater versions than the one that had its name before.
	ChangeGroup(ctx context.Context, name string,
		change store.Change[task.Group]) (store.Changed[task.Group], error)
	// Groups lists all, by name.
	Groups(context.Context) ([]store.Group, error)
	// DeleteGroup forgets a group, its jobs, their logs and its assignments, which take no capacity
	// from then on: their workers end them when Changes says that there is no such group. With jobs
	// and without force: store.ErrConflict.
	DeleteGroup(ctx context.Context, name string, force bool) error
	// AskGroup makes the group's Refresh or Rebalance grow.
	AskGroup(ctx context.Context, name string, refresh, rebalance bool) error
	// NoteSource writes down what came of reading a group's source when that changed nothing
	// (store.JobChange.Read does it else). store.ErrConflict: the claim does not stand.
	NoteSource(ctx context.Context, group string, claim store.Lease, read store.SourceRead) error
	// ChangeJobs replaces, adds or removes jobs, all or nothing. A job that is put as it is keeps
	// its version; assignments stay as they are: one whose token is less than its job's version was
	// made before the job changed. store.ErrConflict: the claim does not stand, there is none and
	// the group's list comes from elsewhere than the API, or from another source than From, or
	// there would be more than MaxJobs.
	ChangeJobs(context.Context, store.JobChange) (store.JobsChanged, error)
}

// Assignments keeps who runs what. store.ErrNotFound: no such group (any more), so nothing of it is
// to run.
type Assignments interface {
	// Changes reads on in a group's changes after a version, unordered: everything that is newer,
	// tombstones included. Everything, without tombstones but those of assignments that failed
	// within limits.MaxPenalty (Whole), is answered after 0, to who has read less far than what was
	// purged, and to who has read further than the group is (its store is an older one).
	Changes(ctx context.Context, group string, after int64) (store.Changes, error)
	// Assign does what a supervisor decided, in the order Drop, End, Move, Start.
	//
	//   - Drop and End pass over what is not there with that token, or is so already.
	//   - Drop is refused while the worker is there (store.SeatTaken).
	//   - Start is refused when the job is gone, the worker is not there (store.SeatTaken), has a
	//     replica of the job or too little room, or the replica has a worker already, one at which
	//     it is not ending.
	//   - Move is refused likewise, and when the replica is not at From, starting, running or
	//     failed, or is moving already.
	//
	// A moving one whose successor is over or ending, by this call or any other, goes on as
	// running. After store.ErrUnknown the supervisor reads on; the same call again would do nothing
	// twice, but refuse what it had done.
	Assign(context.Context, store.Assign) (store.Assigned, error)
	// Observe writes down what workers said. Starting, running and failed ones become what is said
	// of them; failing is noted with its time and Note, and whether it is Quiet, until it becomes
	// another state. Moving and ending ones only become Ended.
	// What is so already costs nothing. Runs are adopted that are starting, running or failed, and
	// have a replica of the group's, when no row of their job and worker has their token or a later
	// one (an assignment that was ended is never adopted again); see store.Observed for the rest.
	// Said twice, an adopted run stays adopted. With Anew, starting, running and failed ones become
	// starting under a new token.
	Observe(context.Context, store.Observed) (store.Observing, error)
}

// Seats keeps the workers that serve groups.
type Seats interface {
	// Seat writes down who beats at a node and who does not any more (Worker, Incarnation and State
	// of Away); see store.SeatRequest. One whose incarnation is not that of its seat is passed over
	// in Away. What is so already costs nothing. Away comes after Taken: a worker in both, which
	// came and left since its node wrote last, is away.
	Seat(context.Context, store.SeatRequest) (store.Seated, error)
	// Seats lists all, by name, if their version is not the one that the caller knows (0: none),
	// else none.
	Seats(ctx context.Context, known int64) (store.Seats, error)
	// Board is Groups and Seats at one moment and, when there is nothing new of seats, in one
	// statement.
	Board(ctx context.Context, known int64) (store.Board, error)
	// DeleteSeat forgets a worker, if there is one, and ends its assignments at once.
	DeleteSeat(ctx context.Context, worker string) error
}

// JobTexts keeps what replicas of jobs print.
type JobTexts interface {
	// AppendJobLog adds lines to a job's log; past 1 MiB the middle is dropped first.
	// store.ErrNotFound; a removed job keeps its log as long as its tombstone stands.
	AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error
	// JobLog reads lines from a position on (0 = the first).
	JobLog(ctx context.Context, group, job string, from int64, limit int) (store.LogPage, error)
}
