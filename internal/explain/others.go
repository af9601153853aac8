package explain

import (
	"fmt"
	"strings"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// ShownOthers are so many of the tasks that one waits for as its explanation names.
const ShownOthers = 10

// others says for which other tasks a blocked one waits, and how those stand.
func others(t Task) view.Reason {
	r := view.Reason{Kind: view.ReasonAfter}
	names := make([]string, len(t.Others))
	ended := true
	for i := range t.Others {
		o := &t.Others[i]
		if names[i] = o.ID.String(); o.Ref != "" {
			names[i] = fmt.Sprintf("%q %s", o.Ref, o.ID)
		}
		switch {
		case o.Unseen:
			names[i] += " (of a queue that this token does not reach)"
		case o.Queue == "":
			names[i] += " (gone)"
		case o.Now.Final():
			names[i] += fmt.Sprintf(" (%s)", o.Now)
		default:
			names[i] += fmt.Sprintf(" (%s, queue %s)", o.Now, o.Queue)
			if r.Change == "" {
				r.Change = fmt.Sprintf("rota task explain %s", o.ID)
			}
		}
		ended = ended && o.If == task.IfEnded
	}
	if more := t.OthersOpen - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	r.Text = fmt.Sprintf("It waits for %d of %s", t.OthersOpen,
		plural(int64(len(t.After)), "task", "tasks"))
	if !ended {
		r.Text += " to be done: "
	} else {
		r.Text += " to end: "
	}
	r.Text += strings.Join(names, ", ") + "."
	return r
}
