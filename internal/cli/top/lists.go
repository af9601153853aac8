package top

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/events"
	"github.com/rotahq/rota/internal/cli/groups"
	"github.com/rotahq/rota/internal/cli/nodes"
	"github.com/rotahq/rota/internal/cli/queues"
	"github.com/rotahq/rota/internal/cli/schedules"
	"github.com/rotahq/rota/internal/cli/workers"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/top"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// source answers what `rota top` asks.
type source struct {
	*app.App
	client *client.Client
}

// mostRows is how many rows of a list that may be long are shown.
const mostRows = 500

// Follow is part of top.Source.
func (s *source) Follow(ctx context.Context) iter.Seq2[view.Overview, error] {
	return s.client.FollowOverview(ctx)
}

// List is part of top.Source.
func (s *source) List(ctx context.Context, q top.Query) (top.List, error) {
	switch q.Screen {
	case top.Queues:
		return s.queues(ctx)
	case top.Workers:
		return s.workers(ctx)
	case top.Tasks:
		return s.tasks(ctx, q)
	case top.Groups:
		return s.groups(ctx)
	case top.Schedules:
		return s.schedules(ctx)
	case top.Nodes:
		return s.nodes(ctx)
	case top.Events:
		return s.events(ctx)
	case top.Keys:
		return s.keys(ctx, q.Queue)
	}
	return top.List{}, nil
}

// text is a cell without a meaning of its own.
func text(s string) top.Cell { return top.Cell{Text: s} }

// figure is a number in a list.
func figure[T ~int | ~int64](n T) top.Cell { return text(term.Count(n)) }

// worded is a word that the lists of other commands show in a colour, with the meaning of that.
func worded(styled string) top.Cell {
	word := ansi.Strip(styled)
	for tone, paint := range map[top.Tone]func(string) string{
		top.Good: term.Green, top.Busy: term.Yellow, top.Bad: term.Red, top.Quiet: term.Faint,
	} {
		if styled != word && styled == paint(word) {
			return top.Cell{Text: word, Tone: tone}
		}
	}
	return text(word)
}

func (s *source) queues(ctx context.Context) (top.List, error) {
	list, err := s.client.Queues(ctx)
	l := top.List{Heads: []string{
		"QUEUE", "STATE", "#BLOCKED", "#WAITING", "#READY", "#RUNNING", "#DONE", "#DEAD", "OLDEST",
		"TITLE",
	}}
	for _, q := range list {
		state := top.Cell{Text: queues.Word(&q), Tone: top.Good}
		if state.Text != "open" {
			state.Tone = top.Busy
		}
		n := q.Counts
		l.Rows = append(l.Rows, top.Row{ID: q.Name, Cells: []top.Cell{
			text(q.Name), state, figure(n.Blocked), figure(n.Waiting), figure(n.Ready),
			figure(n.Running), figure(n.Done), figure(n.Dead),
			text(term.Short(q.OldestReady, s.Now())), text(q.Title),
		}})
	}
	return l, err
}

func (s *source) workers(ctx context.Context) (top.List, error) {
	list, _, err := s.client.Workers(ctx)
	l := top.List{Heads: []string{
		"WORKER", "STATE", "#TASKS", "#JOBS", "#CAPACITY", "#CPU", "SEEN", "NODE", "LABELS",
	}}
	for _, w := range list {
		l.Rows = append(l.Rows, top.Row{ID: w.Name, Cells: []top.Cell{
			text(w.Name), worded(workers.State(w)), figure(w.Running), figure(w.Jobs),
			text(fmt.Sprint(w.Capacity)), text(fmt.Sprintf("%.0f%%", 100*w.Load.CPU)),
			text(term.Short(w.Seen, s.Now())), text(w.Node), text(term.Labels(w.Labels)),
		}})
	}
	return l, err
}

func (s *source) tasks(ctx context.Context, q top.Query) (top.List, error) {
	f := client.TaskFilter{Queue: q.Queue, State: q.State}
	var views []task.View
	next := ""
	for range 5 { // what is rare among many is found piece by piece
		page, after, err := s.client.Tasks(ctx, f, next, mostRows-len(views))
		if err != nil {
			return top.List{}, err
		}
		views, next = append(views, page...), after
		if next == "" || len(views) >= mostRows {
			break
		}
	}
	l := top.List{More: next != "", Heads: []string{
		"ID", "QUEUE", "STATE", "STAGE", "#TRY", "CREATED", "WORKER", "ERROR",
	}}
	for i := range views {
		v := &views[i]
		l.Rows = append(l.Rows, top.Row{ID: v.ID.String(), Cells: []top.Cell{
			text(v.ID.String()), text(v.Queue), top.StateCell(v.State), text(v.Stage),
			figure(v.Attempt), text(term.Short(v.Created, s.Now())), text(v.Worker),
			text(v.Error),
		}})
	}
	return l, nil
}

func (s *source) groups(ctx context.Context) (top.List, error) {
	list, err := s.client.Groups(ctx)
	l := top.List{Heads: []string{
		"GROUP", "STATE", "#JOBS", "#WANTED", "#RUNNING", "#STARTING", "#FAILED", "#PENDING",
		"#BUDGET", "SUPERVISOR",
	}}
	for _, g := range list {
		l.Rows = append(l.Rows, top.Row{ID: g.Name, Cells: []top.Cell{
			text(g.Name), worded(groups.State(g)), figure(g.Jobs), figure(g.Wanted),
			figure(g.Running), figure(g.Starting), figure(g.Failed), figure(g.Pending),
			text(groups.BudgetNumber(g.Budget)), text(g.Supervisor),
		}})
	}
	return l, err
}

func (s *source) schedules(ctx context.Context) (top.List, error) {
	list, err := s.client.Schedules(ctx)
	l := top.List{Heads: []string{
		"SCHEDULE", "STATE", "NEXT", "LAST", "OUTCOME", "DUE", "ZONE", "QUEUE", "OWNER",
	}}
	for i := range list {
		v, zone := &list[i], schedules.ZoneOf(list[i].Zone)
		l.Rows = append(l.Rows, top.Row{ID: v.Name, Cells: []top.Cell{
			text(v.Name), worded(schedules.State(v)), text(term.ShortIn(v.Next, s.Now(), zone)),
			text(term.ShortIn(v.Last, s.Now(), zone)), worded(schedules.EndedText(v.LastOutcome)),
			text(schedules.DueText(v)), text(v.Zone), text(v.Queue), text(v.Owner),
		}})
	}
	return l, err
}

func (s *source) nodes(ctx context.Context) (top.List, error) {
	list, err := s.client.Nodes(ctx)
	l := top.List{Heads: []string{
		"NODE", "STATE", "#SCORE", "#CPU", "#MEMORY", "#TASKS", "#KEYS", "UP", "DOWN", "ADDRESS",
	}}
	for _, n := range list {
		l.Rows = append(l.Rows, top.Row{ID: n.Name, Cells: []top.Cell{
			text(n.Name), worded(nodes.State(n.State)), text(fmt.Sprintf("%.0f", n.Score)),
			text(fmt.Sprintf("%.0f%%", 100*n.CPU)), text(fmt.Sprintf("%.0f%%", 100*n.Memory)),
			figure(n.Tasks), text(fmt.Sprintf("%d of %d", n.Claims.Owned, n.Claims.Cap)),
			text(term.Short(n.Joined.Time, s.Now())), text(term.Short(n.Down.Time, s.Now())),
			text(n.Address),
		}})
	}
	return l, err
}

// events are the newest of the last hour, the newest first.
func (s *source) events(ctx context.Context) (top.List, error) {
	f := client.EventFilter{Since: s.Now().Add(-time.Hour)}
	var newest []view.Event
	for e, err := range client.All(func(cursor string) ([]view.Event, string, error) {
		return s.client.Events(ctx, f, cursor, 1000)
	}) {
		if err != nil {
			return top.List{}, err
		}
		if newest = append(newest, e); len(newest) >= 2*mostRows {
			newest = slices.Clone(newest[len(newest)-mostRows:])
		}
	}
	newest = newest[max(len(newest)-mostRows, 0):]
	l := top.List{Heads: []string{"#SEQ", "AT", "KIND", "SUBJECT", "TEXT"}}
	for _, e := range slices.Backward(newest) {
		l.Rows = append(l.Rows, top.Row{ID: fmt.Sprint(e.Seq), Cells: []top.Cell{
			text(fmt.Sprint(e.Seq)), text(term.Short(e.Time.Time, s.Now())),
			worded(events.Kind(e.Kind)), text(e.Subject), text(e.Text),
		}})
	}
	return l, nil
}

// endOfSheet parts what is told of a thing from why it stands so.
func endOfSheet(b *strings.Builder) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
}
