package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// problem is the body of every refusal (RFC 9457).
type problem struct {
	Title  string  `json:"title" doc:"what kind of refusal it is; the same for all of one status"`
	Status int     `json:"status" doc:"the HTTP status"`
	Detail string  `json:"detail" doc:"why this call was refused"`
	Errors []fault `json:"errors,omitempty" nullable:"false" doc:"the places that are wrong"`

	header http.Header
}

// fault is one place that is wrong.
type fault struct {
	Location string `json:"location" example:"body.tasks[3].queue"`
	Message  string `json:"message" doc:"what is wrong and what would be right"`
}

const problemType = "application/problem+json"

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return problemType }
func (p *problem) GetHeaders() http.Header   { return p.header }

// refuse makes a refusal.
func refuse(status int, format string, args ...any) *problem {
	p := &problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
	switch status {
	case http.StatusServiceUnavailable:
		p.header = http.Header{"Retry-After": {"1"}}
	case http.StatusUnauthorized:
		p.header = http.Header{"Www-Authenticate": {`Bearer realm="rota"`}}
	}
	return p
}

// wrong refuses one value.
func wrong(location, format string, args ...any) *problem {
	return wrongAt(http.StatusUnprocessableEntity, []task.FieldError{{Location: location, Message: fmt.Sprintf(format, args...)}})
}

// wrongAt refuses values at several places.
func wrongAt(status int, fields []task.FieldError) *problem {
	detail := "see errors"
	if len(fields) == 1 {
		detail = fields[0].Location + ": " + fields[0].Message
	}
	p := refuse(status, "%s", detail)
	for _, f := range fields {
		p.Errors = append(p.Errors, fault(f))
	}
	return p
}

// problemOf says what an error means to the caller; known is false for errors that are our own fault.
func problemOf(err error) (p *problem, known bool) {
	var (
		invalid *task.InvalidError
		text    *wire.Error
	)
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &text):
		if text.Value {
			return wrongAt(http.StatusUnprocessableEntity, text.Fields), true
		}
		return wrongAt(http.StatusBadRequest, text.Fields), true
	case errors.As(err, &invalid):
		if invalid.TooLarge {
			return wrongAt(http.StatusRequestEntityTooLarge, invalid.Fields), true
		}
		return wrongAt(http.StatusUnprocessableEntity, invalid.Fields), true
	case errors.Is(err, rows.ErrNotFound):
		return refuse(http.StatusNotFound, "%v", err), true
	case errors.Is(err, rows.ErrConflict):
		return refuse(http.StatusConflict, "%v", err), true
	case errors.Is(err, rows.ErrFull):
		return refuse(http.StatusInsufficientStorage, "the store has no room; nothing was changed"), true
	case errors.Is(err, rows.ErrBusy):
		return refuse(http.StatusServiceUnavailable, "too much waits already; nothing was changed"), true
	case errors.Is(err, rows.ErrUnknown):
		return refuse(http.StatusServiceUnavailable,
			"the outcome is unknown: it may have been stored. Tasks with a key, and reports, can be sent again safely"), true
	case errors.Is(err, rows.ErrClosed):
		return refuse(http.StatusServiceUnavailable, "this node is closing"), true
	case errors.Is(err, rows.ErrBroken):
		return refuse(http.StatusServiceUnavailable, "this node's store can't be trusted any more; the node is stopping"), true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refuse(http.StatusServiceUnavailable, "the call ended before its answer"), true
	}
	return refuse(http.StatusInternalServerError, "this is a fault of the server; its log says more"), false
}

// refusal is problemOf, with our own faults logged.
func (a *API) refusal(call string, err error) *problem {
	p, known := problemOf(err)
	if !known {
		a.conf.Log.Error("call failed", "call", call, "err", err)
	}
	return p
}

// fail answers with the problem that err means.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := a.refusal(r.Method+" "+r.URL.Path, err)
	h := w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	h.Set("Content-Type", problemType)
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers always encode
		panic(fmt.Errorf("encode problem: %w", err))
	}
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) // a caller that is gone needs no answer
}

// ownProblem turns huma's own refusals into ours. They name the places and repeat the values; ours don't.
func ownProblem(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	fields := make([]task.FieldError, len(m.Errors))
	for i, e := range m.Errors {
		fields[i] = task.FieldError{Location: e.Location, Message: strings.TrimPrefix(e.Message, "invalid value: ")}
	}
	if len(fields) == 0 {
		return refuse(m.Status, "%s", m.Detail), nil
	}
	return wrongAt(m.Status, fields), nil
}

// unmatched answers calls that no pattern fits: 405 when the path exists, else 404.
func (a *API) unmatched(w *answer, r *http.Request) error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := *r
		probe.Method = method
		if _, pattern := a.mux.Handler(&probe); pattern != "/" {
			allow = append(allow, method)
		}
	}
	if allow == nil {
		return refuse(http.StatusNotFound, "nothing is at %.200q; GET /openapi.json lists what is", r.URL.Path)
	}
	methods := strings.Join(allow, ", ")
	p := refuse(http.StatusMethodNotAllowed, "%.200q takes %s only", r.URL.Path, methods)
	p.header = http.Header{"Allow": {methods}}
	return p
}
