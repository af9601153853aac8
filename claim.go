package rota

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/lease"
)

// Why a claim ends: causes of the context of whoever looks after it, and of Claim.Held. Find them
// with errors.Is of context.Cause.
var (
	// another node is to have the key: one that has fewer, or this one is drained, or somebody
	// asked for it
	ErrGiveBack = scheduler.ErrGiveBack
	ErrNoKey    = scheduler.ErrNoKey    // there is no key of that name any more
	ErrStopping = scheduler.ErrStopping // this node is stopping

	// the store was not heard in time: another node may have the key soon
	ErrExpired = lease.ErrExpired
	ErrLost    = lease.ErrLost // another node has the key
)

// Claim is a key in the hands of this node.
type Claim struct {
	Kind, Key string
	// Token is greater than that of any owner before. What is written on behalf of the key carries
	// it, so that the writes of an owner that was taken for dead and isn't are known, and refused.
	Token int64

	held func() context.Context
}

// Held is the context for what has begun. It outlives the one that Look was called with, and ends
// before any other node can have the key, with ErrExpired or ErrLost.
func (c Claim) Held() context.Context { return c.held() }

// maxKey is the longest key in bytes.
const maxKey = 512

// ownKinds are kinds that rota claims for itself.
var ownKinds = []string{"schedule", "group"}

// Claim makes each key of a kind be looked after by exactly one of the nodes that claim the kind:
// schedules of your own, tenants, mailboxes, whatever must be done by one process and by no second.
// The nodes share the keys out evenly, and when one of them dies, is drained, or stops, the others
// take over its keys. Call it before Run.
//
// keys lists all that there are; it is asked once a beat, by every node. Its order does not matter,
// and an error changes nothing. A key is at most 512 bytes of printable text.
//
// look is called when this node has acquired a key, in a goroutine of its own. Its context ends
// when the key is to be given back; it then finishes what it is at, under Claim.Held, and returns.
// Only then can another node have the key. When look returns by itself, other nodes are the first
// to try for the key. A panic in it ends the process, as in any goroutine.
//
// Who is alive is judged by a clock, so "exactly one" holds for nodes whose clocks run at the same
// speed; writes that carry Claim.Token make it hold whatever happens.
func (n *Node) Claim(
	kind string, keys func(context.Context) ([]string, error), look func(context.Context, Claim),
) error {
	kind = names.Canonical(kind)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.running:
		return fmt.Errorf("claim %q: the node runs already", kind)
	case keys == nil || look == nil:
		return fmt.Errorf("claim %q: it needs keys and somebody who looks after them", kind)
	case !limits.ValidName(kind):
		return fmt.Errorf("claim %q: a kind %s", kind, limits.NameRule)
	case slices.Contains(ownKinds, kind):
		return fmt.Errorf("claim %q: this kind is rota's own", kind)
	}
	return n.rounds.Claim(scheduler.Kind{
		Name: kind,
		Keys: func(ctx context.Context) ([]string, error) {
			all, err := keys(ctx)
			if err != nil {
				return nil, err
			}
			return validKeys(all)
		},
		Look: func(ctx context.Context, c scheduler.Claim) {
			look(ctx, Claim{c.Kind, c.Key, c.Token, c.Held})
		},
	})
}

// validKeys are the keys, each once, or an error that says what is wrong with them.
func validKeys(all []string) ([]string, error) {
	var wrong []error
	for i, key := range all {
		if key == "" || !limits.ValidText(key, maxKey) {
			wrong = append(wrong,
				fmt.Errorf("key %d, %.40q, must be 1 to %d bytes of printable text", i, key,
					maxKey))
		}
	}
	if len(wrong) > 10 {
		wrong = append(wrong[:10], fmt.Errorf("and %d more", len(wrong)-10))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	keys := slices.Sorted(slices.Values(all)) // all is the caller's
	return slices.Compact(keys), nil
}
