package counters

import (
	"slices"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestStepsAreCountedByWhatTheyLeaveBehind(t *testing.T) {
	for _, x := range []struct {
		step store.Step
		want Counters
	}{
		{store.Step{Kind: task.KindDone, Base: store.Final, Started: 1}, Counters{
			Done: 1, Runs: 1,
		}},
		{store.Step{Kind: task.KindFail, Base: store.Final, Started: 1}, Counters{
			Dead: 1, Runs: 1,
		}},
		{store.Step{Kind: task.KindCancelled, Base: store.Final}, Counters{Cancelled: 1}},
		{store.Step{Kind: task.KindNext, Started: 1}, Counters{Runs: 1}},
		{store.Step{Kind: task.KindRetry, Started: 1}, Counters{Runs: 1, Retried: 1}},
		{store.Step{Kind: task.KindTimeout, Started: 1}, Counters{Runs: 1, Retried: 1}},
		{store.Step{Kind: task.KindLost, Started: 1}, Counters{Runs: 1, Lost: 1}},
		{store.Step{Kind: task.KindLost, Base: store.Final, Started: 1}, Counters{
			Dead: 1, Runs: 1, Lost: 1,
		}},
	} {
		var got Counters
		if got.Settled(&x.step); got != x.want {
			t.Errorf("%+v counts %+v, want %+v", x.step, got, x.want)
		}
	}
}

func TestWhatIsDeletedLeavesItsState(t *testing.T) {
	got := Counters{Submitted: 4, Done: 1, Dead: 1, Cancelled: 1}
	for _, s := range []task.State{task.Done, task.Dead, task.Cancelled, task.Ready} {
		got.Gone(s)
	}
	if got != (Counters{}) ||
		(&Counters{Submitted: 5, Done: 1, Dead: 1, Cancelled: 1}).Unfinished() != 2 {
		t.Errorf("left are %+v", got)
	}
}

func TestOnlyChangesAreYieldedAndInOrder(t *testing.T) {
	c := Changes{}
	c.Of("b").Done++
	c.Of("b").Dead++
	c.Of("a").Lost++
	c.Of("c") // looked at, not changed
	var got []string
	for queue := range c.All() {
		got = append(got, queue)
	}
	if want := []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if *c.Of("b") != (Counters{Done: 1, Dead: 1}) {
		t.Errorf("b counts %+v", *c.Of("b"))
	}
}
