package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// HookConf is the whole configuration of a hook: what another program calls, and what its calls
// become. Secrets that are left out stay as they are, as long as the scheme does.
type HookConf struct {
	// Scheme is how calls are signed: github, stripe, slack, shopify, standard (Standard Webhooks)
	// or plain.
	Scheme string `json:"scheme"`
	// Secrets are up to 3, of which any may have signed: while one is replaced by another.
	Secrets   []string      `json:"secrets,omitempty"`
	Header    string        `json:"header,omitempty"` // of plain: with the signature; X-Signature
	Prefix    string        `json:"prefix,omitempty"` // of plain: before the signature
	Tolerance view.Duration `json:"tolerance,omitzero"`
	// ID is where the id of a delivery stands: a JSON pointer into the body, or a header; "" =
	// where the scheme has it.
	ID      string   `json:"id,omitempty"`
	Headers []string `json:"headers,omitzero"` // that tasks are told; nil = the scheme's

	// Of a hook whose deliveries become tasks.
	Queue    string            `json:"queue,omitempty"`
	Stage    string            `json:"stage,omitempty"`
	Priority view.Duration     `json:"priority,omitzero"`
	GroupKey string            `json:"group_key,omitempty"` // a JSON pointer into the body
	Meta     map[string]string `json:"meta,omitempty"`

	// Of a hook whose deliveries become signals.
	Signal string        `json:"signal,omitempty"` // its name
	Key    string        `json:"key,omitempty"`    // a JSON pointer into the body
	Keep   view.Duration `json:"keep,omitzero"`
}

func hookPath(name string) string { return "/v1/hooks/" + segment(name) }

// Hooks lists all hooks, by name.
func (c *Client) Hooks(ctx context.Context) ([]view.Hook, error) {
	all, err := list[view.Hook](ctx, c, "/v1/hooks")
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	return all, nil
}

// Hook reads a hook.
func (c *Client) Hook(ctx context.Context, name string) (view.Hook, error) {
	var h view.Hook
	if err := c.get(ctx, request{path: hookPath(name)}, &h); err != nil {
		return view.Hook{}, fmt.Errorf("read hook %q: %w", name, err)
	}
	return h, nil
}

// PutHook creates a hook or changes it, and answers it as it stands then. It holds at once at the
// node that answers, and within a second at the others.
func (c *Client) PutHook(ctx context.Context, name string, conf HookConf) (view.Hook, error) {
	body, err := json.Marshal(conf)
	if err != nil {
		return view.Hook{}, fmt.Errorf("put hook %q: %w", name, err)
	}
	var h view.Hook
	if err := c.send(
		ctx, request{method: http.MethodPut, path: hookPath(name), body: body, safe: true}, &h,
	); err != nil {
		return view.Hook{}, fmt.Errorf("put hook %q: %w", name, err)
	}
	return h, nil
}

// DeleteHook forgets a hook. What it has submitted stays.
func (c *Client) DeleteHook(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: hookPath(name)}, nil,
	); err != nil {
		return fmt.Errorf("delete hook %q: %w", name, err)
	}
	return nil
}

// HookCall is a call of a hook, as another program would make it.
type HookCall struct {
	Secret string            // it is signed with
	ID     string            // of the delivery, where a header has it; "" = a new one
	Body   []byte            // of any kind
	Header map[string]string // more headers, or others than those of the signature and the id
}

// HookAnswer is what a call of a hook is answered: an id of a task, or of a signal whether it was
// delivered.
type HookAnswer struct {
	ID        task.ID `json:"id,omitzero"`
	Existing  bool    `json:"existing,omitempty"` // the same delivery came before
	Delivered bool    `json:"delivered,omitempty"`
	Repeated  bool    `json:"repeated,omitempty"`  // the signal had been sent before
	Challenge string  `json:"challenge,omitempty"` // of Slack
	// Silent: all is well, and nothing more is said, as Slack wants it of forms.
	Silent bool `json:"silent,omitempty"`
}

// CallHook signs a delivery as the hook wants it and makes the call, to try a hook out. It does
// what a call of the other program does.
func (c *Client) CallHook(ctx context.Context, name string, call HookCall) (HookAnswer, error) {
	answer, err := c.callHook(ctx, name, call)
	if err != nil {
		return HookAnswer{}, fmt.Errorf("call hook %q: %w", name, err)
	}
	return answer, nil
}

func (c *Client) callHook(
	ctx context.Context, name string, call HookCall,
) (answer HookAnswer, err error) {
	h, err := c.Hook(ctx, name)
	if err != nil {
		return answer, err
	}
	if call.ID == "" {
		call.ID = rand.Text()
	}
	signed, err := hook.Sign(&store.Hook{
		Scheme: h.Scheme, Header: h.Header, Prefix: h.Prefix, ID: h.ID,
	}, store.Secret(call.Secret), call.ID, call.Body, time.Now())
	if err != nil {
		return answer, err
	}
	header := http.Header{}
	for _, some := range []map[string]string{signed, call.Header} {
		for name, value := range some {
			header.Set(name, value)
		}
	}
	if call.Body == nil {
		call.Body = []byte{}
	}
	got, err := c.do(ctx, request{
		method: http.MethodPost, path: hookPath(name), body: call.Body, signed: header, safe: true,
	})
	if err != nil || len(got.body) == 0 {
		answer.Silent = err == nil
		return answer, err
	}
	if err := json.Unmarshal(got.body, &answer); err != nil {
		return answer, fmt.Errorf("read answer: %w", err)
	}
	return answer, nil
}
