package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func ExampleNext() {
	o := task.Next("digest", map[string]int{"size": 42})
	fmt.Println(o.Kind, o.Stage, string(o.Context))
	// Output: next digest {"size":42}
}

// A reminder is sent three days after the offer.
func ExampleNextAfter() {
	o := task.NextAfter(72*time.Hour, "remind", "ann@example.org")
	fmt.Println(o.Kind, o.Stage, o.Delay)
	// Output: next remind 72h0m0s
}

// Goods are sent once they are paid; who has not paid in a week is reminded.
func ExampleNextOn() {
	o := task.NextOn(task.Await{
		Signal: "paid", Key: "order-7", Timeout: 7 * 24 * time.Hour, Else: "remind",
	}, "ship", nil)
	fmt.Println(o.Kind, o.Stage, "on", o.Await.Signal, "in", o.Await.Timeout, "else", o.Await.Else)
	// Output: next ship on paid in 168h0m0s else remind
}

// An order is split into parcels, and goes on when each of them has arrived.
func ExampleOutcome_Spawning() {
	parcels := []task.Submission{{Queue: "parcels"}, {Queue: "parcels"}}
	o := task.NextOn(task.Await{Children: task.AllChildren}, "close", nil).Spawning(parcels...)
	fmt.Println(o.Kind, o.Stage, "on", o.Await.Children, "of", len(o.Spawn), "children")
	// Output: next close on all of 2 children
}

func ExampleFinish() {
	o := task.Finish(json.RawMessage(`{"sum": 9007199254740993}`))
	fmt.Println(o.Kind, string(o.Result))
	// Output: done {"sum": 9007199254740993}
}

func ExampleRetryAfter() {
	o := task.RetryAfter(30*time.Second, errors.New("the disk is busy"))
	fmt.Println(o.Kind, o.Delay, o.Error)
	// Output: retry 30s the disk is busy
}

func ExampleOutcome_HoldingKey() {
	err := errors.New("customer 7's server asks us to slow down")
	o := task.RetryAfter(30*time.Second, err).HoldingKey(30 * time.Second)
	fmt.Println(o.Kind, o.HoldKey)
	// Output: retry 30s
}

func ExampleSnooze() {
	o := task.Snooze(time.Hour)
	fmt.Println(o.Kind, o.Delay)
	// Output: snooze 1h0m0s
}

func ExampleFail() {
	o := task.Fail(errors.New("no such file"))
	fmt.Println(o.Kind, o.Error)
	// Output: fail no such file
}

func TestOutcomesSayWhatTheirNamesSay(t *testing.T) {
	no := errors.New("no")
	for _, test := range []struct{ got, want task.Outcome }{
		{task.Finish(nil), task.Outcome{Kind: task.KindDone}},
		{task.NextOn(task.Await{Signal: "paid"}, "ship", 7), task.Outcome{
			Kind: task.KindNext, Stage: "ship", Context: json.RawMessage(`7`),
			Await: &task.Await{Signal: "paid"},
		}},
		{task.NextOn(task.Await{Signal: "paid"}, "ship", math.NaN()), task.Outcome{
			Kind: task.KindFail, Error: "encode context: json: unsupported value: NaN",
		}},
		{task.Finish(nil).Spawning(task.Submission{Queue: "a"}).Spawning(
			task.Submission{Queue: "b"}), task.Outcome{
			Kind: task.KindDone, Spawn: []task.Submission{{Queue: "a"}, {Queue: "b"}},
		}},
		{task.Retry(no).Spawning(task.Submission{Queue: "a"}), task.Retry(no)},
		{task.Finish(nil).Spawning(task.Define[float64]("sum").New(math.NaN())), task.Outcome{
			Kind:  task.KindFail,
			Error: "child 0: encode float64 as context: json: unsupported value: NaN",
		}},
		{task.Finish(7), task.Outcome{Kind: task.KindDone, Result: json.RawMessage(`7`)}},
		{task.Finish(math.NaN()), task.Outcome{
			Kind: task.KindFail, Error: "encode result: json: unsupported value: NaN",
		}},
		{task.Next("s", nil), task.Outcome{Kind: task.KindNext, Stage: "s"}},
		{task.Next("s", json.RawMessage{}), task.Outcome{Kind: task.KindNext, Stage: "s"}},
		{task.Next("s", json.RawMessage(`{`)), task.Outcome{
			Kind: task.KindFail, Error: "encode context: not valid JSON",
		}},
		{task.NextAfter(time.Hour, "s", 7), task.Outcome{
			Kind: task.KindNext, Stage: "s", Context: json.RawMessage(`7`), Delay: time.Hour,
		}},
		{task.NextAfter(time.Hour, "s", json.RawMessage(`{`)), task.Outcome{
			Kind: task.KindFail, Error: "encode context: not valid JSON",
		}},
		{task.Retry(no), task.Outcome{Kind: task.KindRetry, Error: "no"}},
		{task.Retry(nil), task.Outcome{Kind: task.KindRetry}},
		{task.RetryAfter(s, no), task.Outcome{Kind: task.KindRetry, Delay: s, Error: "no"}},
		{task.Snooze(s), task.Outcome{Kind: task.KindSnooze, Delay: s}},
		{task.Fail(no), task.Outcome{Kind: task.KindFail, Error: "no"}},
		{task.Release(), task.Outcome{Kind: task.KindRelease}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Error(diff)
		}
		if problem := limits.CheckOutcome(&test.got); problem != "" {
			t.Errorf("%+v: %s", test.got, problem)
		}
	}
}

func TestRawMessagesAreKeptByteForByte(t *testing.T) {
	for _, text := range []string{`{ "a" : 9007199254740993, "a":1e400 }`, `"\u2028"`,
		"\"\u2028<>&\"", `null`, ` 1 `} {
		raw := json.RawMessage(text)
		if got := task.Finish(raw).Result; string(got) != text {
			t.Errorf("Finish makes %s of %s", got, text)
		}
		if got := task.Next("s", raw).Context; string(got) != text {
			t.Errorf("Next makes %s of %s", got, text)
		}
	}
}

func TestKindsHaveOneWordEach(t *testing.T) {
	words := map[string]bool{}
	for k := task.KindDone; k <= task.KindEdited; k++ {
		back, ok := task.ParseKind(k.String())
		if !ok || back != k || words[k.String()] {
			t.Errorf("kind %d is %q, which is kind %d", k, k, back)
		}
		words[k.String()] = true
		var text task.Kind
		if b, err := k.MarshalText(); err != nil || text.UnmarshalText(b) != nil || text != k {
			t.Errorf("kind %d is %q as text, which is kind %d", k, b, text)
		}
		if want := k <= task.KindRelease; k.Reportable() != want {
			t.Errorf("%v: reportable %v, want %v", k, !want, want)
		}
	}
	for _, word := range []string{"", "Done", "done ", "kind(0)"} {
		if k, ok := task.ParseKind(word); ok {
			t.Errorf("ParseKind(%q) = %v", word, k)
		}
	}
	if task.Kind(0).Reportable() || task.Kind(0).String() != "kind(0)" ||
		task.Kind(99).String() != "kind(99)" {
		t.Errorf("kinds that are none: %v, %v", task.Kind(0), task.Kind(99))
	}
	if err := new(task.Kind).UnmarshalText([]byte("won")); err == nil ||
		!strings.Contains(err.Error(), `"won"`) {
		t.Errorf("UnmarshalText(won): %v", err)
	}
}

func TestOnlyFourStatesAreFinal(t *testing.T) {
	final := map[task.State]bool{task.Done: true, task.Dead: true, task.Cancelled: true,
		task.Expired: true}
	for _, state := range task.States {
		if !state.Valid() || state.Final() != final[state] {
			t.Errorf("%s: valid %v, final %v", state, state.Valid(), state.Final())
		}
	}
	if task.State("").Valid() || task.State("Done").Valid() || len(task.States) != 8 {
		t.Errorf("states that are none are valid, or there are not eight: %v", task.States)
	}
}

func TestWhatIsAskedForFitsSomeStates(t *testing.T) {
	states := []task.State{
		task.Waiting, task.Ready, task.Running, task.Done, task.Dead, task.Cancelled,
		task.Expired, task.Blocked,
	}
	for kind, want := range map[task.Kind]string{
		task.KindCancelled: "yyynnnny", task.KindRemoved: "yynyyyyy",
		task.KindMoved: "yynnnnnn", task.KindEdited: "yynnnnny",
		task.KindReplayed: "nnnyyyyn", task.KindDone: "nnnnnnnn", task.KindExpired: "nnnnnnnn",
	} {
		for i, s := range states {
			if kind.Fits(s) != (want[i] == 'y') {
				t.Errorf("%s of a task that is %s: %t", kind, s, kind.Fits(s))
			}
		}
	}
	for kind, want := range map[task.Kind]task.State{task.KindDone: task.Done,
		task.KindCancelled: task.Cancelled, task.KindFail: task.Dead, task.KindLost: task.Dead,
		task.KindTimeout: task.Dead, task.KindExpired: task.Expired} {
		if got := kind.Leaves(); got != want {
			t.Errorf("%s leaves %s, want %s", kind, got, want)
		}
	}
}
