package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// past answers every question with one task that was passed on and done, waited 2 s and ran for
// 10 s, in the second minute.
type past struct{ asked history.Question }

func (p *past) History(_ context.Context, q history.Question) ([]history.Period, error) {
	p.asked = q
	var c history.Changes
	at := q.From + time.Minute.Microseconds()
	c.Submitted(at, q.Queue, []store.Task{{Stage: q.Stage}})
	step := store.Step{
		Kind: task.KindNext, Ran: q.Stage, Stage: "later", Worker: q.Worker, Started: at + 2e6,
		Finished: at + 12e6,
	}
	c.Settled(q.Queue, at, &step)
	step.Kind, step.Base, step.Stage = task.KindDone, store.Final, ""
	c.Settled(q.Queue, at, &step)
	a := history.NewAnswer(q)
	return a.Periods(), a.Changes(c.Encode())
}

func TestStatsSayWhatWasDone(t *testing.T) {
	const done = `"started":2,"done":1,"retried":0,"dead":0,"cancelled":0,"expired":0,"lost":0,` +
		`"wait":{"p50":"1.998848s","p95":"1.998848s","p99":"1.998848s"},` +
		`"run":{"p50":"10.223616s","p95":"10.223616s","p99":"10.223616s"}}`
	const passed = `"started":2,"done":2,`
	for _, x := range []struct {
		query  string
		series history.Series
		want   string
	}{
		{"", history.Series{}, `"submitted":1,` + done},
		{"&queue=mail", history.Series{Queue: "mail"}, `"submitted":1,` + done},
		{"&queue=mail&stage=pack", history.Series{Queue: "mail", Stage: "pack"},
			`"submitted":1,` + passed},
		{"&worker=w", history.Series{Worker: "w"}, passed},
	} {
		p := &past{}
		a := newAPI(t, newFake(), func(c *Config) { c.History = p })
		to := time.Now().UTC().Truncate(time.Minute)
		from := to.Add(-10 * time.Minute)
		response, text := ask(t, a, "GET /v1/stats?from="+from.Format(time.RFC3339)+"&to="+
			to.Format(time.RFC3339)+x.query, "")
		if response.StatusCode != 200 || p.asked.Series != x.series ||
			p.asked.From != from.UnixMicro() || p.asked.To != to.UnixMicro() {
			t.Errorf("%q: %d, asked %+v\n%s", x.query, response.StatusCode, p.asked, text)
		}
		var got struct{ Items []view.Period }
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Items) != 10 {
			t.Fatalf("%q: %d periods, %v", x.query, len(got.Items), err)
		}
		if !got.Items[1].At.Equal(from.Add(time.Minute)) || !strings.Contains(text, x.want) {
			t.Errorf("%q: want %s\n%s", x.query, x.want, text)
		}
	}
}

// A question without times is of the last hour, minute by minute.
func TestStatsAreOfTheLastHourUnlessSaidOtherwise(t *testing.T) {
	p := &past{}
	a := newAPI(t, newFake(), func(c *Config) { c.History = p })
	before := time.Now()
	if response, text := ask(t, a, "GET /v1/stats", ""); response.StatusCode != 200 {
		t.Fatalf("%d %s", response.StatusCode, text)
	}
	q, minute := p.asked, time.Minute.Microseconds()
	if q.Step != time.Minute || q.To-q.From != 61*minute ||
		q.From > before.Add(-time.Hour).UnixMicro() || q.To <= before.UnixMicro() {
		t.Errorf("asked %+v", q)
	}
}
