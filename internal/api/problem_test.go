package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// everyCall is each call of the API that asks the engine, once, as it would succeed.
var everyCall = []struct{ pattern, target, body string }{
	{"POST /v1/tasks", "/v1/tasks", `{"tasks":[]}`},
	{"GET /v1/tasks", "/v1/tasks", ""},
	{"POST /v1/tasks/hold", "/v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`},
	{"POST /v1/tasks/report", "/v1/tasks/report", `{"worker":"w1","reports":[{"id":"` + idOf(3).String() + `","token":"` + token(0) + `","outcome":"done"}]}`},
	{"POST /v1/tasks/cancel", "/v1/tasks/cancel", `{"filter":{"all":true}}`},
	{"POST /v1/tasks/retry", "/v1/tasks/retry", `{"filter":{"all":true}}`},
	{"GET /v1/tasks/{id}", "/v1/tasks/" + idOf(0).String(), ""},
	{"DELETE /v1/tasks/{id}", "/v1/tasks/" + idOf(0).String(), ""},
	{"POST /v1/tasks/{id}/cancel", "/v1/tasks/" + idOf(1).String() + "/cancel", ""},
	{"POST /v1/tasks/{id}/retry", "/v1/tasks/" + idOf(2).String() + "/retry", ""},
	{"POST /v1/tasks/{id}/run", "/v1/tasks/" + idOf(1).String() + "/run", ""},
	{"POST /v1/tasks/{id}/logs", "/v1/tasks/" + idOf(3).String() + "/logs", `{"text":"x"}`},
	{"GET /v1/tasks/{id}/logs", "/v1/tasks/" + idOf(0).String() + "/logs", ""},
	{"GET /v1/tasks/{id}/logs", "/v1/tasks/" + idOf(0).String() + "/logs?follow=true", ""},
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
	{"POST /v1/workers/{worker}/undrain", "/v1/workers/w1/undrain", ""},
	{"GET /v1/nodes", "/v1/nodes", ""},
	{"POST /v1/nodes/{node}/drain", "/v1/nodes/n2/drain", ""},
	{"POST /v1/nodes/{node}/undrain", "/v1/nodes/n2/undrain", ""},
	{"GET /v1/claims", "/v1/claims", ""},
	{"POST /v1/claims/rescan", "/v1/claims/rescan", ""},
	{"POST /v1/claims/release", "/v1/claims/release", `{"key":"mailbox/a"}`},
	{"GET /v1/cluster", "/v1/cluster", ""},
	{"GET /v1/events", "/v1/events", ""},
	{"GET /v1/notifiers", "/v1/notifiers", ""},
	{"GET /v1/notifiers/{name}", "/v1/notifiers/ops", ""},
	{"PUT /v1/notifiers/{name}", "/v1/notifiers/ops", `{"kind":"webhook","on":["*"]}`},
	{"DELETE /v1/notifiers/{name}", "/v1/notifiers/ops", ""},
	{"POST /v1/notifiers/{name}/test", "/v1/notifiers/ops/test", ""},
}

func TestEveryCallTurnsEveryErrorOfTheEngineIntoItsStatus(t *testing.T) {
	asked := map[string]bool{"GET /v1/groups": true, "GET /v1/events/stream": true} // the first asks nobody, the second does not end
	var log bytes.Buffer
	on := &stage{newFake()}
	a := newAPI(t, on, func(conf *Config) { conf.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	field := []task.FieldError{{Location: "body.x", Message: "no"}}
	for _, call := range everyCall {
		asked[call.pattern] = true
		method, _, _ := strings.Cut(call.pattern, " ")
		bulk := call.body == `{"filter":{"all":true}}`
		if response, text := ask(t, a, method+" "+call.target, call.body); response.StatusCode >= 300 {
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
			{rows.ErrNotFound, 404, "", false},
			{rows.ErrConflict, 409, "", false},
			{rows.ErrFull, 507, unchanged, false},
			{rows.ErrBusy, 503, unchanged, false},
			{rows.ErrClosed, 503, unchanged, false},
			{rows.ErrAway, 503, unknown, false},
			{rows.ErrUnknown, 503, unknown, false},
			{fmt.Errorf("%w: %w", rows.ErrUnknown, context.Canceled), 503, unknown, false},
			{rows.ErrBroken, 503, unknown, false},
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
			if bulk && c.outcome != "" {
				c.outcome = unknown // a part of it may be done
			}
			if response.StatusCode != c.status || p.Status != c.status || p.Title == "" || p.Detail == "" || p.Outcome != c.outcome ||
				response.Header.Get("Content-Type") != problemType {
				t.Errorf("%s, %v: %d %s", call.pattern, c.err, response.StatusCode, text)
			}
			if got := response.Header.Get("Retry-After") != ""; got != (c.status == 503) {
				t.Errorf("%s, %v: Retry-After %v", call.pattern, c.err, got)
			}
			if got := p.Instance != "" && strings.Contains(log.String(), p.Instance) && strings.Contains(log.String(), "hunter2"); got != c.logged {
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
		if _, path, _ := strings.Cut(pattern, " "); strings.HasPrefix(path, "/v1/") && !asked[pattern] {
			t.Errorf("%s was not asked", pattern)
		}
	}
}

type panicking struct{ Engine }

func (panicking) Queues(context.Context) ([]task.Queue, error) { panic("queues") }

func (panicking) Submit(context.Context, []task.Submission) ([]task.Receipt, error) { panic("submit") }

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	for _, call := range []string{"GET /v1/queues", "POST /v1/tasks"} {
		var log bytes.Buffer
		a := newAPI(t, panicking{newFake()}, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		response, text := ask(t, a, call, `{"tasks":[]}`)
		var p problem
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != 500 || p.Outcome != unknown || response.Header.Get("Content-Type") != problemType {
			t.Errorf("%s: %d %s", call, response.StatusCode, text)
		}
		if said := log.String(); p.Instance == "" || !strings.Contains(said, p.Instance) || !strings.Contains(said, "problem_test.go") {
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
