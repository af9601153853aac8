package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rotahq/rota/task"
)

var (
	countFields = []string{"total", "done", "dead", "cancelled", "expired"}
	addFields   = []string{"worker", "token", "tasks"}
)

// endsWhen puts what stands beside "await": "children" into the wait; it answers what is wrong.
// text says that the wait stood there so, and not as an object, which says by itself when it ends.
func endsWhen(a *task.Await, text bool, when string) (invalid string) {
	switch {
	case a == nil || a.Children == "":
		return `when: goes with "await": "children"`
	case task.ChildrenEnd(when) != task.AllChildren && task.ChildrenEnd(when) != task.FirstDead:
		return "when: must be all or first_dead"
	case !text && when != string(a.Children):
		return fmt.Sprintf("when: await.children says %s", a.Children)
	}
	a.Children = task.ChildrenEnd(when)
	return ""
}

// spawn reads the children of one of the reports of a body. All of them together are no more than
// the tasks of a submission, so that what is made of a body is bounded.
func (d *decoder) spawn() (subs []task.Submission) {
	var before task.Submission
	for a := d.array(task.MaxSubmissions); a.next(); {
		if d.children++; d.children > task.MaxSubmissions {
			d.failValue(a.start, "more than %d children in one call", task.MaxSubmissions)
		}
		before = d.submission(&before)
		subs = append(subs, before) // not by add: the rest of the body is other reports
	}
	return subs
}

// appendSpawned appends the ids of children; none are left out.
func appendSpawned(b []byte, ids []task.ID) []byte {
	if len(ids) == 0 {
		return b
	}
	b = append(b, `,"spawned":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendID(b, id)
	}
	return append(b, ']')
}

func (d *decoder) spawned() (ids []task.ID) {
	for a := d.array(task.MaxSubmissions); a.next(); {
		ids = append(ids, d.id())
	}
	return ids
}

// appendChildren appends how the children of a hand-out's task ended; nil leaves it out.
func appendChildren(b []byte, c *task.Children) []byte {
	if c == nil {
		return b
	}
	b = append(b, `,"children":{`...)
	for i, n := range [...]int64{c.Total, c.Done, c.Dead, c.Cancelled, c.Expired} {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), countFields[i]...), `":`...)
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, '}')
}

func (d *decoder) counted() *task.Children {
	c := &task.Children{}
	for o := d.object(countFields); o.next(); {
		n := int64(d.integer())
		switch o.name {
		case "total":
			c.Total = n
		case "done":
			c.Done = n
		case "dead":
			c.Dead = n
		case "cancelled":
			c.Cancelled = n
		case "expired":
			c.Expired = n
		}
	}
	return c
}

// Adding is the body of POST /v1/tasks/{id}/children: more children of a task that runs.
type Adding struct {
	Worker string
	Token  string
	Tasks  []task.Submission
}

// AppendAdding appends the body of POST /v1/tasks/{id}/children.
func AppendAdding(b []byte, a *Adding) []byte {
	b = appendString(append(b, `{"worker":`...), a.Worker)
	b = appendString(append(b, `,"token":`...), a.Token)
	return append(appendTasks(append(b, `,"tasks":`...), a.Tasks), '}')
}

// ParseAdding reads the body of POST /v1/tasks/{id}/children. Contexts are parts of b.
func ParseAdding(b []byte) (*Adding, error) {
	var d decoder
	d.begin(b)
	a := &Adding{}
	o := d.object(addFields)
	for o.next() {
		switch o.name {
		case "worker":
			a.Worker = d.str("")
		case "token":
			a.Token = d.str("")
		case "tasks":
			a.Tasks = d.spawn()
		}
	}
	for _, name := range addFields {
		o.need(name)
	}
	if err := d.end("body"); err != nil {
		return nil, err
	}
	return a, nil
}

// ParseSpawn reads a list of children as it stands in a report.
func ParseSpawn(b []byte) ([]task.Submission, error) {
	return ParseTasks(b, "spawn")
}

// ParseTasks reads a list of submissions, which errors call root.
func ParseTasks(b []byte, root string) ([]task.Submission, error) {
	var d decoder
	d.begin(b)
	subs := d.spawn()
	return subs, d.end(root)
}

// ParseAwait reads what a report waits for, and what stands beside it as when; nothing, where
// nothing does.
func ParseAwait(b []byte, when *string) (*task.Await, error) {
	var d decoder
	var a *task.Await
	var invalid string
	var text bool
	if d.begin(b); len(b) > 0 {
		a, text, invalid = d.await()
	}
	if err := d.end("await"); err != nil {
		return nil, err
	}
	if when != nil && invalid == "" {
		invalid = endsWhen(a, text, *when)
	}
	if invalid != "" {
		return nil, &Error{Value: true, Fields: []task.FieldError{fieldOf(invalid)}}
	}
	return a, nil
}

// fieldOf is what is wrong with a report, by its place.
func fieldOf(invalid string) task.FieldError {
	place, message, _ := strings.Cut(invalid, ": ")
	return task.FieldError{Location: place, Message: message}
}
