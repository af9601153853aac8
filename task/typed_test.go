package task_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

type order struct {
	Number int
	Items  []item
	Total  float64
}

type item struct{ Name string }

type parcel struct{ Weight int }

var (
	charge = task.Define[order]("orders")
	ship   = task.Type[parcel]{Queue: "orders", Stage: "ship"}
)

// Kinds of tasks are variables of a package: one for each stage of a queue.
func ExampleDefine() {
	s := charge.New(order{Number: 7}, task.Submission{Key: "order-7", Delay: time.Minute})
	fmt.Println(s.Queue, s.Key, s.Delay, string(s.Context))

	o := ship.Next(parcel{Weight: 3})
	fmt.Println(o.Kind, o.Stage, string(o.Context))
	// Output:
	// orders order-7 1m0s {"Number":7,"Items":null,"Total":0}
	// next ship {"Weight":3}
}

// A test of a handler reads a hand-out as a worker does.
func ExampleType_Read() {
	t, err := ship.Read(task.Handout{Attempt: 2, Context: json.RawMessage(`{"Weight":3}`)})
	fmt.Println(t.Args.Weight, t.Attempt, err)
	_, err = ship.Read(task.Handout{Context: json.RawMessage(`{"Weight":"heavy"}`)})
	fmt.Println(err)
	// Output:
	// 3 2 <nil>
	// decode context as task_test.parcel: context.Weight, byte 17: want int, got string
}

func TestOptionsOfASubmissionAreTakenButForWhatTheTypeSays(t *testing.T) {
	due := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// every field that a caller may set, so that a new one can't be forgotten
	option := task.Submission{
		Queue: "other", Stage: "other", Context: json.RawMessage(`1`), Priority: time.Second,
		Due: due, Delay: 2 * time.Second, Key: "k", KeyFor: time.Hour, GroupKey: "g",
		MaxAttempts: 3, Timeout: time.Minute, StartWithin: time.Second,
		Meta:       map[string]string{"customer": "7"},
		Unique:     &task.Unique{Key: "u", While: task.WhileWaiting, For: time.Hour},
		OnExisting: task.OnExistingReplace, Orphan: true,
		After: []string{"a"}, If: task.IfEnded, Ref: "r",
	}
	for v, i := reflect.ValueOf(option), 0; i < v.NumField(); i++ {
		if f := v.Type().Field(i); f.Name != "Err" && v.Field(i).IsZero() {
			t.Fatalf("this test says nothing of %s", f.Name)
		}
	}
	want := option
	want.Queue, want.Stage, want.Context = "orders", "ship", json.RawMessage(`{"Weight":1}`)
	if got := ship.New(parcel{1}, option); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// what a later option leaves out stands as before
	if got := ship.New(parcel{1}, option, task.Submission{}); !reflect.DeepEqual(got, want) {
		t.Errorf("with one that says nothing: got %+v, want %+v", got, want)
	}
	later := task.Submission{Key: "later"}
	if got := ship.New(parcel{1}, option, later); got.Key != "later" || got.GroupKey != "g" {
		t.Errorf("with a later key: got %+v", got)
	}
}

func TestArgumentsThatCannotBeWrittenRefuseTheTaskAndFailTheStage(t *testing.T) {
	bad := order{Total: math.NaN()}
	s := charge.New(bad)
	want := "encode task_test.order as context: json: unsupported value: NaN"
	if err := s.Err; err == nil || err.Error() != want {
		t.Errorf("the submission says %v, want %s", err, want)
	}
	o := task.Type[order]{Queue: "orders", Stage: "again"}.Next(bad)
	if o.Kind != task.KindFail || o.Error != want {
		t.Errorf("the outcome is %+v, want a failure: %s", o, want)
	}
}

func TestContextsThatDoNotFitSayWhere(t *testing.T) {
	for _, c := range []struct{ context, want string }{
		{`{"Number":7,"Items":[{"Name":"a"}]}`, ""},
		{``, ""},     // none
		{`null`, ""}, // the same
		{`{"Number":7,"More":1}`, ""},
		{`{"Number":1.5}`, "context.Number, byte 13: want int, got number 1.5"},
		{`{"Items":[{"Name":"a"},{"Name":2}]}`,
			"context.Items.Name, byte 32: want string, got number"},
		{`[1]`, "context, byte 1: want task_test.order, got array"},
		{`{"Number":`, "unexpected end of JSON input"},
	} {
		got, err := charge.Decode(json.RawMessage(c.context))
		switch {
		case c.want == "" && err == nil:
		case c.want == "" || err == nil || !strings.HasSuffix(err.Error(), ": "+c.want):
			t.Errorf("%s: got %v, want %q", c.context, err, c.want)
		case !reflect.DeepEqual(got, order{}):
			t.Errorf("%s: got %+v beside the error, want nothing", c.context, got)
		}
	}
}

// hidden is a codec of bytes, as one that encrypts would be: they are a string of JSON.
type hidden struct{}

var errShort = errors.New("too short")

func (hidden) Encode(args any) (json.RawMessage, error) {
	text, ok := args.(string)
	if !ok || text == "" {
		return nil, errShort
	}
	return json.Marshal([]byte("x" + text))
}

func (hidden) Decode(context json.RawMessage, args any) error {
	var b []byte
	if err := json.Unmarshal(context, &b); err != nil {
		return err
	}
	if len(b) == 0 {
		return errShort
	}
	*args.(*string) = string(b[1:])
	return nil
}

func TestACodecWritesAndReadsContexts(t *testing.T) {
	secret := task.Type[string]{Queue: "secrets", Codec: hidden{}}
	s := secret.New("tell nobody")
	if want := `"` + base64.StdEncoding.EncodeToString([]byte("xtell nobody")) + `"`; string(
		s.Context,
	) != want {
		t.Errorf("got context %s, want %s", s.Context, want)
	}
	if got, err := secret.Decode(s.Context); got != "tell nobody" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := secret.Decode(nil); !errors.Is(err, errShort) {
		t.Errorf("reading none: %v, want %v", err, errShort)
	}
	if s := secret.New(""); !errors.Is(s.Err, errShort) {
		t.Errorf("writing nothing: %v, want %v", s.Err, errShort)
	}
}
