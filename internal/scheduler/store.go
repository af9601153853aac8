package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/lease"
)

// Leases keeps rights that end by themselves. internal/store/contract/contract.go says what each
// call promises.
type Leases interface {
	AcquireAll(ctx context.Context, holder string, wants []store.Lease, ttl time.Duration,
		judge int64) (store.Granted, error)
	EndAll(ctx context.Context, leases []store.Lease, remove bool) error
	Beat(ctx context.Context, held []store.Lease, ttl time.Duration,
		prefixes ...string) (store.Beat, error)
}

// Chores is what one node does for all.
type Chores interface {
	Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error)
	FreeEnded(ctx context.Context) (freed int, err error)
	Prune(ctx context.Context, limit int) (pruned int, err error)
	Retention() store.Retention
	Check(ctx context.Context) error
}

// Names of leases begin with what they are about.
const (
	nodePrefix    = "node/"     // membership, by node
	claimPrefix   = "claim/"    // who looks after a key, by kind and key
	chorePrefix   = "chore/"    // who does what one does for all
	drainPrefix   = "drain/"    // a node that is to take nothing new
	givePrefix    = "giveback/" // a claim that its owner is asked to give back
	clusterPrefix = "cluster/"  // what holds for all nodes
)

// AssignPrefix begins the names of the rows of keys that people gave to nodes: kind and key follow.
const AssignPrefix = "assign/"

// prefixes are those that a scheduler reads.
func prefixes() []string {
	return []string{nodePrefix, claimPrefix, chorePrefix, drainPrefix, givePrefix,
		AssignPrefix, clusterPrefix}
}

// drawer is the store as a keeper of leases sees it. A renewal brings back what all hold, in the
// same statement; the drawer keeps that for the round that asked.
type drawer struct {
	Leases
	prefixes []string // read with each beat
	heard    func(asked, answered time.Time, beat store.Beat)

	mu   sync.Mutex
	beat store.Beat
}

var _ lease.Store = (*drawer)(nil)

func (d *drawer) Acquire(
	ctx context.Context, holder string, wants []lease.Grant, ttl time.Duration, judge time.Time,
) (lease.Answer, error) {
	got, err := d.AcquireAll(ctx, holder, rowsOf(wants), ttl, microsOf(judge))
	return lease.Answer{Now: time.UnixMicro(got.Now), Grants: grantsOf(got.Leases)}, err
}

func (d *drawer) Renew(
	ctx context.Context, held []lease.Grant, ttl time.Duration,
) (lease.Answer, error) {
	asked := time.Now()
	got, err := d.Beat(ctx, rowsOf(held), ttl, d.prefixes...)
	if err != nil {
		return lease.Answer{}, err
	}
	d.heard(asked, time.Now(), got)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beat = got
	return lease.Answer{Now: time.UnixMicro(got.Now), Grants: grantsOf(got.Kept)}, nil
}

func (d *drawer) End(ctx context.Context, held []lease.Grant, remove bool) error {
	return d.EndAll(ctx, rowsOf(held), remove)
}

// last is what the last renewal brought back.
func (d *drawer) last() store.Beat {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.beat
}

// microsOf is a time as the store has it; 0 = never.
func microsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func rowsOf(list []lease.Grant) []store.Lease {
	leases := make([]store.Lease, len(list))
	for i, g := range list {
		leases[i] = store.Lease{Name: g.Name, Token: g.Token, Value: g.Value}
	}
	return leases
}

func grantsOf(list []store.Lease) []lease.Grant {
	grants := make([]lease.Grant, len(list))
	for i, l := range list {
		grants[i] = lease.Grant{Name: l.Name, Token: l.Token, Value: l.Value}
	}
	return grants
}
