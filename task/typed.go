package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Type is a kind of task: the queue that its tasks go to, the stage of theirs that it stands for,
// and the Go type of what they carry there. A task of several stages has a Type for each. Define
// makes one of a queue; a Type is plain data, and may stand in a variable of a package:
//
//	var (
//		Charge = task.Define[Order]("orders")
//		Ship   = task.Type[Parcel]{Queue: "orders", Stage: "ship"}
//	)
type Type[A any] struct {
	Queue string
	Stage string // "" = the first one
	Codec Codec  // how arguments are written down; nil = as encoding/json does
}

// Codec writes arguments down as contexts, and reads them. A context is one JSON value; a codec of
// bytes writes a string.
type Codec interface {
	// Encode writes args, of a Type's A. Its error refuses the submission, or makes the outcome a
	// failure for good.
	Encode(args any) (json.RawMessage, error)
	// Decode reads a context into args, a pointer to a Type's A that is zero. Its error makes the
	// task dead at once.
	Decode(context json.RawMessage, args any) error
}

// Task is a hand-out whose context was read.
type Task[A any] struct {
	Handout
	Args A
}

// Define is the kind of tasks that a queue gets, in their first stage.
func Define[A any](queue string) Type[A] { return Type[A]{Queue: queue} }

// New is a submission of a task that carries args. What else is wanted of it, as a Key or a Delay,
// the fields of options say; their queue, stage and context are not looked at. Arguments that can't
// be written down are refused when the task is submitted, as a *InvalidError.
func (t Type[A]) New(args A, options ...Submission) Submission {
	var s Submission
	for _, o := range options {
		s = s.with(o)
	}
	s.Queue, s.Stage = t.Queue, t.Stage
	s.Context, s.Err = t.encode(args)
	return s
}

// with is s with the fields that o says.
func (s Submission) with(o Submission) Submission {
	s.Priority = cmp.Or(o.Priority, s.Priority)
	if !o.Due.IsZero() {
		s.Due = o.Due
	}
	s.Delay = cmp.Or(o.Delay, s.Delay)
	s.Key = cmp.Or(o.Key, s.Key)
	s.KeyFor = cmp.Or(o.KeyFor, s.KeyFor)
	s.GroupKey = cmp.Or(o.GroupKey, s.GroupKey)
	s.MaxAttempts = cmp.Or(o.MaxAttempts, s.MaxAttempts)
	s.Timeout = cmp.Or(o.Timeout, s.Timeout)
	s.StartWithin = cmp.Or(o.StartWithin, s.StartWithin)
	s.Unique = cmp.Or(o.Unique, s.Unique)
	s.OnExisting = cmp.Or(o.OnExisting, s.OnExisting)
	if o.Meta != nil {
		s.Meta = o.Meta
	}
	s.Orphan = s.Orphan || o.Orphan
	if o.After != nil {
		s.After = o.After
	}
	s.If = cmp.Or(o.If, s.If)
	s.Ref = cmp.Or(o.Ref, s.Ref)
	return s
}

// Next says that the present stage ended, and that of t follows with args.
func (t Type[A]) Next(args A) Outcome {
	context, err := t.encode(args)
	if err != nil {
		return Fail(err)
	}
	return Outcome{Kind: KindNext, Stage: t.Stage, Context: context}
}

// NextAfter is Next with a wait in between: the stage of t begins d from now.
func (t Type[A]) NextAfter(d time.Duration, args A) Outcome { return after(d, t.Next(args)) }

// Decode reads a context, as of a hand-out, of a View or of a FinalNotice. None is read as null. An
// error names the place.
func (t Type[A]) Decode(context json.RawMessage) (args A, err error) {
	if len(context) == 0 {
		context = json.RawMessage("null")
	}
	if t.Codec == nil {
		err = readJSON(context, &args)
	} else {
		err = t.Codec.Decode(context, &args)
	}
	if err != nil {
		var none A
		return none, fmt.Errorf("decode context as %v: %w", reflect.TypeFor[A](), err)
	}
	return args, nil
}

// Read is the hand-out with its context read. Errors as of Decode.
func (t Type[A]) Read(h Handout) (Task[A], error) {
	args, err := t.Decode(h.Context)
	return Task[A]{Handout: h, Args: args}, err
}

func (t Type[A]) encode(args A) (context json.RawMessage, err error) {
	if t.Codec == nil {
		context, err = json.Marshal(args)
	} else {
		context, err = t.Codec.Encode(args)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %v as context: %w", reflect.TypeFor[A](), err)
	}
	return context, nil
}

// readJSON is json.Unmarshal, whose errors it makes say where.
func readJSON(context json.RawMessage, args any) error {
	err := json.Unmarshal(context, args)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		place := "context"
		if wrong.Field != "" {
			place += "." + wrong.Field
		}
		return fmt.Errorf("%s, byte %d: want %s, got %s", place, wrong.Offset, wrong.Type,
			wrong.Value)
	}
	return err
}
