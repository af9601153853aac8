package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/rotahq/rota/task"
)

// Signal sends a signal: to a task, or to whoever waits for its name and key, now or while it is
// kept. It counts once, however often the call is repeated because its answer was lost. ErrNotFound
// when there is no such task, ErrConflict when that is over or has 1,000 signals that nobody waited
// for.
func (c *Client) Signal(
	ctx context.Context, s task.SignalRequest,
) (receipt task.SignalReceipt, err error) {
	what := fmt.Sprintf("send signal %q", s.Name)
	path, name := "/v1/signals/"+segment(s.Name), ""
	if s.Task != (task.ID{}) {
		what += fmt.Sprintf(" to task %v", s.Task)
		path, name = taskPath(s.Task)+"/signal", s.Name
		if s.Key == "" { // so that it is told apart from others, and may be sent twice
			s.Key = fmt.Sprintf("once-%016x%016x", rand.Uint64(), rand.Uint64())
		}
	}
	body, err := appendSignal(nil, name, &s)
	if err == nil {
		err = c.send(ctx, request{
			method: http.MethodPost, path: path, body: body, safe: true,
		}, &receipt)
	}
	if err != nil {
		return task.SignalReceipt{}, fmt.Errorf("%s: %w", what, err)
	}
	return receipt, nil
}

// appendSignal appends a signal in JSON. The payload goes in as it is, since encoding/json would
// strip its spaces.
func appendSignal(b []byte, name string, s *task.SignalRequest) ([]byte, error) {
	keep := ""
	if s.Keep != 0 {
		keep = s.Keep.String()
	}
	text, err := json.Marshal(struct {
		Name string `json:"name,omitempty"`
		Key  string `json:"key,omitempty"`
		Keep string `json:"keep,omitempty"`
	}{name, s.Key, keep})
	if err != nil || len(s.Payload) == 0 {
		return append(b, text...), err
	}
	if !json.Valid(s.Payload) {
		return nil, invalid(task.FieldError{
			Location: "body.payload", Message: "is not one JSON value",
		})
	}
	b = append(append(b, `{"payload":`...), s.Payload...)
	if len(text) > len("{}") {
		b = append(b, ',')
	}
	return append(b, text[1:]...), nil
}
