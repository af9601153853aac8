package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// keyPath names a group key of a queue.
func keyPath(queue, key string) string { return queuePath(queue) + "/keys/" + segment(key) }

// Keys lists the group keys of a queue that have work, or of which something is said, at most
// 1,000: those with the most work first.
func (c *Client) Keys(ctx context.Context, queue string) (view.QueueKeys, error) {
	query := url.Values{"limit": {strconv.Itoa(limits.MaxHold)}}
	var keys view.QueueKeys
	if err := c.get(
		ctx, request{path: queuePath(queue) + "/keys", query: query}, &keys,
	); err != nil {
		return view.QueueKeys{}, fmt.Errorf("list group keys of queue %q: %w", queue, err)
	}
	return keys, nil
}

// PauseKey lets nothing of a group key of a queue begin for so long, 0 = until it is resumed; what
// runs goes on. It answers what is said of the key then.
func (c *Client) PauseKey(
	ctx context.Context, queue, key string, d time.Duration,
) (view.KeyRule, error) {
	body := struct {
		For duration `json:"for,omitempty"`
	}{duration(d)}
	return c.changeKey(ctx, "pause", http.MethodPost, "/pause", queue, key, body)
}

// ResumeKey undoes PauseKey.
func (c *Client) ResumeKey(ctx context.Context, queue, key string) (view.KeyRule, error) {
	return c.changeKey(ctx, "resume", http.MethodPost, "/resume", queue, key, nil)
}

// WeighKey says how many tasks a turn of a group key has, where keys take turns: 1 to 1,000, 1 = as
// of all others. It answers what is said of the key then.
func (c *Client) WeighKey(
	ctx context.Context, queue, key string, weight int,
) (view.KeyRule, error) {
	body := struct {
		Weight int `json:"weight"`
	}{weight}
	return c.changeKey(ctx, "weigh", http.MethodPut, "", queue, key, body)
}

// changeKey makes a call that changes what is said of a key.
func (c *Client) changeKey(
	ctx context.Context, verb, method, path, queue, key string, body any,
) (rule view.KeyRule, err error) {
	r := request{method: method, path: keyPath(queue, key) + path, safe: true}
	if key == "" { // which would make another path
		err = &task.InvalidError{Fields: []task.FieldError{{
			Location: "path.key", Message: "must not be empty",
		}}}
	} else if body != nil {
		r.body, err = json.Marshal(body)
	}
	if err == nil {
		err = c.send(ctx, r, &rule)
	}
	if err != nil {
		return view.KeyRule{}, fmt.Errorf("%s group key %q of queue %q: %w", verb, key, queue, err)
	}
	return rule, nil
}
