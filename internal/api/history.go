package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/view"
)

// History reads what was done when.
type History interface {
	// History answers with all periods of the question.
	History(context.Context, history.Question) ([]history.Period, error)
}

// noHistory is the history of a node that keeps none.
type noHistory struct{}

func (noHistory) History(_ context.Context, q history.Question) ([]history.Period, error) {
	return history.NewAnswer(q).Periods(), nil
}

// historyIn asks what was done when. Times that are left out are those of the last hour.
type historyIn struct {
	Caller
	Queue  string   `query:"queue" maxLength:"128" doc:"of this queue; without one of all"`
	Stage  string   `query:"stage" maxLength:"256" doc:"of this stage of the queue"`
	Worker string   `query:"worker" maxLength:"128" doc:"of this worker, without a queue"`
	From   instant  `query:"from" doc:"from the period on that this time is in; an hour before to"`
	To     instant  `query:"to" doc:"up to this time; now"`
	Step   duration `query:"step" doc:"how long a period is: whole minutes; 1m"`
}

// historyCalls are the calls that read what was done when.
type historyCalls struct {
	door    *API
	history History
}

func (c *historyCalls) register() {
	operation(c.door, huma.Operation{
		OperationID: "read-stats", Method: http.MethodGet, Path: "/v1/stats",
		Tags:    []string{"Queues"},
		Summary: "Say what was done when",
		Description: "What was submitted, started and ended, and how long tasks waited and ran, period by period, " +
			"of a queue, a stage, a worker, or of all. Periods begin at whole multiples of the step since 1970 in UTC, and all of " +
			"them are there, at most 1,500. What is done by the minute is kept for a day, by the hour for 90 days: a step of whole hours reaches back so far.",
	}, c.read)
}

func (c *historyCalls) read(
	ctx context.Context, in *historyIn,
) (*struct {
	Body struct {
		Items []view.Period `json:"items" nullable:"false"`
	}
}, error) {
	q, err := in.question(time.Now())
	if err != nil {
		return nil, err
	}
	switch {
	case in.who.scope == nil:
	case in.Queue == "":
		return nil, refuse(http.StatusForbidden,
			"this is about all queues, and this token has a scope: name a queue")
	default:
		if err := in.who.mayQueue(in.Queue); err != nil {
			return nil, err
		}
	}
	const each = 480 // bytes of a period, about
	if err := c.door.room(ctx, &in.w.call, each*(q.To-q.From)/q.Step.Microseconds()); err != nil {
		return nil, err
	}
	periods, err := c.history.History(ctx, q)
	if err != nil {
		return nil, err
	}
	var out struct {
		Body struct {
			Items []view.Period `json:"items" nullable:"false"`
		}
	}
	out.Body.Items = make([]view.Period, len(periods))
	for i := range periods {
		out.Body.Items[i] = periodOf(q.Series, &periods[i])
	}
	return &out, nil
}

// question fills in what was left out, and says what is wrong with it.
func (in *historyIn) question(now time.Time) (history.Question, error) {
	to := time.Time(in.To)
	if to.IsZero() {
		to = now
	}
	from := time.Time(in.From)
	if from.IsZero() {
		from = to.Add(-time.Hour)
	}
	step := in.Step.Duration
	if step == 0 {
		step = time.Minute
	}
	q, err := history.NewQuestion(
		history.Series{Queue: in.Queue, Stage: in.Stage, Worker: in.Worker}, from, to, step,
		history.Kept{}.Complete(), now)
	for _, x := range []struct {
		cause    error
		location string
	}{
		{history.ErrSeries, "query.queue"}, {history.ErrRange, "query.from"},
		{history.ErrStep, "query.step"}, {history.ErrPeriods, "query.step"},
		{history.ErrMinutes, "query.step"}, {history.ErrKept, "query.from"},
	} {
		if errors.Is(err, x.cause) {
			return q, wrong(x.location, "%s", err)
		}
	}
	return q, err
}

// periodOf is the period as it is shown.
func periodOf(of history.Series, p *history.Period) view.Period {
	v := view.Period{
		At: timeAt(p.At), Submitted: p.Submitted, Started: p.Started, Done: p.Done,
		Retried: p.Retried, Dead: p.Dead, Cancelled: p.Cancelled, Lost: p.Lost,
		Expired: p.Expired, Passed: p.Passed, Snoozed: p.Snoozed, TimedOut: p.TimedOut,
		Released: p.Released, Woken: p.Woken,
		Wait: percentilesOf(&p.Wait), Run: percentilesOf(&p.Run),
	}
	if of.Stage != "" || of.Worker != "" { // where tasks go on from stage to stage
		v.Submitted += p.Entered
		v.Done += p.Passed
	}
	if p.Ready > 0 && p.Running > 0 {
		ready, running := p.Ready-1, p.Running-1
		v.Ready, v.Running = &ready, &running
	}
	return v
}

func percentilesOf(h *history.Histogram) *view.Percentiles {
	half, known := h.Quantile(0.5)
	if !known {
		return nil
	}
	most, _ := h.Quantile(0.95)
	nearlyAll, _ := h.Quantile(0.99)
	return &view.Percentiles{
		P50: view.Duration(half), P95: view.Duration(most), P99: view.Duration(nearlyAll),
	}
}
