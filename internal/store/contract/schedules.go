package contract

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Schedules keeps what is due when, and what came of it. See store.Schedule for what makes every
// due time handled once.
type Schedules interface {
	// ChangeSchedules creates or replaces schedules (names differ) and a calendar, all or nothing,
	// and answers the schedules as they stand, in the order of Puts. One that is put as it is stays
	// as it is, version and cursor too, whatever version was seen (store.SchedulePut.Become).
	// store.ErrNotFound: a calendar that there is not, or a schedule to follow that neither is
	// there nor put. store.ErrConflict: see store.SchedulePut; or a calendar is replaced, and a
	// schedule that has it is not among Puts (each version has one set of days); or a schedule
	// would follow itself, by way of others or not (store.Circle), also when two changes make the
	// circle at once; or one of Ends changes nothing.
	ChangeSchedules(context.Context, store.ScheduleChange) ([]store.Schedule, error)
	// DeleteSchedule forgets a schedule, its eras and its fires. Their tasks stay.
	// store.ErrNotFound. store.ErrConflict: another one follows it (After).
	DeleteSchedule(ctx context.Context, name string) error
	// DeleteCalendar forgets a calendar, but for what eras had of it. store.ErrNotFound.
	// store.ErrConflict: a schedule has it.
	DeleteCalendar(ctx context.Context, name string) error
	// Calendars lists all, by name.
	Calendars(context.Context) ([]task.Calendar, error)
	// ScheduleKeys counts schedules, and names them if they are at most limit.
	ScheduleKeys(ctx context.Context, limit int) (store.ScheduleKeys, error)
	// ScheduleStands counts schedules by their queue, in no order; a next due time before late
	// makes one that is not paused a late one.
	ScheduleStands(ctx context.Context, late int64) ([]store.ScheduleStand, error)
	// Schedules lists those that are selected, by name.
	Schedules(context.Context, store.ScheduleQuery) ([]store.Schedule, error)
	// Due lists schedules whose cursor is not after a time, in their order. A cursor of
	// store.Never, as those have that follow another schedule, is after all times.
	Due(context.Context, store.DueQuery) ([]store.Schedule, error)
	// Eras lists what a schedule was, oldest first, as far as any of it was after from, and then
	// what it is. Eras have no cursor. store.ErrNotFound.
	Eras(ctx context.Context, schedule string, from int64) ([]store.Schedule, error)
	// Fire writes down what came of due times part by part, submits their tasks, and then writes
	// Ends. Done again after store.ErrUnknown it does nothing twice: what was done is refused or
	// left. store.ErrConflict: a batch id stands with another origin; nothing is done.
	//
	// A part with any fire in the future is refused as early, whatever stands beside it: the answer
	// does not depend on the order of its fires, and whoever waits for the time is not told to look
	// anew. A row never ends before it begins, since a list by time would miss it. What was asked
	// for now and has a row is left, also with Over: the same request never replaces what it has
	// done.
	//
	// A part finds what the parts of the call before it wrote: their rows and where they left the
	// cursor. Only its Most is held against the tasks that ran before the call, whatever other
	// parts fire: who wrote the parts knew of them all. Its Tail moves with what parts before it
	// wrote: a turn that is joined twice in one call is joined once.
	Fire(context.Context, store.Firing) (store.Fired, error)
	// Fires lists what came of due times, by them; nothing of a schedule that there is not.
	Fires(context.Context, store.FireQuery) ([]store.Fire, error)
	// RunFires lists the fires of a run, the one with which it began among them: of any schedules,
	// by (Schedule, At), at most limit.
	RunFires(ctx context.Context, run store.FireKey, limit int) ([]store.Fire, error)
	// OpenFires lists fires of which something is still to come, by (Schedule, At), and how their
	// tasks stand. A replayed task opens its watched fire again, in the transaction that replays
	// it: Ended is 0, Tries grows, and Seq is that of the replay, so that nobody who looked before
	// closes it.
	OpenFires(context.Context, store.OpenQuery) ([]store.OpenFire, error)
}
