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

func TestErrorsOfTheEngineBecomeStatuses(t *testing.T) {
	var log bytes.Buffer
	on := &stage{newFake()}
	a := newAPI(t, on, func(conf *Config) { conf.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	field := []task.FieldError{{Location: "body.x", Message: "no"}}
	for _, c := range []struct {
		err    error
		status int
		retry  bool
		log    bool
	}{
		{&wire.Error{Fields: field}, 400, false, false},
		{&wire.Error{Value: true, Fields: field}, 422, false, false},
		{&task.InvalidError{Fields: field}, 422, false, false},
		{&task.InvalidError{TooLarge: true, Fields: field}, 413, false, false},
		{rows.ErrNotFound, 404, false, false},
		{rows.ErrConflict, 409, false, false},
		{rows.ErrFull, 507, false, false},
		{rows.ErrBusy, 503, true, false},
		{rows.ErrUnknown, 503, true, false},
		{rows.ErrClosed, 503, true, false},
		{rows.ErrBroken, 503, true, false},
		{context.Canceled, 503, true, false},
		{context.DeadlineExceeded, 503, true, false},
		{errors.New("disk on fire: password hunter2"), 500, false, true},
	} {
		for _, call := range []string{"GET /v1/tasks", "POST /v1/tasks"} { // by huma, and plain
			f := newFake()
			f.err = fmt.Errorf("wrapped: %w", c.err)
			on.Engine = f
			log.Reset()
			response, text := ask(t, a, call, `{"tasks":[]}`)
			var p struct {
				Title, Detail string
				Status        int
				Errors        []struct{ Location, Message string }
			}
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != c.status || p.Status != c.status || p.Title == "" || p.Detail == "" || response.Header.Get("Content-Type") != problemType {
				t.Errorf("%s, %v: %d %s", call, c.err, response.StatusCode, text)
			}
			if got := response.Header.Get("Retry-After") != ""; got != c.retry {
				t.Errorf("%s, %v: Retry-After %v, want %v", call, c.err, got, c.retry)
			}
			if got := log.Len() > 0; got != c.log {
				t.Errorf("%s, %v: logged %q", call, c.err, &log)
			}
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s: the answer tells too much: %s", call, text)
			}
			if c.status < 404 && (len(p.Errors) != 1 || p.Errors[0].Location != "body.x") {
				t.Errorf("%s, %v: errors %v", call, c.err, p.Errors)
			}
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
		if response.StatusCode != 500 || response.Header.Get("Content-Type") != problemType || !strings.Contains(log.String(), "panicked") {
			t.Errorf("%s: %d %s, logged %s", call, response.StatusCode, text, &log)
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
