package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/view"
)

// forecastRead reads a forecast.
func forecastRead(t *testing.T, a *API, query string, header ...string) (f view.Forecast) {
	t.Helper()
	r, text := ask(t, a, "GET /v1/forecast"+query, "", header...)
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, text)
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestForecastShowsTheShortestFirst(t *testing.T) {
	f := forecastRead(t, newAPI(t, newFake(), nil), "")
	if len(f.Queues) != 2 || f.Queues[0].Queue != "mail" || f.Queues[1].Queue != "scan" ||
		len(f.Groups) != 2 || f.Groups[0].Group != "tails" || f.Groups[1].Group != "crawl" {
		t.Fatalf("%+v", f)
	}
	mail, scan := f.Queues[0], f.Queues[1]
	if mail.Workers != 1 || mail.Wanted != 2 || !mail.Known || mail.WaitP95 != nil ||
		mail.Slots != 4 || mail.Busy != 5 || !strings.HasPrefix(mail.Why, "600 tasks a minute") {
		t.Errorf("%+v", mail)
	}
	if scan.Wanted != 1 || scan.Known || !strings.Contains(scan.Why, "paused") {
		t.Errorf("%+v", scan)
	}
	if tails := f.Groups[0]; tails.Workers != 8 || tails.Wanted != 9 || tails.By == nil ||
		tails.By.Sub(moment).Minutes() > 40 || tails.By.Sub(moment).Minutes() < 39 {
		t.Errorf("%+v", tails)
	}
	if f.Groups[1].By != nil || f.QueuesLeftOut != 0 || len(f.Missing) != 0 ||
		!f.At.Equal(moment.Truncate(time.Millisecond)) {
		t.Errorf("%+v", f)
	}
}

func TestForecastOfNamedQueuesKeepsTheirOrderAndHasNoGroups(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	f := forecastRead(t, a, "?queue=scan,mail&wait=50ms")
	if len(f.Queues) != 2 || f.Queues[0].Queue != "scan" || len(f.Groups) != 0 ||
		f.Wait != view.Duration(50*time.Millisecond) {
		t.Errorf("%+v", f)
	}
	usual := forecastRead(t, a, "?queue=mail")
	if strict := f.Queues[1]; strict.Wanted <= usual.Queues[0].Wanted {
		t.Errorf("%d workers for 50ms, %d for 5s", strict.Wanted, usual.Queues[0].Wanted)
	}
	all := forecastRead(t, a, "?wait=50ms")
	if all.Queues[0] != f.Queues[1] {
		t.Errorf("named %+v, among all %+v", f.Queues[1], all.Queues[0])
	}
}

func TestKEDAGetsTheNumberAlone(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	for query, want := range map[string]string{
		"?format=keda&queue=mail":           `{"value":2}`,
		"?format=keda&queue=scan":           `{"value":1}`,
		"?format=keda":                      "query.queue",
		"?format=keda&queue=a,b":            "query.queue",
		"?format=xml&queue=mail":            "query.format",
		"?format=keda&queue=gone":           `"status":404`,
		"?wait=1ms":                         "query.wait",
		"?wait=2d":                          "query.wait",
		"?wait=soon":                        "query.wait",
		"?group=tails":                      "query.group",
		"?queue=mail&format=keda&wait=50ms": `{"value":3}`,
	} {
		_, text := ask(t, a, "GET /v1/forecast"+query, "")
		if !strings.Contains(text, want) || want[0] == '{' && text != want {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
}

// late is a forecast that was gathered before there was any queue.
type late struct{}

func (late) Known(time.Duration) (forecast.Seen, error) {
	return forecast.Seen{Model: forecast.New(forecast.Facts{})}, nil
}

func TestOfAQueueThatIsNewNothingIsKnownYet(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) { c.Forecasts = late{} })
	f := forecastRead(t, a, "?queue=mail")
	if q := f.Queues[0]; q.Queue != "mail" || q.Known || q.Wanted != 0 ||
		!strings.Contains(q.Why, "it is new") {
		t.Errorf("%+v", q)
	}
	if r, text := ask(t, a, "GET /v1/forecast?queue=gone", ""); r.StatusCode != 404 {
		t.Errorf("%d %s", r.StatusCode, text)
	}
}

func TestForecastTellsATokenWithAScopeOfNothingElse(t *testing.T) {
	tokens, err := ParseTokens(strings.NewReader("eve viewer eve-token queues=mail groups=crawl"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.queues[1].Paused = false
	a := newAPI(t, f, func(c *Config) { c.Tokens = tokens })
	_, text := ask(t, a, "GET /v1/forecast", "", "Authorization: Bearer eve-token")
	if strings.Contains(text, "scan") || strings.Contains(text, "tails") ||
		!strings.Contains(text, "with those of others on the same workers") ||
		!strings.Contains(text, "crawl") {
		t.Error(text)
	}
}

// Of a queue of which nothing is known there is no series, of one that grows without end no wait.
func TestMetricsShowForecastsThatAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a scrape takes no time
		a := newAPI(t, newFake(), nil)
		_, text := ask(t, a, "GET /metrics", "")
		for _, want := range []string{
			`rota_queue_workers{queue="mail"} 1`, `rota_queue_workers_wanted{queue="mail"} 2`,
			`rota_group_workers{group="tails"} 8`, `rota_group_workers_wanted{group="tails"} 9`,
		} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("there is no %s", want)
			}
		}
		for _, no := range []string{`rota_queue_workers{queue="scan"}`, "rota_queue_wait_forecast"} {
			if strings.Contains(text, no) {
				t.Errorf("there is %s", no)
			}
		}
	})
}

func TestQueuesThatHadSeriesOfForecastsKeepThem(t *testing.T) {
	c := &forecastCollector{}
	needs := func(from, to int) (list []forecast.Need) {
		for i := from; i < to; i++ {
			list = append(list, forecast.Need{Queue: name(i), Known: true})
		}
		return list
	}
	first := c.choose(needs(500, 500+maxSeries+100))
	if len(first) != maxSeries {
		t.Fatalf("%d series", len(first))
	}
	second := c.choose(needs(0, 500+maxSeries+100))
	if !slices.Equal(first, second) {
		t.Error("queues lost their series to others")
	}
}

// name is a name that sorts as its number.
func name(i int) string { return "q" + string(rune('a'+i/100)) + string(rune('a'+i%100)) }
