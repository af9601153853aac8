package events

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

// commands are the commands that print events and look after those who are told of them.
type commands struct{ *app.App }

// Commands are the commands about what happened, and who is told of it.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.events(), c.notifier()}
}

func (a commands) events() *cobra.Command {
	var follow bool
	var kinds []string
	var since string
	cmd := a.Remote(&cobra.Command{
		Use:   "events",
		Short: "Print what happened: nodes that came and went, alarms, trouble",
		Long: `Print what happened, oldest first: nodes that came and went, alarms, trouble with the
store, each with its recovery. A line has the number, the local time, the kind, what it is
about, and what there is to say. They are kept for 30 days; those of the last day are
printed unless --since says otherwise.

With -f it goes on with what happens, also when the server is away for a while; Ctrl-C ends
it. Without --since it then begins with what happens next. With -o json the events then
come one document each.`,
		Example: `  rota events --since 2h
  rota events -f --kind node.*,store.full
  rota events --since 2026-11-21T08:00:00Z -o json`,
		Args: app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		f := client.EventFilter{Kinds: kinds}
		if since == "" && !follow {
			since = "24h"
		}
		var err error
		if f.Since, err = app.Moment("--since", since, a.Now()); err != nil {
			return err
		}
		if follow {
			return a.followEvents(ctx, c, f)
		}
		return a.allEvents(ctx, c, f)
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens")
	cmd.Flags().StringSliceVar(&kinds, "kind", nil,
		"`kinds` of events; node.* is all that begin with node. (default all)")
	cmd.Flags().StringVar(&since, "since", "",
		"`time` from which on: 2026-11-21T08:00:00Z, or how long ago: 2h (default 24h)")
	return cmd
}

func (a commands) allEvents(
	ctx context.Context, c *client.Client, f client.EventFilter,
) error {
	doc := term.Page[eventDoc]{Items: []eventDoc{}}
	for cursor := ""; ; {
		events, next, err := c.Events(ctx, f, cursor, 1000)
		if err != nil {
			return err
		}
		for _, e := range events {
			if a.JSON() {
				doc.Items = append(doc.Items, eventDoc{e, e.Time})
			} else if err := a.printEvent(e); err != nil {
				return err
			}
		}
		if next == "" || next == cursor {
			break
		}
		cursor = next
	}
	if a.JSON() {
		return a.PrintJSON(doc)
	}
	return nil
}

// eventDoc is an event in JSON: the command line writes its time last.
type eventDoc struct {
	view.Event
	Time view.Time `json:"time"`
}

// followEvents prints events until somebody has seen enough: that is no failure.
func (a commands) followEvents(
	ctx context.Context, c *client.Client, f client.EventFilter,
) error {
	for e, err := range c.FollowEvents(ctx, f, "") {
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = a.printEvent(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a commands) printEvent(e view.Event) error {
	if a.JSON() {
		w := json.NewEncoder(a.Out)
		w.SetEscapeHTML(false)
		return w.Encode(eventDoc{e, e.Time})
	}
	_, err := lipgloss.Fprintln(a.Out, eventText(e))
	return err
}

func eventText(e view.Event) string {
	parts := []string{
		fmt.Sprintf("%6d", e.Seq), term.Faint(e.Time.Local().Format("2006-01-02 15:04:05")),
		Kind(e.Kind), term.Bold(term.OneLine(e.Subject)), term.OneLine(e.Text),
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		parts = append(parts, term.Faint(term.OneLine(name+"="+e.Fields[name])))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

// Kind is an event's kind in the colour of what it means.
func Kind(kind string) string {
	kind = term.OneLine(kind)
	_, what, _ := strings.Cut(kind, ".")
	switch what {
	case "offline", "full", "failed", "broken", "raised", "unreachable":
		return term.Red(kind)
	case "online", "ok", "restored", "over", "reachable":
		return term.Green(kind)
	}
	return term.Cyan(kind)
}
