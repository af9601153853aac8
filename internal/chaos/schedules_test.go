//go:build chaos && unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Whoever owns them dies, stands still, or loses the database, and people change them meanwhile:
// each due time of each schedule has one row and one task.
func TestSchedulesFireEachDueTimeOnceWhateverBecomesOfTheirOwners(t *testing.T) {
	w := newNodes(t)
	w.configure(queueFired)
	w.setSchedules()
	w.run()
	w.edit()
	kinds := []kind{
		(*world).killNode, (*world).killNode, (*world).stopNode, (*world).stopNode,
		(*world).spoilLink,
	}
	for began := time.Now(); time.Since(began) < *runFor; {
		one, two := w.pair(kinds)
		w.play(between(w.luck, 0, 2*time.Second), one, two)
		time.Sleep(between(w.luck, 500*time.Millisecond, 3*time.Second))
	}
	w.auditSchedules()
}

// Names of schedules begin with what they are about. Each is due at the multiples of some seconds.
const (
	dueEach     = "each"     // every due time is fired, whatever runs
	dueSkip     = "skip"     // not when the last one's task is not final
	dueQueue    = "queue"    // after it
	dueReplace  = "replace"  // in its place
	dueFollower = "follower" // of each-0

	queueFired = "fired" // their tasks are in this one
)

// every is the expression of a number of seconds; they divide a minute.
func every(seconds int64) string { return fmt.Sprintf("*/%d * * * * *", seconds) }

// setSchedules makes all schedules at once, so that nothing is due before its follower is there.
func (w *world) setSchedules() {
	w.t.Helper()
	var changes []client.NamedChange
	add := func(name string, seconds int64, overlap task.Overlap) {
		cron, queue, misfire := every(seconds), queueFired, task.MisfireAll
		changes = append(changes,
			client.NamedChange{Name: name, ScheduleChange: client.ScheduleChange{
				Cron: &cron, Queue: &queue, Misfire: &misfire, Overlap: &overlap,
			}})
	}
	for i := range 24 {
		add(fmt.Sprintf("%s-%d", dueEach, i), []int64{1, 2, 3, 5, 10, 20}[i%6], task.OverlapAllow)
	}
	for i := range 3 {
		add(fmt.Sprintf("%s-%d", dueSkip, i), 1, task.OverlapSkip)
		add(fmt.Sprintf("%s-%d", dueQueue, i), 2, task.OverlapQueue)
		add(fmt.Sprintf("%s-%d", dueReplace, i), 1, task.OverlapReplace)
	}
	leader, queue := dueEach+"-0", queueFired
	changes = append(changes, client.NamedChange{
		Name: dueFollower, ScheduleChange: client.ScheduleChange{After: &leader, Queue: &queue},
	})
	if _, err := w.client.PutSchedules(w.t.Context(), changes); err != nil {
		w.t.Fatal(err)
	}
}

// run runs what is fired, until the test ends: now and then a task takes longer than it is until
// the next one.
func (w *world) run() {
	c := w.connect(w.urls()...)
	runner, err := worker.New(worker.Config{
		Queue: c, Name: "runner", Capacity: 100, Beat: time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	runner.Handle(queueFired, func(ctx context.Context, h task.Handout) task.Outcome {
		if luck := h.ID.Seed(0); luck%4 == 0 {
			select {
			case <-time.After(time.Duration(luck%3000) * time.Millisecond): // real processes
			case <-ctx.Done():
			}
		}
		return task.Finish(nil)
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := runner.Run(ctx); err != nil {
			w.t.Errorf("worker: %v", err)
		}
	})
	w.t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// edit changes, pauses and runs schedules by way of all nodes, until w.submitting is called.
func (w *world) edit() {
	ctx, stop := context.WithCancel(context.Background())
	w.submitting = stop
	w.t.Cleanup(func() {
		stop()
		w.submitters.Wait()
	})
	for i, url := range w.urls() {
		c := w.connect(url)
		luck := rand.New(rand.NewPCG(w.seed, uint64(i)+1))
		w.submitters.Go(func() {
			for ctx.Err() == nil {
				name := fmt.Sprintf("%s-%d", dueEach, 1+luck.IntN(23))
				var err error
				switch luck.IntN(5) {
				case 0:
					err = c.PauseSchedule(ctx, name)
				case 1, 2:
					err = c.ResumeSchedule(ctx, name)
				case 3:
					cron := every([]int64{1, 2, 3, 5, 10, 20}[luck.IntN(6)])
					_, err = c.PutSchedule(ctx, name, client.ScheduleChange{Cron: &cron})
				default:
					if _, err = c.RunSchedule(ctx, name); err == nil {
						w.agreed.Add(1)
					}
				}
				if errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrNotFound) {
					w.t.Errorf("change %s: %v", name, err)
				}
				time.Sleep(time.Duration(luck.IntN(500)) * time.Millisecond)
			}
		})
	}
}

// auditSchedules pauses all schedules, waits until everything that they fired is final, ends the
// nodes and compares rows with due times.
func (w *world) auditSchedules() {
	w.t.Helper()
	ctx := w.t.Context()
	w.submitting()
	w.submitters.Wait()
	w.awaitNodes()
	list, err := w.client.Schedules(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, w.db.primary().DSN(databaseName))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, s := range list {
		// a pause holds what is queued, too, so what is due comes slower than it ends first
		if cron := every(30); strings.HasPrefix(s.Name, dueQueue) {
			w.await("schedule "+s.Name+" is slower", func() error {
				_, err := w.client.PutSchedule(ctx, s.Name, client.ScheduleChange{Cron: &cron})
				return err
			})
		}
	}
	w.await("nothing is queued", func() error {
		queued := 0
		err := conn.QueryRow(ctx,
			"SELECT count(*) FROM rota.fire WHERE outcome = 'queued'").Scan(&queued)
		if err == nil && queued > 0 {
			err = fmt.Errorf("%d fires are", queued)
		}
		return err
	})
	for _, s := range list {
		if s.Name != dueFollower {
			w.await("schedule "+s.Name+" is paused", func() error {
				return w.client.PauseSchedule(ctx, s.Name)
			})
		}
	}
	w.await("everything is final", func() (err error) {
		open := 0
		if err := conn.QueryRow(ctx,
			"SELECT count(*) FROM rota.fire WHERE open").Scan(&open); err != nil {
			return err
		}
		counts, err := w.counts(ctx)
		if open += int(counts.Waiting + counts.Ready + counts.Running); open > 0 {
			err = errors.Join(err, fmt.Errorf("%d fires and tasks, %s", open, w.unfinished()))
		}
		return err
	})
	for _, s := range list {
		a, err := w.client.AuditSchedule(ctx, s.Name, time.Time{}, time.Time{})
		if err != nil || !a.Complete {
			w.t.Errorf("audit of %s: %+v, %v", s.Name, a, err)
		}
	}
	for _, n := range w.nodes {
		if err := n.end(); err != nil {
			w.t.Errorf("node %s ended: %v", n.name, err)
		}
	}
	w.judgeSchedules(ctx, conn)
}

const (
	allEras = `SELECT s.name, e.since, e.until, e.spec FROM rota.era e JOIN rota.schedule s ON s.id = e.schedule
UNION ALL SELECT name, since, next - 1, spec FROM rota.schedule`
	allFires = `SELECT s.name, f.at, coalesce(f.through, f.at) <> f.at, f.time, f.origin, f.outcome, coalesce(f.reason, ''),
  coalesce(f.batch, 0), coalesce(f.n, 0), f.node
FROM rota.fire f JOIN rota.schedule s ON s.id = f.schedule`
	allTasks = `SELECT batch, n FROM rota.tasks`
)

// judgeSchedules holds what stands in the database against what was due.
func (w *world) judgeSchedules(ctx context.Context, conn *pgx.Conn) {
	w.t.Helper()
	stories := map[string]*dues{}
	of := func(name string) *dues {
		if stories[name] == nil {
			stories[name] = &dues{name: name}
		}
		return stories[name]
	}
	tasks := map[task.ID]bool{}
	w.each(ctx, conn, allEras, func(r pgx.Rows) error {
		var s store.Schedule
		var e dueEra
		var spec []byte
		err := r.Scan(&s.Name, &e.since, &e.until, &spec)
		if err = errors.Join(err, s.SetSpec(spec)); s.Cron == "" {
			return err // the follower
		}
		_, err2 := fmt.Sscanf(s.Cron, "*/%d", &e.seconds)
		e.paused = s.Paused
		of(s.Name).eras = append(of(s.Name).eras, e)
		return errors.Join(err, err2)
	})
	w.each(ctx, conn, allFires, func(r pgx.Rows) error {
		var name string
		var f dueRow
		err := r.Scan(&name, &f.at, &f.shared, &f.time, &f.origin, &f.outcome, &f.reason,
			&f.task.Batch, &f.task.N, &f.node)
		of(name).rows = append(of(name).rows, f)
		return err
	})
	w.each(ctx, conn, allTasks, func(r pgx.Rows) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		tasks[id] = true
		return err
	})
	v := judgeDues(stories, dueEach+"-0", dueFollower, tasks)
	w.t.Logf("%d faults, %d changes acknowledged; %v", w.faults, w.agreed.Load(), v)
	if len(v.wrong) > 0 {
		w.t.Errorf("%d things are wrong:\n%s", len(v.wrong),
			strings.Join(v.wrong[:min(len(v.wrong), 20)], "\n"))
	}
	if v.fired == 0 || v.manual < int(w.agreed.Load()) || len(v.nodes) != len(w.nodes) {
		w.t.Errorf("%d runs were acknowledged, and there are %d; fired by %v", w.agreed.Load(),
			v.manual, v.nodes)
	}
	if *runFor >= time.Minute && (v.skipped == 0 || v.eras < 2*len(stories)) {
		w.t.Error("nothing was changed, or paused")
	}
}

// each reads rows.
func (w *world) each(ctx context.Context, conn *pgx.Conn, text string, row func(pgx.Rows) error) {
	w.t.Helper()
	list, err := conn.Query(ctx, text)
	if err != nil {
		w.t.Fatal(err)
	}
	defer list.Close()
	for list.Next() {
		if err := row(list); err != nil {
			w.t.Fatalf("%s: %v", text, err)
		}
	}
	if err := list.Err(); err != nil {
		w.t.Fatal(err)
	}
}
