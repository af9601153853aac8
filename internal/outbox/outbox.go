// Package outbox keeps the events that a node has to tell until the store has taken them.
//
//	out := outbox.New(outbox.Config{Node: "n1", Append: store.Append})
//	go out.Run(ctx)
//	out.Add(store.Event{Kind: store.NodeOnline, Subject: "n1", Text: "node n1 came"})
//
// Whoever adds an event never waits for the store. What the store does not take is tried again
// every few seconds. Each event has a key, so that one whose write had an unknown outcome stands
// once all the same.
package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// Limits of what waits while the store takes nothing, and how long it is left alone then.
const (
	maxWaiting = 1000
	retryEvery = 5 * time.Second
)

// Config of an outbox. Node and Append are needed.
type Config struct {
	// Node is this node's name.
	Node string
	// Append writes events down. One whose key stands already changes nothing.
	Append func(context.Context, []store.Event) (int, error)
	// Written is called after events were written. It must not wait. Default: nobody is told.
	Written func()
	// Log is told of events that wait, and of those that are lost. Default: nowhere.
	Log *slog.Logger
}

// Outbox holds events until they are written. Its methods may be called at the same time.
type Outbox struct {
	conf  Config
	start string        // a word that no other start of a node has
	wake  chan struct{} // size 1: something waits
	round chan struct{} // size 1: has the round under way, which alone takes from what waits

	mu      sync.Mutex
	added   int           // events so far: they number the keys
	full    bool          // the store had no room when it was checked last
	waiting []store.Event // in the order of Add, at most maxWaiting
}

// New makes an empty outbox. It writes nothing before Run or Round.
func New(conf Config) *Outbox {
	if conf.Written == nil {
		conf.Written = func() {}
	}
	if conf.Log == nil {
		conf.Log = slog.New(slog.DiscardHandler)
	}
	return &Outbox{
		conf: conf, start: strings.ToLower(rand.Text()[:10]), wake: make(chan struct{}, 1),
		round: make(chan struct{}, 1),
	}
}

// Add adds an event. One without a key gets a key of its own: it is another event whenever it is
// added. When too many wait for the store, the event is lost and the log says so.
func (o *Outbox) Add(e store.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.added++
	if e.Key == "" {
		e.Key = fmt.Sprintf("%s/%s/%s/%d", e.Kind, e.Subject, o.start, o.added)
	}
	if len(o.waiting) == maxWaiting {
		o.conf.Log.Error("an event is lost: too many wait for the store", "kind", e.Kind, "subject",
			e.Subject)
		return
	}
	o.waiting = append(o.waiting, e)
	select {
	case o.wake <- struct{}{}:
	default: // it is awake
	}
}

// Run writes events until ctx ends, then returns nil. What waits then Round writes.
func (o *Outbox) Run(ctx context.Context) error {
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.wake:
		case <-retry.C:
		}
		if err := o.Round(ctx); err != nil && ctx.Err() == nil {
			o.conf.Log.Warn("events wait for the store", "error", err)
		}
	}
}

// Round writes what waits. After an error it waits on.
func (o *Outbox) Round(ctx context.Context) error {
	select {
	case o.round <- struct{}{}:
		defer func() { <-o.round }()
	case <-ctx.Done():
		return fmt.Errorf("wait for another round: %w", ctx.Err())
	}
	o.mu.Lock()
	list := o.waiting
	o.mu.Unlock()
	if err := o.Write(ctx, list...); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = o.waiting[len(list):]
	return nil
}

// Write writes events down at once, past those that wait. They need keys. When it returns nil they
// stand.
func (o *Outbox) Write(ctx context.Context, events ...store.Event) error {
	if len(events) == 0 {
		return nil
	}
	if _, err := o.conf.Append(ctx, events); err != nil {
		return fmt.Errorf("write %d events: %w", len(events), err)
	}
	o.conf.Written()
	return nil
}

// AddMember adds that this node comes or goes, under the token of its membership: once for each,
// however often it is added.
func (o *Outbox) AddMember(kind, text string, token int64) {
	node := o.conf.Node
	o.Add(store.Event{
		Key: fmt.Sprintf("%s/%s/%d", kind, node, token), Kind: kind, Subject: node,
		Text:   fmt.Sprintf("node %s %s", node, text),
		Fields: map[string]string{"token": fmt.Sprint(token)},
	})
}

// Checked is told how each check of the store ended. It adds an event when the store begins to have
// no room, and when it has again.
func (o *Outbox) Checked(err error) {
	full := errors.Is(err, store.ErrFull)
	if !full && err != nil {
		return // nothing can be written down
	}
	o.mu.Lock()
	was := o.full
	o.full = full
	o.mu.Unlock()
	e := store.Event{Subject: o.conf.Node}
	switch {
	case full && !was:
		e.Kind = store.StoreFull
		e.Text = fmt.Sprintf("node %s refuses submissions: %v", o.conf.Node, err)
	case was && !full:
		e.Kind = store.StoreOK
		e.Text = fmt.Sprintf("node %s takes submissions again: the store has room", o.conf.Node)
	default:
		return
	}
	o.Add(e)
}
