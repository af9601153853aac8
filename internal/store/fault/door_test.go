package fault_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

// always answer, also where the store is away.
var always = map[string]bool{"Retention": true, "Close": true}

// eachCall makes each call of the contract with zero values, and hands on its error.
func eachCall(d *fault.Door, see func(verb string, err error)) {
	calls := reflect.TypeFor[contract.Store]()
	for i := range calls.NumMethod() {
		verb := calls.Method(i).Name
		if always[verb] {
			continue
		}
		call := reflect.ValueOf(d).MethodByName(verb)
		args := []reflect.Value{reflect.ValueOf(context.Background())}
		for k := 1; k < call.Type().NumIn(); k++ {
			args = append(args, reflect.Zero(call.Type().In(k)))
		}
		do := call.Call
		if call.Type().IsVariadic() {
			do = call.CallSlice
		}
		answer := do(args)
		err, _ := answer[len(answer)-1].Interface().(error)
		see(verb, err)
	}
}

// A call without a line here would reach the store that a node is cut off from: there is none
// behind these doors, and whoever asks it falls.
func TestEveryCallOfTheContractGoesThroughTheDoor(t *testing.T) {
	d := fault.NewDoor(nil)
	d.Fail(func(string) fault.Fault { return fault.Before })
	eachCall(d, func(verb string, err error) {
		if !errors.Is(err, fault.ErrFault) || d.Calls(verb) != 1 {
			t.Errorf("%s answers %v, and is counted %d times", verb, err, d.Calls(verb))
		}
	})
	if n := d.Calls("Submit", "Take", "Tasks"); n != 3 {
		t.Errorf("three calls are counted as %d", n)
	}
	if calls := d.Forget(); calls["Board"] != 1 || d.Calls() != 0 || d.Writes() != 0 {
		t.Errorf("counted %v, and %d afterwards", calls, d.Calls())
	}
	d.Cut()
	eachCall(d, func(verb string, err error) {
		if !errors.Is(err, fault.ErrAway) || !errors.Is(err, store.ErrOutOfReach) {
			t.Errorf("%s of a node that is cut off answers %v", verb, err)
		}
	})
	if n := d.Calls(); n != 0 {
		t.Errorf("%d calls came through", n)
	}
}

func TestDoorOfADeadNodeIsNotRestored(t *testing.T) {
	for what, end := range map[string]func(d *fault.Door){
		"killed": (*fault.Door).Kill,
		"crashed": func(d *fault.Door) {
			d.CrashAt(fault.Nth(0, fault.After, "ChangeQueue"))
			if _, err := d.ChangeQueue(
				t.Context(), "q", store.Whole(limits.DefaultQueue("q")),
			); !errors.Is(err, store.ErrUnknown) || !d.Crashed() {
				t.Errorf("the call at which it crashes answers %v", err)
			}
		},
	} {
		d := fault.NewDoor(model.New(time.Now))
		d.Cut()
		d.Restore()
		if err := d.Check(t.Context()); err != nil || d.Away() {
			t.Errorf("after a cut: %v", err)
		}
		end(d)
		d.Restore()
		if err := d.Check(t.Context()); !errors.Is(err, fault.ErrAway) || !d.Away() {
			t.Errorf("%s: %v", what, err)
		}
		if d.Dead() != (what == "killed") {
			t.Errorf("%s: dead %v", what, d.Dead())
		}
	}
}

func TestCallsTakeTheirTimeAndAnswerWhatTheyAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fault.NewDoor(model.New(time.Now))
		d.Slow("", time.Second)
		d.Slow("Check", time.Minute)
		d.Answer("Check", store.ErrFull)
		began := time.Now()
		if err := d.Check(t.Context()); !errors.Is(err, store.ErrFull) ||
			time.Since(began) != 61*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		d.Slow("", 0)
		d.Slow("Check", 0)
		d.Answer("Check", nil)
		if err := d.Check(t.Context()); err != nil {
			t.Error(err)
		}
		d.Fail(fault.Each(fault.Hang, "Check"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began = time.Now()
		if err := d.Check(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// What is no call of the store may go the same way.
func TestOtherCallsGoThroughTheDoor(t *testing.T) {
	d := fault.NewDoor(nil)
	d.Fail(fault.Each(fault.After, "tell"))
	done := false
	got, err := fault.Through(t.Context(), d, "tell", func() (int, error) {
		done = true
		return 7, nil
	})
	if !done || got != 0 || !errors.Is(err, store.ErrUnknown) || d.Calls("tell") != 1 {
		t.Errorf("done %v, answered %d and %v", done, got, err)
	}
}

// A story may do something right before a call or right after it, of which nobody knows yet.
func TestStoryMeetsACallBeforeAndAfterIt(t *testing.T) {
	d := fault.NewDoor(model.New(time.Now))
	var said []string
	met := d.BeforeNext("Check", func() error {
		said = append(said, "next")
		return store.ErrBroken
	})
	if err := d.Check(t.Context()); !errors.Is(err, store.ErrBroken) {
		t.Errorf("the next call answers %v", err)
	}
	<-met
	d.Before("Check", func() error {
		said = append(said, "before")
		return nil
	})
	d.AfterNext("Check", func(err error) error {
		said = append(said, "after")
		return errors.Join(err, store.ErrFull)
	})
	for _, want := range []error{store.ErrFull, nil} {
		if err := d.Check(t.Context()); !errors.Is(err, want) {
			t.Errorf("answered %v, want %v", err, want)
		}
	}
	d.Before("Check", nil)
	d.After("Check", nil)
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []string{"next", "before", "after", "before"}; !slices.Equal(said, want) {
		t.Errorf("done %q, want %q", said, want)
	}
}
