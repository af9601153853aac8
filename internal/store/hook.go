package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Hook lets somebody else's program call a node: what it sends, signed with a secret that both
// know, becomes a task, or a signal.
type Hook struct {
	Name string `json:"-"`

	// How what comes is signed: see package hook.
	Scheme    string        `json:"scheme"`
	Header    string        `json:"header,omitempty"` // that has the signature, of scheme "plain"
	Prefix    string        `json:"prefix,omitempty"` // of the signature, of scheme "plain"
	Tolerance time.Duration `json:"tolerance,omitempty"`
	// ID is where the id of a delivery stands: a JSON pointer into the body, or a header; "" =
	// where the scheme has it.
	ID string `json:"id,omitempty"`
	// Headers go into what it becomes.
	Headers []string `json:"headers,omitempty"`

	// Of a hook that submits tasks.
	Queue    string            `json:"queue,omitempty"`
	Stage    string            `json:"stage,omitempty"`
	Priority time.Duration     `json:"priority,omitempty"`
	GroupKey string            `json:"group_key,omitempty"` // a JSON pointer into the body
	Meta     map[string]string `json:"meta,omitempty"`

	// Of a hook that sends signals.
	Signal string        `json:"signal,omitempty"` // its name
	Key    string        `json:"key,omitempty"`    // a JSON pointer into the body
	Keep   time.Duration `json:"keep,omitempty"`

	// Secrets are what may have signed what comes: several while one is replaced by another. They
	// go into the store and to where signatures are checked, and nowhere else.
	Secrets []Secret `json:"-"`
}

// Columns are the configuration as stores keep it: what may be shown, and what may not.
func (h *Hook) Columns() (shown, secret []byte, err error) {
	if shown, err = json.Marshal(h); err != nil {
		return nil, nil, err
	}
	var list []string
	for _, s := range h.Secrets {
		list = append(list, string(s))
	}
	secret, err = json.Marshal(list)
	return shown, secret, err
}

// SetColumns is the inverse of Columns.
func (h *Hook) SetColumns(shown, secret []byte) error {
	if err := json.Unmarshal(shown, h); err != nil {
		return fmt.Errorf("read hook %q: %w", h.Name, err)
	}
	var list []string
	if err := json.Unmarshal(secret, &list); err != nil {
		return fmt.Errorf("read secrets of hook %q: damaged", h.Name) // err would show them
	}
	h.Secrets = nil
	for _, s := range list {
		h.Secrets = append(h.Secrets, Secret(s))
	}
	return nil
}
