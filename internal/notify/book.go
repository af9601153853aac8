package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// PutNotifier creates or changes a notifier, and answers it as it stands then. Secrets that are
// left out stay as they are, as long as they go to the same place; *task.InvalidError.
func (s *Sender) PutNotifier(
	ctx context.Context, n store.Notifier,
) (store.Changed[store.Notifier], error) {
	if n.Kind == kindRun && !s.conf.Commands {
		var e task.InvalidError
		e.Add("body.kind", "this node runs no commands of notifiers: its operator has to allow "+
			"it, with --allow-commands")
		return store.Changed[store.Notifier]{}, e.Err()
	}
	complete(&n)
	body := rendered(&n)           // not in the store's transaction, which keeps others waiting
	if !limits.ValidName(n.Name) { // no store is asked for what can't be a name
		return store.Changed[store.Notifier]{}, check(&n, body)
	}
	changed, err := s.conf.Store.ChangeNotifier(ctx, n.Name,
		func(is *store.Notifier, stands bool) error {
			put := n
			if stands {
				put.Secrets = kept(is, &put)
			}
			*is = put
			return check(is, body)
		})
	if err != nil {
		return store.Changed[store.Notifier]{}, err
	}
	s.Look()
	return changed, nil
}

// find looks a notifier up.
func (s *Sender) find(ctx context.Context, name string) (n store.Notifier, stands bool, err error) {
	list, err := s.conf.Store.Notifiers(ctx)
	if err != nil {
		return n, false, err
	}
	for _, n := range list {
		if n.Name == name {
			return n, true, nil
		}
	}
	return n, false, nil
}

// kept are the secrets of a notifier that changes. A key belongs to its URL and a password to its
// server: they don't go along to another, nor a password onto an open connection.
func kept(old, n *store.Notifier) store.Secrets {
	s := n.Secrets
	if old.Kind != n.Kind {
		return s
	}
	if s.URL == "" {
		s.URL = old.Secrets.URL
	}
	if s.Key == "" && s.URL == old.Secrets.URL {
		s.Key = old.Secrets.Key
	}
	if s.Password == "" && old.Server == n.Server && old.User == n.User &&
		(n.TLS != tlsNone || old.TLS == tlsNone) {
		s.Password = old.Secrets.Password
	}
	return s
}

// Notifiers lists all, by name.
func (s *Sender) Notifiers(ctx context.Context) ([]store.Notifier, error) {
	return s.conf.Store.Notifiers(ctx)
}

// DeleteNotifier forgets one; store.ErrNotFound.
func (s *Sender) DeleteNotifier(ctx context.Context, name string) error {
	return s.conf.Store.DeleteNotifier(ctx, name)
}

// TestNotifier sends a message that no event stands behind, whatever the notifier is on;
// store.ErrNotFound. trouble is why it could not be delivered, "" when it was.
func (s *Sender) TestNotifier(ctx context.Context, name string) (trouble string, err error) {
	n, stands, err := s.find(ctx, name)
	if err == nil && !stands {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("test notifier %q: %w", name, err)
	}
	now := time.Now()
	m := messageOf(&n,
		&store.Event{Time: now.UnixMicro(), Kind: "notifier.test", Subject: name,
			Text: "This is a test of the notifier " + name + "."}, now)
	m.id = fmt.Sprintf("test-%d", now.UnixMicro())
	if err := s.sendWithin(ctx, &n, m); err != nil {
		return err.Error(), nil
	}
	return "", nil
}
