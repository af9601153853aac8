package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/view"
)

// signal says which signal a blocked task waits for, for how long, and how to send it.
func signal(t Task, now time.Time) view.Reason {
	a := t.Awaits
	if a == nil { // it was blocked a moment ago
		return view.Reason{}
	}
	r := view.Reason{Kind: view.ReasonSignal, Text: fmt.Sprintf("It waits for signal %s", a.Signal),
		Change: fmt.Sprintf("rota task signal %s %s", t.ID, a.Signal)}
	if a.Key != "" {
		r.Text += fmt.Sprintf(" with key %q", a.Key)
		r.Change = fmt.Sprintf("rota signal %s %s", a.Signal, word(a.Key))
	}
	if a.Until.IsZero() {
		r.Text += "."
		return r
	}
	left := max(a.Until.Sub(now).Round(time.Second), 0)
	r.Until = view.Time{Time: a.Until}
	r.Text += fmt.Sprintf(", for %v more; then it goes on without it", left)
	if a.Else != "" && a.Else != t.Stage {
		r.Text += fmt.Sprintf(" in stage %q", a.Else)
	}
	r.Text += "."
	return r
}

// word is a text as one word of a shell's command line: whoever chose it does not choose what the
// shell does.
func word(s string) string {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			!strings.ContainsRune("-_.:/", c) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}
