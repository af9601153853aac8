package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// pair is a primary and its standby, which may be away: then what is written stands, and is seen by
// everybody, but who wrote it is told that its end is unknown; and a failover takes it back.
type pair struct {
	contract.Store // the primary, of which people read
	primary        *model.Model

	mu      sync.RWMutex // held to write, and in whole while the standby goes, comes or takes over
	standby *model.Model // nil = it has all that is written

	way  sync.Mutex
	luck *rand.Rand // how long calls are on their way; under way
}

func newPair(luck *rand.Rand) *pair {
	m := model.New(time.Now)
	return &pair{Store: m, primary: m, luck: luck}
}

// travel is a call's way to the database: anything may happen meanwhile.
func (p *pair) travel() {
	p.way.Lock()
	long := time.Duration(p.luck.IntN(100)) * time.Millisecond
	if p.luck.IntN(5) == 0 {
		long *= 20
	}
	p.way.Unlock()
	time.Sleep(long)
}

// part loses the standby.
func (p *pair) part() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standby = p.primary.Copy()
}

// meet has the standby again: it catches up, or has taken over.
func (p *pair) meet(failover bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if failover {
		p.primary.Become(p.standby)
	}
	p.standby = nil
}

// confirmed makes a call whose answer waits for the standby.
func confirmed[A any](p *pair, do func() (A, error)) (A, error) {
	p.travel()
	p.mu.RLock()
	defer p.mu.RUnlock()
	got, err := do()
	if err == nil && p.standby != nil {
		var none A
		return none, store.ErrUnknown
	}
	return got, err
}

func (p *pair) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	return confirmed(p, func() (store.Submitted, error) { return p.Store.Submit(ctx, s) })
}

func (p *pair) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	return confirmed(p, func() (store.Taken, error) { return p.Store.Take(ctx, r) })
}

func (p *pair) TakeExpired(ctx context.Context, h store.Holder, limit int) (store.Taken, error) {
	return confirmed(p, func() (store.Taken, error) { return p.Store.TakeExpired(ctx, h, limit) })
}

func (p *pair) TakeRunning(ctx context.Context, h store.Holder, limit int) (store.Taken, error) {
	return confirmed(p, func() (store.Taken, error) { return p.Store.TakeRunning(ctx, h, limit) })
}

func (p *pair) Give(ctx context.Context, r store.GiveRequest) error {
	_, err := confirmed(p, func() (any, error) { return nil, p.Store.Give(ctx, r) })
	return err
}

func (p *pair) GiveRest(ctx context.Context, r store.RestRequest) ([]bool, error) {
	return confirmed(p, func() ([]bool, error) { return p.Store.GiveRest(ctx, r) })
}

func (p *pair) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	return confirmed(p, func() (store.Settled, error) { return p.Store.Settle(ctx, s) })
}

// Sync writes, and so waits for the standby, when a row is new.
func (p *pair) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	p.travel()
	p.mu.RLock()
	defer p.mu.RUnlock()
	got, err := p.Store.Sync(ctx, r)
	isNew := func(row store.Running) bool { return !slices.Contains(got.Settled, row.ID) }
	if err == nil && p.standby != nil && slices.ContainsFunc(r.Insert, isNew) {
		return store.Synced{}, store.ErrUnknown
	}
	return got, err
}

func (p *pair) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	return confirmed(p, func() (store.Begun, error) { return p.Store.Begin(ctx, r) })
}

func (p *pair) Act(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
	return confirmed(p, func() ([]store.Acted, error) { return p.Store.Act(ctx, actions) })
}

func (p *pair) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	return confirmed(p, func() ([]store.Stood, error) { return p.Store.Stand(ctx, ids) })
}

func (p *pair) Signal(ctx context.Context, s store.Signal) (store.Signalled, error) {
	return confirmed(p, func() (store.Signalled, error) { return p.Store.Signal(ctx, s) })
}

func (p *pair) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	return confirmed(p, func() (store.Looked, error) { return p.Store.Look(ctx, r) })
}

func (p *pair) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	return confirmed(p, func() (store.Granted, error) {
		return p.Store.AcquireAll(ctx, holder, wants, ttl, judge)
	})
}

func (p *pair) EndAll(ctx context.Context, leases []store.Lease, remove bool) error {
	_, err := confirmed(p, func() (any, error) { return nil, p.Store.EndAll(ctx, leases, remove) })
	return err
}

func (p *pair) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	return confirmed(p, func() (store.Beat, error) {
		return p.Store.Beat(ctx, held, ttl, prefixes...)
	})
}

// account is what workers and submitters were told.
type account struct {
	t         *testing.T
	mu        sync.Mutex
	hands     map[handKey]string           // who had each hand-out
	outcomes  map[task.ID]map[int32]string // who was told of each outcome that it is recorded
	submitted []task.ID
}

func (a *account) gave(worker string, list []task.Handout) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range list {
		token, err := task.ParseToken(x.Token)
		if err != nil {
			a.t.Fatal(err)
		}
		is := keyOf(x.ID, token)
		if had := a.hands[is]; had != "" {
			a.t.Errorf("%s with token %s was given to %s, and to %s", x.ID, x.Token, had, worker)
		}
		a.hands[is] = worker
	}
}

func (a *account) recorded(worker string, x *task.Handout) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token, _ := task.ParseToken(x.Token)
	seqs := a.outcomes[x.ID]
	if seqs == nil {
		seqs = map[int32]string{}
		a.outcomes[x.ID] = seqs
	}
	if seqs[token.Seq] != "" {
		a.t.Errorf("outcome %d of %s was accepted of %s and of %s",
			token.Seq, x.ID, seqs[token.Seq], worker)
	}
	seqs[token.Seq] = worker
}

// attempt is how long a task may run.
const attempt = time.Minute

// toil works tasks off, at its pace, and for so much longer that all of them end. Now and then it
// forgets one. What has an unknown end it reports again, at any node, until that is known.
func toil(nodes []*house, a *account, name string, luck *rand.Rand, until time.Time) {
	h := nodes[luck.IntN(len(nodes))]
	var signals sync.WaitGroup
	defer signals.Wait()
	for time.Now().Before(until.Add(3 * attempt)) {
		got, err := h.d.Hold(h.ctx, task.HoldRequest{
			Worker: name, Queues: []string{"q", "few"}, Limit: 1 + luck.IntN(4),
			Wait: time.Duration(1+luck.IntN(3)) * time.Second,
		})
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		if got.Written != nil {
			got.Written()
		}
		a.gave(name, got.Tasks)
		for i := range got.Tasks {
			x := &got.Tasks[i]
			time.Sleep(time.Duration(luck.IntN(1000*(1+luck.IntN(10)))) * time.Millisecond)
			if luck.IntN(20) == 0 && time.Now().Before(until) { // it forgets it
				continue
			}
			outcome := task.Finish(i)
			switch deed := luck.IntN(6); {
			case time.Now().After(until):
			case deed == 0:
				outcome = task.Next("two", "x")
			case deed == 1:
				outcome = task.Snooze(time.Duration(luck.IntN(10)) * time.Second)
			case deed == 2:
				outcome = task.NextOn(task.Await{Signal: "go"}, "three", "x")
				signals.Go(signalling(nodes, x, luck))
			}
			report := []task.Report{{ID: x.ID, Token: x.Token, Outcome: outcome}}
			for {
				beat := task.Beat{Worker: name, Incarnation: "1", Capacity: 8}
				for _, y := range got.Tasks[i:] {
					beat.Tasks = append(beat.Tasks, task.Held{ID: y.ID, Token: y.Token})
				}
				h.d.Beat(h.ctx, beat)
				is, err := nodes[luck.IntN(len(nodes))].d.Report(h.ctx, name, report)
				if err == nil {
					if s := is[0].Status; s == task.Recorded || s == task.Repeated {
						a.recorded(name, x)
					}
					break
				}
				time.Sleep(time.Duration(100+luck.IntN(900)) * time.Millisecond)
			}
		}
	}
}

// signalling sends a task the signal that its next stage waits for, before it does or later, until
// that is acknowledged: then it must wake.
func signalling(nodes []*house, x *task.Handout, luck *rand.Rand) func() {
	rest, at := time.Duration(luck.IntN(6000))*time.Millisecond, luck.IntN(len(nodes))
	return func() {
		for {
			time.Sleep(rest)
			_, err := nodes[at].d.Signal(nodes[at].ctx, "walk", task.SignalRequest{
				Task: x.ID, Name: "go", Key: x.Token,
			})
			if err == nil || errors.Is(err, store.ErrConflict) { // it was cancelled, or is over
				return
			}
			at = (at + 1) % len(nodes)
		}
	}
}

// failovers lets two nodes work on a database that loses its standby now and then, and what the
// standby did not have with its primary.
func failovers(t *testing.T, seed uint64) {
	p := newPair(rand.New(rand.NewPCG(seed, 6)))
	a := &account{
		t: t, hands: map[handKey]string{}, outcomes: map[task.ID]map[int32]string{},
	}
	nodes := []*house{openAs(t, p, "a"), openAs(t, p, "b")}
	ctx := nodes[0].ctx
	for name, most := range map[string]int{"q": 0, "few": 3} {
		_, err := nodes[0].d.ChangeQueue(ctx, name, func(q *task.Queue, _ bool) error {
			q.MaxRunning, q.Timeout = most, attempt
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // both have heard of it
	until := time.Now().Add(2 * time.Minute)
	var wg sync.WaitGroup
	for i, h := range nodes {
		for k := range 2 {
			luck := rand.New(rand.NewPCG(seed, uint64(10*i+k)+10))
			wg.Go(func() { toil(nodes, a, fmt.Sprintf("w%d%d", i, k), luck, until) })
		}
		luck := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for time.Now().Before(until) {
				time.Sleep(time.Duration(luck.IntN(16000)) * time.Millisecond)
				queue := []string{"q", "q", "few"}[luck.IntN(3)]
				got, err := h.d.Submit(ctx, manyOf(queue, 1+luck.IntN(4)))
				if err != nil {
					continue
				}
				a.mu.Lock()
				for _, r := range got {
					a.submitted = append(a.submitted, r.ID)
				}
				a.mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		luck := rand.New(rand.NewPCG(seed, 5))
		for time.Now().Before(until) {
			time.Sleep(time.Duration(2000+luck.IntN(8000)) * time.Millisecond)
			p.part()
			time.Sleep(time.Duration(luck.IntN(4000)) * time.Millisecond)
			p.meet(luck.IntN(3) > 0)
		}
	})
	wg.Wait()
	for _, id := range a.submitted {
		if v := nodes[0].view(id); !v.State.Final() {
			t.Errorf("task %s is %s", id, v.State)
		}
	}
	for id, seqs := range a.outcomes {
		v := nodes[0].view(id)
		for seq, worker := range seqs {
			if !stands(v.Steps, seq, worker) {
				t.Errorf("outcome %d of %s was accepted of %s, and does not stand", seq, id, worker)
			}
		}
	}
	for _, h := range nodes {
		h.close()
	}
}

func stands(steps []task.Step, seq int32, worker string) bool {
	for _, s := range steps {
		if s.Seq == seq {
			return s.Worker == worker
		}
	}
	return false
}

func manyOf(queue string, n int) []task.Submission {
	subs := make([]task.Submission, n)
	for i := range subs {
		subs[i].Queue = queue
	}
	return subs
}

func TestNoTokenIsGivenTwiceAndNothingAcceptedIsLostByFailovers(t *testing.T) {
	for seed := range uint64(story.Often(60, 6)) {
		synctest.Test(t, func(t *testing.T) { failovers(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
