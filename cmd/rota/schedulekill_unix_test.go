//go:build unix

package main

import (
	"context"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Again and again the node that fires an every-second schedule is killed. Every second from the
// schedule's first to its last has one row and one task, those too at which nobody was there to
// fire.
func TestEverySecondIsFiredOnceThoughItsOwnersAreKilled(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	peers := newPeers(t, "a", "b")
	other := map[string]string{"a": "b", "b": "a"}
	cron, queue, all := "* * * * * *", "q", task.MisfireAll
	c := peers["a"].connect()
	asked := time.Now()
	if _, err := c.PutSchedule(
		ctx, "each", client.ScheduleChange{Cron: &cron, Queue: &queue, Misfire: &all},
	); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		owner := ""
		eventuallyTrue(t, "somebody owns the schedule, and fires it", func() bool {
			s, err := c.Schedule(ctx, "each")
			owner = s.Owner
			return err == nil && peers[owner] != nil && newestFire(ctx, c).Node == owner
		})
		peers[owner].kill()
		gone := time.Now()
		c = peers[other[owner]].connect()
		eventuallyTrue(t, "the other one fires it", func() bool {
			f := newestFire(ctx, c)
			return f.Node == other[owner] && f.At.After(gone.Add(2*time.Second))
		})
		peers[owner].start()
		joined(t, peers, owner)
	}
	if err := c.PauseSchedule(ctx, "each"); err != nil {
		t.Fatal(err)
	}
	auditEach(ctx, t, c, asked)
}

// newestFire is what came of the schedule's last due time; nothing when nothing did yet, or the
// server does not answer.
func newestFire(ctx context.Context, c *client.Client) view.Fire {
	fires, _, err := c.Fires(ctx, "each", client.FireFilter{}, "", 1)
	if err != nil || len(fires) == 0 {
		return view.Fire{}
	}
	return fires[0]
}

// auditEach compares what came of an every-second schedule that is paused, and that was asked for
// then, with what the clock on the wall says.
func auditEach(ctx context.Context, t *testing.T, c *client.Client, asked time.Time) {
	t.Helper()
	s, err := c.Schedule(ctx, "each")
	if err != nil {
		t.Fatal(err)
	}
	tasks := map[task.ID]bool{}
	for cursor, more := "", true; more; more = cursor != "" {
		var list []task.View
		if list, cursor, err = c.Tasks(
			ctx, client.TaskFilter{Queue: "q"}, cursor, 1000,
		); err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			tasks[v.ID] = true
		}
	}
	last := s.Next // the next second that is not handled
	n := 0
	for cursor, more := "", true; more; more = cursor != "" {
		var list []view.Fire
		if list, cursor, err = c.Fires(
			ctx, "each", client.FireFilter{Until: s.Next}, cursor, 1000,
		); err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if want := last.Add(-time.Second); !f.At.Equal(want) {
				t.Errorf("a row of %v, want one of %v", f.At, want)
			}
			last = f.At.Time
			switch {
			case f.Outcome == task.FireFired && tasks[f.Task.ID]:
				delete(tasks, f.Task.ID)
				n++
			case f.Outcome != task.FireSkipped || n > 0: // it is paused by now
				t.Errorf("%v is %s (%s) with task %v", f.At, f.Outcome, f.Reason, f.Task)
			}
		}
	}
	if len(tasks) > 0 {
		t.Errorf("%d tasks are of no due time", len(tasks))
	}
	a, err := c.AuditSchedule(ctx, "each", time.Time{}, time.Time{})
	if err != nil || !a.Complete || a.Fired != int64(n) || a.Missed+a.Queued+a.Aside > 0 {
		t.Errorf("%d were fired; the audit says %+v, %v", n, a, err)
	}
	t.Logf("%d due times were fired, the latest after %s", n, time.Duration(a.Late))
	// It is due from when it was asked for, which may be the second before the one in which it was
	// created. Clocks differ by little.
	const little = 2 * time.Second
	first := a.From.Truncate(time.Second).Add(time.Second)
	if !last.Equal(first) || a.From.Before(asked.Add(-little)) ||
		a.From.After(s.Created.Add(little)) {
		t.Errorf("the first row is that of %v, want %v; asked for at %v, created at %v", last,
			first, asked, s.Created)
	}
}
