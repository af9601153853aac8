package rota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/scheduler"
)

// chronicle writes down what this node has to tell. Whoever tells never waits: what the store does not take now is tried again, and an
// event has a key, so that one of unknown outcome stands once all the same.
type chronicle struct {
	log    *slog.Logger
	write  func(context.Context, []rows.Event) (int, error)
	look   func() // told after each event
	node   string
	origin string        // a word that no other start of a node has
	hint   chan struct{} // there is something to write

	mu      sync.Mutex
	n       int // events that were numbered
	full    bool
	waiting []rows.Event
}

func newChronicle(node string, log *slog.Logger, write func(context.Context, []rows.Event) (int, error), look func()) *chronicle {
	return &chronicle{log: log, write: write, look: look, node: node, origin: strings.ToLower(rand.Text()[:10]), hint: make(chan struct{}, 1)}
}

// Limits of what waits while the store takes nothing, and how long it is left alone then.
const (
	maxWaiting     = 1000
	chroniclePause = 5 * time.Second
)

// tell adds an event. One without a key is this node's alone.
func (c *chronicle) tell(e rows.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; e.Key == "" {
		e.Key = fmt.Sprintf("%s/%s/%s/%d", e.Kind, e.Subject, c.origin, c.n)
	}
	if len(c.waiting) == maxWaiting {
		c.log.Error("an event is lost: too many wait for the store", "kind", e.Kind, "subject", e.Subject)
		return
	}
	c.waiting = append(c.waiting, e)
	select {
	case c.hint <- struct{}{}:
	default: // one hint is enough
	}
}

// Run writes events until ctx ends.
func (c *chronicle) Run(ctx context.Context) error {
	retry := time.NewTicker(chroniclePause)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.hint:
		case <-retry.C:
		}
		if err := c.Round(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("events wait for the store", "error", err)
		}
	}
}

// Round writes what waits. It is called by one at a time.
func (c *chronicle) Round(ctx context.Context) error {
	c.mu.Lock()
	list := c.waiting
	c.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	if _, err := c.write(ctx, list); err != nil {
		return err
	}
	c.mu.Lock()
	c.waiting = c.waiting[len(list):]
	c.mu.Unlock()
	c.look()
	return nil
}

// member tells that this node comes or goes, under the token of its membership.
func (c *chronicle) member(kind, text string, token int64) {
	c.tell(rows.Event{
		Key: fmt.Sprintf("%s/%s/%d", kind, c.node, token), Kind: kind, Subject: c.node, Text: fmt.Sprintf("node %s %s", c.node, text),
		Fields: map[string]string{"token": fmt.Sprint(token)},
	})
}

// noted writes down what the scheduler tells for all nodes, before it returns. That a node came, or left in order, the node itself tells.
func (c *chronicle) noted(ctx context.Context, told ...scheduler.Event) error {
	var list []rows.Event
	for _, e := range told {
		if e.Kind == scheduler.NodeJoined || e.Kind == scheduler.NodeLeft {
			continue
		}
		about := "the cluster"
		if e.Node != "" {
			about = "node " + e.Node
		}
		list = append(list, rows.Event{
			Key: e.Key, Kind: strings.Replace(e.Kind, "_", ".", 1), Subject: e.Node, Text: fmt.Sprintf("%s: %s", about, e.Detail),
		})
	}
	if len(list) == 0 {
		return nil
	}
	if _, err := c.write(ctx, list); err != nil {
		return err
	}
	c.look()
	return nil
}

// checked is told how each look at the store ended.
func (c *chronicle) checked(err error) {
	full := errors.Is(err, rows.ErrFull)
	if !full && err != nil {
		return // nothing can be written down
	}
	c.mu.Lock()
	was := c.full
	c.full = full
	c.mu.Unlock()
	switch {
	case full && !was:
		c.tell(rows.Event{Kind: rows.StoreFull, Subject: c.node, Text: fmt.Sprintf("node %s refuses submissions: %v", c.node, err)})
	case was && !full:
		c.tell(rows.Event{Kind: rows.StoreOK, Subject: c.node, Text: fmt.Sprintf("node %s takes submissions again: the store has room", c.node)})
	}
}

// watched are the chores, of which the chronicle learns how the store is.
type watched struct {
	scheduler.Chores
	seen func(error)
}

func (w watched) Check(ctx context.Context) error {
	err := w.Chores.Check(ctx)
	w.seen(err)
	return err
}
