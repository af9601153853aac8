package store

import "github.com/rotahq/rota/task"

// Action asks for something to happen to a task from outside: KindCancelled, KindMoved (run now),
// KindReplayed (a final task begins again), KindEdited or KindRemoved.
type Action struct {
	ID   task.ID
	Kind task.Kind
	By   string // who asked
	// Mark is the same whenever this action is repeated, and no other action on the task has it. 0:
	// it is never repeated.
	Mark int64
	// Worker and Started are those of the hand-out that a cancellation ends, if its node knows of
	// one; the step then names them instead of who asked.
	Worker  string
	Started int64
	Rank    int64  // of KindMoved and KindReplayed
	Due     int64  // of KindMoved and KindReplayed
	Replay  Replay // of KindReplayed
	Edit    *Edit  // of KindEdited
	// Holder is who asks for a KindEdited. Of a span that another node holds only that one knows
	// what has just gone out, so there no edit happens: Acted.Held says who has it.
	Holder Holder
	// Fenced: the task is handed out by Begin only (Loaded.Unique). So it may be edited whoever
	// holds it: who has what was there before asks for a hand-out that is none any more.
	Fenced bool
	// Tree: all that hangs below the task is cancelled, too, begun or not. Of KindCancelled,
	// KindRemoved and KindReplayed.
	Tree bool
	// When is the only state in which it may happen to the task; "" = any that its kind fits. Who
	// acts on what a list shows means what was in the list.
	When  task.State
	Error string // for people
}

// Replay says where a final task begins again. The zero value: a done task in its first stage, with
// the context that it was submitted with; another one in the stage in which it ended, with the
// context that it has.
type Replay struct {
	Whole bool    // in its first stage, with the context that it was submitted with
	Stage *string // in this stage, with the context with which it first came there; nil = another
}

// Acted answers an Action. Not Changed: Was says why (already final, not final, running), or Held.
type Acted struct {
	ID      task.ID
	Queue   string
	Found   bool
	Changed bool
	Was     task.State // before; "" when not found
	Held    string     // the other node that holds the task, which therefore was not edited
}

// ActedAll is what came of acting on a page of the tasks that a filter selects.
type ActedAll struct {
	Matched int64   // tasks to which it may be done
	Changed int64   // those to which it was
	Next    task.ID // where to go on; zero at the end
}

// Standing of a task for whoever does not hold it.
type Stood struct {
	ID    task.ID
	Found bool
	Queue string
	Final bool
	Kind  task.Kind // of the newest step; 0 = there is none
	Owner Span      // the span it belongs to; zero ID when final
	Loaded
}
