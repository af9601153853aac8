package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

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
	bubble(t, func(t *testing.T, h *house) {
		done := h.ends("w")
		h.door.AfterNext("Submit", func(error) error {
			time.Sleep(10 * time.Second)
			return store.ErrUnknown
		})
		h.many(1)
		<-done
		h.nothing()
	})
}

func TestTakeAnsweredAfterARoundFoundItGoesOutOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		h.door.AfterNext("Take", func(err error) error {
			time.Sleep(10 * time.Second)
			return err
		})
		<-h.ends("w")
		h.nothing()
	})
}

func TestSlowReadingOfWhatIsHeldBringsNothingBack(t *testing.T) {
	for _, call := range []string{"Submit", "Take"} {
		bubble(t, func(t *testing.T, h *house) {
			took, over := make(chan struct{}), make(chan struct{})
			readings := 0
			h.door.After("Held", func(err error) error {
				if readings++; readings == unmatchedRounds {
					// this reading has seen the span, and is on its way until the span is over
					close(took)
					<-over
				}
				return err
			})
			h.door.AfterNext(call, func(err error) error {
				<-took
				return err
			})
			if call == "Take" {
				h.many(1)
			}
			done := h.ends("w")
			if call == "Submit" {
				h.many(1)
			}
			<-done
			close(over)
			h.nothing()
		})
	}
}

func TestMovedTaskThatIsTakenBeforeTheAnswerComesStays(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.submit(task.Submission{Queue: "q", Delay: time.Hour})
		got := make(chan task.Handout, 1)
		go func() { got <- h.one("w") }()
		synctest.Wait()
		h.door.AfterNext("Act", func(err error) error {
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
	held, err := h.store.Held(h.ctx, h.d.conf.Holder, nil)
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
	for _, call := range []string{"Submit", "Held"} {
		bubble(t, func(t *testing.T, h *house) {
			got, moved := make(chan task.Handout, 1), make(chan task.Handout, 1)
			go func() { got <- h.one("w") }()
			synctest.Wait()
			if call == "Held" {
				h.door.AfterNext("Submit", func(error) error { return errHiccup })
				readings := 0
				h.door.After("Held", func(err error) error {
					if readings++; readings == unmatchedRounds {
						moved <- h.runNow(got)
					}
					return err
				})
			} else {
				h.door.AfterNext("Submit", func(err error) error {
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
	bubble(t, func(t *testing.T, h *house) {
		h.door.AfterNext("Submit", func(error) error {
			h.door.After("Submit", func(error) error { return errHiccup })
			return store.ErrUnknown
		})
		_, err := h.d.Submit(h.ctx, []task.Submission{{Queue: "q"}})
		if !errors.Is(err, store.ErrUnknown) {
			t.Errorf("it may have worked, and the error is %v", err)
		}
	})
}

func TestSpanGivenBackLateAndTakenAgainIsReadAnew(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
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
		bubble(t, func(t *testing.T, h *house) {
			h.many(1)
			h.report("w", h.one("w"), task.RetryAfter(delay, errHiccup), task.Recorded)
			got := make(chan task.Handout, 1)
			h.door.AfterNext("Give", func(err error) error { // nobody waits any more
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
	bubble(t, func(t *testing.T, h *house) {
		act := func(kind task.Kind, id task.ID, want error) {
			t.Helper()
			h.door.AfterNext("Act", unknown)
			if err := h.d.Act(h.ctx, kind, "me", id); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", kind, err, want)
			}
		}
		ids := h.many(3)
		act(task.KindReplayed, ids[0], store.ErrConflict) // it is ready, which nobody did
		for _, kind := range []task.Kind{task.KindCancelled, task.KindRemoved} {
			if _, err := h.store.Act(
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
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		h.report("w", h.one("w"), task.Fail(errHiccup), task.Recorded)
		// it is dead again before the answer is known to be lost
		h.door.AfterNext("Act", func(error) error {
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
