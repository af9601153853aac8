package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/chart"
	"github.com/rotahq/rota/internal/cli/events"
	"github.com/rotahq/rota/internal/cli/groups"
	"github.com/rotahq/rota/internal/cli/nodes"
	"github.com/rotahq/rota/internal/cli/queues"
	"github.com/rotahq/rota/internal/cli/schedules"
	"github.com/rotahq/rota/internal/cli/tasks"
	"github.com/rotahq/rota/internal/cli/workers"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/top"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Open is part of top.Source: what the commands show of a thing, and why it does not run.
func (s *source) Open(ctx context.Context, t top.Thing, width int) (string, error) {
	// tables in it are as wide as they are: top wraps them
	a := &app.App{Output: term.Output{Out: io.Discard, Err: io.Discard, Now: s.Now}}
	switch t.Screen {
	case top.Overview, top.Queues:
		return s.openQueue(ctx, a, t.ID, width)
	case top.Tasks:
		return s.openTask(ctx, a, t.ID)
	case top.Workers:
		w, err := s.client.Worker(ctx, t.ID)
		if err != nil {
			return "", err
		}
		jobs, err := workers.JobsOf(ctx, s.client, t.ID)
		if err != nil {
			return "", err
		}
		h, err := s.lastHour(ctx, a, client.StatsQuery{Worker: t.ID}, width)
		return workers.Text(a, w, jobs, &h), err
	case top.Groups:
		g, err := s.client.Group(ctx, t.ID)
		if err != nil {
			return "", err
		}
		replicas, _, err := s.client.Assignments(ctx, t.ID, client.PlacementFilter{}, "", mostRows)
		return groups.Text(a, g, replicas), err
	case top.Schedules:
		v, err := s.client.Schedule(ctx, t.ID)
		if err != nil {
			return "", err
		}
		fires, _, err := s.client.Fires(ctx, t.ID, client.FireFilter{}, "", 20)
		return schedules.Text(a, &v) + "\n" + schedules.FireTable(a, fires, v.Zone), err
	case top.Nodes:
		return s.openNode(ctx, t.ID)
	case top.Keys:
		return s.openKey(ctx, t)
	}
	return s.openEvent(ctx, t.ID)
}

// lastHour is what was done in the last hour, in columns of which a line so wide has room.
func (s *source) lastHour(
	ctx context.Context, a *app.App, of client.StatsQuery, width int,
) (chart.History, error) {
	step, err := chart.Column(time.Hour, width-chart.Margin)
	if err != nil {
		return chart.History{}, err
	}
	return chart.Of(ctx, a, s.client, of, time.Hour, step)
}

func (s *source) openQueue(
	ctx context.Context, a *app.App, name string, width int,
) (string, error) {
	q, err := s.client.Queue(ctx, name)
	if err != nil {
		return "", err
	}
	e, err := s.client.ExplainQueue(ctx, name)
	if err != nil {
		return "", err
	}
	h, err := s.lastHour(ctx, a, client.StatsQuery{Queue: name}, width)
	if err != nil {
		return "", err
	}
	n := q.Counts
	counts := term.Sheet{Indent: 14}
	for _, c := range []struct {
		state task.State
		n     int64
	}{
		{task.Blocked, n.Blocked}, {task.Waiting, n.Waiting}, {task.Ready, n.Ready},
		{task.Running, n.Running},
		{task.Done, n.Done}, {task.Dead, n.Dead}, {task.Cancelled, n.Cancelled},
		{task.Expired, n.Expired},
	} {
		counts.Line(string(c.state), term.Count(c.n))
	}
	return a.WhyNot(e) + "\n" + h.Text() + "\n" + counts.String() + "\n" + queues.Text(q), nil
}

func (s *source) openTask(ctx context.Context, a *app.App, text string) (string, error) {
	id, err := task.ParseID(text)
	if err != nil {
		return "", err
	}
	v, err := s.client.Task(ctx, id, 0)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(tasks.Text(a, v))
	if v.State == task.Blocked || v.State == task.Waiting || v.State == task.Ready {
		e, err := s.client.ExplainTask(ctx, id)
		if err != nil {
			return b.String(), err
		}
		endOfSheet(&b)
		b.WriteString(a.WhyNot(e))
	}
	lines, err := s.logOf(ctx, id)
	if len(lines) > 0 {
		endOfSheet(&b)
		b.WriteString(term.Faint("LOG, its newest lines") + "\n")
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %s\n", term.Faint(l.Time.Local().Format("15:04:05.000")),
			term.OneLine(l.Text))
	}
	return b.String(), err
}

// logOf are the newest lines of a task's log.
func (s *source) logOf(ctx context.Context, id task.ID) (lines []task.LogLine, err error) {
	const shown = 200
	for l, err := range client.All(func(cursor string) ([]task.LogLine, string, error) {
		return s.client.Lines(ctx, id, cursor, 1000)
	}) {
		if errors.Is(err, client.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines[max(len(lines)-shown, 0):], nil
}

func (s *source) openNode(ctx context.Context, name string) (string, error) {
	list, err := s.client.Nodes(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(list, func(n view.Node) bool { return n.Name == name })
	if i < 0 {
		return "", fmt.Errorf("node %q: %w", name, client.ErrNotFound)
	}
	n := list[i]
	sheet := term.Sheet{Indent: 10}
	sheet.Line("node", term.Bold(n.Name))
	sheet.Line("state", nodes.State(n.State))
	sheet.Line("address", term.OneLine(n.Address))
	sheet.Line("score", fmt.Sprintf("%.2f: %.0f%% cpu, %.0f%% memory, %d of %d executors",
		n.Score, 100*n.CPU, 100*n.Memory, n.Running, n.Executors))
	sheet.Line("holds", term.Plural(n.Tasks, "task"))
	sheet.Line("keys", fmt.Sprintf("%d; its share is %d, its cap %d, its alarm %d",
		n.Claims.Owned, n.Claims.Target, n.Claims.Cap, n.Claims.Alarm))
	sheet.Line("up", term.Short(n.Joined.Time, s.Now()))
	sheet.Line("seen", term.Short(n.Seen.Time, s.Now()))
	if !n.Down.IsZero() {
		sheet.Line("down", term.Short(n.Down.Time, s.Now()))
	}
	for _, strike := range n.Strikes {
		sheet.Line("missed by", fmt.Sprintf("%s, %d times in a row", strike.By, strike.Misses))
	}
	return sheet.String(), nil
}

func (s *source) openEvent(ctx context.Context, text string) (string, error) {
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", err
	}
	list, _, err := s.client.Events(ctx, client.EventFilter{}, fmt.Sprint(seq-1), 1)
	if err != nil || len(list) == 0 {
		return "", err
	}
	e := list[0]
	sheet := term.Sheet{Indent: 12}
	sheet.Line("event", term.Bold(fmt.Sprint(e.Seq)))
	sheet.Line("time", e.Time.Local().Format("2006-01-02 15:04:05.000"))
	sheet.Line("kind", events.Kind(e.Kind))
	sheet.Line("subject", term.OneLine(e.Subject))
	sheet.Line("text", term.OneLine(e.Text))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		sheet.Line(term.OneLine(name), term.OneLine(e.Fields[name]))
	}
	return sheet.String(), nil
}

// Act is part of top.Source.
func (s *source) Act(ctx context.Context, a top.Action) (note string, err error) {
	c := s.client
	switch {
	case a.Verb == top.Drain:
		return c.DrainWorker(ctx, a.ID)
	case a.Verb == top.Undrain:
		return "", c.UndrainWorker(ctx, a.ID)
	case a.Screen == top.Tasks:
		id, err := task.ParseID(a.ID)
		if err != nil {
			return "", err
		}
		if a.Verb == top.Cancel {
			return "", c.Cancel(ctx, id)
		}
		return "", c.Retry(ctx, id)
	case a.Screen == top.Keys:
		return s.actKey(ctx, a)
	}
	pauses := map[top.Screen][2]func(context.Context, string) error{
		top.Overview: {c.PauseQueue, c.ResumeQueue}, top.Queues: {c.PauseQueue, c.ResumeQueue},
		top.Groups:    {c.PauseGroup, c.ResumeGroup},
		top.Schedules: {c.PauseSchedule, c.ResumeSchedule},
	}
	call, known := pauses[a.Screen]
	switch {
	case known && a.Verb == top.Pause:
		return "", call[0](ctx, a.ID)
	case known && a.Verb == top.Resume:
		return "", call[1](ctx, a.ID)
	}
	return "", fmt.Errorf("%s %s: there is no such thing to do", a.Verb, a.ID)
}
