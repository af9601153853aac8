package sim

import (
	"context"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/findings"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// bug is a wrong program that the simulation must find. The zero value is none.
type bug struct {
	name string
	// of the protocol's list, that the wrong program brings back; 0 = another
	flaw int
	mode mode // in which it must be found
	// the seeds from here on must find it; what it needs is rare, and seeds of before lack it
	from   uint64
	store  func(*planted)                    // what the nodes see of the facts is wrong
	secret func(node string) seal.Secret     // nodes seal tokens with other secrets
	beat   func(*ledger, string, *task.Beat) // a node hears other beats than its worker sends
	// what a handler's transaction finds and writes is wrong
	commits func(*world, *process, *store.Stood, *store.Report)
	trusts  bool // clients take silence for success
	guess   bool // nodes take a guard from a process that lives
}

// planted is the model with one of its verbs replaced by a wrong one. The bus calls one at a time.
type planted struct {
	*model.Model
	world  *world
	submit func(context.Context, store.Submission) (store.Submitted, error)
	take   func(context.Context, store.TakeRequest) (store.Taken, error)
	give   func(context.Context, store.GiveRequest) error
	held   func(context.Context, store.Holder, []int64) ([]store.HeldSpan, error)
	settle func(context.Context, store.Settlement) (store.Settled, error)
	sync   func(context.Context, store.SyncRequest) (store.Synced, error)
	act    func(context.Context, []store.Action) ([]store.Acted, error)
	signal func(context.Context, store.Signal) (store.Signalled, error)
	look   func(context.Context, store.LookRequest) (store.Looked, error)
	due    func(context.Context, store.OverdueQuery) (store.Overdue, error)
	// expired is TakeExpired.
	expired func(context.Context, store.Holder, int) (store.Taken, error)
	begin   func(context.Context, store.BeginRequest) (store.Begun, error)
	stand   func(context.Context, []task.ID) ([]store.Stood, error)
	beat    func(ctx context.Context, held []store.Lease, ttl time.Duration,
		prefixes ...string) (store.Beat, error)
	free  func(context.Context, store.Holder, int64) (int, error)
	ended func(context.Context) (int, error) // FreeEnded
	// acquire is AcquireAll.
	acquire func(ctx context.Context, holder string, wants []store.Lease, ttl time.Duration,
		judge int64) (store.Granted, error)
}

func plant(w *world, b bug) *planted {
	m := w.facts
	p := &planted{
		Model: m, world: w, submit: m.Submit, take: m.Take, give: m.Give, held: m.Held,
		settle: m.Settle, sync: m.Sync, act: m.Act, signal: m.Signal, look: m.Look,
		due: m.Overdue, stand: m.Stand, beat: m.Beat, free: m.Free, ended: m.FreeEnded,
		acquire: m.AcquireAll, expired: m.TakeExpired, begin: m.Begin,
	}
	b.store(p)
	return p
}

func (p *planted) FreeEnded(ctx context.Context) (int, error) { return p.ended(ctx) }

func (p *planted) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	return p.submit(ctx, s)
}

func (p *planted) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	return p.take(ctx, r)
}

func (p *planted) TakeExpired(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	return p.expired(ctx, h, limit)
}

func (p *planted) Give(ctx context.Context, g store.GiveRequest) error { return p.give(ctx, g) }

func (p *planted) Held(
	ctx context.Context, h store.Holder, known []int64,
) ([]store.HeldSpan, error) {
	return p.held(ctx, h, known)
}

func (p *planted) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	return p.settle(ctx, s)
}

func (p *planted) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	return p.sync(ctx, r)
}

func (p *planted) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	return p.begin(ctx, r)
}

func (p *planted) Overdue(ctx context.Context, q store.OverdueQuery) (store.Overdue, error) {
	return p.due(ctx, q)
}

func (p *planted) Act(ctx context.Context, a []store.Action) ([]store.Acted, error) {
	return p.act(ctx, a)
}

func (p *planted) Signal(ctx context.Context, s store.Signal) (store.Signalled, error) {
	return p.signal(ctx, s)
}

func (p *planted) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	return p.look(ctx, r)
}

func (p *planted) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	return p.stand(ctx, ids)
}

func (p *planted) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	return p.beat(ctx, held, ttl, prefixes...)
}

func (p *planted) Free(ctx context.Context, self store.Holder, judge int64) (int, error) {
	return p.free(ctx, self, judge)
}

func (p *planted) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	return p.acquire(ctx, holder, wants, ttl, judge)
}

// takeOnceHealed takes nothing before the world heals, which by itself is no bug: what a dead node
// had is in nobody's memory meanwhile, so that only the chores can judge it.
func (p *planted) takeOnceHealed(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	if p.world.healed.IsZero() {
		return store.Taken{Now: p.now()}, nil
	}
	return p.Model.Take(ctx, r)
}

// now is what time it is in the store.
func (p *planted) now() int64 { return p.world.storeNow() }

// seldom is true in one of n cases, by the seed.
func (p *planted) seldom(n int) bool { return p.world.bus.luck.IntN(n) == 0 }

// right is the token that a report at a seq must have to count: that of the running row, else of
// the task's span.
func (p *planted) right(ctx context.Context, id task.ID, seq int32) (t task.Token, ok bool) {
	stood, err := p.Model.Stand(ctx, []task.ID{id})
	if err != nil || !stood[0].Found || stood[0].Final || stood[0].Seq != seq {
		return t, false
	}
	t = task.Token{Span: stood[0].Owner.ID, SpanToken: stood[0].Owner.Token, Seq: seq}
	if r := stood[0].Running; r != nil {
		t.Span, t.SpanToken = r.Span, r.Token
	}
	return t, true
}

// enough is how many seeds a planted bug has to show itself.
const enough = 300

func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it shows what the simulation finds: short runs, which look for races, need not")
	}
	seeds := findings.Open(t, "testdata/findings")
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if seeds.Search(t, b.name, b.from+1, b.from+enough, func(seed uint64) bool {
				r := simulate(t, b.mode, seed, b, false)
				if len(r.breaches) > 0 {
					t.Logf("flaw %d, seed %d of %s: %s", b.flaw, seed, b.mode.name, r.breaches[0])
				}
				return len(r.breaches) > 0
			}) == 0 {
				t.Errorf("no seed of %s finds it", b.mode.name)
			}
		})
	}
}
