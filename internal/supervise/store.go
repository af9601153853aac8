package supervise

import (
	"context"

	"github.com/rotahq/rota/internal/store"
)

// The parts of the store that this room uses; internal/store/contract/contract.go says what each
// call promises.

// Reader reads what stands of groups and of the workers that serve them.
type Reader interface {
	// Board is all groups, each with the version of its newest change, and all seats if their
	// version is not the known one (0: none).
	Board(ctx context.Context, known int64) (store.Board, error)
	// Changes reads on in a group's changes after a version (0: everything); store.ErrNotFound.
	Changes(ctx context.Context, group string, after int64) (store.Changes, error)
}

// Listener writes down what workers say at this node. Without the node's lease nothing is changed.
type Listener interface {
	Seat(context.Context, store.SeatRequest) (store.Seated, error)
	Observe(context.Context, store.Observed) (store.Observing, error)
}

// Writer does what the supervisor of a group decides. Unless its claim stands nothing is changed.
type Writer interface {
	Assign(context.Context, store.Assign) (store.Assigned, error)
	// ChangeJobs replaces, adds or removes jobs, all or nothing; store.ErrConflict: the claim does
	// not stand, the group has another source by now, or there would be too many.
	ChangeJobs(context.Context, store.JobChange) (store.JobsChanged, error)
	// NoteSource writes down what came of a reading that changed nothing.
	NoteSource(ctx context.Context, group string, claim store.Lease, read store.SourceRead) error
}
