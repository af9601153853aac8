package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// late is a store whose answers a test can hold back or change: a call is done at once, then its
// hook decides what becomes of the answer.
type late struct {
	contract.Store
	mu    sync.Mutex
	hooks map[string]func(error) error

	looked atomic.Int64 // how often run times were read
}

// on sets what becomes of the answers of a call, until it is set again.
func (l *late) on(call string, hook func(error) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hooks[call] = hook
}

// once is on for the next answer only.
func (l *late) once(call string, hook func(error) error) {
	l.on(call, func(err error) error {
		l.on(call, nil)
		return hook(err)
	})
}

func (l *late) answer(call string, err error) error {
	l.mu.Lock()
	hook := l.hooks[call]
	l.mu.Unlock()
	if hook == nil {
		return err
	}
	return hook(err)
}

func (l *late) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	got, err := l.Store.Submit(ctx, s)
	return got, l.answer("submit", err)
}

func (l *late) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	got, err := l.Store.Take(ctx, r)
	return got, l.answer("take", err)
}

func (l *late) Give(ctx context.Context, g store.GiveRequest) error {
	return l.answer("give", l.Store.Give(ctx, g))
}

func (l *late) Held(ctx context.Context, h store.Holder, known []int64) ([]store.HeldSpan, error) {
	got, err := l.Store.Held(ctx, h, known)
	return got, l.answer("held", err)
}

func (l *late) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	got, err := l.Store.Stand(ctx, ids)
	return got, l.answer("stand", err)
}

func (l *late) Act(ctx context.Context, list []store.Action) ([]store.Acted, error) {
	got, err := l.Store.Act(ctx, list)
	return got, l.answer("act", err)
}

func lateBubble(t *testing.T, story func(t *testing.T, h *house, l *late)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &late{Store: model.New(time.Now), hooks: map[string]func(error) error{}}
		h := open(t, l)
		defer h.close()
		story(t, h, l)
	})
}

// ends lets a worker wait for one task and report it done.
func (h *house) ends(worker string) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		h.report(worker, h.one(worker), task.Finish(nil), task.Recorded)
	}()
	synctest.Wait()
	return done
}

// nothing wants no task to go out any more.
func (h *house) nothing() {
	h.t.Helper()
	if got := h.holdFor("last", 1, 20*time.Second); len(got) != 0 {
		h.t.Errorf("%s goes out again with %s", got[0].ID, got[0].Token)
	}
}

func TestSubmissionAnsweredAfterARoundFoundItGoesOutOnce(t *testing.T) {
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		done := h.ends("w")
		l.once("submit", func(error) error {
			time.Sleep(10 * time.Second)
			return store.ErrUnknown
		})
		h.many(1)
		<-done
		h.nothing()
	})
}

func TestTakeAnsweredAfterARoundFoundItGoesOutOnce(t *testing.T) {
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		h.many(1)
		l.once("take", func(err error) error {
			time.Sleep(10 * time.Second)
			return err
		})
		<-h.ends("w")
		h.nothing()
	})
}

func TestSlowReadingOfWhatIsHeldBringsNothingBack(t *testing.T) {
	for _, call := range []string{"submit", "take"} {
		lateBubble(t, func(t *testing.T, h *house, l *late) {
			took, over := make(chan struct{}), make(chan struct{})
			readings := 0
			l.on("held", func(err error) error {
				if readings++; readings == unmatchedRounds {
					// this reading has seen the span, and is on its way until the span is over
					close(took)
					<-over
				}
				return err
			})
			l.once(call, func(err error) error {
				<-took
				return err
			})
			if call == "take" {
				h.many(1)
			}
			done := h.ends("w")
			if call == "submit" {
				h.many(1)
			}
			<-done
			close(over)
			h.nothing()
		})
	}
}

func TestMovedTaskThatIsTakenBeforeTheAnswerComesStays(t *testing.T) {
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		ids := h.submit(task.Submission{Queue: "q", Delay: time.Hour})
		got := make(chan task.Handout, 1)
		go func() { got <- h.one("w") }()
		synctest.Wait()
		l.once("act", func(err error) error {
			h.d.Hear("q", nil)
			synctest.Wait()
			return err
		})
		if err := h.d.Act(h.ctx, task.KindMoved, "me", ids[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond) // a round deletes the spans that are over
		h.report("w", <-got, task.Finish(nil), task.Recorded)
	})
}

// runNow moves the only held task into a span of its own, as another node does, and lets this one
// take it. It says who gets it.
func (h *house) runNow(got <-chan task.Handout) task.Handout {
	h.t.Helper()
	held, err := h.store.(*late).Store.Held(h.ctx, h.d.conf.Holder, nil)
	if err != nil || len(held) != 1 || len(held[0].Tasks) != 1 {
		h.t.Fatalf("held: %+v, %v", held, err)
	}
	now := time.Now().UnixMicro()
	id := task.ID{Batch: held[0].Batch, N: held[0].Tasks[0].N}
	if _, err := h.store.Act(
		h.ctx, []store.Action{{ID: id, Kind: task.KindMoved, Rank: now, Due: now}},
	); err != nil {
		h.t.Fatal(err)
	}
	h.d.Hear("q", nil)
	return <-got
}

func TestTaskThatMovesBeforeItsFirstSpanIsKnownHasOnePlace(t *testing.T) {
	for _, call := range []string{"submit", "held"} {
		lateBubble(t, func(t *testing.T, h *house, l *late) {
			got, moved := make(chan task.Handout, 1), make(chan task.Handout, 1)
			go func() { got <- h.one("w") }()
			synctest.Wait()
			if call == "held" {
				l.once("submit", func(error) error { return errHiccup })
				readings := 0
				l.on("held", func(err error) error {
					if readings++; readings == unmatchedRounds {
						moved <- h.runNow(got)
					}
					return err
				})
			} else {
				l.once("submit", func(err error) error {
					moved <- h.runNow(got)
					return err
				})
			}
			h.d.Submit(h.ctx, []task.Submission{{Queue: "q"}}) // however it is answered
			x := <-moved
			time.Sleep(1500 * time.Millisecond) // a round deletes the spans that are over
			h.nothing()
			h.report("w", x, task.Finish(nil), task.Recorded)
		})
	}
}

func TestFailureAfterAnUnknownOutcomeIsUnknownStill(t *testing.T) {
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		l.once("submit", func(error) error {
			l.on("submit", func(error) error { return errHiccup })
			return store.ErrUnknown
		})
		_, err := h.d.Submit(h.ctx, []task.Submission{{Queue: "q"}})
		if !errors.Is(err, store.ErrUnknown) {
			t.Errorf("it may have worked, and the error is %v", err)
		}
	})
}

func TestSpanGivenBackLateAndTakenAgainIsReadAnew(t *testing.T) {
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		h.many(1)
		h.report("w", h.one("w"), task.RetryAfter(5*time.Second, errHiccup), task.Recorded)
		done := h.ends("v")
		h.giveLate()
		h.d.Hear("q", nil)
		<-done
	})
}

func TestSpanGivenBackLateAndTakenByAnotherIsForgottenWhole(t *testing.T) {
	town(t, func(t *testing.T, db contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		a.many(2)
		mine := a.holdFor("w", 2, time.Minute)
		a.giveLate()
		theirs := b.holdFor("v", 2, time.Minute)
		a.report("w", mine[0], task.Finish(nil), task.Stale)
		a.nothing()
		for _, x := range theirs {
			b.report("v", x, task.Finish(nil), task.Recorded)
		}
	}, "a", "b")
}

// giveLate gives back what the node holds, as a call does that failed and comes late all the same.
func (h *house) giveLate() {
	h.t.Helper()
	held, err := h.store.Held(h.ctx, h.d.conf.Holder, nil)
	if err != nil || len(held) != 1 {
		h.t.Fatalf("held: %+v, %v", held, err)
	}
	if err := h.store.Give(
		h.ctx, store.GiveRequest{Holder: h.d.conf.Holder, Spans: []store.Taking{held[0].Taking()}},
	); err != nil {
		h.t.Fatal(err)
	}
}

// jumpy is a store whose clock stands beyond every lease while spans are given back.
type jumpy struct {
	contract.Store
	jump *atomic.Int64 // of the clock
}

func (j jumpy) Give(ctx context.Context, g store.GiveRequest) error {
	j.jump.Store(int64(time.Minute))
	defer j.jump.Store(0)
	return j.Store.Give(ctx, g)
}

func TestSpanThatCouldNotBeGivenBackStillHasWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
		h := open(t, jumpy{model.New(now), &jump})
		defer h.close()
		time.Sleep(300 * time.Millisecond) // so that what goes out is young at the next round
		b := twoOut(h)
		for _, paused := range []bool{true, false} {
			if err := h.d.PauseQueue(h.ctx, "q", paused); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		for _, c := range h.holdFor("c", 2, 10*time.Second) {
			if c.ID == b.ID {
				t.Fatalf("c got %s, which b has", c.Token)
			}
		}
		h.report("b", b, task.Finish(nil), task.Recorded)
	})
}

func TestSpanTakenAgainBeforeItsGivingIsAnsweredStays(t *testing.T) {
	for delay := 4 * time.Second; delay < 8*time.Second; delay += 300 * time.Millisecond {
		// whatever a round finds just then
		lateBubble(t, func(t *testing.T, h *house, l *late) {
			h.many(1)
			h.report("w", h.one("w"), task.RetryAfter(delay, errHiccup), task.Recorded)
			got := make(chan task.Handout, 1)
			l.once("give", func(err error) error { // nobody waits any more
				go func() { got <- h.one("w") }()
				synctest.Wait()
				h.d.Hear("q", nil)
				synctest.Wait()
				return err
			})
			x := <-got
			h.nothing()
			h.report("w", x, task.Finish(nil), task.Recorded)
		})
	}
}

func TestWhatAnotherDidIsNotTakenForOnesOwnWhenTheOutcomeIsUnknown(t *testing.T) {
	unknown := func(error) error { return store.ErrUnknown }
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		act := func(kind task.Kind, id task.ID, want error) {
			t.Helper()
			l.once("act", unknown)
			if err := h.d.Act(h.ctx, kind, "me", id); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", kind, err, want)
			}
		}
		ids := h.many(3)
		act(task.KindReplayed, ids[0], store.ErrConflict) // it is ready, which nobody did
		for _, kind := range []task.Kind{task.KindCancelled, task.KindRemoved} {
			if _, err := l.Store.Act(
				h.ctx, []store.Action{{ID: ids[1], Kind: kind, By: "another"}},
			); err != nil {
				t.Fatal(err)
			}
			act(kind, ids[1],
				map[task.Kind]error{
					task.KindCancelled: store.ErrConflict, task.KindRemoved: store.ErrNotFound,
				}[kind])
		}
		act(task.KindCancelled, ids[2], nil)
		act(task.KindRemoved, ids[2], nil)
	})
}

func TestReplayOfUnknownOutcomeIsDoneOnce(t *testing.T) {
	lateBubble(t, func(t *testing.T, h *house, l *late) {
		id := h.many(1)[0]
		h.report("w", h.one("w"), task.Fail(errHiccup), task.Recorded)
		l.once("act", func(error) error { // it is dead again before the answer is known to be lost
			h.d.Hear("q", nil)
			h.report("w", h.one("w"), task.Fail(errHiccup), task.Recorded)
			return store.ErrUnknown
		})
		if err := h.d.Act(h.ctx, task.KindReplayed, "me", id); err != nil {
			t.Error(err)
		}
		h.state(id, task.Dead)
		h.nothing()
	})
}
