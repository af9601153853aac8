package model

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/findings"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/storetest"
	"github.com/rotahq/rota/internal/store/walk"
	"github.com/rotahq/rota/task"
)

// planted is the model with one of its verbs replaced by a wrong one.
type planted struct {
	*Model
	alone      sync.Mutex // wrong programs change the model without its lock
	submit     func(context.Context, store.Submission) (store.Submitted, error)
	take       func(context.Context, store.TakeRequest) (store.Taken, error)
	expire     func(context.Context, store.Holder, int) (store.Taken, error)
	give       func(context.Context, store.GiveRequest) error
	giveRest   func(context.Context, store.RestRequest) ([]bool, error)
	letBegin   func(context.Context, store.BeginRequest) (store.Begun, error)
	takeRuns   func(context.Context, store.Holder, int) (store.Taken, error)
	gates      func(context.Context, ...string) (int64, []store.Gate, error)
	settle     func(context.Context, store.Settlement) (store.Settled, error)
	act        func(context.Context, []store.Action) ([]store.Acted, error)
	signal     func(context.Context, store.Signal) (store.Signalled, error)
	look       func(context.Context, store.LookRequest) (store.Looked, error)
	free       func(context.Context, store.Holder, int64) (int, error)
	freeEnded  func(context.Context) (int, error)
	end        func(context.Context, string, int64, bool) error
	acquireAll func(context.Context, string, []store.Lease, time.Duration, int64) (store.Granted,
		error)
	endAll    func(context.Context, []store.Lease, bool) error
	beat      func(context.Context, []store.Lease, time.Duration, ...string) (store.Beat, error)
	counts    func(context.Context, ...string) ([]store.QueueCounts, error)
	ahead     func(context.Context, task.ID, int) (store.Ahead, error)
	history   func(context.Context, history.Question) ([]history.Period, error)
	tasks     func(context.Context, store.Filter, task.ID, int) ([]task.View, task.ID, error)
	contexts  func(context.Context, store.ContextsQuery) ([]task.StageContext, int32, error)
	keep      func(context.Context, []byte) (store.Value, error)
	prune     func(context.Context, int) (int, error)
	report    func(context.Context, []store.Event) (int, error)
	events    func(context.Context, store.EventQuery) (store.EventPage, error)
	changeKey func(context.Context, store.KeyChange) (store.KeyRule, error)
	keysOf    func(context.Context, string) (store.KeyUses, error)
	deleteQ   func(ctx context.Context, name string, force bool) error
	changeQ   func(context.Context, string, store.Change[task.Queue]) (store.Changed[task.Queue],
		error)
	changeTold func(context.Context, string,
		store.Change[store.Notifier]) (store.Changed[store.Notifier], error)
	advance    func(context.Context, string, int64, store.Progress) (bool, error)
	changeHook func(context.Context, string,
		store.Change[store.Hook]) (store.Changed[store.Hook], error)
	deleteHook func(context.Context, string) error
	plantedJobs
	plantedSchedules
}

func plant(m *Model) *planted {
	return &planted{
		Model: m, submit: m.Submit, take: m.Take, expire: m.TakeExpired, give: m.Give,
		giveRest: m.GiveRest,
		letBegin: m.Begin, gates: m.Gates, takeRuns: m.TakeRunning,
		settle: m.Settle, act: m.Act, signal: m.Signal, look: m.Look,
		free: m.Free, freeEnded: m.FreeEnded, end: m.End, acquireAll: m.AcquireAll,
		endAll: m.EndAll, beat: m.Beat,
		counts: m.Counts, ahead: m.Ahead, history: m.History, tasks: m.Tasks,
		contexts: m.Contexts, keep: m.Keep, prune: m.Prune, report: m.Append,
		events: m.Events, changeQ: m.ChangeQueue, deleteQ: m.DeleteQueue, changeKey: m.ChangeKey,
		keysOf: m.Keys, changeTold: m.ChangeNotifier, advance: m.Advance,
		changeHook: m.ChangeHook, deleteHook: m.DeleteHook,
		plantedJobs: plantJobs(m), plantedSchedules: plantSchedules(m),
	}
}

func (p *planted) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.submit(ctx, s)
}

func (p *planted) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.take(ctx, r)
}

func (p *planted) TakeExpired(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.expire(ctx, h, limit)
}

func (p *planted) Give(ctx context.Context, g store.GiveRequest) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.give(ctx, g)
}

func (p *planted) GiveRest(ctx context.Context, r store.RestRequest) ([]bool, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.giveRest(ctx, r)
}

func (p *planted) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.letBegin(ctx, r)
}

func (p *planted) TakeRunning(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.takeRuns(ctx, h, limit)
}

func (p *planted) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.gates(ctx, queues...)
}

func (p *planted) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.settle(ctx, s)
}

func (p *planted) Act(ctx context.Context, a []store.Action) ([]store.Acted, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.act(ctx, a)
}

func (p *planted) Signal(ctx context.Context, s store.Signal) (store.Signalled, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.signal(ctx, s)
}

func (p *planted) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.look(ctx, r)
}

func (p *planted) Free(ctx context.Context, self store.Holder, judge int64) (int, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.free(ctx, self, judge)
}

func (p *planted) FreeEnded(ctx context.Context) (int, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.freeEnded(ctx)
}

func (p *planted) End(ctx context.Context, name string, token int64, remove bool) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.end(ctx, name, token, remove)
}

func (p *planted) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.acquireAll(ctx, holder, wants, ttl, judge)
}

func (p *planted) EndAll(ctx context.Context, leases []store.Lease, remove bool) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.endAll(ctx, leases, remove)
}

func (p *planted) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.beat(ctx, held, ttl, prefixes...)
}

func (p *planted) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.counts(ctx, queues...)
}

func (p *planted) Ahead(ctx context.Context, id task.ID, limit int) (store.Ahead, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.ahead(ctx, id, limit)
}

func (p *planted) History(
	ctx context.Context, q history.Question,
) ([]history.Period, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.history(ctx, q)
}

func (p *planted) Tasks(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) ([]task.View, task.ID, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.tasks(ctx, f, after, limit)
}

func (p *planted) Contexts(
	ctx context.Context, q store.ContextsQuery,
) ([]task.StageContext, int32, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.contexts(ctx, q)
}

func (p *planted) Keep(ctx context.Context, v []byte) (store.Value, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.keep(ctx, v)
}

func (p *planted) Prune(ctx context.Context, limit int) (int, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.prune(ctx, limit)
}

func (p *planted) Append(ctx context.Context, events []store.Event) (int, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.report(ctx, events)
}

func (p *planted) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.events(ctx, q)
}

func (p *planted) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeQ(ctx, name, change)
}

func (p *planted) DeleteQueue(ctx context.Context, name string, force bool) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.deleteQ(ctx, name, force)
}

func (p *planted) ChangeKey(ctx context.Context, c store.KeyChange) (store.KeyRule, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeKey(ctx, c)
}

func (p *planted) Keys(ctx context.Context, queue string) (store.KeyUses, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.keysOf(ctx, queue)
}

func (p *planted) ChangeNotifier(
	ctx context.Context, name string, change store.Change[store.Notifier],
) (store.Changed[store.Notifier], error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeTold(ctx, name, change)
}

func (p *planted) Advance(
	ctx context.Context, name string, from int64, to store.Progress,
) (bool, error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.advance(ctx, name, from, to)
}

func (p *planted) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (store.Changed[store.Hook], error) {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.changeHook(ctx, name, change)
}

func (p *planted) DeleteHook(ctx context.Context, name string) error {
	p.alone.Lock()
	defer p.alone.Unlock()
	return p.deleteHook(ctx, name)
}

// fact is the model's task, nil when there is none.
func (p *planted) fact(id task.ID) *fact { return p.Model.tasks[id] }

func TestSuiteFindsPlantedBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("the model runs in one goroutine: short runs, which look for races, need not")
	}
	seeds := findings.Open(t, "testdata/findings")
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			open := func(clock *contract.Clock) contract.Store {
				p := plant(New(clock.Now))
				b.plant(p)
				return p
			}
			if !breaks(b.claim, open) {
				t.Errorf("the claim %s does not find it", b.claim)
			}
			if seeds.Search(t, b.name, 1, searched, func(seed uint64) bool {
				clock := contract.NewClock()
				got := walk.Trace(seed, walk.Steps, open(clock), clock)
				return walk.Compare(seed, Reference, got) != nil
			}) == 0 {
				t.Errorf("no walk finds it")
			}
		})
	}
}

// breaks tells whether a store breaks a claim.
func breaks(claim string, open func(*contract.Clock) contract.Store) bool {
	clock := contract.NewClock()
	return storetest.Check(claim, Reference, open(clock), clock) != nil
}

// searched is how many seeds are walked for a planted bug. Some show after more than a suite walks;
// their claims show them at once.
const searched = 1000
