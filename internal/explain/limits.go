package explain

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// gate is how a queue, or the group key of a task, stands beside limits at a time.
type gate struct {
	admission.Gate
	at          int64
	who         string // in the words of people
	queue       string
	most, speed string // the flags that set its limits
	// the kinds of what holds back
	full, fast view.ReasonKind
}

func ofQueue(q Queue) gate {
	return gate{q.Gate, q.At, "queue " + q.Name, q.Name, "--max-running", "--rate",
		view.ReasonLimit, view.ReasonRate}
}

func ofKey(t Task, q Queue) gate {
	return gate{t.KeyGate, t.KeyAt, keyName(t.GroupKey), q.Name, "--key-max-running",
		"--key-rate", view.ReasonKeyLimit, view.ReasonKeyLimit}
}

// inOrder says so when another task of the key comes first, which goes in order.
func inOrder(t Task, q Queue) view.Reason {
	key, owner := keyName(t.GroupKey), t.KeyOwner
	switch {
	case owner == (task.ID{}) || owner == t.ID:
		return view.Reason{}
	case t.KeyStopped:
		return view.Reason{Kind: view.ReasonKeyPaused,
			Text: fmt.Sprintf("Task %s of %s is dead, and queue %s says that nothing else of the "+
				"key begins then.", owner, key, q.Name),
			Change: fmt.Sprintf("rota task retry %s, or rota task rm %s; rota queue set %s "+
				"--key-on-dead continue", owner, owner, q.Name)}
	}
	return view.Reason{Kind: view.ReasonKeyLimit,
		Text: fmt.Sprintf("The tasks of %s go one after another, and task %s is not over.", key,
			owner),
		Change: fmt.Sprintf("rota task explain %s; rota queue set %s --key-max-running N", owner,
			q.Name)}
}

// keyPaused says so when the group key of a task is paused.
func keyPaused(t Task, q Queue) view.Reason {
	held := t.KeyGate.Held(t.KeyAt)
	if held.Why != admission.Paused {
		return view.Reason{}
	}
	r := view.Reason{Kind: view.ReasonKeyPaused,
		Text: fmt.Sprintf("%s of queue %s is paused until somebody resumes it.",
			keyName(t.GroupKey), q.Name),
		Change: fmt.Sprintf("rota queue key resume %s %s", shellWord(q.Name),
			shellWord(t.GroupKey))}
	if held.Until != 0 {
		left := time.Duration(held.Until-t.KeyAt) * time.Microsecond
		r.Text = fmt.Sprintf("%s of queue %s is paused, for %v more.", keyName(t.GroupKey), q.Name,
			round(left))
		r.Until = view.Time{Time: time.UnixMicro(held.Until).UTC()}
	}
	r.Text = strings.ToUpper(r.Text[:1]) + r.Text[1:]
	return r
}

// keysPaused says so when group keys of a queue are paused.
func keysPaused(q Queue) view.Reason {
	if q.PausedKeys == 0 {
		return view.Reason{}
	}
	of := " of queue " + q.Name
	text := plural(int64(q.PausedKeys), "group key"+of+" is", "group keys"+of+" are")
	if q.PausedKeys >= mostKeys {
		text = "At least " + text
	}
	return view.Reason{Kind: view.ReasonKeyPaused,
		Text:   text + " paused: what is ready of such a key waits.",
		Change: fmt.Sprintf("rota queue keys %s; rota queue key resume %[1]s KEY", shellWord(q.Name))}
}

// shellWord is text as a shell takes it for one word.
func shellWord(text string) string {
	plain := strings.IndexFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.,:@+/=%", c)
	}) < 0
	if plain && text != "" && text[0] != '-' {
		return text
	}
	quoted := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	if strings.HasPrefix(text, "-") {
		quoted = "-- " + quoted
	}
	return quoted
}

// round is a time that is left, as people say it.
func round(left time.Duration) time.Duration {
	if left > time.Second {
		return left.Round(time.Second)
	}
	return left
}

func keyName(key string) string { return fmt.Sprintf("group key %q", key) }

// limited says so when as many tasks run as may.
func (g gate) limited() view.Reason {
	if !g.Full() {
		return view.Reason{}
	}
	most := g.Limits.Running
	text := fmt.Sprintf("%d of %d run: %s may run no more tasks at a time.", most, most, g.who)
	if most == 1 {
		text = fmt.Sprintf("1 of 1 runs: %s may run no other task beside it.", g.who)
	}
	return view.Reason{Kind: g.full, Text: text, Change: g.change(g.most, "N")}
}

// tooFast says so when the next task may begin only later, by a rate.
func (g gate) tooFast() view.Reason {
	next := g.Next(1, g.at)
	if next <= g.at {
		return view.Reason{}
	}
	rate := &g.Limits.Rate
	left := round(time.Duration(next-g.at) * time.Microsecond)
	begin := plural(rate.Count, "task of "+g.who+" begins", "tasks of "+g.who+" begin")
	return view.Reason{Kind: g.fast,
		Text:   fmt.Sprintf("At most %s in %v; the next one may in %v.", begin, rate.Per, left),
		Until:  view.Time{Time: time.UnixMicro(next).UTC()},
		Change: g.change(g.speed, "COUNT/TIME")}
}

func (g gate) change(flag, value string) string {
	return fmt.Sprintf("rota queue set %s %s %s; 0 takes the limit away", g.queue, flag, value)
}

// mostKeys is how far full keys are counted.
const mostKeys = 1000

// keysFull says so when of some group keys of a queue as many tasks run as may.
func keysFull(q Queue) view.Reason {
	if q.FullKeys == 0 {
		return view.Reason{}
	}
	of := " of queue " + q.Name
	text := plural(int64(q.FullKeys), "group key"+of+" runs", "group keys"+of+" run")
	if q.FullKeys >= mostKeys {
		text = "At least " + text
	}
	return view.Reason{Kind: view.ReasonKeyLimit,
		Text: fmt.Sprintf("%s as many tasks at a time as each may, %d: what else is ready of "+
			"such a key waits.", text, q.PerKey.Running),
		Change: ofKey(Task{}, q).change("--key-max-running", "N")}
}

// turn says what comes before a task of a queue whose group keys take turns.
func turn(t Task, q Queue) view.Reason {
	if t.Ahead.Tasks == 0 && q.Counts.Ready <= 1 {
		return view.Reason{}
	}
	of := "of " + keyName(t.GroupKey)
	if t.GroupKey == "" {
		of = "of the tasks without a key, which share one turn,"
	}
	first := "those come first that are due for longer, or of a greater priority"
	switch {
	case t.Ahead.Tasks == 0:
		first = "this one is next"
	case !t.Ahead.More: // all of them may be of its key, and none
		first = "at most " + plural(t.Ahead.Tasks,
			"ready task comes first (one, of whichever key, has an earlier rank)",
			"ready tasks come first (so many, of all keys together, have an earlier rank)")
	}
	return view.Reason{Kind: view.ReasonTurn,
		Text: fmt.Sprintf("The group keys of queue %s take turns, however many tasks each has; "+
			"%s %s.", q.Name, of, first),
		Change: fmt.Sprintf("more workers; rota queue set %s --fair=false lets rank decide",
			q.Name)}
}

// starts reckons when a task begins: when the workers of its queue have begun all that comes
// before it, as many at a time and as fast as the queue's limits allow. Zero = nobody can say.
func starts(t Task, q Queue, s workers, now time.Time) view.Time {
	if t.State == task.Waiting {
		return view.Time{Time: t.Due}
	}
	places, free := s.places, s.free
	if most := q.Gate.Limits.Running; most > 0 {
		places, free = min(places, float64(most)), min(free, max(most-q.Gate.Running, 0))
	}
	first, guess := t.Ahead.Tasks+1, t.Ahead.More
	if q.Fair { // other keys may come first, and at most with all that is ready
		first = max(first, q.Counts.Ready)
		guess = first > 1
	}
	at := now
	if left := first - int64(free); left > 0 { // that must end before
		if t.Usual == 0 || places < 1 {
			return view.Time{}
		}
		wait := float64(left) / places * float64(t.Usual)
		if wait >= math.MaxInt64 {
			return view.Time{} // nobody waits for it
		}
		at = now.Add(time.Duration(wait))
	}
	at = later(at, q.Gate.Next(first, q.At), q.At)
	if t.KeyOwner != (task.ID{}) && t.KeyOwner != t.ID {
		return view.Time{} // nobody knows when that one is over
	}
	switch held := t.KeyGate.Held(t.KeyAt); {
	case held.Why == admission.Paused && held.Until == 0:
		return view.Time{} // nobody knows when somebody resumes it
	case held.Why == admission.Paused:
		at = later(at, held.Until, t.KeyAt)
		t.KeyGate.Paused, t.KeyAt = 0, held.Until
	}
	if int64(t.KeyGate.Left(int(first), t.KeyAt)) < first { // it may be the key that holds it
		if first > 1 || t.KeyGate.Full() {
			return view.Time{} // nobody knows how many are of its key, or when one of them ends
		}
		at = later(at, t.KeyGate.Next(1, t.KeyAt), t.KeyAt)
	}
	if guess && at.After(now) {
		return view.Time{} // nobody knows how many come first
	}
	return view.Time{Time: at}
}

// later is the time at which a rate lets a task begin, if it says so and that is after at.
func later(at time.Time, next, now int64) time.Time {
	if fast := time.UnixMicro(next); next > now && fast.After(at) {
		return fast
	}
	return at
}
