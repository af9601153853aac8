package firing

import (
	"errors"
	"log/slog"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/tick"
)

// Config of a firer. Store, Tasks, Clock and Node are needed.
type Config struct {
	Store Store
	Tasks Tasks
	Clock *tick.Clock // wakes the firer at due times; run by the caller
	Node  string      // that stands in the rows

	// Now says what the store's clock reads. Default: this machine's.
	Now func() time.Time
	// Beat is the time between rounds. Default 1 s.
	Beat time.Duration
	// Alone: no other node can work on the store, so all keys are this one's.
	Alone bool
	// Owners says which node looks after which key, for people: Kind, a slash and the key. Default:
	// nobody knows.
	Owners func() map[string]string
	// Handled is told of each due time, or several in one row, of which this firer wrote down what
	// came of it. It must not block. Default: nobody is.
	Handled func(*store.Fire)
	// EventsAdded is called after events were appended to the log. It must not block. Default:
	// nothing is called.
	EventsAdded func()
	// Log is where the firer tells what went wrong. Default: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var missing []error
	if c.Store == nil || c.Tasks == nil {
		missing = append(missing, errors.New("no Store or no Tasks"))
	}
	if c.Clock == nil || c.Node == "" {
		missing = append(missing, errors.New("no Clock or no Node"))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Beat <= 0 {
		c.Beat = time.Second
	}
	if c.Owners == nil {
		c.Owners = func() map[string]string { return nil }
	}
	if c.Handled == nil {
		c.Handled = func(*store.Fire) {}
	}
	if c.EventsAdded == nil {
		c.EventsAdded = func() {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(missing...)
}
