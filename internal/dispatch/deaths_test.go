package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// distant is a store whose calls take a while on their way there and on their way back, each
// another one, so that they come and are answered in any order. What is on its way there when its
// caller dies does not arrive.
type distant struct {
	contract.Store
	mu    sync.Mutex
	luck  *rand.Rand
	until time.Time // it is out of reach before
}

func (s *distant) pause() {
	s.mu.Lock()
	d := time.Duration(s.luck.IntN(20)) * time.Millisecond
	if s.luck.IntN(20) == 0 {
		d *= 10
	}
	d += max(time.Until(s.until), 0)
	s.mu.Unlock()
	time.Sleep(d)
}

// freeze lets no call come or be answered for d.
func (s *distant) freeze(d time.Duration) {
	s.mu.Lock()
	s.until = time.Now().Add(d)
	s.mu.Unlock()
	time.Sleep(d)
}

// far makes a call of a distant store.
func far[T any](ctx context.Context, s *distant, call func() (T, error)) (T, error) {
	s.pause()
	if ctx.Err() != nil {
		var none T
		return none, ctx.Err()
	}
	got, err := call()
	s.pause()
	return got, err
}

func (s *distant) Submit(ctx context.Context, x store.Submission) (store.Submitted, error) {
	return far(ctx, s, func() (store.Submitted, error) { return s.Store.Submit(ctx, x) })
}

func (s *distant) Take(ctx context.Context, x store.TakeRequest) (store.Taken, error) {
	return far(ctx, s, func() (store.Taken, error) { return s.Store.Take(ctx, x) })
}

func (s *distant) Settle(ctx context.Context, x store.Settlement) (store.Settled, error) {
	return far(ctx, s, func() (store.Settled, error) { return s.Store.Settle(ctx, x) })
}

func (s *distant) Sync(ctx context.Context, x store.SyncRequest) (store.Synced, error) {
	return far(ctx, s, func() (store.Synced, error) { return s.Store.Sync(ctx, x) })
}

func (s *distant) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	return far(ctx, s, func() ([]store.Stood, error) { return s.Store.Stand(ctx, ids) })
}

func (s *distant) Held(
	ctx context.Context, h store.Holder, known []int64,
) ([]store.HeldSpan, error) {
	return far(ctx, s, func() ([]store.HeldSpan, error) { return s.Store.Held(ctx, h, known) })
}

func (s *distant) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	return far(ctx, s, func() (store.Beat, error) {
		return s.Store.Beat(ctx, held, ttl, prefixes...)
	})
}

func (s *distant) Ready(ctx context.Context, queues []string) ([]store.Ready, error) {
	return far(ctx, s, func() ([]store.Ready, error) { return s.Store.Ready(ctx, queues) })
}

// life is a node that is killed and started again, and who speaks to it.
type life struct {
	t    *testing.T
	db   *distant
	mu   sync.Mutex
	node *house
	ctx  context.Context // of the calls to the node; it ends when the node is killed
	kill context.CancelFunc
}

func (l *life) begin() {
	h := openAs(l.t, l.db, "n", func(c *Config) { c.Beat = 200 * time.Millisecond })
	ctx, kill := context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.node, l.ctx, l.kill = h, ctx, kill
}

func (l *life) now() (*house, context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node, l.ctx
}

// diligent is a worker that does its work in all lives of its node: it repeats what was not
// answered, and says what it has.
type diligent struct {
	*life
	name string
	room int
	luck *rand.Rand
	book *ledger
	// until says that it is dead, or that nothing is to be done any more
	until func() bool
	slow  int // how many times as long its tasks take

	mu   sync.Mutex
	held map[task.ID]task.Handout
}

func (w *diligent) run() {
	var group sync.WaitGroup
	group.Go(func() {
		for !w.until() {
			h, ctx := w.now()
			w.mu.Lock()
			b := task.Beat{Worker: w.name, Incarnation: "1", Capacity: float64(w.room)}
			for _, x := range w.held {
				b.Tasks = append(b.Tasks, task.Held{ID: x.ID, Token: x.Token})
			}
			w.mu.Unlock()
			if a, err := h.d.Beat(ctx, b); err == nil {
				for _, x := range a.Tasks {
					if x.Action == task.ActionStale {
						w.drop(x.ID)
					}
				}
			}
			time.Sleep(300 * time.Millisecond)
		}
	})
	for !w.until() {
		h, ctx := w.now()
		w.mu.Lock()
		limit := w.room - len(w.held)
		w.mu.Unlock()
		if limit <= 0 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		a, err := h.d.Hold(ctx, task.HoldRequest{
			Worker: w.name, Queues: []string{"q"}, Limit: limit, Wait: time.Second,
			Incarnation: "1",
		})
		if err != nil || ctx.Err() != nil { // killed with its answer
			time.Sleep(50 * time.Millisecond)
			continue
		}
		w.mu.Lock()
		for _, x := range a.Tasks {
			w.held[x.ID] = x
			seed := w.luck.Uint64()
			group.Go(func() { w.work(x, rand.New(rand.NewPCG(seed, 0))) })
		}
		w.mu.Unlock()
		if a.Written != nil {
			a.Written()
		}
	}
	group.Wait()
}

func (w *diligent) drop(id task.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, id)
}

// work runs a task, and reports it until that is answered.
func (w *diligent) work(x task.Handout, luck *rand.Rand) {
	defer w.drop(x.ID)
	time.Sleep(time.Duration(luck.IntN(40)*max(w.slow, 1)) * time.Millisecond)
	o := task.Finish(nil)
	switch luck.IntN(6) {
	case 0:
		o = task.Retry(errors.New("again"))
	case 1:
		o = task.Release()
	case 2, 3:
		o = task.Next("later", "x")
	}
	for !w.until() {
		h, ctx := w.now()
		got, err := h.d.Report(ctx, w.name, []task.Report{{ID: x.ID, Token: x.Token, Outcome: o}})
		if err != nil || ctx.Err() != nil {
			time.Sleep(time.Duration(20+luck.IntN(100)) * time.Millisecond)
			continue
		}
		if got[0].Status == task.Recorded {
			w.book.recorded(w.t, x)
		}
		return
	}
}

// However often a node dies, and in whatever order the store's answers come, nothing stands still
// afterwards: while workers wait, the last of its tasks is final within half a minute.
func TestNothingStandsStillAfterManyDeaths(t *testing.T) {
	for seed := range uint64(story.Often(20, 4)) {
		synctest.Test(t, func(t *testing.T) { dieOften(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func dieOften(t *testing.T, seed uint64) {
	luck := rand.New(rand.NewPCG(seed, 1))
	db := &distant{Store: model.New(time.Now), luck: rand.New(rand.NewPCG(seed, 2))}
	l := &life{t: t, db: db}
	l.begin()
	pause, silence, attempts := 10*time.Millisecond, 2*time.Second, limits.MaxAttempts
	if _, err := l.node.d.ChangeQueue(t.Context(), "q", func(q *task.Queue, _ bool) error {
		q.Silence, q.MaxAttempts = silence, attempts
		q.Retry.Initial, q.Retry.Max = pause, 5*pause
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	book := &ledger{accepted: map[string]int{}}
	var over sync.WaitGroup
	submitting, working, doomed := true, true, true
	var mu sync.Mutex
	reads := func(flag *bool) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !*flag
		}
	}
	clears := func(flag *bool) {
		mu.Lock()
		defer mu.Unlock()
		*flag = false
	}
	for i := range 3 {
		w := &diligent{
			life: l, name: fmt.Sprint("w", i), room: 16,
			luck: rand.New(rand.NewPCG(seed, uint64(i)+10)), book: book,
			held: map[task.ID]task.Handout{}, until: reads(&working),
		}
		if i == 2 {
			w.until, w.slow = reads(&doomed), 10
		}
		over.Go(w.run)
	}
	mine, done := rand.New(rand.NewPCG(seed, 5)), reads(&submitting)
	over.Go(func() {
		for !done() {
			h, ctx := l.now()
			subs := make([]task.Submission, 1+mine.IntN(20))
			for i := range subs {
				subs[i] = task.Submission{Queue: "q", Context: []byte("1")}
			}
			if got, err := h.d.Submit(ctx, subs); err == nil {
				var ids []task.ID
				for _, r := range got {
					ids = append(ids, r.ID)
				}
				book.submitted(ids)
			}
			time.Sleep(time.Duration(mine.IntN(100)) * time.Millisecond)
		}
	})
	for round := range 8 {
		time.Sleep(time.Duration(50+luck.IntN(900)) * time.Millisecond)
		switch round {
		case 1, 5: // longer than the node's lease
			db.freeze(11 * time.Second)
			time.Sleep(time.Second / 2)
		case 4:
			clears(&doomed)
		}
		l.kill()
		l.node.kill()
		time.Sleep(time.Duration(luck.IntN(300)) * time.Millisecond)
		l.begin()
	}
	clears(&submitting)
	h, _ := l.now()
	for range 60 {
		time.Sleep(time.Second / 2)
		c, err := h.d.Counts(t.Context(), "q")
		if err == nil && c[0].Counts.Waiting+c[0].Counts.Ready+c[0].Counts.Running == 0 {
			break
		}
	}
	for _, id := range book.all {
		if v := h.view(id); !v.State.Final() {
			t.Errorf("task %v is still %s: %+v", id, v.State, v.Steps)
		}
	}
	h.sound()
	if t.Failed() {
		h.d.mu.Lock()
		for id, sp := range h.d.mem.spans {
			t.Logf("span %d %+v: %d left, %d idle, %d under way, %d parked", id, sp.Span, sp.left,
				sp.idle, sp.under, len(sp.parked))
			for s := range sp.live() {
				t.Logf("  %v is %d", s.id(), s.place())
			}
		}
		h.d.mu.Unlock()
	}
	clears(&working)
	l.kill()
	over.Wait()
	h.kill()
	time.Sleep(time.Minute) // what was under way ends
}
