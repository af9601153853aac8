package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// on is a task whose next stage waits for a signal.
func (h *house) on(a task.Await) task.ID {
	h.t.Helper()
	id := h.submit(task.Submission{Queue: "q", Stage: "order"})[0]
	h.report("w", h.one("w"), task.NextOn(a, "ship", "ann"), task.Recorded)
	return id
}

// signal sends a signal and wants it to have ended a wait, or not.
func (h *house) signal(s task.SignalRequest, delivered bool) {
	h.t.Helper()
	got, err := h.d.Signal(h.ctx, "eve", s)
	if err != nil || got.Delivered != delivered {
		h.t.Fatalf("signal %+v: %+v, %v, want delivered %v", s, got, err, delivered)
	}
}

// comes wants a hand-out of a task in a stage before a beat is over.
func (h *house) comes(id task.ID, stage string, want *task.Signal) task.Handout {
	h.t.Helper()
	began := time.Now()
	x := h.one("w")
	if took := time.Since(began); x.ID != id || x.Stage != stage || took > 200*time.Millisecond {
		h.t.Errorf("after %v came %s in stage %q, want %s in %q", took, x.ID, x.Stage, id, stage)
	}
	if diff := cmp.Diff(want, x.Signal); diff != "" {
		h.t.Errorf("its signal: %s", diff)
	}
	if x.TimedOut != (want == nil) {
		h.t.Errorf("its time was over: %v", x.TimedOut)
	}
	return x
}

func (h *house) held() int {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.d.mem.held()
}

func TestASignalLetsTheStageBeginThatWaits(t *testing.T) {
	for name, key := range map[string]string{"to the task": "", "by its key": "order 7"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
				id := h.on(task.Await{Signal: "paid", Key: key})
				h.state(id, task.Blocked)
				h.counts(task.Counts{Blocked: 1})
				if h.held() != 0 {
					t.Errorf("memory holds %d tasks", h.held())
				}
				if x := h.holdFor("w", 1, 30*time.Second); len(x) > 0 {
					t.Fatalf("%+v began", x)
				}
				to := task.SignalRequest{
					Task: id, Name: "paid", Payload: json.RawMessage(`{"euro": 7}`),
				}
				if key != "" {
					to.Task, to.Key = task.ID{}, key
				}
				sent := time.UnixMicro(time.Now().UnixMicro()).UTC()
				h.signal(to, true)
				x := h.comes(id, "ship", &task.Signal{
					Name: "paid", Payload: json.RawMessage(`{"euro": 7}`), By: "eve", At: sent,
				})
				if string(x.Context) != `"ann"` || x.Attempt != 1 {
					t.Errorf("it began as %+v", x)
				}
				h.report("w", x, task.Finish(nil), task.Recorded)
				h.state(id, task.Done)
			})
		})
	}
}

// What came is told at each attempt of the stage that waited, whoever hands it out, and no longer
// in the next one.
func TestWhatCameIsToldUntilTheNextStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a := openAs(t, db, "a")
		id := a.on(task.Await{Signal: "paid"})
		a.signal(task.SignalRequest{Task: id, Name: "paid"}, true)
		x := a.one("w")
		told := func(when string, want bool) {
			t.Helper()
			if (x.Signal != nil) != want || x.ID != id {
				t.Errorf("%s: %+v", when, x)
			}
		}
		told("first", true)
		a.report("w", x, task.Retry(errHiccup), task.Recorded)
		time.Sleep(2 * time.Second)
		x = a.one("w")
		told("tried again", true)
		a.report("w", x, task.RetryAfter(time.Hour, errHiccup), task.Recorded)
		a.close()
		b := openAs(t, db, "b")
		defer b.close()
		time.Sleep(time.Hour)
		x = b.one("w")
		told("tried again by another node, after long", true)
		b.report("w", x, task.Snooze(time.Hour), task.Recorded)
		time.Sleep(time.Hour)
		x = b.one("w")
		told("after a long snooze", true)
		b.report("w", x, task.Next("bill", nil), task.Recorded)
		x = b.one("w")
		told("in the next stage", false)
		b.report("w", x, task.RetryAfter(time.Hour, errHiccup), task.Recorded)
		time.Sleep(time.Hour)
		x = b.one("w")
		told("in the next stage, after long", false)
	})
}

// A signal that came first is there when the task begins to wait: it goes on at once.
func TestASignalThatCameFirstIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.signal(task.SignalRequest{Name: "paid", Key: "7"}, false)
		sent := time.UnixMicro(time.Now().UnixMicro()).UTC()
		id := h.on(task.Await{Signal: "paid", Key: "7", Timeout: time.Hour})
		x := h.comes(id, "ship", &task.Signal{Name: "paid", By: "eve", At: sent})
		h.report("w", x, task.Finish(nil), task.Recorded)
	})
}

func TestAWaitIsOverInTime(t *testing.T) {
	for other, stage := range map[string]string{"remind": "remind", "": "ship"} {
		for _, wait := range []time.Duration{
			300 * time.Millisecond, 2500 * time.Millisecond, time.Hour + 700*time.Millisecond,
		} {
			t.Run(fmt.Sprintf("%v/%s", wait, stage), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *house) {
					id := h.on(task.Await{Signal: "paid", Timeout: wait, Else: other})
					time.Sleep(wait)
					x := h.comes(id, stage, nil) // and not a beat later
					h.report("w", x, task.Next("again", nil), task.Recorded)
					if x := h.one("w"); x.TimedOut {
						t.Error("the stage behind is told of the time, too")
					}
				})
			})
		}
	}
}

// blindStore is a store at which one node's looks wait, or fail.
type blindStore struct {
	contract.Store
	wait  chan struct{} // until it is closed; nil = they don't
	fails atomic.Bool
	looks atomic.Int64
	now   atomic.Int64
	most  atomic.Int64 // at a time
	more  func(*store.Looked)
}

func (b *blindStore) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	b.looks.Add(1)
	b.most.Store(max(b.most.Load(), b.now.Add(1)))
	defer b.now.Add(-1)
	if b.wait != nil {
		<-b.wait
	}
	if b.fails.Load() {
		return store.Looked{}, store.ErrUnknown
	}
	l, err := b.Store.Look(ctx, r)
	if b.more != nil {
		b.more(&l)
	}
	return l, err
}

// A node is killed after a task of its began to wait, before it has looked whether the signal is
// there: the next beat of another finds it.
func TestAnotherNodeLooksWhereOneWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		blind := &blindStore{Store: db}
		blind.fails.Store(true)
		a := openAs(t, blind, "a")
		a.signal(task.SignalRequest{Name: "paid", Key: "7"}, false)
		id := a.on(task.Await{Signal: "paid", Key: "7"})
		synctest.Wait()
		if blind.looks.Load() == 0 {
			t.Error("the node has not looked")
		}
		a.state(id, task.Blocked)
		a.kill()
		b := openAs(t, db, "b")
		defer b.close()
		began := time.Now()
		if x := b.one("w"); x.ID != id || x.Signal == nil || time.Since(began) > 2*time.Second {
			t.Errorf("after %v came %+v", time.Since(began), x)
		}
	})
}

// A look that hangs, as at a database that does not answer, keeps nobody waiting, and none begins
// beside it.
func TestALookThatHangsIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blind := &blindStore{Store: model.New(time.Now), wait: make(chan struct{})}
		h := openAs(t, blind, "n")
		defer h.close()
		began := time.Now()
		var ids []task.ID
		for i := range 3 * lookedAtOnce / 2 {
			ids = append(ids, h.on(task.Await{Signal: "paid", Key: fmt.Sprint(i)}))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("reports took %v", took)
		}
		time.Sleep(time.Minute)
		h.d.mu.Lock()
		if n := len(h.d.mem.waits.changed); n > lookedAtOnce {
			t.Errorf("%d addresses are remembered", n)
		}
		if lag := time.Since(h.d.mem.lastRound); lag > 2*time.Second {
			t.Errorf("no round for %v", lag)
		}
		h.d.mu.Unlock()
		if n := blind.looks.Load(); n != 1 {
			t.Errorf("%d looks, want the one that hangs", n)
		}
		h.signal(task.SignalRequest{Name: "paid", Key: "0"}, true)
		close(blind.wait)
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		h.state(ids[0], task.Done)
		time.Sleep(3 * time.Second)
		if blind.most.Load() != 1 {
			t.Errorf("%d looks at a time", blind.most.Load())
		}
	})
}

// A store that always says that there is more is asked so often a beat and no more.
func TestLooksOfABeatAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blind := &blindStore{Store: model.New(time.Now)}
		blind.more = func(l *store.Looked) { l.More, l.NextUntil = true, l.Now+1 }
		h := openAs(t, blind, "n")
		defer h.close()
		time.Sleep(10*time.Second + time.Millisecond)
		// one for the beat, some for more, and those for the wait that is over next
		most := int64(11 * (1 + lookedPieces + time.Second/lookedApart))
		if n := blind.looks.Load(); n < 10*lookedPieces || n > most {
			t.Errorf("%d looks in ten beats, want at most %d", n, most)
		}
	})
}

func TestManyWaitsThatAreOverAtOnceAllEnd(t *testing.T) {
	n := story.Often(2, 1)*lookedAtOnce + 10
	bubble(t, func(t *testing.T, h *house) {
		h.many(n)
		for left := n; left > 0; {
			got := h.hold("w", 1000)
			reports := make([]task.Report, len(got))
			for i, x := range got {
				reports[i] = task.Report{ID: x.ID, Token: x.Token, Outcome: task.NextOn(
					task.Await{Signal: "paid", Timeout: 30 * time.Second}, "ship", nil,
				)}
			}
			if _, err := h.d.Report(h.ctx, "w", reports); err != nil {
				t.Fatal(err)
			}
			left -= len(got)
		}
		h.counts(task.Counts{Blocked: int64(n)})
		time.Sleep(31 * time.Second)
		h.counts(task.Counts{Ready: int64(n)})
	})
}

// A report from a worker of another node's task parks it as one of this node's does.
func TestAReportAtAnotherNodeParksTheTask(t *testing.T) {
	town(t, func(t *testing.T, _ contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		id := a.submit(task.Submission{Queue: "q"})[0]
		x := a.one("w")
		b.report("w", x, task.NextOn(task.Await{Signal: "paid"}, "ship", nil), task.Recorded)
		b.state(id, task.Blocked)
		b.report("w", x, task.NextOn(task.Await{Signal: "paid"}, "ship", nil), task.Repeated)
		b.report("w", x, task.NextOn(task.Await{Signal: "sent"}, "ship", nil), task.Stale)
		b.signal(task.SignalRequest{Task: id, Name: "paid"}, true)
		if y := a.one("w"); y.ID != id || y.Signal == nil {
			t.Errorf("%+v", y)
		}
	}, "a", "b")
}

func TestABlockedTaskIsEditedCancelledAndNotRunNow(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.on(task.Await{Signal: "paid", Timeout: time.Hour, Else: "remind"})
		err := h.d.Act(h.ctx, task.KindMoved, "me", id)
		if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "is blocked") {
			t.Errorf("run now: %v", err)
		}
		state, err := h.d.Edit(h.ctx, "me", id, task.Edit{Delay: new(time.Duration(0))})
		if err != nil || state != task.Blocked {
			t.Errorf("edit: %s, %v", state, err)
		}
		h.state(id, task.Blocked)
		if v := h.view(id); v.Awaits == nil || v.Awaits.Signal != "paid" || v.Awaits.Else != "remind" {
			t.Errorf("it awaits %+v", v.Awaits)
		}
		h.signal(task.SignalRequest{Task: id, Name: "paid"}, true)
		if x := h.one("w"); x.ID != id || x.Signal == nil {
			t.Errorf("after the edit came %+v", x)
		}
		end := h.on(task.Await{Signal: "paid"})
		if err := h.d.Act(h.ctx, task.KindCancelled, "me", end); err != nil {
			t.Fatal(err)
		}
		h.state(end, task.Cancelled)
		_, err = h.d.Signal(h.ctx, "eve", task.SignalRequest{Task: end, Name: "paid"})
		if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "is over") {
			t.Errorf("signal to a task that is over: %v", err)
		}
	})
}

// What waits takes no place among those that may run at a time.
func TestWhatWaitsTakesNoPlaceOfItsQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		if _, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
			q.MaxRunning = 1
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		waits := h.on(task.Await{Signal: "paid"})
		other := h.submit(task.Submission{Queue: "q"})[0]
		x := h.one("w")
		if x.ID != other {
			t.Errorf("%s began", x.ID)
		}
		h.signal(task.SignalRequest{Task: waits, Name: "paid"}, true)
		if y := h.holdFor("w", 1, 5*time.Second); len(y) > 0 {
			t.Errorf("a second one began: %+v", y)
		}
		h.report("w", x, task.Finish(nil), task.Recorded)
		if y := h.one("w"); y.ID != waits || y.Signal == nil {
			t.Errorf("%+v began", y)
		}
	})
}

func TestASignalCountsOnceForItsKeyAndEachWithoutOne(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.on(task.Await{Signal: "paid"})
		again := func(x task.Handout) {
			h.report("w", x, task.NextOn(task.Await{Signal: "paid"}, "ship", nil), task.Recorded)
		}
		h.signal(task.SignalRequest{Task: id, Name: "paid"}, true)
		again(h.one("w"))
		h.signal(task.SignalRequest{Task: id, Name: "paid"}, true) // another one
		again(h.one("w"))
		h.signal(task.SignalRequest{Task: id, Name: "paid", Key: "k"}, true)
		again(h.one("w"))
		got, err := h.d.Signal(h.ctx, "eve", task.SignalRequest{Task: id, Name: "paid", Key: "k"})
		if err != nil || got != (task.SignalReceipt{Delivered: true, Repeated: true}) {
			t.Errorf("the same key: %+v, %v", got, err)
		}
		h.state(id, task.Blocked)
	})
}

func TestSignalsThatCantBeAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.submit(task.Submission{Queue: "q"})[0]
		refused := func(s task.SignalRequest, want error, says string) {
			t.Helper()
			_, err := h.d.Signal(h.ctx, "eve", s)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
				t.Errorf("%.80v: %.200v, want %q", s, err, says)
			}
		}
		refused(task.SignalRequest{Task: task.ID{Batch: 1}, Name: "paid"}, store.ErrNotFound, "task")
		refused(task.SignalRequest{Task: id, Name: "a b"}, task.ErrInvalid, "body.name")
		refused(task.SignalRequest{Name: "paid"}, task.ErrInvalid, "body.key")
		refused(task.SignalRequest{Task: id, Name: "paid", Payload: json.RawMessage(`{`)},
			task.ErrInvalid, "body.payload: must be a JSON value")
		refused(task.SignalRequest{
			Task: id, Name: "paid", Payload: make(json.RawMessage, limits.MaxPayload+1),
		}, task.ErrInvalid, "65537 bytes are more than the 65536")
		for range store.MaxOpenSignals {
			h.signal(task.SignalRequest{Task: id, Name: "paid"}, false)
		}
		refused(task.SignalRequest{Task: id, Name: "paid"}, store.ErrConflict, "1000 signals")
	})
}

// A name is one name however it is typed.
func TestNamesOfSignalsHaveOneForm(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.on(task.Await{Signal: "payé"})
		h.signal(task.SignalRequest{Task: id, Name: "paye\u0301"}, true)
		h.report("w", h.one("w"), task.NextOn(task.Await{Signal: "paye\u0301", Key: "7"}, "x", nil),
			task.Recorded)
		h.signal(task.SignalRequest{Name: "payé", Key: "7"}, true)
	})
}
