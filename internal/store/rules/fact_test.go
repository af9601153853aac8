package rules_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A store has loaded a task that died at its third attempt, and a call that replays it.
func ExampleAct() {
	dead := rules.Fact{
		ID: task.ID{Batch: 7}, Queue: "mail", Stage: "send", Seq: 4, Attempt: 3,
		Base: store.Final, Kind: task.KindFail,
	}
	again := store.Action{ID: dead.ID, Kind: task.KindReplayed, By: "operator", Due: 9_000}
	acted, step := rules.Act(&dead, &again, false, nil, 8_000)

	fmt.Println(acted.Was, acted.Changed)
	fmt.Println(step.Stage, "attempts so far:", step.Attempt, "due:", step.Due)
	// Output:
	// dead true
	// send attempts so far: 0 due: 9000
}

// fact is a ready task, alone in a free span, and what change makes of it.
func fact(change func(*rules.Fact)) *rules.Fact {
	f := &rules.Fact{
		ID: task.ID{Batch: 3, N: 1}, Queue: "q", Stage: "second", Seq: 4, Attempt: 2,
		Base: 3, ContextSeq: 2, Owner: store.Span{ID: 8, Lo: 1, Hi: 1},
	}
	if change != nil {
		change(f)
	}
	return f
}

func ended(kind task.Kind) func(*rules.Fact) {
	return func(f *rules.Fact) { f.Kind, f.Base, f.Owner = kind, store.Final, store.Span{} }
}

func TestStateFollowsFromTheNewestStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*rules.Fact)
		live   bool
		want   task.State
	}{
		{"nothing holds it back", nil, false, task.Ready},
		{"due now", func(f *rules.Fact) { f.StepDue = now }, false, task.Ready},
		{"its step is due later", func(f *rules.Fact) { f.StepDue = now + 1 }, false, task.Waiting},
		{"its span is due later", func(f *rules.Fact) {
			f.Owner.Due = now + 1
		}, false, task.Waiting},
		{"a row says that it runs", func(f *rules.Fact) { f.Running = &store.Running{} }, false,
			task.Running},
		{"memory says that it runs", nil, true, task.Running},
		{"done", ended(task.KindDone), true, task.Done},
		{"cancelled", ended(task.KindCancelled), false, task.Cancelled},
		{"failed", ended(task.KindFail), false, task.Dead},
		{"lost too often", ended(task.KindLost), false, task.Dead},
	} {
		if got := fact(c.change).State(now, c.live); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAnActionMakesAStepWhereItFits(t *testing.T) {
	first := ""
	tests := []struct {
		name     string
		fact     *rules.Fact
		action   store.Action
		repeated bool
		begin    *rules.Begin
		acted    store.Acted // ID, Queue, Found are as expected when it is found
		step     *store.Step
	}{
		{
			name: "cancel", fact: fact(nil),
			action: store.Action{Kind: task.KindCancelled, By: "me", Mark: 5, Error: "no more"},
			acted:  store.Acted{Changed: true, Was: task.Ready},
			step: &store.Step{Kind: task.KindCancelled, Stage: "second", Attempt: 2, ContextSeq: 2,
				Base: store.Final, Worker: "me", Finished: now, Error: "no more", Hash: 5},
		},
		{
			name:   "cancel what runs: the step names its worker",
			fact:   fact(func(f *rules.Fact) { f.Running = &store.Running{} }),
			action: store.Action{Kind: task.KindCancelled, By: "me", Worker: "w", Started: 9},
			acted:  store.Acted{Changed: true, Was: task.Running},
			step: &store.Step{Kind: task.KindCancelled, Stage: "second", Attempt: 2, ContextSeq: 2,
				Base: store.Final, Worker: "w", Started: 9, Finished: now},
		},
		{
			name: "cancel what is over", fact: fact(ended(task.KindDone)),
			action: store.Action{Kind: task.KindCancelled},
			acted:  store.Acted{Was: task.Done},
		},
		{
			name: "the same once more is answered as the first time",
			fact: fact(ended(task.KindCancelled)), repeated: true,
			action: store.Action{Kind: task.KindCancelled, Mark: 5},
			acted:  store.Acted{Changed: true, Was: task.Cancelled},
		},
		{
			name: "move: the task goes on after its own step",
			fact: fact(nil), action: store.Action{Kind: task.KindMoved, By: "me", Due: now + 7},
			acted: store.Acted{Changed: true, Was: task.Ready},
			step: &store.Step{Kind: task.KindMoved, Stage: "second", Attempt: 2, ContextSeq: 2,
				Base: 6, Due: now + 7, Worker: "me", Finished: now},
		},
		{
			name:   "move what runs",
			fact:   fact(func(f *rules.Fact) { f.Running = &store.Running{} }),
			action: store.Action{Kind: task.KindMoved, Due: now + 7},
			acted:  store.Acted{Was: task.Running},
		},
		{
			name: "replay where it died", fact: fact(ended(task.KindFail)),
			action: store.Action{Kind: task.KindReplayed, By: "me", Due: now},
			acted:  store.Acted{Changed: true, Was: task.Dead},
			step: &store.Step{Kind: task.KindReplayed, Stage: "second", ContextSeq: 2, Base: 6,
				Due: now, Worker: "me", Finished: now},
		},
		{
			name: "replay what is cancelled", fact: fact(ended(task.KindCancelled)),
			action: store.Action{Kind: task.KindReplayed, By: "me", Due: now},
			acted:  store.Acted{Changed: true, Was: task.Cancelled},
			step: &store.Step{Kind: task.KindReplayed, Stage: "second", ContextSeq: 2, Base: 6,
				Due: now, Worker: "me", Finished: now},
		},
		{
			name: "replay what is done", fact: fact(ended(task.KindDone)),
			action: store.Action{Kind: task.KindReplayed, By: "me", Due: now, When: task.Done},
			begin:  &rules.Begin{Stage: "first", ContextSeq: -1},
			acted:  store.Acted{Changed: true, Was: task.Done},
			step: &store.Step{Kind: task.KindReplayed, Stage: "first", ContextSeq: -1, Base: 6,
				Due: now, Worker: "me", Finished: now},
		},
		{
			name: "replay what was dead, and is done by now", fact: fact(ended(task.KindDone)),
			action: store.Action{Kind: task.KindReplayed, By: "me", Due: now, When: task.Dead},
			begin:  &rules.Begin{Stage: "first", ContextSeq: -1},
			acted:  store.Acted{Was: task.Done},
		},
		{
			name: "replay from a stage", fact: fact(ended(task.KindFail)),
			action: store.Action{
				Kind: task.KindReplayed, By: "me", Due: now, Replay: store.Replay{Stage: &first},
			},
			begin: &rules.Begin{Stage: "first", ContextSeq: -1},
			acted: store.Acted{Changed: true, Was: task.Dead},
			step: &store.Step{Kind: task.KindReplayed, Stage: "first", ContextSeq: -1, Base: 6,
				Due: now, Worker: "me", Finished: now},
		},
		{
			name: "replay from a stage in which it never was", fact: fact(ended(task.KindFail)),
			action: store.Action{Kind: task.KindReplayed, Replay: store.Replay{Stage: &first}},
			acted:  store.Acted{Was: task.Dead},
		},
		{
			name: "remove what is done", fact: fact(ended(task.KindDone)),
			action: store.Action{Kind: task.KindRemoved, By: "me"},
			acted:  store.Acted{Changed: true, Was: task.Done},
			step: &store.Step{Kind: task.KindRemoved, Stage: "second", Attempt: 2, ContextSeq: 2,
				Base: store.Final, Worker: "me", Finished: now},
		},
	}
	for _, c := range tests {
		c.action.ID = c.fact.ID
		c.acted.ID, c.acted.Queue, c.acted.Found = c.fact.ID, c.fact.Queue, true
		acted, step := rules.Act(c.fact, &c.action, c.repeated, c.begin, now)
		if acted != c.acted || !reflect.DeepEqual(step, c.step) {
			t.Errorf("%s: got %+v and %+v\nwant %+v and %+v", c.name, acted, step, c.acted, c.step)
		}
	}
}

// A tombstone is as good as nothing, but for the call that made it.
func TestATombstoneIsFoundByItsOwnRemovalOnly(t *testing.T) {
	gone := fact(ended(task.KindRemoved))
	remove := store.Action{ID: gone.ID, Kind: task.KindRemoved}
	if acted, step := rules.Act(gone, &remove, false, nil, now); acted.Found || step != nil {
		t.Errorf("another removal: %+v, %+v, want that nothing is found", acted, step)
	}
	acted, step := rules.Act(gone, &remove, true, nil, now)
	if !acted.Found || !acted.Changed || step != nil {
		t.Errorf("the same removal: %+v, %+v, want that it is done already", acted, step)
	}
}

func TestASpanGoesWithItsOnlyTask(t *testing.T) {
	held := func(f *rules.Fact) { f.Owner.Holder = store.Holder{Node: "a", Token: 1} }
	for _, c := range []struct {
		name   string
		change func(*rules.Fact)
		want   bool
	}{
		{"free, of one task", nil, true},
		{"free, of two", func(f *rules.Fact) { f.Owner.Hi++ }, false},
		{"held", held, false},
	} {
		if got := fact(c.change).Alone(); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// What is done begins as it was submitted, unless the replay says where; what ended otherwise goes
// on where it ended.
func TestAReplayBeginsAsTheTaskEnded(t *testing.T) {
	stage := store.Replay{Stage: new("third")}
	for kind, want := range map[task.Kind]store.Replay{
		task.KindDone: {Whole: true}, task.KindFail: {}, task.KindCancelled: {},
		task.KindTimeout: {},
	} {
		f := fact(ended(kind))
		if got := f.Begins(store.Replay{}); got != want {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
		if got := f.Begins(stage); got != stage {
			t.Errorf("%s: %+v, want %+v", kind, got, stage)
		}
	}
}
