package supervise

import (
	"context"

	"github.com/rotahq/rota/internal/rows"
)

// The parts of the store that this room uses; internal/storetest/contract.go says what each call promises.

// Reader reads what stands of groups and of the workers that serve them.
type Reader interface {
	// Board is all groups, each with the version of its newest change, and all seats if their version is not the known one (0: none).
	Board(ctx context.Context, known int64) (rows.Board, error)
	// Changes reads on in a group's changes after a version (0: everything); rows.ErrNotFound.
	Changes(ctx context.Context, group string, after int64) (rows.Changes, error)
}

// Listener writes down what workers say at this node. Without the node's lease nothing is changed.
type Listener interface {
	Seat(context.Context, rows.SeatRequest) (rows.Seated, error)
	Observe(context.Context, rows.Observed) (rows.Observing, error)
}

// Writer does what the supervisor of a group decides. Unless its claim stands nothing is changed.
type Writer interface {
	Assign(context.Context, rows.Assign) (rows.Assigned, error)
	// ChangeJobs replaces, adds or removes jobs, all or nothing; rows.ErrConflict: the claim does not stand, or there would be too many.
	ChangeJobs(context.Context, rows.JobChange) (rows.JobsChanged, error)
	// NoteSource writes down what came of a reading that changed nothing.
	NoteSource(ctx context.Context, group string, claim rows.Lease, read rows.SourceRead) error
}
