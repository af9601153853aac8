package firing

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Store is what this room needs of the store. internal/store/contract/contract.go says what each
// call promises.
type Store interface {
	Reader
	Writer
	Calendars
	Keys
	// Eras lists what a schedule was, oldest first, as far as any of it was after from;
	// store.ErrNotFound.
	Eras(ctx context.Context, schedule string, from int64) ([]store.Schedule, error)
	// Stand says where tasks stand, in the order of ids. Of one that is not there Found is false.
	Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error)
	// Append adds events to the log, those whose keys stand in it excepted.
	Append(context.Context, []store.Event) (appended int, err error)
}

// Reader reads schedules and what came of their due times.
type Reader interface {
	Schedules(context.Context, store.ScheduleQuery) ([]store.Schedule, error)
	Due(context.Context, store.DueQuery) ([]store.Schedule, error)
	Fires(context.Context, store.FireQuery) ([]store.Fire, error)
	OpenFires(context.Context, store.OpenQuery) ([]store.OpenFire, error)
	RunFires(ctx context.Context, run store.FireKey, limit int) ([]store.Fire, error)
}

// Writer changes them. Each call is one transaction; what its author did not see right is refused.
type Writer interface {
	Fire(context.Context, store.Firing) (store.Fired, error)
	ChangeSchedules(context.Context, store.ScheduleChange) ([]store.Schedule, error)
	DeleteSchedule(ctx context.Context, name string) error
}

// Calendars are named sets of days. They are created and replaced by ChangeSchedules, together with
// the schedules that have them.
type Calendars interface {
	Calendars(context.Context) ([]task.Calendar, error)
	DeleteCalendar(ctx context.Context, name string) error
}

// Keys counts schedules, and names them if they are at most limit.
type Keys interface {
	ScheduleKeys(ctx context.Context, limit int) (store.ScheduleKeys, error)
	ScheduleStands(ctx context.Context, late int64) ([]store.ScheduleStand, error)
}

// Tasks is the room of tasks.
type Tasks interface {
	// Draft plans a submission that is stored together with what belongs to it; ids are those that
	// its tasks will have. *task.InvalidError.
	Draft(context.Context, []task.Submission) (sub store.Submission, ids []task.ID, err error)
	// Hear takes in a hint that a queue has ready tasks; "": any may have.
	Hear(queue string, ids []task.ID)
	// Task answers how a task stands, as soon as it is final or wait is over; store.ErrNotFound.
	Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error)
	// Act does one thing to a task; store.ErrNotFound, store.ErrConflict when its state does not
	// allow it.
	Act(ctx context.Context, kind task.Kind, by string, id task.ID) error
}
