package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Beside the files a schedule fires and a job runs, so that all of rota is seen at work.
const (
	pulses = "demo-pulse" // the schedule, and the queue of its tasks
	every  = 2            // seconds from one due time to the next
	watch  = "demo-watch" // the group
	clock  = "clock"      // its only job, of one replica

	// clockWithin is how long the kill waits for the job to run on the worker that is killed, and
	// movedWithin how long the end waits for it to run on another one: the silence of a worker with
	// jobs is noticed after 15 s, until it was told less for as long.
	clockWithin = 10 * time.Second
	movedWithin = 20 * time.Second
)

// pulse is the handler of the schedule's tasks.
func pulse(context.Context, task.Handout) task.Outcome {
	return task.Finish(map[string]string{"at": time.Now().UTC().Format(time.RFC3339Nano)})
}

// tell is the handler of the job: it writes the time into its log until it ends.
func tell(ctx context.Context, a task.Assignment) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		worker.Logf(ctx, "it is %s", time.Now().Format(time.TimeOnly))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// arrange makes what runs beside the files.
func (d *demonstration) arrange(ctx context.Context) error {
	silence, one, warm := silence, 1, time.Second
	if _, err := d.client.PutQueue(ctx, pulses, client.QueueChange{Silence: &silence}); err != nil {
		return err
	}
	cron, queue := fmt.Sprintf("*/%d * * * * *", every), pulses
	if _, err := d.client.PutSchedule(ctx, pulses, client.ScheduleChange{
		Cron: &cron, Queue: &queue,
	}); err != nil {
		return err
	}
	if _, err := d.client.PutGroup(ctx, watch, client.GroupChange{
		Replicas: &one, Silence: &silence, Policy: &client.PolicyChange{Warmup: &warm},
	}); err != nil {
		return err
	}
	_, err := d.client.AddJobs(ctx, watch, task.Job{Name: clock})
	return err
}

// lookAtClock notes on which worker the job runs, and tells of it. It says whether it runs on one
// that lives.
func (d *demonstration) lookAtClock(ctx context.Context) (bool, error) {
	list, _, err := d.client.Assignments(ctx, watch, client.PlacementFilter{Job: clock}, "", 10)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(list, func(p client.Placement) bool {
		return p.State == task.JobRunning && (d.killed == nil || p.Worker != d.killed.name)
	})
	if i < 0 {
		return false, nil
	}
	if n := len(d.clockOn); n == 0 || d.clockOn[n-1] != list[i].Worker {
		d.clockOn = append(d.clockOn, list[i].Worker)
		d.say("job %s of group %s runs on %s", clock, watch, list[i].Worker)
	}
	return true, nil
}

// linger goes on until the demo has lasted as long as it was told, and the job runs again.
func (d *demonstration) linger(ctx context.Context, began time.Time) error {
	until := began.Add(d.lasts)
	if now := d.Now(); now.After(until) {
		until = now
	}
	for {
		runs, err := d.lookAtClock(ctx)
		if err := d.blame(err); err != nil {
			return err
		}
		q, err := d.client.Queue(ctx, pulses)
		if err := d.blame(err); err != nil {
			return err
		}
		now := d.Now()
		if left := until.Sub(now); left > 0 {
			d.wait(now, left, fmt.Sprintf("all files are done; %s of schedule %s so far",
				term.Plural(int(q.Counts.Done), "task"), pulses))
		} else if runs || now.Sub(until) > movedWithin {
			return nil
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// wait shows how long the demo goes on.
func (d *demonstration) wait(now time.Time, left time.Duration, what string) {
	if d.progress.Width > 0 {
		share := 1 - left.Seconds()/max(d.lasts.Seconds(), 1e-3)
		d.progress.Draw(now, share, what)
	}
}

// account holds the schedule to what it demanded, and its tasks to their ends.
func (d *demonstration) account(ctx context.Context, r *Report) error {
	if err := d.client.PauseSchedule(ctx, pulses); err != nil {
		return err
	}
	for deadline := d.Now().Add(clockWithin); ; {
		q, err := d.client.Queue(ctx, pulses)
		if err := d.blame(err); err != nil {
			return err
		}
		n := q.Counts
		if r.PulsesDone = n.Done; n.Waiting+n.Ready+n.Running == 0 || d.Now().After(deadline) {
			break
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	audit, err := d.client.AuditSchedule(ctx, pulses, time.Time{}, time.Time{})
	if err != nil {
		return err
	}
	r.DueTimes, r.Fired, r.EachOnce = audit.Demanded, audit.Fired, audit.Complete
	r.JobOn = append([]string{}, d.clockOn...)
	return nil
}
