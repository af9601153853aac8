package firing

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// views are what people see of schedules, their fires and runs.
type views struct {
	*core
	reads  *reads
	claims *claims
}

// Schedules lists schedules, by name, as people see them: what Last of them is says how its task
// ended.
func (vs *views) Schedules(
	ctx context.Context, q store.ScheduleQuery,
) ([]store.ScheduleView, error) {
	list, err := vs.store.Schedules(ctx, q)
	if err != nil {
		return nil, err
	}
	last := make([]*store.Fire, len(list))
	for i := range list {
		last[i] = list[i].Last
	}
	if err := vs.learn(ctx, last); err != nil {
		return nil, err
	}
	return vs.claims.withOwners(list), nil
}

// Fires lists what came of a schedule's due times, and how the tasks ended. store.ErrNotFound:
// there is no such schedule.
func (vs *views) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	if _, err := vs.reads.one(ctx, q.Schedule); err != nil {
		return nil, err
	}
	list, err := vs.store.Fires(ctx, q)
	if err != nil {
		return nil, err
	}
	all := make([]*store.Fire, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return list, vs.learn(ctx, all)
}

// learn fills in how the tasks of fires ended, for people: nobody writes that down of fires that
// are not watched, and nobody looked yet at those that are. Fires whose tasks are not final, or not
// kept any more, stay as they are. nil ones are passed over.
func (vs *views) learn(ctx context.Context, fires []*store.Fire) error {
	var asked []*store.Fire
	var ids []task.ID
	for _, fire := range fires {
		if fire != nil && fire.Task != (task.ID{}) && fire.Ended == 0 {
			asked = append(asked, fire)
			ids = append(ids, fire.Task)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	stood, err := vs.store.Stand(ctx, ids)
	if err != nil {
		return err
	}
	for i := range stood {
		if stood[i].Final {
			asked[i].Ended = stood[i].Kind
		}
	}
	return nil
}

// Calendars lists all, by name.
func (vs *views) Calendars(ctx context.Context) ([]task.Calendar, error) {
	return vs.store.Calendars(ctx)
}

// Stands counts schedules by their queue; a next due time before late makes a late one.
func (vs *views) Stands(ctx context.Context, late int64) ([]store.ScheduleStand, error) {
	return vs.store.ScheduleStands(ctx, late)
}

// Overdue is how long ago the earliest due time was that nobody has handled; 0 = none is left.
func (vs *views) Overdue(ctx context.Context) (time.Duration, error) {
	now := vs.now()
	list, err := vs.store.Due(ctx, store.DueQuery{Until: now, Limit: 1})
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return lateness(list[0].Next, now), nil
}
