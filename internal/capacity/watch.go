package capacity

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// Event is the kind of the event.
const Event = "capacity.short"

const (
	// look is how often the watch looks: each node asks all others for their workers then.
	look = 30 * time.Second
	// Patience is for how long a queue or a group wants more workers than it has before that is
	// told, and for how long it has to have enough until that is over.
	Patience = 5 * time.Minute
)

// WatchConfig of a watch. All of it is needed.
type WatchConfig struct {
	Forecasts *Forecasts
	// Judges tells whether this node tells of it, of all nodes.
	Judges func() bool
	// Tell adds an event; it does not wait.
	Tell func(store.Event)
	Log  *slog.Logger
}

// Watch tells of queues and groups that have too few workers. Every node keeps count of how long
// each has, and the one that judges tells. A node that comes to judge takes what went on for longer
// than Patience by then as told: so of a shortage there is one event, and none when the node that
// judges dies just before it would have told. One goroutine calls its methods.
type Watch struct {
	conf   WatchConfig
	at     time.Time // of what was looked at last, by the store's clock
	spells map[about]*spell
}

// about is what is short: a queue or a group.
type about struct{ kind, name string }

// spell is a time in which something is short. How long it lasts this process's clock says, as the
// store's may be set; which one it is, the same at all nodes, the store's.
type spell struct {
	since time.Time // it was seen short first
	last  time.Time // it was seen short last
	began time.Time // since, by the store's clock
	told  bool      // by this node, or by the one that judged then
}

// NewWatch makes a watch.
func NewWatch(conf WatchConfig) *Watch { return &Watch{conf: conf, spells: map[about]*spell{}} }

// Run looks until ctx ends, then returns nil.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.Round(time.Now()); err != nil && ctx.Err() == nil {
			w.conf.Log.Warn("look for queues and groups with too few workers", "error", err)
		}
	}
}

// Round looks once, unless nothing was gathered since it last did. While a node does not say which
// workers it has, nothing is known of shortage.
func (w *Watch) Round(now time.Time) error {
	seen, err := w.conf.Forecasts.Known(within)
	if err != nil || len(seen.Missing) > 0 || seen.At.Equal(w.at) {
		return err
	}
	w.at = seen.At
	for _, n := range seen.Model.Needs() {
		// of a queue that nobody serves queue.unserved tells
		if n.Known && n.Workers > 0 && n.Wanted > n.Workers {
			w.short(about{"queue", n.Queue}, now, n.Workers, n.Wanted, -1, n.Why)
		}
	}
	for i := range seen.Groups {
		if n := &seen.Groups[i]; n.Wanted > n.Workers {
			w.short(about{"group", n.Group}, now, n.Workers, n.Wanted, n.In, n.Why)
		}
	}
	for what, s := range w.spells {
		if now.Sub(s.last) >= Patience {
			delete(w.spells, what)
		}
	}
	return nil
}

// short notes that something is short in what was looked at last, and tells of it when that has
// lasted.
func (w *Watch) short(what about, now time.Time, workers, wanted, in int, why string) {
	s := w.spells[what]
	if s == nil {
		s = &spell{since: now, began: w.at}
		w.spells[what] = s
	}
	s.last = now
	if s.told || now.Sub(s.since) < Patience {
		return
	}
	s.told = true
	if !w.conf.Judges() {
		return
	}
	fields := map[string]string{
		what.kind: what.name, "workers": fmt.Sprint(workers), "wanted": fmt.Sprint(wanted),
	}
	soon := ""
	if in > 0 {
		soon = fmt.Sprintf(" within %d minutes", in)
		fields["by"] = w.at.Add(time.Duration(in) * time.Minute).UTC().Format(time.RFC3339)
	}
	w.conf.Tell(store.Event{
		Key:  fmt.Sprintf("%s/%s/%s/%d", Event, what.kind, what.name, minuteOf(s.began)),
		Kind: Event, Subject: what.name, Fields: fields,
		Text: fmt.Sprintf("%s %s has %d workers and needs %d%s: %s", what.kind, what.name, workers,
			wanted, soon, why),
	})
}
