package store

import (
	"encoding/json"
	"fmt"
)

// Notifier tells somebody of events.
type Notifier struct {
	Name string   `json:"-"`
	Kind string   `json:"kind"` // "email", "webhook", "submit" or "run"
	On   []string `json:"on"`   // kinds of events, see [Matches]; none = all
	// what they must be about, see [Matches]; none = anything
	Subjects []string `json:"subjects,omitempty"`

	// Of a webhook.
	Format   string `json:"format,omitempty"`   // what the body looks like
	Template string `json:"template,omitempty"` // of the body, in place of the format's own
	Chat     string `json:"chat,omitempty"`     // which one, where the format asks for it

	Queue   string   `json:"queue,omitempty"`   // of a submission: where its tasks go
	Command []string `json:"command,omitempty"` // of a run: the program, and its words

	// Of e-mail.
	Server string   `json:"server,omitempty"` // host:port
	TLS    string   `json:"tls,omitempty"`    // how the connection is protected
	User   string   `json:"user,omitempty"`
	From   string   `json:"from,omitempty"`
	To     []string `json:"to,omitempty"`

	Secrets Secrets  `json:"-"`
	Served  Progress `json:"-"`
}

// Secrets of a notifier. They go into the store and to where they belong, and nowhere else.
type Secrets struct {
	URL      Secret // of a webhook: those of chats are all that it takes to write there
	Key      Secret // that a webhook's messages are signed with
	Password Secret // of the mail server's user
}

// Secret is a text that never shows itself: printed, logged or encoded it is only a mark.
type Secret string

const secretMark = "…"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return secretMark
}

// Format keeps every verb of package fmt from the text.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText keeps encoders and loggers from the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Progress is how far a notifier was served, and what keeps it from going on.
type Progress struct {
	Delivered int64  // seq up to which
	Failing   int64  // since when nothing can be delivered; 0 = it can
	Told      bool   // there is an event that says so
	Trouble   string // why, for people; no secret stands in it
}

// Columns are the configuration as stores keep it: what may be shown, and what may not.
func (n *Notifier) Columns() (shown, secret []byte, err error) {
	if shown, err = json.Marshal(n); err != nil {
		return nil, nil, err
	}
	secret, err = json.Marshal([]string{string(n.Secrets.URL), string(n.Secrets.Key),
		string(n.Secrets.Password)})
	return shown, secret, err
}

// SetColumns is the inverse of Columns.
func (n *Notifier) SetColumns(shown, secret []byte) error {
	var s [3]string
	if err := json.Unmarshal(shown, n); err != nil {
		return fmt.Errorf("read notifier %q: %w", n.Name, err)
	}
	if err := json.Unmarshal(secret, &s); err != nil {
		return fmt.Errorf("read secrets of notifier %q: damaged", n.Name) // err would show them
	}
	n.Secrets = Secrets{Secret(s[0]), Secret(s[1]), Secret(s[2])}
	return nil
}
