package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// everyCall is each call of the API that asks the engine, once, as it would succeed.
var everyCall = []struct{ pattern, target, body string }{
	{"POST /v1/tasks", "/v1/tasks", `{"tasks":[]}`},
	{"GET /v1/tasks", "/v1/tasks", ""},
	{"POST /v1/tasks/hold", "/v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`},
	{"POST /v1/tasks/report", "/v1/tasks/report",
		`{"worker":"w1","reports":[{"id":"` + idOf(3).String() + `","token":"` + token(0) +
			`","outcome":"done"}]}`},
	{"POST /v1/tasks/cancel", "/v1/tasks/cancel", `{"filter":{"all":true}}`},
	{"POST /v1/tasks/retry", "/v1/tasks/retry", `{"filter":{"all":true}}`},
	{"POST /v1/tasks/patch", "/v1/tasks/patch", `{"filter":{"all":true},"set":{"delay":"0s"}}`},
	{"PATCH /v1/tasks/{id}", "/v1/tasks/" + idOf(1).String(), `{"priority":"1m"}`},
	{"GET /v1/tasks/{id}", "/v1/tasks/" + idOf(0).String(), ""},
	{"DELETE /v1/tasks/{id}", "/v1/tasks/" + idOf(0).String(), ""},
	{"POST /v1/tasks/{id}/cancel", "/v1/tasks/" + idOf(1).String() + "/cancel", ""},
	{"POST /v1/tasks/{id}/retry", "/v1/tasks/" + idOf(2).String() + "/retry", ""},
	{"POST /v1/tasks/{id}/run", "/v1/tasks/" + idOf(1).String() + "/run", ""},
	{"POST /v1/tasks/{id}/children", "/v1/tasks/" + idOf(3).String() + "/children",
		`{"worker":"w1","token":"` + token(0) + `","tasks":[{"queue":"mail"}]}`},
	{"GET /v1/tasks/{id}/children", "/v1/tasks/" + idOf(1).String() + "/children", ""},
	{"GET /v1/tasks/{id}/tree", "/v1/tasks/" + idOf(1).String() + "/tree", ""},
	{"GET /v1/tasks/{id}/contexts", "/v1/tasks/" + idOf(1).String() + "/contexts", ""},
	{"POST /v1/tasks/{id}/signal", "/v1/tasks/" + idOf(1).String() + "/signal", `{"name":"paid"}`},
	{"POST /v1/signals/{name}", "/v1/signals/paid", `{"key":"7"}`},
	{"POST /v1/tasks/{id}/logs", "/v1/tasks/" + idOf(3).String() + "/logs", `{"text":"x"}`},
	{"GET /v1/tasks/{id}/logs", "/v1/tasks/" + idOf(0).String() + "/logs", ""},
	{"GET /v1/tasks/{id}/logs", "/v1/tasks/" + idOf(0).String() + "/logs?follow=true", ""},
	{"GET /v1/tasks/{id}/explain", "/v1/tasks/" + idOf(0).String() + "/explain", ""},
	{"GET /v1/queues/{queue}/explain", "/v1/queues/mail/explain", ""},
	{"GET /v1/stats", "/v1/stats?queue=mail", ""},
	{"GET /v1/queues", "/v1/queues", ""},
	{"GET /v1/queues/{queue}", "/v1/queues/mail", ""},
	{"PUT /v1/queues/{queue}", "/v1/queues/mail", `{}`},
	{"DELETE /v1/queues/{queue}", "/v1/queues/mail?force=true", ""},
	{"POST /v1/queues/{queue}/pause", "/v1/queues/mail/pause", ""},
	{"POST /v1/queues/{queue}/resume", "/v1/queues/mail/resume", ""},
	{"GET /v1/workers", "/v1/workers", ""},
	{"GET /v1/workers/{worker}", "/v1/workers/w1", ""},
	{"DELETE /v1/workers/{worker}", "/v1/workers/w1", ""},
	{"POST /v1/workers/{worker}/beat", "/v1/workers/w1/beat", `{"incarnation":"i"}`},
	{"POST /v1/workers/{worker}/drain", "/v1/workers/w1/drain", ""},
	{"GET /v1/queues/{queue}/keys", "/v1/queues/mail/keys", ""},
	{"PUT /v1/queues/{queue}/keys/{key}", "/v1/queues/mail/keys/acme", `{"weight":5}`},
	{"POST /v1/queues/{queue}/keys/{key}/pause", "/v1/queues/mail/keys/acme/pause", ""},
	{"POST /v1/queues/{queue}/keys/{key}/resume", "/v1/queues/mail/keys/acme/resume", ""},
	{"POST /v1/workers/{worker}/undrain", "/v1/workers/w1/undrain", ""},
	{"GET /v1/groups", "/v1/groups", ""},
	{"GET /v1/groups/{group}", "/v1/groups/tails", ""},
	{"PUT /v1/groups/{group}", "/v1/groups/tails", `{}`},
	{"DELETE /v1/groups/{group}", "/v1/groups/tails?force=true", ""},
	{"POST /v1/groups/{group}/pause", "/v1/groups/tails/pause", ""},
	{"POST /v1/groups/{group}/resume", "/v1/groups/tails/resume", ""},
	{"POST /v1/groups/{group}/refresh", "/v1/groups/tails/refresh", ""},
	{"POST /v1/groups/{group}/rebalance", "/v1/groups/tails/rebalance", ""},
	{"POST /v1/groups/{group}/plan", "/v1/groups/tails/plan", `{}`},
	{"GET /v1/groups/{group}/assignments", "/v1/groups/tails/assignments", ""},
	{"GET /v1/groups/{group}/jobs", "/v1/groups/tails/jobs", ""},
	{"PUT /v1/groups/{group}/jobs", "/v1/groups/tails/jobs", `{"jobs":[]}`},
	{"POST /v1/groups/{group}/jobs", "/v1/groups/tails/jobs", `{"jobs":[]}`},
	{"DELETE /v1/groups/{group}/jobs/{job}", "/v1/groups/tails/jobs/web.log", ""},
	{"GET /v1/groups/{group}/jobs/{job}/explain", "/v1/groups/tails/jobs/web.log/explain", ""},
	{"POST /v1/groups/{group}/jobs/{job}/logs", "/v1/groups/tails/jobs/web.log/logs",
		`{"text":"x"}`},
	{"GET /v1/groups/{group}/jobs/{job}/logs", "/v1/groups/tails/jobs/web.log/logs", ""},
	{"GET /v1/schedules", "/v1/schedules", ""},
	{"PUT /v1/schedules", "/v1/schedules",
		`{"schedules":[{"name":"a","cron":"* * * * *","queue":"mail"}]}`},
	{"GET /v1/schedules/{name}", "/v1/schedules/nightly", ""},
	{"PUT /v1/schedules/{name}", "/v1/schedules/nightly", `{}`},
	{"DELETE /v1/schedules/{name}", "/v1/schedules/mail", ""},
	{"POST /v1/schedules/{name}/pause", "/v1/schedules/nightly/pause", ""},
	{"POST /v1/schedules/{name}/resume", "/v1/schedules/nightly/resume", ""},
	{"POST /v1/schedules/{name}/run", "/v1/schedules/nightly/run", ""},
	{"POST /v1/schedules/{name}/backfill", "/v1/schedules/nightly/backfill",
		`{"from":"2026-10-01T00:00:00Z","to":"2026-10-02T00:00:00Z","dry_run":true}`},
	{"GET /v1/schedules/{name}/fires", "/v1/schedules/nightly/fires", ""},
	{"GET /v1/schedules/{name}/runs/{at}", "/v1/schedules/nightly/runs/2026-10-01T12:00:00Z", ""},
	{"GET /v1/schedules/{name}/audit", "/v1/schedules/nightly/audit", ""},
	{"POST /v1/schedules/preview", "/v1/schedules/preview", `{"cron":"@daily"}`},
	{"GET /v1/calendars", "/v1/calendars", ""},
	{"GET /v1/calendars/{calendar}", "/v1/calendars/de", ""},
	{"PUT /v1/calendars/{calendar}", "/v1/calendars/de", `{"keep":["2026-12-01"]}`},
	{"DELETE /v1/calendars/{calendar}", "/v1/calendars/odd", ""},
	{"GET /v1/nodes", "/v1/nodes", ""},
	{"POST /v1/nodes/{node}/drain", "/v1/nodes/n2/drain", ""},
	{"POST /v1/nodes/{node}/undrain", "/v1/nodes/n2/undrain", ""},
	{"GET /v1/claims", "/v1/claims", ""},
	{"POST /v1/claims/rescan", "/v1/claims/rescan", ""},
	{"POST /v1/claims/release", "/v1/claims/release", `{"key":"mailbox/a"}`},
	{"GET /v1/claims/{key}", "/v1/claims/mailbox%2Fa", ""},
	{"GET /v1/claims/{key}/explain", "/v1/claims/mailbox%2Fa/explain", ""},
	{"POST /v1/claims/assign", "/v1/claims/assign", `{"key":"mailbox/a","node":"n1"}`},
	{"POST /v1/nodes/{node}/release", "/v1/nodes/n1/release", `{"count":1}`},
	{"PUT /v1/cluster", "/v1/cluster", `{"rebalance":"auto"}`},
	{"GET /v1/cluster", "/v1/cluster", ""},
	{"GET /v1/events", "/v1/events", ""},
	{"GET /v1/forecast", "/v1/forecast", ""},
	{"GET /v1/notifiers", "/v1/notifiers", ""},
	{"GET /v1/notifiers/{name}", "/v1/notifiers/ops", ""},
	{"PUT /v1/notifiers/{name}", "/v1/notifiers/ops", `{"kind":"webhook","on":["*"]}`},
	{"DELETE /v1/notifiers/{name}", "/v1/notifiers/ops", ""},
	{"POST /v1/notifiers/{name}/test", "/v1/notifiers/ops/test", ""},
	{"GET /v1/hooks", "/v1/hooks", ""},
	{"GET /v1/hooks/{name}", "/v1/hooks/builds", ""},
	{"PUT /v1/hooks/{name}", "/v1/hooks/builds", `{"scheme":"github","queue":"mail"}`},
	{"DELETE /v1/hooks/{name}", "/v1/hooks/builds", ""},
}

// outlived is the error of a worker whose name another process has.
type outlived struct{}

func (outlived) Error() string    { return "another process has this worker's name" }
func (outlived) Superseded() bool { return true }

func TestEveryCallTurnsEveryErrorOfTheEngineIntoItsStatus(t *testing.T) {
	asked := map[string]bool{
		"GET /v1/events/stream": true, // it does not end
		"POST /v1/hooks/{name}": true, // it has to be signed: see hooks_test.go
		// they answer what was known before
		"GET /v1/overview": true, "GET /v1/overview/stream": true,
	}
	var log bytes.Buffer
	on := &stage{newFake()}
	a := newAPI(t, on, func(conf *Config) { conf.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	field := []task.FieldError{{Location: "body.x", Message: "no"}}
	for _, call := range everyCall {
		asked[call.pattern] = true
		method, _, _ := strings.Cut(call.pattern, " ")
		bulk := strings.HasPrefix(call.body, `{"filter":{"all":true}`)
		if response, text := ask(
			t, a, method+" "+call.target, call.body,
		); response.StatusCode >= 300 {
			t.Fatalf("%s fails without an error: %d %s", call.pattern, response.StatusCode, text)
		}
		for _, c := range []struct {
			err     error
			status  int
			outcome string
			logged  bool
		}{
			{&wire.Error{Fields: field}, 400, "", false},
			{&wire.Error{Value: true, Fields: field}, 422, "", false},
			{&task.InvalidError{Fields: field}, 422, "", false},
			{&task.InvalidError{TooLarge: true, Fields: field}, 413, "", false},
			{store.ErrNotFound, 404, "", false},
			{store.ErrConflict, 409, "", false},
			{store.ErrFull, 507, unchanged, false},
			{store.ErrBusy, 503, unchanged, false},
			{fmt.Errorf("large value: %w", fs.ErrNotExist), 500, unchanged, false},
			{store.ErrNotYet, 503, unchanged, false},
			{store.ErrHeld, 503, unchanged, false},
			{store.ErrDraining, 503, unchanged, false},
			{store.ErrOutOfReach, 503, unchanged, false},
			// an earlier try may have worked
			{fmt.Errorf("%w: %w", store.ErrUnknown, store.ErrOutOfReach), 503, unknown, false},
			{store.ErrClosed, 503, unchanged, false},
			{store.ErrAway, 503, unknown, false},
			{store.ErrUnknown, 503, unknown, false},
			{fmt.Errorf("%w: %w", store.ErrUnknown, context.Canceled), 503, unknown, false},
			{store.ErrBroken, 503, unknown, false},
			{outlived{}, 409, superseded, false},
			{context.Canceled, 503, unknown, false},
			{context.DeadlineExceeded, 503, unknown, false},
			{errors.New("disk on fire: password hunter2"), 503, unknown, true},
		} {
			f := newFake()
			f.err = fmt.Errorf("wrapped: %w", c.err)
			on.Engine = f
			log.Reset()
			response, text := ask(t, a, method+" "+call.target, call.body)
			var p problem
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatalf("%s, %v: %d %q: %v", call.pattern, c.err, response.StatusCode, text, err)
			}
			if bulk && c.status >= 500 {
				c.outcome = unknown // a part of it may be done
			}
			if response.StatusCode != c.status || p.Status != c.status || p.Title == "" ||
				p.Detail == "" || p.Outcome != c.outcome ||
				response.Header.Get("Content-Type") != problemType {
				t.Errorf("%s, %v: %d %s", call.pattern, c.err, response.StatusCode, text)
			}
			if got := response.Header.Get("Retry-After") != ""; got != (c.status == 503) {
				t.Errorf("%s, %v: Retry-After %v", call.pattern, c.err, got)
			}
			if got := p.Instance != "" && strings.Contains(log.String(), p.Instance) &&
				strings.Contains(log.String(), "hunter2"); got != c.logged {
				t.Errorf("%s, %v: instance %q, logged %q", call.pattern, c.err, p.Instance, &log)
			}
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s: the answer tells too much: %s", call.pattern, text)
			}
			if c.status < 404 && (len(p.Errors) != 1 || p.Errors[0].Location != "body.x") {
				t.Errorf("%s, %v: errors %v", call.pattern, c.err, p.Errors)
			}
		}
		on.Engine = newFake()
	}
	for pattern := range rights {
		if _, path, _ := strings.Cut(pattern, " "); strings.HasPrefix(path, "/v1/") &&
			!asked[pattern] && pattern != "GET /v1/access" && pattern != "GET /v1/stream" {
			// those ask no engine
			t.Errorf("%s was not asked", pattern)
		}
	}
}

// A node that does not reach its store says so at once, and asks nobody: the call can be made at
// another node.
func TestReplayIsWholeOrInAStage(t *testing.T) {
	response, text := ask(t, newAPI(t, newFake(), nil), "POST /v1/tasks/"+idOf(2).String()+"/retry",
		`{"whole":true,"stage":"a"}`)
	if response.StatusCode != 422 || !strings.Contains(text, `"location":"body.whole"`) {
		t.Errorf("%d %s", response.StatusCode, text)
	}
}

func TestCallsThatNeedAStoreOutOfReachAreRefusedAtOnce(t *testing.T) {
	f := newFake()
	out := true
	a := newAPI(t, &stage{f}, func(conf *Config) {
		conf.Reach = func() error {
			if out {
				return fmt.Errorf("dial: %w", store.ErrOutOfReach)
			}
			return nil
		}
	})
	for _, call := range everyCall {
		method, _, _ := strings.Cut(call.pattern, " ")
		if strings.HasSuffix(call.pattern, "/beat") || strings.HasSuffix(call.pattern, frame.Path) {
			// answered from memory: its worker goes on with what it runs, over a stream, too
			continue
		}
		response, text := ask(t, a, method+" "+call.target, call.body)
		if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" ||
			!strings.Contains(text, `"outcome":"unchanged"`) ||
			!strings.Contains(text, "can't reach its store") {
			t.Errorf("%s: %d %s", call.pattern, response.StatusCode, text)
		}
	}
	for _, target := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs",
		"/"} {
		if response, text := ask(t, a, "GET "+target, ""); response.StatusCode != 200 {
			t.Errorf("%s: %d %s", target, response.StatusCode, text)
		}
	}
	if changes := f.changed(); len(changes) > 0 {
		t.Errorf("changed all the same: %v", changes)
	}
	if response, text := ask(
		t, a, "POST /v1/workers/w/beat", `{"incarnation":"1","capacity":1}`,
	); response.StatusCode != 200 {
		t.Errorf("beat: %d %s", response.StatusCode, text)
	}
	out = false
	if response, text := ask(t, a, "GET /v1/queues", ""); response.StatusCode != 200 {
		t.Errorf("when it is back: %d %s", response.StatusCode, text)
	}
}

type panicking struct{ Engine }

func (panicking) Queues(context.Context) ([]task.Queue, error) { panic("queues") }

func (panicking) Submit(context.Context, []task.Submission) ([]task.Receipt, error) {
	panic("submit")
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	for _, call := range []string{"GET /v1/queues", "POST /v1/tasks"} {
		var log bytes.Buffer
		a := newAPI(t, panicking{newFake()}, func(c *Config) {
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		response, text := ask(t, a, call, `{"tasks":[]}`)
		var p problem
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != 500 || p.Outcome != unknown ||
			response.Header.Get("Content-Type") != problemType {
			t.Errorf("%s: %d %s", call, response.StatusCode, text)
		}
		if said := log.String(); p.Instance == "" || !strings.Contains(said, p.Instance) ||
			!strings.Contains(said, "problem_test.go") {
			t.Errorf("%s: %s is logged as %s", call, text, said)
		}
	}
}

func TestCallerThatLeftIsNoFault(t *testing.T) {
	var log bytes.Buffer
	a := newAPI(t, newFake(), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r := httptest.NewRequest("GET", "/v1/queues", nil)
	r.Host = "localhost"
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("ended with %v: the connection must be cut", p)
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
	}()
	a.Handler().ServeHTTP(gone{http.Header{}}, r)
}
