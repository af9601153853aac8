package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/scheduler"
)

// keys are those that exactly one node must look after.
var keys = []string{"k0", "k1", "k2", "k3", "k4"}

// claims knows who looks after which key, as those who do so tell. They tell in the instant in
// which it happens, not over the bus, so it has a lock.
type claims struct {
	mu       sync.Mutex
	owners   map[string]*owner
	breaches []string
	moved    int // how often a key went to another process
}

// owner is one node's time with a key.
type owner struct {
	process *process
	token   int64
	held    context.Context // ends before anybody else can have the key
	over    bool
}

// owns tells whether its time goes on. A dead process does nothing any more, whatever it believed.
func (o *owner) owns() bool {
	return o != nil && !o.over && o.held.Err() == nil && !o.process.dead()
}

// begin notes that a process looks after a key.
func (c *claims) begin(p *process, claim scheduler.Claim) *owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, o := c.owners[claim.Key], &owner{process: p, token: claim.Token, held: claim.Held()}
	if last.owns() {
		c.breaches = append(c.breaches,
			fmt.Sprintf("I6: %v has key %q with token %d, and %v with %d", p, claim.Key, o.token,
				last.process, last.token))
	}
	if last != nil && o.token <= last.token && (o.token < last.token || last.process != p) {
		// an expired one may go on
		c.breaches = append(c.breaches,
			fmt.Sprintf("I3: %v has key %q with token %d after %d", p, claim.Key, o.token,
				last.token))
	}
	if c.owners[claim.Key] = o; last != nil && last.process != p {
		c.moved++
	}
	return o
}

// end notes that its time is over.
func (c *claims) end(o *owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.over = true
}

// unowned counts the keys that nobody looks after.
func (c *claims) unowned() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		if !c.owners[k].owns() {
			n++
		}
	}
	return n
}

// found takes what was found wrong.
func (c *claims) found() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, c.breaches = c.breaches, nil
	return list
}

// kind is the keys as a node claims them. Whoever has one finishes what it is at before it lets go,
// and stops with its node.
func (w *world) kind(p *process, alive context.Context, looks *sync.WaitGroup) scheduler.Kind {
	return scheduler.Kind{
		Name: "key",
		Keys: func(context.Context) ([]string, error) { return keys, nil },
		Look: func(ctx context.Context, c scheduler.Claim) {
			looks.Add(1)
			defer looks.Done()
			o := w.claims.begin(p, c)
			defer w.claims.end(o)
			select {
			case <-ctx.Done():
			case <-alive.Done():
			}
			work := time.NewTimer(300 * time.Millisecond)
			defer work.Stop()
			select {
			case <-work.C:
			case <-c.Held().Done():
			case <-p.ctx.Done():
			}
		},
	}
}
