package firing

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// audit checks, by itself, that every due time of every schedule has its row, that no row of the
// schedule's own stands at another time, and that each fired row has a task and each task a row.
func (h *house) audit() {
	h.T.Helper()
	ctx := context.Background()
	list, err := h.Store.Schedules(ctx, store.ScheduleQuery{})
	h.Must(err)
	owner := map[task.ID]string{}
	for i := range list {
		s := &list[i]
		eras, err := h.Store.Eras(ctx, s.Name, 0)
		h.Must(err)
		due := map[int64]bool{}
		for k := range eras {
			until := s.Next - 1
			if eras[k].Until != 0 {
				until = min(until, eras[k].Until)
			}
			for _, at := range h.demand(&eras[k], min(until, h.Now().UnixMicro())) {
				due[at] = true
			}
		}
		if s.Next != store.Never && s.Next <= h.Now().Add(-2*beat).UnixMicro() {
			h.T.Errorf("%s: due at %s, and nobody has handled it at %s", s.Name, at(s.Next),
				h.Now())
		}
		h.auditRows(s.Name, due, owner)
		for _, n := range h.Nodes() {
			if n.Door.Away() {
				continue
			}
			if a, err := n.Own.Audit(ctx, s.Name, 0, 0); err != nil || !a.Complete() {
				h.T.Errorf("audit of %s: %+v, %v", s.Name, a, err)
			}
		}
	}
	for _, v := range h.tasks("") {
		if owner[v.ID] == "" && !h.deleted {
			h.T.Errorf("task %s has no fire", v.ID)
		}
	}
}

// demand are the due times of an era, by the expression alone.
func (h *house) demand(s *store.Schedule, until int64) (list []int64) {
	if s.Cron == "" {
		return nil
	}
	zone, err := time.LoadLocation(s.Zone)
	h.Must(err)
	c, err := cron.Parse(s.Cron, cron.Options{Zone: zone, Name: s.Name})
	h.Must(err)
	if s.Days != nil {
		days, err := cron.Skip(s.Days.Skip...)
		h.Must(err)
		c = c.On(days)
	}
	from := s.Since
	if s.First > s.Since {
		if s.First > until {
			return nil
		}
		list, from = append(list, s.First), s.First
	}
	for t := range c.All(time.UnixMicro(from), time.UnixMicro(until)) {
		if !t.Before(s.Starts) && (s.Ends.IsZero() || !t.After(s.Ends)) {
			list = append(list, t.UnixMicro())
		}
		if len(list) > 1_000_000 { // stories last for hours, and days where little is due
			h.T.Fatalf("%s: due all the time from %s to %s: %+v", s.Name, time.UnixMicro(from),
				time.UnixMicro(until), s)
		}
	}
	return list
}

func (h *house) auditRows(name string, due map[int64]bool, owner map[task.ID]string) {
	h.T.Helper()
	taken := map[store.FireKey]bool{}
	for _, f := range h.rows(name) {
		what := fmt.Sprintf("%s at %s", name, at(f.At))
		for _, k := range f.Parents {
			if taken[k] {
				h.T.Errorf("%s: what %s fired at %s is taken twice", what, k.Schedule, at(k.At))
			}
			taken[k] = true
		}
		if f.Outcome == task.FireFired {
			if owner[f.Task] != "" {
				h.T.Errorf("%s: its task %s is that of %s, too", what, f.Task, owner[f.Task])
			}
			owner[f.Task] = what
			if stood, err := h.Store.Stand(
				context.Background(), []task.ID{f.Task},
			); err != nil || !stood[0].Found {
				h.T.Errorf("%s: fired, and there is no task %s (%v)", what, f.Task, err)
			}
		}
		if !due[f.At] && f.Origin == task.OriginSchedule && f.Through == f.At {
			h.T.Errorf("%s: a row, and it was not due", what)
		}
		if delete(due, f.At); f.Count == 1 {
			continue
		}
		for t := range due {
			if f.At <= t && t <= f.Through {
				delete(due, t)
			}
		}
	}
	for t := range due {
		h.T.Errorf("%s: due at %s, and there is no row", name, time.UnixMicro(t).UTC())
	}
}
