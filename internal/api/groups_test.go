package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

func TestWithoutGroupsThereAreNone(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) { c.Groups, c.Jobs, c.Placements = nil, nil, nil })
	for call, want := range map[string]int{
		"GET /v1/groups": 200, "GET /v1/groups/tails": 404, "PUT /v1/groups/tails": 404,
		"DELETE /v1/groups/tails": 404, "POST /v1/groups/tails/pause": 404,
		"POST /v1/groups/tails/refresh": 404, "GET /v1/groups/tails/jobs": 404,
		"DELETE /v1/groups/tails/jobs/web.log": 404, "GET /v1/groups/tails/assignments": 404,
		"GET /v1/groups/tails/jobs/web.log/explain": 404, "POST /v1/groups/tails/plan": 404,
		"GET /v1/groups/tails/jobs/web.log/logs": 404,
		"POST /v1/workers/w1/drain":              200, "GET /v1/cluster": 200,
	} {
		body := ""
		if strings.HasPrefix(call, "PUT") || strings.HasSuffix(call, "plan") {
			body = "{}"
		}
		if response, text := ask(t, a, call, body); response.StatusCode != want {
			t.Errorf("%s: %d %s", call, response.StatusCode, text)
		}
	}
	if _, text := ask(t, a, "GET /v1/cluster", ""); !strings.Contains(text, `"workers":1`) {
		t.Errorf("without replicas every worker can die: %s", text)
	}
}

func TestWorkerLogsOnlyForJobsThatItHas(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, func(c *Config) { c.Tokens = testTokens(t) })
	for _, c := range []struct {
		token, job string
		want       int
	}{
		{"worker-token", "access.log", 200}, {"worker-token", "error.log", 200},
		{"worker-token", "web.log", 403},
		{"any-worker-token", "web.log", 200}, {"operator-token", "web.log", 200},
		{"viewer-token", "access.log", 403},
	} {
		before := len(f.changed())
		response, text := ask(t, a, "POST /v1/groups/tails/jobs/"+c.job+"/logs", `{"text":"x"}`,
			"Authorization: Bearer "+c.token)
		if response.StatusCode != c.want ||
			len(f.changed())-before != map[bool]int{true: 1}[c.want == 200] {
			t.Errorf("%s to %s: %d %s", c.token, c.job, response.StatusCode, text)
		}
	}
}

// hoard has many jobs with large specs.
type hoard struct {
	*fake
	jobs, specs, reads int
}

func (h *hoard) Jobs(_ context.Context, _, after string, limit int) ([]task.Job, error) {
	h.reads++
	var jobs []task.Job
	for i := 0; len(jobs) < limit && i < h.jobs; i++ {
		if name := fmt.Sprintf("j%04d", i); name > after {
			jobs = append(jobs, task.Job{
				Name: name, Spec: json.RawMessage(`"` + strings.Repeat("x", h.specs) + `"`),
			})
		}
	}
	return jobs, nil
}

func TestPageOfJobsEndsWhenItsSpecsAreLarge(t *testing.T) {
	story.Whole(t)
	for _, c := range []struct{ jobs, specs, items, reads int }{
		{2000, 10, 1000, 16}, {250, 60 << 10, 80, 2}, {250, 10 << 10, 250, 6},
	} {
		h := &hoard{fake: newFake(), jobs: c.jobs, specs: c.specs}
		a := newAPI(t, h, func(conf *Config) { conf.Jobs = h })
		var all, before []string
		for cursor := ""; ; {
			h.reads = 0
			response, text := ask(t, a, "GET /v1/groups/tails/jobs?limit=1000&cursor="+cursor, "")
			var page list[jobItem]
			if err := json.Unmarshal([]byte(text), &page); err != nil ||
				response.StatusCode != 200 {
				t.Fatal(response.StatusCode, err)
			}
			if len(before) == 0 && (len(page.Items) != c.items || h.reads != c.reads) {
				t.Errorf("specs of %d bytes: %d items by %d reads, want %d by %d", c.specs,
					len(page.Items), h.reads, c.items, c.reads)
			}
			for _, item := range page.Items {
				all = append(all, item.Job)
			}
			if n := a.large.taken.Load(); n != 0 {
				t.Fatalf("%d bytes of the budget for answers were not given back", n)
			}
			before = all
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(all) != c.jobs || all[0] != "j0000" ||
			all[c.jobs-1] != fmt.Sprintf("j%04d", c.jobs-1) {
			t.Errorf("specs of %d bytes: %d jobs in all", c.specs, len(all))
		}
	}
}

func TestPageOfJobsIsRefusedWithoutMemoryForIt(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	a.large.take(a.large.limit, 0)
	if response, _ := ask(
		t, a, "GET /v1/groups/tails/jobs", "",
	); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", response.StatusCode)
	}
}

// crowd explains with more candidates than anybody reads.
type crowd struct{ *fake }

func (c crowd) Explain(context.Context, string, string) (store.Explanation, error) {
	return store.Explanation{Candidates: make([]store.Candidate, maxCandidates+1)}, nil
}

func TestExplanationShowsTheBestCandidatesAndHowManyThereAre(t *testing.T) {
	f := newFake()
	_, text := ask(t, newAPI(t, f, func(c *Config) {
		c.Placements = crowd{f}
	}), "GET /v1/groups/tails/jobs/a/explain", "")
	if n := strings.Count(text, `"fits"`); n != maxCandidates ||
		!strings.Contains(text, `"workers":101`) || !strings.Contains(text, `"changes":[]`) {
		t.Errorf("%d candidates: %s", n, text)
	}
}

func TestManyJobsInOneCallAreTakenUpToTheLimit(t *testing.T) {
	story.Whole(t)
	f := newFake()
	a := newAPI(t, f, func(c *Config) { c.MaxBody, c.MaxBodies = 32<<20, 256<<20 })
	body := []byte(`{"jobs":[{"job":"j0"}`)
	for i := 1; i < task.MaxJobChange; i++ {
		body = fmt.Appendf(body, `,{"job":"j%d"}`, i)
	}
	full := string(body) + "]}"
	if response, text := ask(
		t, a, "PUT /v1/groups/tails/jobs", full,
	); response.StatusCode != 200 || text != `{"added":100000,"removed":3,"kept":0}` {
		t.Errorf("%d %.200s", response.StatusCode, text)
	}
	over := string(body) + `,{"job":"one-more"}]}`
	if response, text := ask(
		t, a, "PUT /v1/groups/tails/jobs", over,
	); response.StatusCode != 422 || !strings.Contains(text, "more than 100000 elements") {
		t.Errorf("%d %.200s", response.StatusCode, text)
	}
	equal := strings.ReplaceAll(full, `"j1"`, `"j0"`)
	response, text := ask(t, a, "POST /v1/groups/tails/jobs", equal)
	if response.StatusCode != 422 ||
		!strings.Contains(text, `body.jobs[1].job: \"j0\" is the name of [0] already`) {
		t.Errorf("%d %.200s", response.StatusCode, text)
	}
}

func TestSpecOfTheLargestSizeIsTakenAndNoLargerOne(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	for size, want := range map[int]int{limits.MaxSpec: 200, limits.MaxSpec + 1: 422} {
		spec := `"` + strings.Repeat("x", size-2) + `"`
		if response, text := ask(
			t, a, "POST /v1/groups/tails/jobs", `{"jobs":[{"job":"a","spec":`+spec+`}]}`,
		); response.StatusCode != want {
			t.Errorf("%d bytes: %d %.200s", size, response.StatusCode, text)
		}
	}
}

func TestFollowedJobLogStreamsForAsLongAsTheJobIsThere(t *testing.T) {
	f := newFake()
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		time.AfterFunc(3100*time.Millisecond, func() { f.add("three") })
		time.AfterFunc(60*time.Second, func() { f.remove("web.log") })
		events, ended := followedAt(t, p, "/v1/groups/tails/jobs/web.log/logs?follow=true")
		if len(events) < 3 || !strings.Contains(events[2].data, "three") ||
			ended < 60*time.Second || ended > 61*time.Second {
			t.Errorf("%d events, ended after %v: %v", len(events), ended, events)
		}
	})
}

func TestPlanTakesNoMoreThanItsLimits(t *testing.T) {
	story.Whole(t)
	a := newAPI(t, newFake(), func(c *Config) { c.MaxBody, c.MaxBodies = 32<<20, 256<<20 })
	list := func(item string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	for _, c := range []struct {
		name, item string
		most       int
	}{
		{"remove_workers", `"w1"`, maxNamed}, {"drain_workers", `"w1"`, maxNamed},
		{"add_workers", `{"capacity":1}`, maxNamed},
		{"add_workers", `{"capacity":1,"count":50000}`, 2}, {"jobs", `{"job":"j"}`, 1},
	} {
		for n, want := range map[int]int{c.most: 200, c.most + 1: 422} {
			response, text := ask(t, a, "POST /v1/groups/tails/plan",
				`{"`+c.name+`":`+list(c.item, n)+`}`)
			if response.StatusCode != want || want == 422 &&
				!strings.Contains(text, `"location":"body.`+c.name) {
				t.Errorf("%d %s: %d %.200s", n, c.name, response.StatusCode, text)
			}
		}
	}
	response, text := ask(t, a, "POST /v1/groups/tails/plan",
		`{"jobs":`+list(`{"job":"j"}`, task.MaxJobChange+1)+`}`)
	if response.StatusCode != 422 || !strings.Contains(text, "must be at most 100000") {
		t.Errorf("%d %.200s", response.StatusCode, text)
	}
}

// FuzzParsePlacementCursor: a cursor is read as what was written, and nothing else is read at all.
func FuzzParsePlacementCursor(f *testing.F) {
	f.Add("access.log", 1, "w1", "x")
	f.Add("", -1, "", cursor(placeShelf, "a/b/c/d"))
	f.Fuzz(func(t *testing.T, job string, replica int, worker, text string) {
		k := store.PlacementKey{Job: job, Replica: replica, Worker: worker}
		if got, err := parsePlacementCursor(placementCursor(k)); !strings.Contains(job+worker,
			"/") && (err != nil || got != k) {
			t.Errorf("%+v became %+v, %v", k, got, err)
		}
		if got, err := parsePlacementCursor(text); err == nil && text != "" &&
			placementCursor(got) != text {
			t.Errorf("%q is read as %+v", text, got)
		}
	})
}

func BenchmarkChangeJobs(b *testing.B) {
	a := newAPI(b, newFake(), func(c *Config) { c.MaxBody, c.MaxBodies = 32<<20, 256<<20 })
	var body bytes.Buffer
	body.WriteString(`{"jobs":[{"job":"j"}`)
	for i := range 10_000 {
		fmt.Fprintf(&body, `,{"job":"logs.host-%d","load":1.5,"spec":{"path":"/var/log/%d"}}`, i, i)
	}
	body.WriteString("]}")
	b.SetBytes(int64(body.Len()))
	for b.Loop() {
		if response, text := ask(
			b, a, "POST /v1/groups/crawl/jobs", body.String(),
		); response.StatusCode != http.StatusConflict {
			b.Fatal(response.StatusCode, text)
		}
	}
}

// alone has one group, and says nothing of all groups: to draw them all costs a read of each.
type alone struct {
	*fake
	view store.GroupView
}

func (a *alone) Groups(context.Context) ([]store.GroupView, error) {
	return nil, errors.New("all groups were read")
}

func (a *alone) Group(_ context.Context, name string) (store.GroupView, error) {
	if name != a.view.Name {
		return store.GroupView{}, fmt.Errorf("group %q: %w", name, store.ErrNotFound)
	}
	return a.view, nil
}

func (a *alone) ChangeGroup(
	_ context.Context, name string, change store.Change[task.Group],
) (store.Changed[task.Group], error) {
	got := store.Changed[task.Group]{Is: limits.DefaultGroup(name), Created: name != a.view.Name}
	if !got.Created {
		got.Is = a.view.Group.Group
	}
	return got, change(&got.Is, !got.Created)
}

func TestCallsAboutOneGroupReadNoOther(t *testing.T) {
	g := &alone{newFake(), store.GroupView{Group: store.Group{Group: limits.DefaultGroup("tails")}}}
	g.view.Replicas = 3
	a := newAPI(t, g.fake, func(c *Config) { c.Groups = g })
	for _, c := range []struct {
		call, body string
		want       int
		says       string
	}{
		{"GET /v1/groups/tails", "", 200, `"replicas":3`},
		{"PUT /v1/groups/tails", `{"spread":"worker"}`, 200, `"replicas":3`},
		{"PUT /v1/groups/fresh", `{"spread":"worker"}`, 201, `"replicas":1`},
		{"POST /v1/groups/tails/pause", "", 200, `"paused":true`},
		{"POST /v1/groups/fresh/pause", "", 404, "fresh"},
		{"GET /v1/groups/fresh", "", 404, "fresh"},
	} {
		response, text := ask(t, a, c.call, c.body)
		if response.StatusCode != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s; want %d and %s", c.call, response.StatusCode, text, c.want, c.says)
		}
	}
}

// Nobody ever reads a list that is given through the API: who waits for it would wait for ever.
func TestOnlyASourceIsWaitedFor(t *testing.T) {
	for kind, want := range map[string]bool{task.SourceAPI: false, task.SourceFile: true,
		task.SourceURL: true, task.SourceCommand: true} {
		v := store.GroupView{
			Group: store.Group{
				Group: limits.DefaultGroup("tails"), Refresh: 3, Read: store.SourceRead{Refresh: 2},
			},
		}
		v.Source.Kind = kind
		if got := groupOf(&v, nil).Read.Pending; got != want {
			t.Errorf("a list by %s: %v", kind, got)
		}
	}
}

// slowAudits makes audits that wait to be let go.
type slowAudits struct {
	clockwork
	begun, done chan struct{}
}

func (s slowAudits) Audit(context.Context, string, int64, int64) (store.Audit, error) {
	s.begun <- struct{}{}
	<-s.done
	return store.Audit{}, nil
}

func TestTwoAuditsAtATime(t *testing.T) {
	f := newFake()
	slow := slowAudits{clockworkOf(f), make(chan struct{}), make(chan struct{})}
	a := newAPI(t, f, func(c *Config) { c.Fires = slow })
	var under sync.WaitGroup
	for range maxAudits {
		under.Go(func() {
			if response, text := ask(
				t, a, "GET /v1/schedules/nightly/audit", "",
			); response.StatusCode != 200 {
				t.Errorf("%d %s", response.StatusCode, text)
			}
		})
		<-slow.begun
	}
	if response, text := ask(
		t, a, "GET /v1/schedules/nightly/audit", "",
	); response.StatusCode != 503 || !strings.Contains(text, "2 audits") {
		t.Errorf("one more: %d %s", response.StatusCode, text)
	}
	close(slow.done)
	under.Wait()
}

func TestPlansThatFindNoTurnSayWhy(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	f.err = fmt.Errorf("2 plans are being made at this node, which is the limit: %w", store.ErrBusy)
	if response, text := ask(
		t, a, "POST /v1/groups/tails/plan", `{}`,
	); response.StatusCode != 503 || response.Header.Get("Retry-After") == "" ||
		!strings.Contains(text, "2 plans") {
		t.Errorf("%d %s", response.StatusCode, text)
	}
}

func TestURLsOfSourcesShowNothingThatLetsSomebodyIn(t *testing.T) {
	for full, want := range map[string]string{
		"https://example.com/jobs":                       "https://example.com/jobs",
		"https://bot:secret@example.com/jobs":            "https://bot:xxxxx@example.com/jobs",
		"https://ghp_secret@example.com/jobs":            "https://xxxxx@example.com/jobs",
		"https://example.com/jobs?token=secret&of=":      "https://example.com/jobs?token=xxxxx&of=",
		"https://a@example.com/?secret&sig=a%20secret#x": "https://xxxxx@example.com/?xxxxx&sig=xxxxx#x",
		"https://example.com/a%2Fb//c?":                  "https://example.com/a%2Fb//c?",
		"://":                                            "",
	} {
		if got := redacted(full); got != want {
			t.Errorf("%s is shown as %s, want %s", full, got, want)
		}
		if got := urlGiven(full, want); want != "" && got != full {
			t.Errorf("%s, given as it is shown, becomes %s", full, got)
		}
	}
	const other = "https://a:xxxxx@example.org/"
	if got := urlGiven("https://a:b@example.com/", other); got != other {
		t.Errorf("another URL is not taken: %s", got)
	}
}
