package api

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// scheduleless is a node that looks after no schedules: there are none.
type scheduleless struct{}

var errScheduleless = fmt.Errorf("this node looks after no schedules: %w", store.ErrNotFound)

func (scheduleless) Put(context.Context, ...store.ScheduleEdit) ([]store.Edited, error) {
	return nil, errScheduleless
}

func (scheduleless) Pause(context.Context, string, bool) (store.ScheduleView, error) {
	return store.ScheduleView{}, errScheduleless
}

func (scheduleless) Delete(context.Context, string) error { return errScheduleless }

func (scheduleless) Schedules(context.Context, store.ScheduleQuery) ([]store.ScheduleView, error) {
	return nil, nil
}

func (scheduleless) Stands(context.Context, int64) ([]store.ScheduleStand, error) {
	return nil, nil
}

func (scheduleless) Overdue(context.Context) (time.Duration, error) { return 0, nil }

func (scheduleless) RunNow(context.Context, string) (store.Fire, error) {
	return store.Fire{}, errScheduleless
}

func (scheduleless) Backfill(
	context.Context, string, store.BackfillRequest,
) (store.Backfilled, error) {
	return store.Backfilled{}, errScheduleless
}

func (scheduleless) Fires(context.Context, store.FireQuery) ([]store.Fire, error) {
	return nil, errScheduleless
}

func (scheduleless) RunOf(context.Context, string, int64) (store.RunView, error) {
	return store.RunView{}, errScheduleless
}

func (scheduleless) Audit(context.Context, string, int64, int64) (store.Audit, error) {
	return store.Audit{}, errScheduleless
}

func (scheduleless) Preview(context.Context, store.PreviewRequest) (store.Preview, error) {
	return store.Preview{}, errScheduleless
}

func (scheduleless) PutCalendar(context.Context, task.Calendar) (bool, error) {
	return false, errScheduleless
}

func (scheduleless) Calendars(context.Context) ([]task.Calendar, error) { return nil, nil }

func (scheduleless) DeleteCalendar(context.Context, string) error { return errScheduleless }
