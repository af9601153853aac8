package workers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/chart"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
)

// goneWorker is what is known of a worker that no node knows any more: its past.
type goneWorker struct {
	Name  string      `json:"name"`
	Gone  bool        `json:"gone"`            // always true
	Event *view.Event `json:"event,omitempty"` // the last one that tells of its end
	chart.History
}

// endKinds are the kinds of events that tell of a worker's end.
func endKinds() []string {
	return []string{"worker.left", "worker.silent", "worker.dead", "audit.worker.delete"}
}

// endPages is how many pages of events are read for one of a worker; they begin with the oldest
// that may tell of its end, the first after its last task.
const endPages = 5

// goneOf reads the past of a worker that nobody knows; false = it has none in that time.
func (a commands) goneOf(
	ctx context.Context, c *client.Client, name string, last, step time.Duration,
) (g goneWorker, found bool, err error) {
	g = goneWorker{Name: name, Gone: true}
	g.History, err = chart.Of(ctx, a.App, c, client.StatsQuery{Worker: name}, last, step)
	if err != nil {
		return g, false, err
	}
	f := client.EventFilter{Since: a.Now().Add(-last), Kinds: endKinds()}
	worked := false
	for _, p := range slices.Backward(g.Periods) {
		if worked = p.Started > 0; worked {
			f.Since = p.At.Time
			break
		}
	}
	for cursor, n := "", 0; n < endPages; n++ {
		var page []view.Event
		if page, cursor, err = c.Events(ctx, f, cursor, limits.MaxHold); err != nil {
			return g, false, err
		}
		for _, e := range slices.Backward(page) {
			if e.Subject == name {
				g.Event = &e
				break
			}
		}
		if cursor == "" {
			break
		}
	}
	return g, worked || g.Event != nil, nil
}

func (a commands) goneText(g *goneWorker) string {
	s := term.Sheet{Indent: 10}
	s.Line("worker", term.Bold(g.Name))
	s.Line("state", term.Faint("gone")+": no node knows it any more")
	if g.Event != nil {
		s.Line("ended", term.Short(g.Event.Time.Time, a.Now())+", "+term.OneLine(g.Event.Text))
	}
	for _, p := range slices.Backward(g.Periods) {
		if p.Started > 0 {
			end := p.At.Add(time.Duration(g.Step))
			s.Line("last task", fmt.Sprintf("between %s and %s", term.Short(p.At.Time, a.Now()),
				term.Short(end, a.Now())))
			break
		}
	}
	return s.String() + "\n" + g.Text()
}

// showGone shows a worker that no node knows, if it has a past; else it answers what is wrong.
func (a commands) showGone(
	ctx context.Context, c *client.Client, name string, last, step time.Duration, wrong error,
) error {
	g, found, err := a.goneOf(ctx, c, name, last, step)
	if err != nil || !found {
		return wrong
	}
	return a.Show(g, func() string { return a.goneText(&g) })
}
