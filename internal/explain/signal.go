package explain

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// awaited says what a blocked task waits for, for how long, and what would end the wait.
func awaited(t Task, now time.Time) view.Reason {
	a := t.Awaits
	switch {
	case a == nil: // it was blocked a moment ago
		return view.Reason{}
	case a.Others:
		return others(t)
	case a.Signal == "":
		return within(children(t), t, "them", now)
	}
	r := view.Reason{Kind: view.ReasonSignal, Text: fmt.Sprintf("It waits for signal %s", a.Signal),
		Change: fmt.Sprintf("rota task signal %s %s", t.ID, a.Signal)}
	if a.Key != "" {
		r.Text += fmt.Sprintf(" with key %q", a.Key)
		r.Change = fmt.Sprintf("rota signal %s %s", a.Signal, shellWord(a.Key))
	}
	return within(r, t, "it", now)
}

// children says for how many of its children a blocked task waits.
func children(t Task) view.Reason {
	c := t.Children
	if c == nil {
		c = &task.Children{}
	}
	r := view.Reason{Kind: view.ReasonChildren,
		Text:   fmt.Sprintf("It waits for %d of %s", c.Open(), plural(c.Total, "child", "children")),
		Change: fmt.Sprintf("rota task children %s", t.ID)}
	if t.Awaits.First {
		r.Text += ", or for the first that is dead or expired"
	}
	return r
}

// within adds how long a blocked task waits for something yet, and what follows then.
func within(r view.Reason, t Task, something string, now time.Time) view.Reason {
	a := t.Awaits
	if a.Until.IsZero() {
		r.Text += "."
		return r
	}
	left := max(a.Until.Sub(now).Round(time.Second), 0)
	r.Until = view.Time{Time: a.Until}
	r.Text += fmt.Sprintf(", for %v more; then it goes on without %s", left, something)
	if a.Else != "" && a.Else != t.Stage {
		r.Text += fmt.Sprintf(" in stage %q", a.Else)
	}
	r.Text += "."
	return r
}
