package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/view"
)

// Forecasts says how many workers queues and groups need.
type Forecasts interface {
	// Known is what was gathered last, waiting for at most so long for a gathering that is under
	// way. Without any it is an error.
	Known(patience time.Duration) (forecast.Seen, error)
}

// noForecasts is a node that makes none.
type noForecasts struct{}

func (noForecasts) Known(time.Duration) (forecast.Seen, error) {
	return forecast.Seen{Model: forecast.New(forecast.Facts{})}, nil
}

const (
	// forecastPatience is how long a call waits for what is gathered.
	forecastPatience = 5 * time.Second
	// maxForecasts is how many queues, and groups, an answer has at most.
	maxForecasts = 1_000
	maxAsked     = 100 // queues that a call names
	// waits that may be asked for
	leastWait, mostWait = 10 * time.Millisecond, 24 * time.Hour
	formatKEDA          = "keda"
)

// scaleValue is the answer to an autoscaler.
type scaleValue struct {
	Value int `json:"value" doc:"workers that the queue needs"`
}

var forecastDoc = described{
	op: huma.Operation{
		OperationID: "get-forecast", Method: http.MethodGet, Path: "/v1/forecast",
		Tags:    []string{"Overview"},
		Summary: "Say how many workers queues and groups need",
		Description: "By what came to each queue in the last hour, how long it ran, and what is ready now: the least number of workers with which 95 of 100 tasks wait less than " +
			"the target; by what groups ask of their workers: how many they need so that any n of them can die at once. It is gathered every ten seconds, whoever asks. " +
			"With format=keda and a queue the answer is {\"value\": 3}, as a trigger metrics-api of KEDA reads it. A token with a scope sees the queues and groups that it names.",
		Parameters: []*huma.Param{
			queryParameter("queue", "of this queue, and of no group; more of them behind commas", "", "mail"),
			queryParameter("wait", "the wait that 95 of 100 tasks are to stay below; 5s", duration{},
				"5s"),
			queryParameter("format", "keda: the number that one queue needs, for an autoscaler", "",
				formatKEDA),
		},
	},
	status: http.StatusOK, answer: view.Forecast{},
}

// forecastCalls are the calls about how many workers queues and groups need.
type forecastCalls struct {
	door      *API
	forecasts Forecasts
	queues    QueueList

	// of size 1, full while forecasts for another wait than the usual one are made
	making chan struct{}
}

func (c *forecastCalls) register() {
	c.door.described(forecastDoc, c.get)
	content := c.door.huma.OpenAPI().Paths[forecastDoc.op.Path].Get.Responses["200"].Content
	media := content["application/json"]
	media.Schema = &huma.Schema{OneOf: []*huma.Schema{media.Schema, c.door.schema(scaleValue{})}}
}

// forecastAsked is a question for forecasts.
type forecastAsked struct {
	queues []string // nil = all, and the groups
	wait   time.Duration
	keda   bool
}

func readForecastAsked(r *http.Request) (ask forecastAsked, err error) {
	query, err := knownQuery(r, "queue", "wait", "format")
	if err != nil {
		return ask, err
	}
	ask.wait = forecast.Target
	if text := query.Get("wait"); text != "" {
		if ask.wait, err = view.ParseDuration(text); err != nil || ask.wait < leastWait ||
			ask.wait > mostWait {
			return ask, wrong("query.wait", "must be a duration from %v to %v", leastWait, mostWait)
		}
	}
	if text := query.Get("queue"); text != "" {
		ask.queues = names.All(strings.Split(text, ","))
	}
	if len(ask.queues) > maxAsked {
		return ask, wrong("query.queue", "at most %d queues may be named", maxAsked)
	}
	switch format := query.Get("format"); {
	case format != "" && format != formatKEDA:
		return ask, wrong("query.format", "must be %s, or be left out", formatKEDA)
	case format == formatKEDA && len(ask.queues) != 1:
		return ask, wrong("query.queue", "must name one queue for the format %s", formatKEDA)
	default:
		ask.keda = format != ""
	}
	return ask, nil
}

func (c *forecastCalls) get(w *answer, r *http.Request) error {
	ask, err := readForecastAsked(r)
	if err != nil {
		return err
	}
	if w.who.scope != nil {
		for _, queue := range ask.queues {
			if err := w.who.mayQueue(queue); err != nil {
				return err
			}
		}
	}
	seen, err := c.forecasts.Known(forecastPatience)
	if err != nil {
		return err
	}
	var needs []forecast.Need
	if ask.queues == nil {
		needs, err = c.allNeeds(r.Context(), w.who, seen.Model, ask.wait)
	} else {
		needs, err = c.needsOf(r.Context(), w.who, seen.Model, ask)
	}
	if err != nil {
		return err
	}
	var out any = forecastOf(w.who, &seen, needs, ask)
	if ask.keda {
		out = scaleValue{needs[0].Wanted}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("encode forecast: %w", err)
	}
	if err := c.door.room(r.Context(), &w.call, int64(len(text))); err != nil {
		return err
	}
	c.door.write(w, http.StatusOK, func(b []byte) []byte { return append(b, text...) })
	return nil
}

// sees is which queues a caller may know of; nil = all.
func (p principal) sees() func(string) bool {
	if p.scope == nil {
		return nil
	}
	return p.scope.queue
}

// needsOf is what the queues need that are named. Of one that came to be after the gathering
// nothing is known.
func (c *forecastCalls) needsOf(
	ctx context.Context, who principal, m *forecast.Model, ask forecastAsked,
) (list []forecast.Need, err error) {
	for _, queue := range ask.queues {
		n, there := m.Queue(queue, forecast.Ask{Target: ask.wait, See: who.sees()})
		if !there {
			if _, err := queueNamed(ctx, c.queues, queue); err != nil {
				return nil, err
			}
			n = forecast.Need{Queue: queue, Why: "it is new: ask again in ten seconds"}
		}
		list = append(list, n)
	}
	return list, nil
}

// allNeeds is what all queues need that a caller may see. For another wait than the usual one that
// is found out anew, by one caller at a time: it takes a tenth of a second for a thousand queues.
func (c *forecastCalls) allNeeds(
	ctx context.Context, who principal, m *forecast.Model, wait time.Duration,
) ([]forecast.Need, error) {
	if wait == forecast.Target && who.scope == nil {
		return slices.Clone(m.Needs()), nil
	}
	late := time.NewTimer(forecastPatience)
	defer late.Stop()
	select {
	case c.making <- struct{}{}:
		defer func() { <-c.making }()
	case <-late.C:
		return nil, busy("too many forecasts are being made")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return m.All(forecast.Ask{Target: wait, See: who.sees()}), nil
}

// forecastOf is the forecast as it is shown.
func forecastOf(
	who principal, seen *forecast.Seen, needs []forecast.Need, ask forecastAsked,
) view.Forecast {
	f := view.Forecast{
		At: view.Time{Time: seen.At}, Wait: view.Duration(ask.wait),
		Queues: []view.QueueForecast{}, Groups: []view.GroupForecast{},
		Missing: append([]string{}, seen.Missing...),
	}
	if ask.queues == nil {
		slices.SortStableFunc(needs, func(a, b forecast.Need) int {
			return cmp.Or(cmp.Compare(b.Wanted-b.Workers, a.Wanted-a.Workers),
				cmp.Compare(a.Queue, b.Queue))
		})
	}
	f.QueuesLeftOut = max(len(needs)-maxForecasts, 0)
	for i := range needs[:len(needs)-f.QueuesLeftOut] {
		f.Queues = append(f.Queues, queueForecastOf(&needs[i]))
	}
	if ask.queues != nil {
		return f
	}
	groups := visible(who, seen.Groups, func(g *forecast.GroupNeed) bool {
		return who.scope.group(g.Group)
	})
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b forecast.GroupNeed) int {
		return cmp.Compare(b.Wanted-b.Workers, a.Wanted-a.Workers)
	})
	f.GroupsLeftOut = max(len(groups)-maxForecasts, 0)
	for i := range groups[:len(groups)-f.GroupsLeftOut] {
		f.Groups = append(f.Groups, groupForecastOf(&groups[i], seen.At))
	}
	return f
}

func queueForecastOf(n *forecast.Need) view.QueueForecast {
	q := view.QueueForecast{
		Queue: n.Queue, Workers: n.Workers, Wanted: n.Wanted, Known: n.Known,
		Slots: int(n.Slots), Busy: hundredths(n.Busy), Why: n.Why,
	}
	if n.Bounded {
		wait := view.Duration(forecast.Short(n.Waits.Seconds()))
		q.WaitP95 = &wait
	}
	return q
}

func groupForecastOf(n *forecast.GroupNeed, at time.Time) view.GroupForecast {
	g := view.GroupForecast{
		Group: n.Group, Workers: n.Workers, Wanted: n.Wanted, Why: n.Why,
	}
	if n.In > 0 {
		g.By = &view.Time{Time: at.Add(time.Duration(n.In) * time.Minute).Truncate(time.Minute)}
	}
	return g
}

// hundredths rounds to two digits behind the point.
func hundredths(x float64) float64 { return float64(int64(x*100+0.5)) / 100 }
