package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/child"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/measure"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/sqlite"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// Of the benchmark schedules: how many times they fire, and for how long they did not when they
// have to catch up.
const (
	firesEach = 2
	outage    = time.Hour
)

// firing measures what a node does with many schedules. They are written into its store before it
// starts; what it did is read there afterwards.
func (r *rig) firing(ctx context.Context) ([]float64, error) {
	late, share, err := r.punctual(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := r.loaded(ctx)
	if err != nil {
		return nil, err
	}
	caughtUp, err := r.catchUp(ctx)
	return []float64{late, share, loaded, caughtUp}, err
}

// punctual lets schedules fire at the same times, and answers how late they did, in milliseconds,
// and what part of a core was in use in between, in percent. For a look of less than ten seconds
// they fire every five.
func (r *rig) punctual(ctx context.Context) (p99, share float64, err error) {
	every, expression := time.Minute, "* * * * *"
	if r.Length < 10*time.Second {
		every, expression = 5*time.Second, "*/5 * * * * *"
	}
	db := filepath.Join(r.folder, "punctual.db")
	if err := r.write(ctx, db, time.Now(), 0, r.Schedules, expression); err != nil {
		return 0, 0, err
	}
	if err := r.serveOn(ctx, db); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	for i := range firesEach {
		at := begin.Truncate(every).Add(time.Duration(i+1) * every)
		r.note(fmt.Sprintf("%s fire at %s", term.Count(r.Schedules), at.Format(time.TimeOnly)))
		if err := pause.For(ctx, time.Until(at.Add(every/4))); err != nil {
			return 0, 0, err
		}
		used, err := r.share(ctx, min(r.Length, every/2))
		if err != nil {
			return 0, 0, err
		}
		share = max(share, used)
	}
	fires, err := r.fires(ctx, db, r.Schedules)
	if err != nil {
		return 0, 0, err
	}
	if len(fires) < firesEach*r.Schedules {
		return 0, 0,
			fmt.Errorf("%d schedules fired %d times, not %d each", r.Schedules, len(fires),
				firesEach)
	}
	lateness := make([]time.Duration, len(fires))
	for i, f := range fires {
		lateness[i] = time.Duration(f.Time-f.At) * time.Microsecond
	}
	slices.Sort(lateness)
	return ms(measure.Percentile(lateness, 99)), share, nil
}

// share is what the server uses of a core for a while, in percent.
func (r *rig) share(ctx context.Context, d time.Duration) (float64, error) {
	pid := int32(r.server.Process.Pid)
	before, err := measure.CPU(pid)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := pause.For(ctx, d); err != nil {
		return 0, err
	}
	after, err := measure.CPU(pid)
	return 100 * float64(after-before) / float64(time.Since(begin)), err
}

// loaded starts a node on a store with many schedules, one of which is due, and answers after how
// many seconds it fires.
func (r *rig) loaded(ctx context.Context) (seconds float64, err error) {
	db, n := filepath.Join(r.folder, "loaded.db"), 10*r.Schedules
	for from := 1; from < n; from += limits.MaxSchedules {
		if err := r.write(
			ctx, db, time.Now(), from, min(limits.MaxSchedules, n-from), "0 0 1 1 *",
		); err != nil {
			return 0, err
		}
	}
	if err := r.write(ctx, db, time.Now().Add(-2*time.Second), 0, 1, "* * * * * *"); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := r.serveOn(ctx, db); err != nil {
		return 0, err
	}
	fired := func(s *client.Schedule) bool { return !s.Last.IsZero() }
	if err := r.await(ctx, scheduleName(0), fired); err != nil {
		return 0, err
	}
	fires, err := r.fires(ctx, db, 1)
	if err != nil {
		return 0, err
	}
	return time.UnixMicro(fires[0].Time).Sub(begin).Seconds(), nil
}

// await waits until a schedule of the server's stands in some way.
func (r *rig) await(ctx context.Context, name string, stands func(*client.Schedule) bool) error {
	c, err := r.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		if s, err := c.Schedule(ctx, name); err != nil || stands(&s) {
			return err
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// catchUp starts a node on a store whose schedules were not fired for long, and answers after how
// many seconds nothing is overdue.
func (r *rig) catchUp(ctx context.Context) (seconds float64, err error) {
	db, n := filepath.Join(r.folder, "late.db"), r.Schedules/2
	if err := r.write(ctx, db, time.Now().Add(-outage), 0, n, "* * * * *"); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := r.serveOn(ctx, db); err != nil {
		return 0, err
	}
	caughtUp := func(s *client.Schedule) bool { return s.Next.After(begin) }
	if err := r.await(ctx, scheduleName(n-1), caughtUp); err != nil { // the last in their order
		return 0, err
	}
	took := time.Since(begin)
	fires, err := r.fires(ctx, db, n)
	if want := n * int(outage/time.Minute); err == nil && len(fires) < want {
		err = fmt.Errorf("%d schedules caught up with %d due times, not %d", n, len(fires), want)
	}
	return took.Seconds(), err
}

// serveOn starts a server on a file.
func (r *rig) serveOn(ctx context.Context, db string) (err error) {
	r.server, r.url, err = child.StartServer(ctx, "sqlite:"+db, "warn", "--name", "bench")
	return err
}

// write makes n schedules that are due since a time. They take turns in what is to become of
// misfires.
func (r *rig) write(
	ctx context.Context, file string, since time.Time, from, n int, expression string,
) (err error) {
	r.note(fmt.Sprintf("%s schedules", term.Count(from+n)))
	due, err := cron.Parse(expression, cron.Options{})
	if err != nil {
		return err
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: file})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	misfires := []task.Misfire{task.MisfireSkip, task.MisfireOnce, task.MisfireAll}
	change := store.ScheduleChange{Puts: make([]store.SchedulePut, n)}
	for i := range change.Puts {
		p := &change.Puts[i]
		p.Schedule = limits.DefaultSchedule(scheduleName(from + i))
		p.Cron, p.Queue, p.Misfire = expression, Queue, misfires[i%len(misfires)]
		p.Since, p.Then = since.UnixMicro(), due.Next(since).UnixMicro()
	}
	_, err = db.ChangeSchedules(ctx, change)
	return err
}

func scheduleName(i int) string { return fmt.Sprintf("schedule-%06d", i) }

// fires ends the server, and reads what came of the due times of the first n schedules.
func (r *rig) fires(ctx context.Context, file string, n int) (list []store.Fire, err error) {
	r.stop()
	db, err := sqlite.Open(ctx, sqlite.Config{Path: file})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for i := range n {
		some, err := db.Fires(ctx, store.FireQuery{Schedule: scheduleName(i)})
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}
