package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hold occupies runners by functions of these loads, one after the other, until release is called.
func (b *bench) hold(t *testing.T, loads ...float64) (release func()) {
	end := make(chan struct{})
	var calls sync.WaitGroup
	for _, load := range loads {
		calls.Go(func() {
			err := b.Run(t.Context(), load, func(context.Context) error { <-end; return nil })
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	return func() { close(end); calls.Wait() }
}

func TestAViewSaysWhoIsFullAndThatThePoolIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []Config{{Runners: 2, Slots: 1}, {Runners: 2, Capacity: 10}} {
			b := newBench(t, c)
			release := b.hold(t, 10)
			v := b.View()
			if got := v.Runners; v.Closed || got[0].State != Full ||
				got[0].Reason() != "runs 1 functions of load 10" || got[1].State != Open ||
				got[1].Reason() != "" {
				t.Errorf("%+v", v)
			}
			release()
			if b.Close(); !b.View().Closed {
				t.Error("a closed pool is not")
			}
		}
	})
}

func TestLoadsCountByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 3, Weights: []float64{1, 2, 5}})
		defer b.hold(t, slices.Repeat([]float64{3}, 80)...)()
		if got := b.loads(); !slices.Equal(got, []float64{30, 60, 150}) {
			t.Errorf("loads of runners of weight 1, 2, 5: %v", got)
		}
	})
}

func TestSlotsAndCapacitiesGrowByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]Config{
			"slots":    {Runners: 3, Weights: []float64{0.5, 1, 2.7}, Slots: 2, MaxWaiting: -1},
			"capacity": {Runners: 3, Weights: []float64{0.5, 1, 2.7}, Capacity: 20, MaxWaiting: -1},
		} {
			b := newBench(t, c)
			release := b.hold(t, slices.Repeat([]float64{10}, 1+2+5)...)
			if got := b.loads(); !slices.Equal(got, []float64{10, 20, 50}) {
				t.Errorf("%s: loads %v", name, got)
			}
			if err := b.Run(t.Context(), 10, nothing); err != ErrBusy {
				t.Errorf("%s: one more: %v", name, err)
			}
			release()
			b.mustBeIdle(t)
		}
	})
}

func TestAFunctionGoesWhereItsLoadHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, choice := range []Choice{LeastLoaded, TwoChoices, Weighted} {
			b := newBench(t, Config{
				Runners: 2, Weights: []float64{1, 4}, Capacity: 10, Choice: choice, MaxWaiting: -1,
			})
			release := b.hold(t, 15, 15) // neither fits the first, which stays empty
			if got := b.loads(); !slices.Equal(got, []float64{0, 30}) {
				t.Errorf("%v: loads %v", choice, got)
			}
			if err := b.Run(t.Context(), 15, nothing); err != ErrBusy {
				t.Errorf("%v: a third of 15: %v", choice, err)
			}
			if err := b.Run(t.Context(), 41, nothing); !errors.Is(err, ErrLoad) {
				t.Errorf("%v: more than any runner carries: %v", choice, err)
			}
			each := func(load float64) error {
				return b.RunEach(t.Context(), 2, load, func(context.Context, int) error {
					return nil
				})
			}
			if err := each(11); !errors.Is(err, ErrLoad) {
				t.Errorf("%v: more than the second largest carries: %v", choice, err)
			}
			if err := each(10); err != nil {
				t.Errorf("%v: %v", choice, err)
			}
			release()
			b.mustBeIdle(t)
		}
	})
}

func TestWeightedGivesEachItsShareOfAllLoad(t *testing.T) {
	b := newBench(t, Config{Runners: 3, Weights: []float64{1, 2, 5}, Choice: Weighted})
	for range 80 {
		// over before the next: by load alone, each would have a third
		b.Run(t.Context(), 1, nothing)
	}
	for i, want := range []uint64{10, 20, 50} {
		if got := b.View().Runners[i].Picks; got != want {
			t.Errorf("runner %d was picked %d times, want %d", i, got, want)
		}
	}
}

func TestAFaultCountsTwiceInARunnersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Choice: Weighted})
		b.Run(t.Context(), 10, ouch)
		for range 5 {
			b.Run(t.Context(), 5, nothing)
		}
		if want := []int{0, 1, 1, 1, 1, 0}; !slices.Equal(b.starts, want) {
			t.Errorf("ran on %v, want %v", b.starts, want)
		}
	})
}

func TestWhatAnEjectedRunnerMissedIsNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Choice: Weighted, Eject: 1})
		b.Run(t.Context(), 1, ouch)
		for range 100 {
			b.Run(t.Context(), 1, nothing)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		before := b.View().Runners[0].Picks
		for range 20 {
			b.Run(t.Context(), 1, nothing)
		}
		if got := b.View().Runners[0].Picks - before; got < 9 || got > 11 {
			t.Errorf("of 20 functions after its return it was given %d", got)
		}
	})
}

// With n functions that stay on n runners, luck leaves some runner with many; the better of two
// does not.
func TestTwoChoicesKeepsLoadsNearlyEven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		b := newBench(t, Config{Runners: n, Choice: TwoChoices})
		defer b.hold(t, slices.Repeat([]float64{1}, n)...)()
		if most := slices.Max(b.loads()); most > 4 {
			// ln ln n / ln 2 + O(1); by one choice, about 6
			t.Errorf("a runner has load %v", most)
		}
		alone := newBench(t, Config{Runners: 1, Choice: TwoChoices})
		if err := alone.Run(t.Context(), 1, nothing); err != nil {
			t.Errorf("among one: %v", err)
		}
	})
}

func TestTwoChoicesFindsTheLastRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 100, Slots: 1, Choice: TwoChoices, MaxWaiting: -1})
		release := b.hold(t, slices.Repeat([]float64{1}, 100)...)
		if err := b.Run(t.Context(), 1, nothing); err != ErrBusy {
			t.Errorf("one more: %v", err)
		}
		release()
	})
}

func TestChoicesHaveNames(t *testing.T) {
	if got := []string{LeastLoaded.String(), TwoChoices.String(), Weighted.String(),
		Choice(9).String()}; !slices.Equal(got,
		[]string{"least loaded", "two choices", "weighted", "Choice(9)"}) {
		t.Error(got)
	}
}

func TestWhereTheFirstHasNoRoomTheNextBestIsPicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, choice := range []Choice{LeastLoaded, Weighted} {
			b := newBench(t, Config{
				Runners: 4, Weights: []float64{1, 4, 4, 4}, Capacity: 10, Choice: choice,
			})
			for range 6 {
				b.Run(t.Context(), 12, nothing)
			}
			// the first, which is empty, never has room
			release := b.hold(t, 12, 12, 12, 11, 11, 11)
			if got := b.loads(); !slices.Equal(got, []float64{0, 23, 23, 23}) {
				t.Errorf("%v: loads %v", choice, got)
			}
			if want := []int{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}; !slices.Equal(b.starts, want) {
				t.Errorf("%v: ran on %v, want %v", choice, b.starts, want)
			}
			release()
		}
	})
}

func TestRunEachUsesDistinctRunnersHoweverLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, choice := range []Choice{LeastLoaded, TwoChoices, Weighted} {
			b := newBench(t, Config{Runners: 3, Choice: choice})
			release := b.hold(t, 100, 100)
			err := b.RunEach(t.Context(), 3, 1, func(context.Context, int) error { return nil })
			if slices.Sort(b.starts[2:]); err != nil ||
				!slices.Equal(b.starts[2:], []int{0, 1, 2}) {
				t.Errorf("%v: ran on %v, %v", choice, b.starts[2:], err)
			}
			b.RunEach(t.Context(), 2, 1, func(context.Context, int) error { return nil })
			if last := b.starts[5:]; len(last) != 2 || last[0] == last[1] {
				t.Errorf("%v: two ran on %v", choice, last)
			}
			release()
		}
	})
}
