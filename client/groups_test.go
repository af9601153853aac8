package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// told is a client of a server that answers as the API's own stories say, and to nothing else: so
// both sides agree on one text.
func told(t *testing.T) *Client {
	t.Helper()
	text, err := os.ReadFile("../internal/api/testdata/calls.txt")
	if err != nil {
		t.Fatal(err)
	}
	stories := map[string]string{}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		asked, answer, _ := strings.Cut(strings.TrimSpace(block), "\n=>\n")
		line, body, _ := strings.Cut(asked, "\n")
		answer, _, _ = strings.Cut(answer, "\n* ")
		stories[question(t, line, body)] = answer
	}
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		// a page holds it all
		line := strings.TrimSuffix(strings.Replace(r.Method+" "+r.URL.RequestURI(), "limit=1000",
			"", 1), "?")
		answer, ok := stories[question(t, line, string(body))]
		if !ok {
			t.Errorf("no story answers %s", question(t, line, string(body)))
		}
		status, text, _ := strings.Cut(answer, " ")
		w.Header().Set("Content-Type", "application/json")
		code, err := strconv.Atoi(status)
		if err != nil {
			code = http.StatusTeapot
		}
		w.WriteHeader(code)
		io.WriteString(w, text)
	})
	return newClient(t, Config{Servers: []string{url}})
}

// question is a call with its query and its body in one form.
func question(t *testing.T, line, body string) string {
	path, query, _ := strings.Cut(line, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if json.Unmarshal([]byte(body), &v) == nil {
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		body = string(plain)
	}
	return path + "?" + values.Encode() + " " + strings.TrimSpace(body)
}

var aMoment = time.Date(2026, 10, 1, 12, 0, 0, 123e6, time.UTC)

func TestGroupsAreReadAsTheAPIWritesThem(t *testing.T) {
	c := told(t)
	groups, err := c.Groups(t.Context())
	crawl, tails := limits.DefaultGroup("crawl"), limits.DefaultGroup("tails")
	crawl.Selector = map[string]string{}
	crawl.Source.Kind = task.SourceURL
	crawl.Source.URL = "https://bot:xxxxx@example.com/jobs"
	crawl.Paused = true
	tails.Replicas, tails.Selector = 2, map[string]string{"disk": "fast"}
	want := []Group{
		{
			Group: crawl, Created: aMoment, Budget: JobBudget{
				Exact: true, Weakest: []string{}, Breaking: []string{}, Groups: []string{},
				Text: "There are no jobs.",
			},
			Read: SourceRead{Tried: aMoment, Error: "answered 500", Pending: true},
		},
		{
			Group: tails, Created: aMoment, Jobs: 3, Wanted: 6, Running: 1, Starting: 1, Failed: 1,
			Pending: 1, Moving: 1, Supervisor: "n1",
			Budget: JobBudget{Weakest: []string{"w1"}, Breaking: []string{}, Groups: []string{},
				Text: "No worker can die."}, Read: SourceRead{Tried: aMoment, Good: aMoment},
		},
	}
	if diff := cmp.Diff(want, groups); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	one, err := c.Group(t.Context(), "tails")
	if diff := cmp.Diff(want[1], one); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, g := range want {
		var again Group
		text, err := json.Marshal(g)
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if diff := cmp.Diff(g, again); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestGroupsAreChangedAsTheAPIReadsIt(t *testing.T) {
	c := told(t)
	g, err := c.PutGroup(t.Context(), "tails", GroupChange{
		Replicas: new(3), Selector: &map[string]string{}, Spread: new(task.SpreadWorker),
		Source: &task.Source{Kind: task.SourceFile, Path: "/etc/tails", Every: time.Minute},
		Policy: &PolicyChange{Moves: new(0), New: new(100), Penalty: new(time.Duration(0)),
			Warmup: new(5 * time.Second)}, Paused: new(true),
		Silence: new(30 * time.Second), JobSilence: new(2 * time.Minute),
		Title: new("日志"), Owner: new("ana@example.com"),
	})
	want := task.Group{
		Name: "tails", Replicas: 3, Selector: map[string]string{}, Spread: task.SpreadWorker,
		Source: task.Source{Kind: task.SourceFile, Path: "/etc/tails", Every: time.Minute},
		Policy: task.JobPolicy{New: 100, Warmup: 5 * time.Second}, Paused: true,
		Silence: 30 * time.Second, JobSilence: 2 * time.Minute,
		Title: "日志", Owner: "ana@example.com",
	}
	if diff := cmp.Diff(want, g); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if g, err := c.PutGroup(t.Context(), "new", GroupChange{}); err != nil || g.Replicas != 1 {
		t.Errorf("a new group is %+v, %v", g, err)
	}
	for name, call := range map[string]func() error{
		"pause":     func() error { return c.PauseGroup(t.Context(), "tails") },
		"resume":    func() error { return c.ResumeGroup(t.Context(), "crawl") },
		"refresh":   func() error { return c.RefreshGroup(t.Context(), "crawl") },
		"rebalance": func() error { return c.RebalanceGroup(t.Context(), "tails") },
		"delete":    func() error { return c.DeleteGroup(t.Context(), "tails", true) },
		"delete it": func() error { return c.DeleteGroup(t.Context(), "crawl", false) },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJobsTravelWithTheirSpecsAsTheyStand(t *testing.T) {
	c := told(t)
	jobs, err := c.Jobs(t.Context(), "tails")
	if err != nil || len(jobs) != 3 || jobs[0].Load != task.Unit || jobs[0].Spec != nil ||
		jobs[1].Load != 500 || !strings.HasPrefix(string(jobs[1].Spec), `{ "a" :1e400, "a":9007`) {
		t.Errorf("%+v, %v", jobs, err)
	}
	if n, err := c.PutJobs(t.Context(), "tails", nil...); err != nil ||
		n != (JobsChanged{Removed: 3}) {
		t.Errorf("put: %+v, %v", n, err)
	}
	if n, err := c.AddJobs(
		t.Context(), "tails", task.Job{Name: "web.log", Load: 2 * task.Unit},
	); err != nil || n != (JobsChanged{Kept: 1}) {
		t.Errorf("add: %+v, %v", n, err)
	}
	if err := c.RemoveJob(t.Context(), "tails", "web.log"); err != nil {
		t.Errorf("remove: %v", err)
	}

	const spec = `{ "a" :1e400, "a":1 }`
	var sent string
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = r.Method + " " + r.URL.Path + " " + string(body)
		io.WriteString(w, `{"added":1}`)
	})
	_, err = newClient(t, Config{Servers: []string{url}}).PutJobs(t.Context(), "g",
		task.Job{Name: "a", Load: 125, Spec: json.RawMessage(spec)})
	if want := `PUT /v1/groups/g/jobs {"jobs":[{"job":"a","load":0.125,"spec":` + spec +
		`}]}`; err != nil || sent != want {
		t.Errorf("sent %s, %v", sent, err)
	}
}

func TestPlacementsAreReadAsTheAPIWritesThem(t *testing.T) {
	c := told(t)
	all, _, err := c.Assignments(t.Context(), "tails", PlacementFilter{}, "", 0)
	if err != nil || len(all) != 5 || all[0].State != task.JobRunning ||
		!all[0].Since.Equal(aMoment) {
		t.Errorf("%+v, %v", all, err)
	}
	pending, _, err := c.Assignments(t.Context(), "tails", PlacementFilter{
		Job: "error.log", State: task.JobPending,
	}, "", 0)
	want := []Placement{
		{Job: "error.log", Replica: 1, State: task.JobPending, Reason: "3 workers have no room.",
			Code: "no-capacity"},
	}
	if diff := cmp.Diff(want, pending); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if here, _, err := c.Assignments(
		t.Context(), "tails", PlacementFilter{Worker: "w1"}, "", 0,
	); err != nil || len(here) != 2 {
		t.Errorf("%+v, %v", here, err)
	}
	page, next, err := c.Assignments(t.Context(), "tails", PlacementFilter{}, "", 2)
	if err != nil || len(page) != 2 {
		t.Errorf("first page %v, %v", page, err)
	}
	if page, _, err = c.Assignments(
		t.Context(), "tails", PlacementFilter{}, next, 2,
	); err != nil || len(page) != 2 || page[1].Job != "error.log" {
		t.Errorf("second page %v, %v", page, err)
	}
	e, err := c.ExplainJob(t.Context(), "tails", "web.log")
	if err != nil || e.Workers != 2 || len(e.Candidates) != 2 || len(e.Changes) != 1 ||
		e.Candidates[0] != (Candidate{Worker: "w0", Fits: true, Score: .125, Free: .5, Capacity: 4,
			Reason: "It is full.", Code: "full"}) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestPlanIsAskedAndAnsweredAsTheAPIHasIt(t *testing.T) {
	c := told(t)
	p, err := c.PlanGroup(t.Context(), "tails", WhatIf{})
	want := Plan{
		Start: []Planned{
			{Group: "tails", Job: "access.log", Worker: "w3", Reason: "[]", Code: "moved"},
		},
		Stop: []Planned{
			{Group: "tails", Job: "access.log", Worker: "w1", Reason: "w1 is gone.", Code: "gone"},
		},
		Pending: []Planned{
			{Group: "tails", Job: "error.log", Reason: "3 workers have no room.",
				Code: "no-capacity"},
		},
		Moves: 1, Rounds: 2, Before: map[string]float64{"w1": 1.5}, After: map[string]float64{},
		Budget: JobBudget{
			Exact: true, Weakest: []string{}, Breaking: []string{}, Groups: []string{},
			Text: "No worker can die.",
		},
	}
	if diff := cmp.Diff(want, p); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	jobs := []task.Job{{Name: "b", Load: 500, Spec: json.RawMessage(`{"moves":"nothing"}`)}}
	if _, err := c.PlanGroup(t.Context(), "tails",
		WhatIf{Drain: []string{"w2"}, Add: []NewWorkers{{Capacity: .5, Count: 1}},
			Jobs: &jobs}); err != nil {
		t.Error(err)
	}
}

func TestDrainOfAWorkerTellsItsEffect(t *testing.T) {
	effect, err := told(t).DrainWorker(t.Context(), "w1")
	if err != nil || effect != "2 replicas of tails have to move." {
		t.Errorf("%q, %v", effect, err)
	}
}

func TestSupersededIsToldFromOtherConflicts(t *testing.T) {
	for body, want := range map[string]bool{`{"title":"Conflict","status":409,"outcome":"superseded"}`: true, `{"title":"Conflict","status":409}`: false} {
		url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, body)
		})
		_, err := newClient(t, Config{Servers: []string{url}}).Beat(t.Context(), task.Beat{
			Worker: "w1", Incarnation: "i",
		})
		var newer interface{ Superseded() bool }
		if !errors.As(err, &newer) || newer.Superseded() != want ||
			errors.Is(err, ErrOutcomeUnknown) || calls.Load() != 1 {
			t.Errorf("%s: %v after %d calls", body, err, calls.Load())
		}
	}
}

func TestJobLogIsWrittenReadAndFollowedUntilTheJobIsGone(t *testing.T) {
	var posted string
	streams := 0
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v1/groups/g/jobs/a.log/logs":
			t.Errorf("asked for %s", r.URL)
		case r.Method == http.MethodPost:
			body, _ := io.ReadAll(r.Body)
			posted = r.Header.Get("Content-Type") + " " + string(body)
			io.WriteString(w, `{"lines":1}`)
		case r.URL.Query().Get("follow") == "" && streams > 1:
			refuse(w, http.StatusNotFound, "no such job")
		case r.URL.Query().Get("follow") == "":
			io.WriteString(w, `{"items":[{"stream":"stdout","text":"one"}],"next":""}`)
		default: // a stream that breaks off after each line
			streams++
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: %d\ndata: {\"text\":\"line behind %s\"}\n\n", streams,
				r.URL.Query().Get("cursor"))
		}
	})
	c := newClient(t, Config{Servers: []string{url}})
	if err := c.AppendJobLog(
		t.Context(), "g", "a.log", []task.LogLine{{Stream: "stdout", Text: "one"}},
	); err != nil || posted != "application/x-ndjson {\"stream\":\"stdout\",\"text\":\"one\"}\n" {
		t.Errorf("posted %q, %v", posted, err)
	}
	if lines, next, err := c.JobLog(
		t.Context(), "g", "a.log", "", 0,
	); err != nil || len(lines) != 1 || next != "" {
		t.Errorf("read %v, %v", lines, err)
	}
	var followed []string
	for line, err := range c.FollowJobLog(t.Context(), "g", "a.log", "") {
		if err != nil {
			t.Fatal(err)
		}
		followed = append(followed, line.Text)
	}
	if diff := cmp.Diff([]string{"line behind ", "line behind 1"}, followed); diff != "" {
		t.Error(diff)
	}
}

// A name of dots is no step up in the path: there what it is asked for is done to something else.
func TestNamesOfDotsStayInTheirPlaceInThePath(t *testing.T) {
	var got []string
	server, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.EscapedPath())
		refuse(w, http.StatusNotFound, "none")
	})
	c := newClient(t, Config{Servers: []string{server}})
	for want, call := range map[string]func() error{
		"DELETE /v1/groups/g/jobs/%2E%2E": func() error {
			return c.RemoveJob(t.Context(), "g", "..")
		},
		"DELETE /v1/queues/%2E": func() error { return c.DeleteQueue(t.Context(), ".", true) },
		"DELETE /v1/hooks/%2E%2E": func() error {
			return c.DeleteHook(t.Context(), "..")
		},
		"DELETE /v1/groups/..%2Fg.": func() error {
			return c.DeleteGroup(t.Context(), "../g.", true)
		},
	} {
		got = nil
		if err := call(); !errors.Is(err, ErrNotFound) || !slices.Equal(got, []string{want}) {
			t.Errorf("called %q, want %q: %v", got, want, err)
		}
	}
}
