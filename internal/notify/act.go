package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/command"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What acts on events, in place of telling people: a task that is submitted, a program that is run.
// Acts may cause events, so each notifier makes so many in a while and no more, and none for what
// is about its own doing: see own.

// acts tells whether a notifier's messages do something in this system.
func acts(n *store.Notifier) bool { return n.Kind == kindSubmit || n.Kind == kindRun }

// own tells whether an event is about what the notifier itself makes: itself, or the queue that it
// submits to, and how many workers that needs. Acting on these would go round for ever.
func own(n *store.Notifier, e *store.Event) bool {
	if !acts(n) {
		return false
	}
	kind := strings.TrimPrefix(e.Kind, "audit.")
	return e.Subject == n.Name && strings.HasPrefix(kind, "notifier.") ||
		n.Kind == kindSubmit && e.Subject == n.Queue && strings.HasPrefix(kind, "queue.") ||
		n.Kind == kindSubmit && e.Fields["queue"] == n.Queue &&
			strings.HasPrefix(kind, "capacity.")
}

// document is an event as tasks and programs are given it.
func document(m *message) []byte {
	e := &m.event
	fields := e.Fields
	if fields == nil {
		fields = map[string]string{}
	}
	return encoded(struct {
		Seq     int64             `json:"seq"`
		Time    string            `json:"time"`
		Kind    string            `json:"kind"`
		Subject string            `json:"subject"`
		Text    string            `json:"text"`
		Fields  map[string]string `json:"fields"`
	}{e.Seq, timeOf(e), e.Kind, e.Subject, e.Text, fields})
}

func timeOf(e *store.Event) string { return time.UnixMicro(e.Time).UTC().Format(timeForm) }

// keyKept is how long the key of an event's task is remembered: longer than the event is, so that
// whoever sends it again finds it submitted.
const keyKept = store.EventsKept + 24*time.Hour

// submit makes a message a task. Its key is the notifier's and the event's, so a message that is
// sent again, because an answer was lost or a process ended in between, makes no second task.
func (s *Sender) submit(ctx context.Context, n *store.Notifier, m message) error {
	if s.conf.Submit == nil {
		return errors.New("this node submits no tasks")
	}
	name := sha256.Sum256([]byte(n.Name)) // a name may be longer than a key
	err := s.conf.Submit(ctx, task.Submission{
		Queue: n.Queue, Context: json.RawMessage(document(&m)),
		Key: m.id + "/" + hex.EncodeToString(name[:16]), KeyFor: keyKept,
	})
	if err != nil {
		return fmt.Errorf("submit to queue %q: %w", n.Queue, err)
	}
	return nil
}

// maxSaid is how much of what a program says is kept, in bytes.
const maxSaid = 1000

// run runs the notifier's program for a message: the event is its input, in JSON, and stands in its
// environment. It has to exit with 0.
func (s *Sender) run(ctx context.Context, n *store.Notifier, m message) error {
	if !s.conf.Commands {
		return errors.New("the node that sends notices runs no commands: its operator has to " +
			"allow it, with --allow-commands")
	}
	out, said, err := command.Command{
		Argv: n.Command, Env: environment(n, &m), Stdin: document(&m), Limit: maxSaid,
	}.Run(ctx)
	if err != nil {
		return err
	}
	s.conf.Log.Debug("command of a notifier ended", "notifier", n.Name, "event", m.event.Seq,
		"output", cut(printable(out), 200), "complaint", cut(printable([]byte(said)), 200))
	return nil
}

// environment is what a program sees of an event besides its input: ROTA_EVENT_SEQ, _ID, _TIME,
// _KIND, _SUBJECT, _TEXT, and the name of the notifier.
func environment(n *store.Notifier, m *message) []string {
	e := &m.event
	pairs := []string{
		"ROTA_NOTIFIER", n.Name, "ROTA_EVENT_ID", m.id, "ROTA_EVENT_SEQ", fmt.Sprint(e.Seq),
		"ROTA_EVENT_TIME", timeOf(e), "ROTA_EVENT_KIND", e.Kind, "ROTA_EVENT_SUBJECT", e.Subject,
		"ROTA_EVENT_TEXT", e.Text,
	}
	env := make([]string, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		env = append(env, pair[0]+"="+strings.ReplaceAll(pair[1], "\x00", ""))
	}
	return env
}
