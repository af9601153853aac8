package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// ledger counts what was accepted, for the invariants.
type ledger struct {
	mu       sync.Mutex
	accepted map[string]int // recorded outcomes by task and token
	all      []task.ID
}

func (l *ledger) submitted(ids []task.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, ids...)
}

func (l *ledger) recorded(t *testing.T, x task.Handout) {
	key := x.ID.String() + " " + x.Token
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepted[key]++; l.accepted[key] > 1 {
		t.Errorf("two outcomes were accepted for the hand-out %s", key)
	}
}

// crook is a worker that does everything a worker can do wrong, by its luck.
func crook(t *testing.T, h *house, name string, luck *rand.Rand, l *ledger, until time.Time) {
	incarnation := 0
	var held []task.Handout
	for time.Now().Before(until) {
		switch luck.IntN(12) {
		case 0: // dies and starts again
			incarnation++
			held = nil
			time.Sleep(time.Duration(luck.IntN(20)) * time.Second)
		case 1: // loses an answer
			a, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: name, Queues: []string{"q"}, Limit: 1 + luck.IntN(4),
			})
			if err == nil && a.Written != nil {
				a.Written()
			}
		case 2, 3, 4:
			b := task.Beat{
				Worker: name, Incarnation: fmt.Sprint(incarnation), Capacity: float64(luck.IntN(6)),
			}
			for _, x := range held {
				b.Tasks = append(b.Tasks, task.Held{ID: x.ID, Token: x.Token})
			}
			h.d.Beat(h.ctx, b)
		default:
			a, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: name, Queues: []string{"q"}, Limit: 1 + luck.IntN(4),
				Wait: time.Duration(luck.IntN(3)) * time.Second,
			})
			if err != nil {
				continue
			}
			if a.Written != nil {
				a.Written()
			}
			held = append(held, a.Tasks...)
		}
		time.Sleep(time.Duration(luck.IntN(1500)) * time.Millisecond)
		for len(held) > 0 && luck.IntN(3) > 0 {
			x := held[0]
			if luck.IntN(8) > 0 { // else it will report it again
				held = held[1:]
			}
			outcomes := []task.Outcome{
				task.Finish(1), task.Finish(nil), task.Next("two", "x"),
				task.Retry(errors.New("r")),
				task.Snooze(time.Duration(luck.IntN(100)) * time.Second), task.Release(),
				task.Fail(errors.New("f")),
			}
			got, err := h.d.Report(h.ctx, name,
				[]task.Report{
					{ID: x.ID, Token: x.Token, Outcome: outcomes[luck.IntN(len(outcomes))]},
				})
			if err == nil && got[0].Status == task.Recorded {
				l.recorded(t, x)
			}
		}
	}
}

// honest works everything off.
func honest(t *testing.T, h *house, l *ledger, done func() bool) {
	for !done() {
		a, err := h.d.Hold(h.ctx, task.HoldRequest{
			Worker: "honest", Queues: []string{"q"}, Limit: 50, Wait: 5 * time.Second,
		})
		if err != nil {
			continue
		}
		if a.Written != nil {
			a.Written()
		}
		for _, x := range a.Tasks {
			for {
				got, err := h.d.Report(h.ctx, "honest",
					[]task.Report{{ID: x.ID, Token: x.Token, Outcome: task.Finish(nil)}})
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				if got[0].Status == task.Recorded {
					l.recorded(t, x)
				}
				break
			}
		}
	}
}

// walk lets crooks and a crowd of submitters loose on a node, kills and restarts it now and then,
// lets an honest worker finish, and checks what must hold: every acknowledged task becomes final,
// no hand-out has two outcomes, the counts add up.
func walk(t *testing.T, seed uint64, db contract.Store) {
	luck := rand.New(rand.NewPCG(seed, 1))
	l := &ledger{accepted: map[string]int{}}
	h := open(t, db)
	for range 2 {
		until := time.Now().Add(time.Minute)
		var wg sync.WaitGroup
		for i := range 3 {
			mine := rand.New(rand.NewPCG(seed, uint64(i)+10))
			wg.Go(func() { crook(t, h, fmt.Sprint("crook", i), mine, l, until) })
		}
		mine := rand.New(rand.NewPCG(seed, 5))
		wg.Go(func() {
			for time.Now().Before(until) {
				subs := make([]task.Submission, 1+mine.IntN(6))
				for i := range subs {
					subs[i] = task.Submission{
						Queue: "q", Priority: time.Duration(mine.IntN(3)) * time.Second,
						Delay: time.Duration(mine.IntN(2)*mine.IntN(90)) * time.Second,
					}
				}
				if got, err := h.d.Submit(h.ctx, subs); err == nil {
					ids := []task.ID{}
					for _, r := range got {
						ids = append(ids, r.ID)
					}
					l.submitted(ids)
				}
				time.Sleep(time.Duration(mine.IntN(5000)) * time.Millisecond)
			}
		})
		chance := rand.New(rand.NewPCG(seed, 6))
		wg.Go(func() {
			for time.Now().Before(until) {
				time.Sleep(time.Duration(chance.IntN(10)) * time.Second)
				l.mu.Lock()
				var id task.ID
				if len(l.all) > 0 {
					id = l.all[chance.IntN(len(l.all))]
				}
				l.mu.Unlock()
				kinds := []task.Kind{task.KindCancelled, task.KindMoved, task.KindReplayed}
				h.d.Act(h.ctx, kinds[chance.IntN(len(kinds))], "walk", id)
			}
		})
		wg.Wait()
		if luck.IntN(2) == 0 {
			h.kill()
		} else {
			h.close()
		}
		h = open(t, db)
	}
	final := func() bool {
		c, err := h.d.Counts(h.ctx, "q")
		return err == nil && len(c) == 1 &&
			c[0].Counts.Waiting+c[0].Counts.Ready+c[0].Counts.Running == 0
	}
	stop := time.Now().Add(2 * time.Hour)
	honest(t, h, l, func() bool { return final() || time.Now().After(stop) })
	c, err := h.d.Counts(h.ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	if !final() {
		t.Errorf("seed %d: not everything became final: %+v", seed, c[0])
	}
	sum := c[0].Counts.Done + c[0].Counts.Dead + c[0].Counts.Cancelled
	if sum < int64(len(l.all)) {
		t.Errorf("seed %d: %d tasks were acknowledged, %d are accounted for", seed, len(l.all), sum)
	}
	for _, id := range l.all {
		if v := h.view(id); !v.State.Final() {
			t.Errorf("seed %d: task %s is %s", seed, id, v.State)
		}
	}
	time.Sleep(5 * time.Second)
	held, err := db.Held(h.ctx, store.Holder{Node: "n", Token: h.lease.Token}, nil)
	if err != nil || len(held) > 0 {
		t.Errorf("seed %d: spans are left behind: %+v %v", seed, held, err)
	}
	h.close()
}

func TestEverythingBecomesFinalAndNothingTwiceWhateverWorkersDo(t *testing.T) {
	for seed := range uint64(story.Often(40, 12)) {
		synctest.Test(t, func(t *testing.T) { walk(t, seed, model.New(time.Now)) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
