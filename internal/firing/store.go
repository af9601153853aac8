package firing

import (
	"context"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// Store is what this room needs of the store. internal/storetest/contract.go says what each call promises.
type Store interface {
	Reader
	Writer
	Calendars
	Keys
	// Eras lists what a schedule was, oldest first, as far as any of it was after from; rows.ErrNotFound.
	Eras(ctx context.Context, schedule string, from int64) ([]rows.Schedule, error)
	// Stand says where tasks stand, in the order of ids. Of one that is not there Found is false.
	Stand(ctx context.Context, ids []task.ID) ([]rows.Stood, error)
	// Append adds events to the log, those whose keys stand in it excepted.
	Append(context.Context, []rows.Event) (appended int, err error)
}

// Reader reads schedules and what came of their due times.
type Reader interface {
	Schedules(context.Context, rows.ScheduleQuery) ([]rows.Schedule, error)
	Due(context.Context, rows.DueQuery) ([]rows.Schedule, error)
	Fires(context.Context, rows.FireQuery) ([]rows.Fire, error)
	OpenFires(context.Context, rows.OpenQuery) ([]rows.OpenFire, error)
}

// Writer changes them. Each call is one transaction; what its author did not see right is refused.
type Writer interface {
	Fire(context.Context, rows.Firing) (rows.Fired, error)
	ChangeSchedules(context.Context, rows.ScheduleChange) ([]rows.Schedule, error)
	DeleteSchedule(ctx context.Context, name string) error
}

// Calendars are named sets of days. They are created and replaced by ChangeSchedules, together with the schedules that have them.
type Calendars interface {
	Calendars(context.Context) ([]task.Calendar, error)
	DeleteCalendar(ctx context.Context, name string) error
}

// Keys counts schedules, and names them if they are at most limit.
type Keys interface {
	ScheduleKeys(ctx context.Context, limit int) (rows.ScheduleKeys, error)
}

// Tasks is the room of tasks.
type Tasks interface {
	// Draft plans a submission that is stored together with what belongs to it; ids are those that its tasks will have. *task.InvalidError.
	Draft(context.Context, []task.Submission) (sub rows.Submission, ids []task.ID, err error)
	// Hear takes in a hint that a queue has ready tasks; "": any may have.
	Hear(queue string, ids []task.ID)
	// Act does one thing to a task; rows.ErrNotFound, rows.ErrConflict when its state does not allow it.
	Act(ctx context.Context, kind task.Kind, by string, id task.ID) error
}
