package firing

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// byHand is what people let a schedule fire beside its due times to come.
type byHand struct {
	*core
	reads  *reads
	writes *writes
	edits  *edits
}

// RunNow submits a schedule's task now, whether or not it is paused and whatever it says of
// overlap. store.ErrNotFound, store.ErrUnknown; store.ErrConflict when others change the schedule
// all the time.
func (h *byHand) RunNow(ctx context.Context, name string) (fire store.Fire, err error) {
	for range editTries {
		if fire, err = h.runNow(ctx, name); !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if err != nil {
		return fire, fmt.Errorf("run schedule %q: %w", name, err)
	}
	return fire, nil
}

func (h *byHand) runNow(ctx context.Context, name string) (store.Fire, error) {
	s, err := h.reads.stateOf(ctx, name)
	if err != nil {
		return store.Fire{}, err
	}
	fire := s.fire(0, task.OriginManual)
	fire.Outcome = task.FireFired
	s.watch(&fire)
	written, err := h.writes.outOfBand(ctx, s, []store.Fire{fire}, false, 0)
	if err != nil {
		return store.Fire{}, err
	}
	return written[0], nil
}

// Backfill submits the tasks of due times of the past that were not fired: those that were missed
// or skipped, and those from before the schedule was made; by what it is now, whatever it was then.
// With a limit they go one after the other, so many at a time; a schedule whose tasks are not to
// overlap has the limit of how many may run at once. *task.InvalidError, store.ErrNotFound.
func (h *byHand) Backfill(
	ctx context.Context, name string, r store.BackfillRequest,
) (store.Backfilled, error) {
	var e task.InvalidError
	if r.Limit < 0 || r.Limit > limits.MaxBackfill {
		e.Add("body.limit", "must be 0, all at once, to %d", limits.MaxBackfill)
	}
	if r.From >= r.To {
		e.Add("body.to", "must be after from")
	}
	if e.Err() != nil {
		return store.Backfilled{}, &e
	}
	var out store.Backfilled
	err := h.edits.edit(ctx, func() error {
		done, err := h.backfill(ctx, name, r, out)
		out = done
		return err
	})
	if err != nil {
		return out, fmt.Errorf("backfill schedule %q: %w", name, err)
	}
	return out, nil
}

// backfill goes on where an earlier try ended: what that set out to fire and stands by now is its
// doing.
func (h *byHand) backfill(
	ctx context.Context, name string, r store.BackfillRequest, before store.Backfilled,
) (out store.Backfilled, err error) {
	s, err := h.reads.stateOf(ctx, name)
	if err != nil {
		return out, err
	}
	if s.After != "" {
		var e task.InvalidError
		e.Add("body", "the schedule follows %q and has no due times of its own: run that one again",
			s.After)
		return out, &e
	}
	times, err := s.demand(r, h.now())
	if s.Manual {
		times, err = h.leftOver(ctx, name, r)
	}
	if err != nil || len(times) == 0 {
		return out, err
	}
	stand, err := h.standing(ctx, name, times)
	if err != nil {
		return out, err
	}
	tried := make(map[int64]bool, len(before.Times))
	for _, at := range before.Times {
		tried[at] = true
	}
	var left []int64
	for _, at := range times {
		was := stand[at]
		switch stands := was != nil &&
			(was.Outcome == task.FireFired || was.Outcome == task.FireQueued); {
		case !stands:
			out.Times = append(out.Times, at)
			left = append(left, at)
		case tried[at]:
			out.Times = append(out.Times, at)
			out.Fires = append(out.Fires, *was)
		default:
			out.Fired++
		}
	}
	if r.DryRun || len(left) == 0 {
		return out, nil
	}
	open, err := h.reads.open(ctx, []string{name})
	if err != nil {
		return out, err
	}
	s.open = open[name]
	fires := s.refill(left, stand, r.Limit)
	for len(fires) > 0 {
		n := min(len(fires), fireBatchMax)
		if n < len(fires) && fires[n].Origin != task.OriginBackfill {
			n++ // the rest of a shared row goes with what is taken out of it
		}
		written, err := h.writes.outOfBand(ctx, s, fires[:n], true, fires[0].Limit)
		if err != nil {
			return out, err
		}
		for i := range written {
			if written[i].Origin == task.OriginBackfill {
				out.Fires = append(out.Fires, written[i])
			}
		}
		fires = fires[n:]
	}
	return out, nil
}

// demand are the due times of a range that are past, by what the schedule is now.
func (s *scheduleState) demand(r store.BackfillRequest, now int64) (times []int64, err error) {
	always := s.times.always()
	for at := always.next(r.From - 1); at < r.To && at <= now && at < s.Next; at = always.next(at) {
		if len(times) == limits.MaxBackfill {
			return nil, errTooMany()
		}
		times = append(times, at)
	}
	return times, nil
}

// leftOver are the due times of a range that a schedule without any has rows of: it had them once.
// One that shares its row with others is not among them.
func (h *byHand) leftOver(
	ctx context.Context, name string, r store.BackfillRequest,
) (times []int64, err error) {
	q := store.FireQuery{Schedule: name, From: r.From, To: r.To, Limit: 1000}
	for {
		list, err := h.store.Fires(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read fires: %w", err)
		}
		for i := range list {
			if row := &list[i]; row.Count == 1 && row.At%1000 == 0 {
				times = append(times, row.At)
			}
		}
		if len(times) > limits.MaxBackfill {
			return nil, errTooMany()
		}
		if len(list) < q.Limit {
			return times, nil
		}
		q.After = list[len(list)-1].At
	}
}

func errTooMany() error {
	var e task.InvalidError
	e.Add("body.to", "there are more than %d due times between them: choose a shorter time",
		limits.MaxBackfill)
	return &e
}

// standing are the rows that stand at due times, and right behind them.
func (h *byHand) standing(
	ctx context.Context, name string, times []int64,
) (map[int64]*store.Fire, error) {
	stand := make(map[int64]*store.Fire, len(times))
	wanted := make(map[int64]bool, len(times))
	for _, at := range times {
		wanted[at] = true
	}
	q := store.FireQuery{
		Schedule: name, From: times[0], To: times[len(times)-1] + 1000, Limit: 1000,
	}
	for {
		list, err := h.store.Fires(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read fires: %w", err)
		}
		for i := range list {
			if at := list[i].At; wanted[at/1000*1000] {
				stand[at] = &list[i]
			}
		}
		if len(list) < q.Limit {
			return stand, nil
		}
		q.After = list[len(list)-1].At
	}
}

// refill are the rows of due times of the past that are fired after all. stand are those that they
// take the place of.
func (s *scheduleState) refill(times []int64, stand map[int64]*store.Fire, limit int) []store.Fire {
	if limit == 0 {
		limit = s.AtOnce()
	}
	room := len(times)
	if limit > 0 {
		q := s.queue()
		if room = max(limit-q.running, 0); q.queued > 0 {
			room = 0
		}
	}
	fires := make([]store.Fire, 0, len(times))
	for i, at := range times {
		f := s.fire(at, task.OriginBackfill)
		f.Outcome, f.Limit = task.FireFired, int32(limit)
		if i >= room {
			f.Outcome = task.FireQueued
			f.Reason = fmt.Sprintf(
				"waits for its turn: at most %d of the schedule's tasks at a time", limit,
			)
		}
		s.watch(&f)
		fires = append(fires, f)
		if was := stand[at]; was != nil && was.Count > 1 {
			fires = append(fires, rest(was, stand))
		}
	}
	return fires
}

// rest is the row of the due times that shared one with the first of them: it begins right behind
// that, where nothing is ever due, so that it stands for all the others, whichever of them have or
// get rows of their own.
func rest(shared *store.Fire, stand map[int64]*store.Fire) store.Fire {
	f := *shared
	f.Watch = false
	for f.At++; stand[f.At] != nil; f.At++ {
	}
	return f
}
