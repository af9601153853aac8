package api

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// scheduleless is a node that looks after no schedules: there are none.
type scheduleless struct{}

var errScheduleless = fmt.Errorf("this node looks after no schedules: %w", rows.ErrNotFound)

func (scheduleless) Put(context.Context, ...rows.ScheduleEdit) ([]rows.Edited, error) {
	return nil, errScheduleless
}

func (scheduleless) Pause(context.Context, string, bool) (rows.ScheduleView, error) {
	return rows.ScheduleView{}, errScheduleless
}

func (scheduleless) Delete(context.Context, string) error { return errScheduleless }

func (scheduleless) Schedules(context.Context, rows.ScheduleQuery) ([]rows.ScheduleView, error) {
	return nil, nil
}

func (scheduleless) RunNow(context.Context, string) (rows.Fire, error) {
	return rows.Fire{}, errScheduleless
}

func (scheduleless) Backfill(context.Context, string, rows.BackfillRequest) (rows.Backfilled, error) {
	return rows.Backfilled{}, errScheduleless
}

func (scheduleless) Fires(context.Context, rows.FireQuery) ([]rows.Fire, error) {
	return nil, errScheduleless
}

func (scheduleless) Audit(context.Context, string, int64, int64) (rows.Audit, error) {
	return rows.Audit{}, errScheduleless
}

func (scheduleless) Preview(context.Context, rows.PreviewRequest) (rows.Preview, error) {
	return rows.Preview{}, errScheduleless
}

func (scheduleless) PutCalendar(context.Context, task.Calendar) (bool, error) {
	return false, errScheduleless
}

func (scheduleless) Calendars(context.Context) ([]task.Calendar, error) { return nil, nil }

func (scheduleless) DeleteCalendar(context.Context, string) error { return errScheduleless }
