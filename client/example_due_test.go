package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

func ExampleClient_RunSchedule() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	fire, err := nightly(ctx, c)
	must(err)
	fmt.Println(fire.Origin, fire.Outcome)

	must(c.PauseSchedule(ctx, "nightly"))
	s, err := c.Schedule(ctx, "nightly")
	must(err)
	fmt.Println(s.Paused)
	must(c.ResumeSchedule(ctx, "nightly"))
	fires, _, err := c.Fires(ctx, "nightly", client.FireFilter{Outcome: task.FireFired}, "", 10)
	must(err)
	fmt.Println(len(fires))
	must(c.DeleteSchedule(ctx, "nightly"))
	// Output:
	// manual fired
	// true
	// 1
}

// nightly puts a schedule and has it run now.
func nightly(ctx context.Context, c *client.Client) (view.Fire, error) {
	_, err := c.PutSchedule(ctx, "nightly", client.ScheduleChange{
		Cron: new("30 2 * * *"), Queue: new("reports"),
	})
	if err != nil {
		return view.Fire{}, err
	}
	return c.RunSchedule(ctx, "nightly")
}

// Many schedules come in one call, and are read in pages.
func ExampleClient_PutSchedules() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	var changes []client.NamedChange
	for _, name := range []string{"hourly", "nightly"} {
		changes = append(changes, client.NamedChange{
			Name: name,
			ScheduleChange: client.ScheduleChange{
				Cron:  new("@" + map[string]string{"hourly": "hourly", "nightly": "daily"}[name]),
				Queue: new("reports"),
			},
		})
	}
	receipts, err := c.PutSchedules(ctx, changes)
	must(err)
	fmt.Println(len(receipts))
	all, err := c.Schedules(ctx)
	must(err)
	fmt.Println(all[0].Name, all[1].Name)
	// Output:
	// 2
	// hourly nightly
}

// Due times that passed while the schedule was paused, or not there yet, get their tasks.
func ExampleClient_BackfillSchedule() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutSchedule(ctx, "nightly", client.ScheduleChange{
		Cron: new("30 2 * * *"), Queue: new("reports"),
	})
	must(err)
	october := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	b, err := c.BackfillSchedule(ctx, "nightly", client.Backfill{
		From: october, To: october.AddDate(0, 0, 3), DryRun: true,
	})
	must(err)
	for _, at := range b.Times {
		fmt.Println(at.Format(time.DateTime))
	}
	// Output:
	// 2026-10-01 02:30:00
	// 2026-10-02 02:30:00
	// 2026-10-03 02:30:00
}

func ExampleClient_PutCalendar() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	must(c.PutCalendar(ctx, task.Calendar{
		Name: "closed", Skip: []string{"2026-12-25", "2026-12-26"},
	}))
	lines, err := c.Calendars(ctx)
	must(err)
	fmt.Println(lines[0].Name, lines[0].Skip)
	calendar, err := c.Calendar(ctx, "closed")
	must(err)
	fmt.Println(calendar.Skip)
	must(c.DeleteCalendar(ctx, "closed"))
	// Output:
	// closed 2
	// [2026-12-25 2026-12-26]
}

// A group keeps its jobs running, on workers that it chooses.
func ExampleClient_AddJobs() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutGroup(ctx, "tails", client.GroupChange{Replicas: new(1)})
	must(err)
	changed, err := c.AddJobs(ctx, "tails",
		task.Job{Name: "access.log", Load: task.Unit}, task.Job{Name: "error.log", Load: task.Unit})
	must(err)
	fmt.Println(changed.Added)
	must(c.RemoveJob(ctx, "tails", "error.log"))
	jobs, err := c.Jobs(ctx, "tails")
	must(err)
	fmt.Println(jobs[0].Name)
	// Output:
	// 2
	// access.log
}

func ExampleClient_PauseGroup() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutGroup(ctx, "tails", client.GroupChange{Replicas: new(1)})
	must(err)
	must(c.PauseGroup(ctx, "tails")) // its replicas end
	groups, err := c.Groups(ctx)
	must(err)
	fmt.Println(groups[0].Name, groups[0].Paused)
	must(c.ResumeGroup(ctx, "tails"))
	g, err := c.Group(ctx, "tails")
	must(err)
	fmt.Println(g.Paused)
	must(c.RefreshGroup(ctx, "tails"))      // read its jobs now, if they come from a file or a URL
	must(c.RebalanceGroup(ctx, "tails"))    // spread what runs anew, within its policy
	must(c.DeleteGroup(ctx, "tails", true)) // with its jobs
	// Output:
	// tails true
	// false
}

// A replica that is nowhere says why, and what would change it.
func ExampleClient_ExplainJob() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutGroup(ctx, "tails", client.GroupChange{Replicas: new(1)})
	must(err)
	_, err = c.PutJobs(ctx, "tails", task.Job{Name: "access.log", Load: task.Unit})
	must(err)
	pending := client.PlacementFilter{State: task.JobPending}
	replicas, _, err := c.Assignments(ctx, "tails", pending, "", 100)
	must(err)
	fmt.Println(replicas[0].Job, replicas[0].State)
	e, err := c.ExplainJob(ctx, "tails", "access.log")
	must(err)
	fmt.Println(e.Replicas[0].Reason)
	// Output:
	// access.log pending
	// waits: there is no worker
}

func ExampleClient_FollowJobLog() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutGroup(ctx, "tails", client.GroupChange{Replicas: new(1)})
	must(err)
	_, err = c.PutJobs(ctx, "tails", task.Job{Name: "access.log", Load: task.Unit})
	must(err)
	must(c.AppendJobLog(ctx, "tails", "access.log", []task.LogLine{
		{Time: time.Now(), Stream: "stdout", Text: "opened"},
	}))
	lines, _, err := c.JobLog(ctx, "tails", "access.log", "", 100)
	must(err)
	fmt.Println(lines[0].Text)
	for line, err := range c.FollowJobLog(ctx, "tails", "access.log", "") { // as they come
		must(err)
		fmt.Println(line.Text)
		break
	}
	// Output:
	// opened
	// opened
}
