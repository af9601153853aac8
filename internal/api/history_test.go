package api

import (
	"context"
	"encoding/json"
	"fmt"
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
		`"passed":1,"snoozed":0,"timed_out":0,"released":0,"woken":0,` +
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

// What is kept of a period is told, each number by its own name.
func TestStatsTellEachOutcome(t *testing.T) {
	p := &history.Period{Record: history.Record{Counts: history.Counts{
		Submitted: 1, Started: 2, Done: 3, Passed: 4, Retried: 5, Dead: 6, Cancelled: 7, Lost: 8,
		Expired: 9, Snoozed: 10, Released: 11, TimedOut: 12, Woken: 13,
	}}}
	text, err := json.Marshal(periodOf(history.Series{Queue: "mail"}, p))
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{
		"submitted": 1, "started": 2, "done": 3, "passed": 4, "retried": 5, "dead": 6,
		"cancelled": 7, "lost": 8, "expired": 9, "snoozed": 10, "released": 11, "timed_out": 12,
		"woken": 13,
	} {
		if want := fmt.Sprintf(`"%s":%d`, name, n); !strings.Contains(string(text), want) {
			t.Errorf("want %s in %s", want, text)
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
