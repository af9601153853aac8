package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/rotahq/rota/view"
)

// NotifierConf is the whole configuration of a notifier. Secrets that are left out stay as they
// are, as long as they go to the same place.
type NotifierConf struct {
	Kind string `json:"kind"` // email, webhook, submit or run
	// kinds of events; "node.*" is all that begin with "node.", "*" all
	On       []string `json:"on"`
	Subjects []string `json:"subjects,omitempty"`

	URL    string `json:"url,omitempty"`    // secret
	Secret string `json:"secret,omitempty"` // secret: the key that messages are signed with
	// generic, slack, teams, dingtalk, feishu, wecom, telegram
	Format   string `json:"format,omitempty"`
	Template string `json:"template,omitempty"`
	Chat     string `json:"chat,omitempty"` // of telegram

	Server   string   `json:"server,omitempty"` // HOST:PORT
	TLS      string   `json:"tls,omitempty"`    // starttls, implicit, none
	User     string   `json:"user,omitempty"`
	Password string   `json:"password,omitempty"` // secret
	From     string   `json:"from,omitempty"`
	To       []string `json:"to,omitempty"`

	Queue   string   `json:"queue,omitempty"`   // of submit: in which each event becomes one task
	Command []string `json:"command,omitempty"` // of run: a program, which gets the event
}

// ErrUndelivered answers TestNotifier when its message could not be delivered.
var ErrUndelivered = errors.New("not delivered")

func notifierPath(name string) string { return "/v1/notifiers/" + segment(name) }

// Notifiers lists all notifiers, by name.
func (c *Client) Notifiers(ctx context.Context) ([]view.Notifier, error) {
	all, err := list[view.Notifier](ctx, c, "/v1/notifiers")
	if err != nil {
		return nil, fmt.Errorf("list notifiers: %w", err)
	}
	return all, nil
}

// Notifier reads a notifier.
func (c *Client) Notifier(ctx context.Context, name string) (view.Notifier, error) {
	var n view.Notifier
	if err := c.get(ctx, request{path: notifierPath(name)}, &n); err != nil {
		return view.Notifier{}, fmt.Errorf("read notifier %q: %w", name, err)
	}
	return n, nil
}

// PutNotifier creates a notifier or changes it, and answers it as it stands then. A new one is told
// of what happens from now on.
func (c *Client) PutNotifier(
	ctx context.Context, name string, conf NotifierConf,
) (view.Notifier, error) {
	body, err := json.Marshal(conf)
	if err != nil {
		return view.Notifier{}, fmt.Errorf("put notifier %q: %w", name, err)
	}
	var n view.Notifier
	if err := c.send(
		ctx, request{method: http.MethodPut, path: notifierPath(name), body: body, safe: true}, &n,
	); err != nil {
		return view.Notifier{}, fmt.Errorf("put notifier %q: %w", name, err)
	}
	return n, nil
}

// DeleteNotifier forgets a notifier.
func (c *Client) DeleteNotifier(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: notifierPath(name)}, nil,
	); err != nil {
		return fmt.Errorf("delete notifier %q: %w", name, err)
	}
	return nil
}

// TestNotifier has a message sent that nothing happened for. ErrUndelivered, with the reason, when
// it did not arrive.
func (c *Client) TestNotifier(ctx context.Context, name string) error {
	var tested struct {
		Delivered bool   `json:"delivered"`
		Trouble   string `json:"trouble"`
	}
	err := c.send(ctx, request{method: http.MethodPost, path: notifierPath(name) + "/test"},
		&tested)
	if err == nil && !tested.Delivered {
		err = fmt.Errorf("%w: %s", ErrUndelivered, tested.Trouble)
	}
	if err != nil {
		return fmt.Errorf("test notifier %q: %w", name, err)
	}
	return nil
}
