// Package explain says why a task does not run, or why the tasks of a queue don't: what holds them
// back, what would change it and, where it can be said, when a task will begin. It is pure: what is
// known of the task, its queue and the workers comes as facts, gathered at one moment, and the same
// facts give the same answer at every node.
//
// A task may be held back by more than one thing; all that hold it now are told, the hardest first:
//
//	unheard      who has the task, or would know more, says nothing
//	paused       its queue hands nothing out
//	unserved     no worker takes tasks of its queue, or all that do are draining
//	not_due      its time has not come
//	backing_off  the same, after an attempt that failed
//	key_paused   its group key is paused, or a dead task stops it
//	limit        as many tasks of its queue, or of its group key, run as may
//	rate         the tasks of its queue, or of its group key, begin as fast as they may
//	full         all workers that take tasks of the queue have all they may have
//	behind       ready tasks of an earlier rank come first
//	turn         the same in a queue whose group keys take turns
//	signal       it waits for a signal
//	children     it waits for its children
//	dependencies it waits for other tasks
//	expired      nobody had begun it in time; it is over
//
// A task that nothing holds begins as soon as a node hands it out. What is told is what was known
// when the facts were gathered; it promises nothing.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Queue is what is known of a queue.
type Queue struct {
	Name    string
	Paused  bool
	Silence time.Duration // after which a worker that says nothing has lost its tasks
	Counts  task.Counts
	// Gate is how the queue stood beside its limits at the store's time At, in microseconds; the
	// zero Gate is a queue that has none.
	Gate     admission.Gate
	At       int64
	PerKey   admission.Limits // of each of its group keys
	FullKeys int              // keys of which as many tasks run as may, counted up to 1,000
	Fair     bool             // group keys take turns
	// KeyRules: something is said of single group keys. PausedKeys is how many are paused, counted
	// up to 1,000.
	KeyRules   bool
	PausedKeys int
	Workers    []task.Worker // all that are known, whatever they take
	Missing    []string      // nodes that did not say which workers they know
}

// Task is what is known of a task besides its queue.
type Task struct {
	task.View
	Ahead store.Ahead
	// Usual is how long hand-outs of its queue took lately, on average; 0 = nobody knows.
	Usual time.Duration
	// KeyGate is how its group key stood beside the limits of each key, and its pause, at the
	// store's time KeyAt, in microseconds; the zero Gate is a task that has no key, or whose queue
	// has no such limits and says nothing of single keys.
	KeyGate admission.Gate
	// KeyOwner is the task that its key waits for, where that goes in order; zero = none.
	// KeyStopped says that it is dead, and stops the key.
	KeyOwner   task.ID
	KeyStopped bool
	KeyAt      int64
	// Others are the first of those that it waits for, as they stand now; OthersOpen is how many
	// it waits for in all.
	Others     []Other
	OthersOpen int
	// Away is the node that holds the task while nothing is heard of that node, or "".
	Away string
}

// Other is a task that another one waits for.
type Other struct {
	task.Prior
	Queue string // "" = it is gone, or Unseen
	Now   task.State
	// Unseen says that whoever asks may not know how it stands.
	Unseen bool
}

// OfTask says why a task does not run. A final one, unless it expired, and one that runs at a
// worker that is heard have no reason.
func OfTask(t Task, q Queue, now time.Time) view.Explanation {
	e := view.Explanation{State: string(t.State), Reasons: []view.Reason{}}
	switch {
	case t.State == task.Expired:
		e.Reasons = list(expired(t))
		return e
	case t.State.Final():
		return e
	case t.State == task.Running:
		e.Reasons = list(silentWorker(t, q, now))
		return e
	case t.State == task.Blocked:
		e.Reasons = list(awaited(t, now))
		return e
	}
	s := serving(q)
	e.Reasons = list(holderAway(t), paused(q), unserved(q, s))
	if len(e.Reasons) == 0 {
		e.Starts = starts(t, q, s, now)
	}
	if t.State == task.Waiting {
		e.Reasons = append(e.Reasons, list(waits(t, now))...)
	} else {
		own, key := ofQueue(q), ofKey(t, q)
		keyFull := key.limited()
		if first := inOrder(t, q); first.Kind != "" {
			keyFull = first
		}
		e.Reasons = append(e.Reasons, list(keyPaused(t, q), own.limited(), own.tooFast(), keyFull,
			key.tooFast(), full(s), behind(t, q))...)
	}
	if !t.Expires.IsZero() {
		e.Expires = view.Time{Time: t.Expires}
		if !e.Starts.IsZero() && !e.Starts.Before(t.Expires) {
			e.Starts = view.Time{} // it will have expired
		}
	}
	return e
}

// OfQueue says how the tasks of a queue stand, and what holds the ready ones back.
func OfQueue(q Queue) view.Explanation {
	s := serving(q)
	e := view.Explanation{State: "working", Reasons: list(paused(q), unserved(q, s))}
	switch {
	case q.Paused:
		e.State = "paused"
	case q.Counts.Ready > 0 && s.active == 0:
		e.State = "unserved"
	case q.Counts.Ready > 0 && q.Gate.Held(q.At).Why != "":
		e.State = "limited"
	case q.Counts.Ready > 0 && s.open == 0:
		e.State = "full"
	case q.Counts.Ready > 0 && (q.FullKeys > 0 || q.PausedKeys > 0): // workers have room
		e.State = "limited"
	case q.Counts.Ready > 0 || q.Counts.Running > 0:
	case q.Counts.Waiting > 0 || q.Counts.Blocked > 0:
		e.State = "sleeping"
	default:
		e.State = "empty"
	}
	if q.Counts.Ready > 0 {
		own := ofQueue(q)
		e.Reasons = append(e.Reasons,
			list(own.limited(), own.tooFast(), keysFull(q), keysPaused(q), full(s))...)
	}
	if n := q.Counts.Waiting; n > 0 {
		e.Reasons = append(e.Reasons, view.Reason{Kind: view.ReasonNotDue,
			Text: plural(n, "task is not due yet, or waits", "tasks are not due yet, or wait") +
				" after an attempt that failed."})
	}
	if n := q.Counts.Blocked; n > 0 {
		e.Reasons = append(e.Reasons, view.Reason{Kind: view.ReasonSignal,
			Text: plural(n, "task waits", "tasks wait") + " for a signal, for children, or for other tasks."})
	}
	return e
}

// expired says of a task that has expired what it waited for in vain, as far as is known.
func expired(t Task) view.Reason {
	return view.Reason{Kind: view.ReasonExpired,
		Text: fmt.Sprintf("It was %s: nobody took it in the time it had to start.",
			cmp.Or(t.Error, "not begun in time")),
		Change: "rota task retry " + t.ID.String() +
			"; for tasks to come, more workers or a longer --start-within"}
}

// list leaves out what is no reason.
func list(reasons ...view.Reason) []view.Reason {
	return slices.DeleteFunc(reasons, func(r view.Reason) bool { return r.Kind == "" })
}

// plural is a number with the word for one, or for another number.
func plural(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// workers are those that take tasks of a queue.
type workers struct {
	active   int     // that are heard and don't drain
	draining int     // that are heard and drain
	open     int     // active ones with room
	places   float64 // how many tasks the active ones may run at once, as far as they say
	running  int     // tasks that the active ones run
	free     int     // tasks that they may be given
}

func serving(q Queue) (s workers) {
	for i := range q.Workers {
		w := &q.Workers[i]
		if !slices.Contains(w.Queues, q.Name) {
			continue
		}
		switch w.State {
		case task.WorkerDraining:
			s.draining++
		case task.WorkerActive:
			s.active++
			s.running += w.Running
			s.places += max(w.Capacity-w.Shed, 0)
			s.free += w.Free
			if w.Free > 0 {
				s.open++
			}
		}
	}
	return s
}

func paused(q Queue) view.Reason {
	if !q.Paused {
		return view.Reason{}
	}
	return view.Reason{Kind: view.ReasonPaused,
		Text:   fmt.Sprintf("Queue %s is paused: nothing of it is handed out.", q.Name),
		Change: "rota queue resume " + q.Name}
}

func unserved(q Queue, s workers) view.Reason {
	switch {
	case s.active > 0:
		return view.Reason{}
	case len(q.Missing) > 0:
		return view.Reason{Kind: view.ReasonUnheard,
			Text: fmt.Sprintf("No known worker takes tasks of queue %s, and nobody knows about the "+
				"workers of %s.", q.Name, strings.Join(q.Missing, ", ")),
			Change: "rota node ls"}
	case s.draining > 0:
		text := fmt.Sprintf("All %d workers that take tasks of queue %s are draining: they are given "+
			"nothing new.", s.draining, q.Name)
		if s.draining == 1 {
			text = fmt.Sprintf("The worker that takes tasks of queue %s is draining: it is given "+
				"nothing new.", q.Name)
		}
		return view.Reason{Kind: view.ReasonUnserved, Text: text,
			Change: "rota worker undrain NAME; or one more, rota worker --queue " + q.Name}
	}
	return view.Reason{Kind: view.ReasonUnserved,
		Text:   fmt.Sprintf("No worker takes tasks of queue %s.", q.Name),
		Change: fmt.Sprintf("rota worker --queue %s -- COMMAND", q.Name)}
}

func full(s workers) view.Reason {
	if s.active == 0 || s.open > 0 {
		return view.Reason{}
	}
	text := fmt.Sprintf("All %d workers that take these tasks are full: they run %d, and may run %v.",
		s.active, s.running, s.places)
	if s.active == 1 {
		text = fmt.Sprintf("The worker that takes these tasks is full: it runs %d, and may run %v.",
			s.running, s.places)
	}
	return view.Reason{Kind: view.ReasonFull, Text: text,
		Change: "more workers, or a greater --capacity"}
}

// waits says until when a task waits, and what for.
func waits(t Task, now time.Time) view.Reason {
	left := max(t.Due.Sub(now).Round(time.Second), 0)
	last := lastTry(t.Steps)
	if t.Attempt <= 1 || last == nil {
		return view.Reason{Kind: view.ReasonNotDue,
			Text:  fmt.Sprintf("It is due in %v.", left),
			Until: view.Time{Time: t.Due}, Change: "rota task run " + t.ID.String()}
	}
	return view.Reason{Kind: view.ReasonBackingOff,
		Text: fmt.Sprintf("Attempt %d ended with %s; attempt %d comes in %v.",
			t.Attempt-1, cmp.Or(last.Error, last.Kind.String()), t.Attempt, left),
		Until: view.Time{Time: t.Due}, Change: "rota task run " + t.ID.String()}
}

// lastTry is the newest attempt that was charged, or nil.
func lastTry(steps []task.Step) *task.Step {
	for i := range slices.Backward(steps) {
		switch steps[i].Kind {
		case task.KindRetry, task.KindLost, task.KindTimeout:
			return &steps[i]
		}
	}
	return nil
}

func behind(t Task, q Queue) view.Reason {
	if q.Fair {
		return turn(t, q)
	}
	if t.Ahead.Tasks == 0 {
		return view.Reason{}
	}
	text := plural(t.Ahead.Tasks, "ready task of the queue comes", "ready tasks of the queue come")
	if t.Ahead.More {
		text = "At least " + text
	}
	return view.Reason{Kind: view.ReasonBehind,
		Text:   text + " first: due for longer, or of a greater priority.",
		Change: "more workers; for tasks to come, a greater --priority"}
}

func holderAway(t Task) view.Reason {
	if t.Away == "" {
		return view.Reason{}
	}
	return view.Reason{Kind: view.ReasonUnheard,
		Text: fmt.Sprintf("Node %s holds it, and nothing is heard of that node; others take the task "+
			"when its membership has ended.", t.Away),
		Change: "rota node ls"}
}

// silentWorker says so when nothing is heard of the worker that runs a task.
func silentWorker(t Task, q Queue, now time.Time) view.Reason {
	for i := range q.Workers {
		w := &q.Workers[i]
		if w.Name != t.Worker {
			continue
		}
		if w.State != task.WorkerSilent && w.State != task.WorkerLeft {
			return view.Reason{}
		}
		r := view.Reason{Kind: view.ReasonUnheard,
			Text: fmt.Sprintf("Worker %s has said nothing for %v.", w.Name,
				now.Sub(w.Seen).Round(time.Second)),
			Change: "DELETE /v1/workers/" + w.Name + ": its tasks go out again at once"}
		if q.Silence > 0 {
			r.Text += fmt.Sprintf(" After %v its tasks are lost and go out again.", q.Silence)
		}
		return r
	}
	if len(q.Missing) == 0 {
		return view.Reason{}
	}
	return view.Reason{Kind: view.ReasonUnheard,
		Text: fmt.Sprintf("Nobody knows how worker %s is, which runs it: %s did not answer.",
			t.Worker, strings.Join(q.Missing, ", ")),
		Change: "rota node ls"}
}
