package nodes

import (
	"bytes"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/view"
)

func TestForecastIsATableOfQueuesAndOneOfGroups(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	wait := view.Duration(1200 * time.Millisecond)
	by := view.Time{Time: now.Add(40 * time.Minute)}
	a := commands{app.New(nil, new(bytes.Buffer), nil, nil)}
	a.Now = func() time.Time { return now }
	f := view.Forecast{
		Queues: []view.QueueForecast{
			{Queue: "mail", Workers: 2, Wanted: 3, Why: "it grows"},
			{Queue: "news", Workers: 8, Wanted: 1200, WaitP95: &wait, Why: "so many"},
		},
		QueuesLeftOut: 2,
		Groups:        []view.GroupForecast{{Group: "feeds", Workers: 8, Wanted: 9, By: &by, Why: "soon"}},
		GroupsLeftOut: 1, Missing: []string{"n2"},
	}
	const want = `QUEUE  WORKERS  WANTED  P95 WAIT  WHY
mail         2       3         ?  it grows
news         8   1,200      1.2s  so many
2 queues more

GROUP  WORKERS  WANTED  BY      WHY
feeds        8       9  in 40m  soon
1 group more
n2 did not say which workers they have: there may be more
`
	if got := ansi.Strip(a.forecastText(&f, true)); got != want {
		t.Errorf("%s", got)
	}
	if got := a.forecastText(&view.Forecast{}, true); got != "no queues and no groups\n" {
		t.Error(got)
	}
}
