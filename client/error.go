package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

// What a refusal means; find it with errors.Is. Those of package task mean the same when a node in
// this process refuses.
var (
	// 400, 413, 422: Error.Errors has the places
	ErrInvalid      = task.ErrInvalid
	ErrTooLarge     = task.ErrTooLarge                    // 413
	ErrUnauthorized = errors.New("no valid access token") // 401
	ErrForbidden    = errors.New("not allowed")           // 403
	ErrNotFound     = task.ErrNotFound                    // 404
	ErrConflict     = task.ErrConflict                    // 409
	ErrFull         = task.ErrFull                        // 507
	ErrUnavailable  = task.ErrUnavailable                 // 429, 502, 503, 504
)

// ErrOutcomeUnknown: the call was sent and nobody knows what became of it, because the server says
// so, or the connection broke after all of the call was sent, or the caller of a gathered call
// left. Calls that can be repeated safely never end with it otherwise.
var ErrOutcomeUnknown = task.ErrOutcomeUnknown

// ErrUnreachable: no server could be connected to; nothing was sent.
var ErrUnreachable = errors.New("no server could be reached")

// Error is the answer of a server that refused a call (RFC 9457), or of the client, in the server's
// words, before it sends what could only be refused. Unless it is also ErrOutcomeUnknown, nothing
// was changed.
type Error struct {
	Status int               `json:"status"`
	Title  string            `json:"title"`
	Detail string            `json:"detail"`
	Errors []task.FieldError `json:"errors"` // the places that are wrong
	// of a 5xx: "unchanged", "unknown", or "" when the server doesn't say; of a beat's 409:
	// "superseded"
	Outcome string `json:"outcome"`
	// of a fault of the server: what its log knows the call by
	Instance string `json:"instance"`
	// what the server asks for before the next try; 0 = nothing
	RetryAfter time.Duration `json:"-"`
}

func (e *Error) Error() string {
	text := e.Detail
	if text == "" {
		text = e.Title
	}
	for _, f := range e.Errors {
		if !strings.Contains(text, f.Message) { // of a single place it says everything
			text += fmt.Sprintf("; %s: %s", f.Location, f.Message)
		}
	}
	return fmt.Sprintf("%d %s", e.Status, text)
}

// invalid refuses a call in the server's words before it is sent.
func invalid(fields ...task.FieldError) *Error {
	e := &Error{
		Status: http.StatusUnprocessableEntity,
		Title:  http.StatusText(http.StatusUnprocessableEntity), Errors: fields,
		Outcome: "unchanged",
	}
	e.Detail = (&task.InvalidError{Fields: fields}).Error()
	return e
}

// refused is what a check of the call's values found, as invalid says it; nil when it found
// nothing.
func refused(err error) error {
	var wrong *task.InvalidError
	if errors.As(err, &wrong) {
		return invalid(wrong.Fields...)
	}
	return err
}

// unchanged tells whether the refusal says that nothing was done.
func (e *Error) unchanged() bool {
	switch {
	case e.Outcome != "":
		return e.Outcome == "unchanged"
	case e.Status == http.StatusInsufficientStorage:
		return true
	}
	return e.Status < http.StatusInternalServerError
}

// Is tells whether the refusal means target, one of the sentinels above.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return target == ErrInvalid
	case http.StatusRequestEntityTooLarge:
		return target == ErrTooLarge || target == ErrInvalid
	case http.StatusUnauthorized:
		return target == ErrUnauthorized
	case http.StatusForbidden:
		return target == ErrForbidden
	case http.StatusNotFound:
		return target == ErrNotFound
	case http.StatusConflict:
		return target == ErrConflict
	case http.StatusInsufficientStorage:
		return target == ErrFull
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return target == ErrUnavailable
	}
	return false
}

// As tells errors.As of the places that are wrong, as a *task.InvalidError.
func (e *Error) As(target any) bool {
	to, ok := target.(**task.InvalidError)
	if !ok || !e.Is(ErrInvalid) || len(e.Errors) == 0 {
		return false
	}
	*to = &task.InvalidError{TooLarge: e.Is(ErrTooLarge), Fields: e.Errors}
	return true
}

// Denied tells whether the server does not let the caller in: trying again changes nothing.
func (e *Error) Denied() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// Superseded tells whether another process has the worker's name by now: this one is to end.
func (e *Error) Superseded() bool {
	return e.Status == http.StatusConflict && e.Outcome == "superseded"
}

// shownBody is how much of an answer that is no problem document an error shows.
const shownBody = 200

// newError reads a refusal. What isn't a problem document, as from a proxy between, is shown as it
// is, cut.
func newError(status int, header http.Header, body []byte) *Error {
	e := &Error{}
	if !strings.Contains(header.Get("Content-Type"), "json") || json.Unmarshal(body, e) != nil ||
		e.Title+e.Detail == "" {
		text := strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), shownBody)]), ""))
		*e = Error{Title: http.StatusText(status), Detail: cmp.Or(moved(status, header), text)}
	}
	e.Status = status
	e.RetryAfter = retryAfter(header.Get("Retry-After"), header.Get("Date"))
	return e
}

// mostRetryAfter is the longest pause that is believed.
const mostRetryAfter = 24 * time.Hour

// retryAfter reads both forms of Retry-After: seconds, and a date, which counts from the server's
// own Date.
func retryAfter(value, date string) time.Duration {
	const most = int(mostRetryAfter / time.Second)
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), most)) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(date)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), mostRetryAfter)
}
