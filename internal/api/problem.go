package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// problem is the body of every refusal (RFC 9457).
type problem struct {
	Title  string  `json:"title" doc:"what kind of refusal it is; the same for all of one status"`
	Status int     `json:"status" doc:"the HTTP status"`
	Detail string  `json:"detail" doc:"why this call was refused"`
	Errors []fault `json:"errors,omitempty" nullable:"false" doc:"the places that are wrong"`

	Outcome  string `json:"outcome,omitempty" enum:"unchanged,unknown,superseded" doc:"of every 5xx: unchanged = nothing was done, try again later; unknown = it may have been done all the same. Of a beat's 409: superseded = a newer start of the worker has its name, so this one is to end. Where it is left out nothing was done"`
	Instance string `json:"instance,omitempty" doc:"of a fault of the server: what its log knows this call by"`

	header http.Header
}

// What a call that the server could not serve left behind.
const (
	unchanged = "unchanged"
	unknown   = "unknown"
)

// superseded is the outcome of a beat whose worker is another process by now.
const superseded = "superseded"

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

// refuse makes a refusal of a call that changed nothing.
func refuse(status int, format string, args ...any) *problem {
	p := &problem{
		Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...),
	}
	switch status {
	case http.StatusServiceUnavailable:
		p.Outcome = unchanged
		p.header = http.Header{"Retry-After": {"1"}}
	case http.StatusTooManyRequests:
		p.header = http.Header{"Retry-After": {"1"}}
	case http.StatusInsufficientStorage:
		p.Outcome = unchanged
	case http.StatusUnauthorized:
		p.header = http.Header{"Www-Authenticate": {`Bearer realm="rota"`}}
	}
	return p
}

// doubt makes the answer to a call that may have worked.
func doubt(status int, format string, args ...any) *problem {
	p := refuse(status, format, args...)
	p.Outcome = unknown
	return p
}

// wrong refuses one value.
func wrong(location, format string, args ...any) *problem {
	return wrongAt(http.StatusUnprocessableEntity,
		[]task.FieldError{{Location: location, Message: fmt.Sprintf(format, args...)}})
}

// wrongAt refuses values at several places.
func wrongAt(status int, fields []task.FieldError) *problem {
	detail := fmt.Sprintf("%d values are wrong", len(fields))
	if len(fields) == 1 {
		detail = fields[0].Location + ": " + fields[0].Message
	}
	p := refuse(status, "%s", detail)
	for _, f := range fields {
		p.Errors = append(p.Errors, fault(f))
	}
	return p
}

// problemOf says what an error means to the caller; expected is false for errors that the Engine
// never promised.
func problemOf(err error) (p *problem, expected bool) {
	var (
		invalid *task.InvalidError
		text    *wire.Error
		newer   interface{ Superseded() bool }
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
	case errors.As(err, &newer) && newer.Superseded():
		p = refuse(http.StatusConflict, "%v", err)
		p.Outcome = superseded
		return p, true
	case errors.Is(err, store.ErrAway): // first: whatever else came of asking another node
		return doubt(http.StatusServiceUnavailable, "%v", err), true
	case errors.Is(err, store.ErrUnknown):
		return doubt(http.StatusServiceUnavailable,
			"it may have been stored, or not. Tasks with a key, and reports, can be sent again safely"), true
	case errors.Is(err, store.ErrOutOfReach): // an outage, of which the log hears once
		return refuse(http.StatusServiceUnavailable,
				"this node can't reach its store; nothing was changed. Other nodes may; try again"),
			true
	case errors.Is(err, store.ErrBroken): // a failed fsync proves nothing about what was written
		return doubt(http.StatusServiceUnavailable,
			"this node's store can't be trusted any more; the node is stopping"), true
	case errors.Is(err, store.ErrNotFound):
		return refuse(http.StatusNotFound, "%v", err), true
	case errors.Is(err, store.ErrConflict):
		return refuse(http.StatusConflict, "%v", err), true
	case errors.Is(err, store.ErrFull):
		return refuse(http.StatusInsufficientStorage, "the store has no room; nothing was changed"),
			true
	case errors.Is(err, store.ErrHeld):
		return refuse(http.StatusServiceUnavailable, "%v", err), true
	case errors.Is(err, store.ErrNotYet):
		return busy(store.ErrNotYet.Error()), true
	case errors.Is(err, store.ErrDraining):
		return refuse(http.StatusServiceUnavailable,
			"this node is draining, so it hands out nothing; other nodes do"), true
	case errors.Is(err, fs.ErrNotExist): // the task is there, with a context or result that is not
		p = refuse(http.StatusInternalServerError,
			"a large context or result is gone from the folder in which the store keeps them; "+
				"what refers to it can't be shown until it is put back")
		p.Outcome = unchanged
		return p, true
	case errors.Is(err, store.ErrBusy):
		return busy("too much waits already"), true
	case errors.Is(err, store.ErrClosed):
		return refuse(http.StatusServiceUnavailable, "this node is closing"), true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return doubt(http.StatusServiceUnavailable, "the call ended before its answer"), true
	}
	return doubt(http.StatusServiceUnavailable, "something failed that should not"), false
}

// busy refuses for now.
func busy(why string) *problem {
	return refuse(http.StatusServiceUnavailable, "%s; nothing was changed. Try again in a moment",
		why)
}

// missing says of a task that it is not there, without telling what the engine did to find out.
func missing(err error, id task.ID) error {
	if errors.Is(err, store.ErrNotFound) {
		return refuse(http.StatusNotFound, "there is no task %v", id)
	}
	return err
}

// named says of what is known by a name that it is not there, or is in use, without telling what
// was done to find out.
func named(err error, noun, name string) error {
	var used *store.InUse
	switch {
	case errors.As(err, &used):
		return refuse(http.StatusConflict, "%s %.140q: %v", noun, name, used)
	case errors.Is(err, store.ErrNotFound):
		return refuse(http.StatusNotFound, "%s %.140q: %v", noun, name, store.ErrNotFound)
	}
	return err
}

// refusal is problemOf, with what nobody expected logged under a name that the caller learns, too.
func (a *API) refusal(call string, err error) *problem {
	p, expected := problemOf(err)
	if !expected {
		a.logged(p, "call failed", "call", call, "error", err)
	}
	return p
}

// logged writes a fault into the log and its name there into the answer, which says nothing else of
// it.
func (a *API) logged(p *problem, what string, attributes ...any) *problem {
	p.Instance = strings.ToLower(rand.Text()[:12])
	p.Detail += fmt.Sprintf("; the server's log says more at %q", p.Instance)
	a.conf.Log.Error(what, append(attributes, "instance", p.Instance)...)
	return p
}

// partly is the error of a call that works in pieces: some of them may be done.
func (a *API) partly(r *http.Request, err error) error {
	p := a.refusal(r.Method+" "+r.URL.Path, err)
	if p.Status >= http.StatusInternalServerError {
		p.Outcome = unknown
		p.Detail += ". What was done before stays done"
	}
	return p
}

// unbegun is the error of what is looked up before a call begins: whatever failed, nothing was
// done.
func (a *API) unbegun(r *http.Request, err error) error {
	if err == nil {
		return nil
	}
	p := a.refusal(r.Method+" "+r.URL.Path, err)
	if p.Outcome == unknown {
		p.Outcome = unchanged
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
	if w, ok := w.(*answer); ok {
		w.outcome = p.Outcome
	}
	w.WriteHeader(p.Status)
	w.Write(append(encoded(p), '\n')) // a caller that is gone needs no answer
}

// ownProblem turns huma's own refusals into ours. They name the places and repeat the values; ours
// don't.
func ownProblem(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	fields := make([]task.FieldError, len(m.Errors))
	for i, e := range m.Errors {
		fields[i] = task.FieldError{
			Location: e.Location, Message: strings.TrimPrefix(e.Message, "invalid value: "),
		}
	}
	if len(fields) == 0 {
		return refuse(m.Status, "%s", m.Detail), nil
	}
	return wrongAt(m.Status, fields), nil
}

// unmatched answers calls that no pattern fits: 405 when the path exists, else 404.
func (a *API) unmatched(w *answer, r *http.Request) error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete} {
		probe := *r
		probe.Method = method
		if _, pattern := a.mux.Handler(&probe); pattern != "/" {
			allow = append(allow, method)
		}
	}
	if allow == nil {
		return refuse(http.StatusNotFound, "nothing is at %.200q; GET /openapi.json lists what is",
			r.URL.Path)
	}
	methods := strings.Join(allow, ", ")
	p := refuse(http.StatusMethodNotAllowed, "%.200q takes %s only", r.URL.Path, methods)
	p.header = http.Header{"Allow": {methods}}
	return p
}

// forcible answers a refusal that force would not have met by saying so.
func (a *API) forcible(call string, err error, forced bool) error {
	p := a.refusal(call, err)
	if errors.Is(err, store.ErrForcible) && !forced {
		p.Errors = []fault{{"body.force", "true does it all the same"}}
	}
	return p
}
