package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// gatherBytes is how much one gathered request may weigh, some room below the server's limit of
// 32 MiB. A single caller's part may weigh more; then it travels alone and the server judges it.
const gatherBytes = 24 << 20

// gather turns many small calls into few large ones: at most flights requests at a time, and what
// arrives meanwhile goes into the next. Parts of one caller stay together. No order is promised
// between callers.
type gather[Q, A any] struct {
	flights int            // at a time
	limit   int            // items per flight
	size    func(*Q) int   // bytes of an item on the wire, about
	safe    func([]Q) bool // whether they may be sent twice
	// one request; the answers are in the order of the items
	fly     func(context.Context, []Q, bool) ([]A, error)
	running *sync.WaitGroup // of the flights

	mu      sync.Mutex
	waiting []*part[Q, A]
	flying  int
}

// part is what one caller contributes.
type part[Q, A any] struct {
	items []Q
	bytes int
	safe  bool
	done  chan struct{} // closed when answers and err stand
	// set when it flies: the caller doesn't wait any longer; guarded by gather.mu
	leave func()

	answers []A
	err     error
}

// add lets items take part in the next flight and waits for their answers. When ctx ends before
// they fly, they never do; when it ends later, the error is ErrOutcomeUnknown. A flight that nobody
// waits for any more is cancelled.
func (g *gather[Q, A]) add(ctx context.Context, items []Q) ([]A, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	g.mu.Lock()
	if g.flying < g.flights && len(g.waiting) == 0 {
		g.flying++
		g.running.Add(1)
		g.mu.Unlock()
		defer g.running.Done()
		return g.alone(ctx, items)
	}
	g.mu.Unlock()
	p := &part[Q, A]{items: items, safe: g.safe(items), done: make(chan struct{})}
	for i := range items {
		p.bytes += g.size(&items[i])
	}
	g.mu.Lock()
	g.waiting = append(g.waiting, p)
	if g.flying < g.flights {
		g.flying++
		g.running.Go(g.run)
	}
	g.mu.Unlock()

	select {
	case <-p.done:
		return p.answers, p.err
	case <-ctx.Done():
	}
	select {
	case <-p.done: // both at once: what is known is not said to be unknown
		return p.answers, p.err
	default:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == p {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			return nil, context.Cause(ctx)
		}
	}
	p.leave()
	return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
}

// apart is add for items that nobody else's may travel with: they fly at once.
func (g *gather[Q, A]) apart(ctx context.Context, items []Q) ([]A, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	g.running.Add(1)
	defer g.running.Done()
	return g.one(ctx, items)
}

// alone is the flight of one caller, in its own goroutine. Others fly behind it.
func (g *gather[Q, A]) alone(ctx context.Context, items []Q) ([]A, error) {
	defer g.land()
	return g.one(ctx, items)
}

// one is a request of one caller's items.
func (g *gather[Q, A]) one(ctx context.Context, items []Q) ([]A, error) {
	answers, err := g.fly(ctx, items, g.safe(items))
	var refused *Error
	switch {
	case err == nil && len(answers) != len(items):
		return nil, fmt.Errorf("%d answers to %d items", len(answers), len(items))
	case err != nil && ctx.Err() != nil && !errors.As(err, &refused):
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	}
	return answers, err
}

// land ends a flight of one caller: those who wait fly next.
func (g *gather[Q, A]) land() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 {
		g.running.Go(g.run)
		return
	}
	g.flying--
}

// run flies until nobody waits.
func (g *gather[Q, A]) run() {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		parts := g.board(cancel)
		if parts == nil {
			cancel()
			return
		}
		g.send(ctx, parts)
		cancel()
	}
}

// board takes the parts of the next flight out of the waiting ones. The last one to leave cancels
// the flight.
func (g *gather[Q, A]) board(cancel func()) []*part[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.flying--
		return nil
	}
	n, items, bytes := 0, 0, 0
	for _, p := range g.waiting {
		if n > 0 && (items+len(p.items) > g.limit || bytes+p.bytes > gatherBytes) {
			break
		}
		n, items, bytes = n+1, items+len(p.items), bytes+p.bytes
	}
	parts := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	if len(g.waiting) == 0 {
		g.waiting = nil
	}
	aboard := n
	leave := func() {
		if aboard--; aboard == 0 {
			cancel()
		}
	}
	for _, p := range parts {
		p.leave = leave
	}
	return parts
}

// send makes one request of the parts and answers each. One caller's fault must not be another's:
// what is refused together goes again in halves, down to the single part that is wrong; and when
// the outcome is unknown, the parts that may be sent twice are.
func (g *gather[Q, A]) send(ctx context.Context, parts []*part[Q, A]) {
	items, safe := parts[0].items, parts[0].safe
	if len(parts) > 1 {
		items = nil
		for _, p := range parts {
			items = append(items, p.items...)
			safe = safe && p.safe
		}
	}
	answers, err := g.fly(ctx, items, safe)
	if err == nil && len(answers) != len(items) {
		err = fmt.Errorf("%d answers to %d items", len(answers), len(items))
	}
	var refused *Error
	switch {
	case err == nil:
		for _, p := range parts {
			p.answers, answers = answers[:len(p.items):len(p.items)], answers[len(p.items):]
			close(p.done)
		}
	case len(parts) > 1 && errors.Is(err, ErrOutcomeUnknown):
		var again []*part[Q, A]
		for _, p := range parts {
			if p.safe {
				again = append(again, p)
				continue
			}
			p.err = err
			close(p.done)
		}
		if len(again) > 0 {
			g.send(ctx, again)
		}
	case len(parts) > 1 && errors.As(err, &refused) && errors.Is(err, ErrInvalid):
		g.send(ctx, parts[:len(parts)/2])
		g.send(ctx, parts[len(parts)/2:])
	default:
		for _, p := range parts {
			p.err = err
			close(p.done)
		}
	}
}
