package task_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
)

// What is wrong with a submission stands in its error, place by place.
func ExampleInvalidError() {
	var err error = &task.InvalidError{Fields: []task.FieldError{
		{Location: "tasks[0].queue", Message: "must not be empty"},
	}}
	if invalid, ok := errors.AsType[*task.InvalidError](err); ok {
		for _, f := range invalid.Fields {
			fmt.Println(f.Location, f.Message)
		}
	}
	fmt.Println(errors.Is(err, task.ErrInvalid))
	// Output:
	// tasks[0].queue must not be empty
	// true
}

// Ids sort as their tasks were submitted.
func ExampleID_Compare() {
	a, err := task.ParseID("1jwrrkvpcj00711")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := task.ParseID("1jwrrkvpcj00712")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Compare(b))
	// Output: -1
}

// A database refuses what comes late: of the tokens of one task a later hand-out has the greater
// (Seq, SpanToken).
func ExampleParseToken() {
	newer := func(a, b task.Token) bool {
		return a.Seq > b.Seq || a.Seq == b.Seq && a.SpanToken > b.SpanToken
	}
	first, err := task.ParseToken("5.1.0.g7.9") // Handout.Token
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := task.ParseToken("5.1.1.h8.9")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(newer(second, first))
	// Output: true
}

// The token of a job's assignment is a number that only grows.
func ExampleParseJobToken() {
	t, err := task.ParseJobToken("19.g7")
	fmt.Println(t.Number, err)
	// Output: 41 <nil>
}

func ExampleState_Final() {
	for _, s := range task.States {
		if s.Final() {
			fmt.Println(s)
		}
	}
	fmt.Println(task.State("lost").Valid())
	// Output:
	// done
	// dead
	// cancelled
	// expired
	// false
}

// What became of each attempt stands in the steps of a task.
func ExampleParseKind() {
	kind, ok := task.ParseKind("timeout")
	fmt.Println(kind == task.KindTimeout, ok)
	// Output: true true
}

// Loads and capacities are exact to three decimals.
func ExampleParseUnits() {
	load, err := task.ParseUnits(0.125)
	fmt.Println(int64(load), load.Float(), err)
	_, err = task.ParseUnits(0.0001)
	fmt.Println(err)
	// Output:
	// 125 0.125 <nil>
	// 0.0001: at most 3 decimals
}

// What an operator reads as JSON, a program reads as its type.
func ExampleType_Decode() {
	v := task.View{Context: []byte(`{"Weight":3}`)} // as Client.Task answers
	p, err := ship.Decode(v.Context)
	fmt.Println(p.Weight, err)
	// Output: 3 <nil>
}

func ExampleRetry() {
	o := task.Retry(errors.New("no answer")) // after the queue's back-off
	fmt.Println(o.Kind, o.Error)
	fmt.Println(task.Release().Kind) // not tried at all: somebody else may, at once
	// Output:
	// retry no answer
	// release
}

// A parcel is sent once somebody says so.
func ExampleType_NextOn() {
	o := ship.NextOn(task.Await{Signal: "packed", Key: "parcel-3"}, parcel{Weight: 3})
	fmt.Println(o.Kind, string(o.Context), "on", o.Await.Signal, o.Await.Key)
	// Output: next {"Weight":3} on packed parcel-3
}

func ExampleType_NextAfter() {
	fmt.Println(ship.NextAfter(time.Hour, parcel{Weight: 3}).Delay)
	fmt.Println(task.NextAfter(time.Minute, "ask", nil).Stage) // without types
	// Output:
	// 1h0m0s
	// ask
}
