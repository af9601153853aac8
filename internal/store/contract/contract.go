package contract

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Store is everything; callers declare the few methods they need. What is promised of tasks stands
// in tasks.go, of jobs in jobs.go, of schedules in schedules.go, of all else here.
type Store interface {
	Spans
	Steps
	Waits
	Leases
	Queues
	Views
	Texts
	Events
	Notifiers
	Hooks
	Groups
	Assignments
	Seats
	JobTexts
	Schedules
	Upkeep
	Close() error
}

// Leases keeps rights that end by themselves.
type Leases interface {
	// Acquire gives the lease to holder, with a greater token, unless another holder has it
	// unexpired (store.ErrConflict).
	Acquire(
		ctx context.Context, name, holder string, ttl time.Duration, value []byte,
	) (store.Lease, error)
	// Renew extends the leases that still have the given tokens, expired or not, in one write, and
	// returns those; a nil value keeps the old one.
	Renew(ctx context.Context, leases []store.Lease, ttl time.Duration) ([]store.Lease, error)
	// End ends a lease: its token grows, and it expires. A wrong token changes nothing. remove
	// deletes the row. When it is a membership, whatever its holder has for as long as that stands
	// (store.WhileMember) goes on to the time at which the membership would have expired: the
	// holder may not know yet.
	End(ctx context.Context, name string, token int64, remove bool) error
	// AcquireAll gives those of the wanted leases (their Name and Value; names differ) to holder
	// that are free, each with a greater token, in one write, and returns them, in no order: those
	// without a row and those that were ended (End, Free: Until 0). As long as the store's clock is
	// not past judge (0: it always is) also those that have expired, and the holder's own, expired
	// or not. The rest is left out, which is no error.
	//
	// A want whose Until is store.WhileMember is given only to a holder with a membership that has
	// not expired. Such a lease expires when the membership does, or at once where that is gone.
	AcquireAll(ctx context.Context, holder string, wants []store.Lease, ttl time.Duration,
		judge int64) (store.Granted, error)
	// EndAll ends the leases that still have the given tokens, in one write, each as End does.
	EndAll(ctx context.Context, leases []store.Lease, remove bool) error
	// Beat is Renew of what a node holds, then LeasesOf each of the prefixes (none the beginning of
	// another), in one transaction and one trip to the database.
	Beat(ctx context.Context, held []store.Lease, ttl time.Duration,
		prefixes ...string) (store.Beat, error)
	// LeasesOf lists the leases whose name begins with prefix, by name. Ended ones have Until 0.
	LeasesOf(ctx context.Context, prefix string) ([]store.Lease, error)
}

// Queues keeps configurations.
type Queues interface {
	// ChangeQueue changes a configuration, pause flag included, or creates it. Of changes at the
	// same time none is lost: each is given what the one before it left.
	ChangeQueue(ctx context.Context, name string,
		change store.Change[task.Queue]) (store.Changed[task.Queue], error)
	// ChangeKey changes the rule of a group key: how long it is paused, and the weight of its turn.
	// While it is paused no hand-out of the key begins (Begin), and takes by keys pass it over. A
	// rule that says nothing any more has no row; Queue.KeyRules tells whether the queue has any.
	// store.ErrNotFound without the queue; store.ErrKeyRules for a rule more that stands than
	// store.MaxKeyRules.
	ChangeKey(context.Context, store.KeyChange) (store.KeyRule, error)
	// Queues lists all, by name.
	Queues(context.Context) ([]task.Queue, error)
	// DeleteQueue deletes the configuration and all tasks of a queue, in pieces. With unfinished
	// tasks and without force: store.ErrConflict.
	DeleteQueue(ctx context.Context, name string, force bool) error
}

// Events keeps what happened, in one order for all.
type Events interface {
	// Append adds those of the events whose key neither stands in the log nor comes earlier in the
	// list, in the order of the list, and says how many. Seq and Time are the store's. Seqs have no
	// gap, and who has seen one will never see a smaller one appear: what is appended at the same
	// time waits for the commit before it.
	Append(ctx context.Context, events []store.Event) (appended int, err error)
	// Events reads on in the log, and waits for nobody.
	Events(context.Context, store.EventQuery) (store.EventPage, error)
}

// Notifiers keeps who is told of events, and how far they have been.
type Notifiers interface {
	// ChangeNotifier changes the configuration and the secrets of a notifier, which goes on from
	// where it was, or creates one, served up to the newest event. Of changes at the same time none
	// is lost.
	ChangeNotifier(ctx context.Context, name string,
		change store.Change[store.Notifier]) (store.Changed[store.Notifier], error)
	// Notifiers lists all, by name, with their secrets.
	Notifiers(context.Context) ([]store.Notifier, error)
	// DeleteNotifier forgets a notifier; store.ErrNotFound.
	DeleteNotifier(ctx context.Context, name string) error
	// Advance replaces a notifier's progress if it is still served up to from: of two nodes that
	// served it from the same place one moves it. Else, and when there is no such notifier, it
	// changes nothing and ok is false.
	Advance(ctx context.Context, name string, from int64, to store.Progress) (ok bool, err error)
}

// Hooks keeps what other programs call.
type Hooks interface {
	// ChangeHook changes the configuration and the secrets of a hook, or creates one. Of changes at
	// the same time none is lost.
	ChangeHook(ctx context.Context, name string,
		change store.Change[store.Hook]) (store.Changed[store.Hook], error)
	// Hooks lists all, by name, with their secrets.
	Hooks(context.Context) ([]store.Hook, error)
	// DeleteHook forgets a hook; store.ErrNotFound.
	DeleteHook(ctx context.Context, name string) error
}

// Upkeep is done by one node per beat.
type Upkeep interface {
	// Free ends every expired lease except that of self (token + 1), as long as the store's clock
	// is not past judge (it may be on its way for long, and find the living expired by a store that
	// stood still), with a membership also what its holder had for as long as that stood
	// (store.WhileMember), then frees every span whose holder is no living lease, deaths + 1. Taken
	// seats whose node is no living lease become orphans.
	Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error)
	// FreeEnded is Free by somebody who may judge nobody: it ends no lease, and frees what no lease
	// holds any more, ended by whomever. A lease that has expired and was not ended keeps what it
	// holds.
	FreeEnded(ctx context.Context) (freed int, err error)
	// Prune deletes at most limit rows that retention no longer keeps, blobs included, and says how
	// many. Events go from the front of the log when they are older than store.EventsKept; their
	// keys may come again, their seqs never. Tombstones of jobs and assignments go after
	// store.EndedKept, seats that are not taken after store.SeatsKept; rows of fires that are not
	// open store.FiresKept after they were written, eras so long after they ended.
	Prune(ctx context.Context, limit int) (pruned int, err error)
	// Retention says how far Prune was behind when it was called last: whether another call at once
	// would do more. It only remembers, and never fails. What a node does not prune, because
	// another one does, it knows nothing of.
	Retention() store.Retention
	// Check says whether the store can still be trusted and has room: nil, store.ErrFull or
	// store.ErrBroken.
	Check(ctx context.Context) error
}
