package wire

import (
	"strconv"

	"github.com/rotahq/rota/task"
)

var (
	runFields        = []string{"group", "job", "replica", "token", "state", "error", "alive"}
	ordersFields     = []string{"reset", "add", "end", "silence", "signs"}
	assignmentFields = []string{"group", "job", "replica", "token", "load", "spec"}
)

// appendRun appends what a worker says of one assignment; what is to be ended has no state.
func appendRun(b []byte, r *task.Run) []byte {
	b = appendPlace(b, r.Group, r.Job, r.Replica, r.Token)
	b = appendText(b, `,"state":`, string(r.State))
	b = appendText(b, `,"error":`, r.Error)
	if !r.Alive.IsZero() {
		b = append(b, `,"alive":`...)
		b = appendTime(b, r.Alive)
	}
	return append(b, '}')
}

func appendPlace(b []byte, group, job string, replica int, token string) []byte {
	b = append(b, `{"group":`...)
	b = appendString(b, group)
	b = append(b, `,"job":`...)
	b = appendString(b, job)
	b = append(b, `,"replica":`...)
	b = strconv.AppendInt(b, int64(replica), 10)
	b = append(b, `,"token":`...)
	return appendString(b, token)
}

func appendRuns(b []byte, list []task.Run) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRun(b, &list[i])
	}
	return append(b, ']')
}

func appendOrders(b []byte, o *task.Orders) []byte {
	b = append(b, `{"reset":`...)
	b = strconv.AppendBool(b, o.Reset)
	b = append(b, `,"add":[`...)
	for i := range o.Add {
		if i > 0 {
			b = append(b, ',')
		}
		a := &o.Add[i]
		b = appendPlace(b, a.Group, a.Job, a.Replica, a.Token.String())
		b = append(b, `,"load":`...)
		b = appendFloat(b, a.Load.Float())
		if len(a.Spec) > 0 {
			b = append(b, `,"spec":`...)
			b = append(b, a.Spec...)
		}
		b = append(b, '}')
	}
	b = append(b, `],"end":`...)
	b = appendRuns(b, o.End)
	if o.Silence > 0 {
		b = append(b, `,"silence":`...)
		b = appendDuration(b, o.Silence)
	}
	if o.Signs {
		b = append(b, `,"signs":true`...)
	}
	return append(b, '}')
}

func (d *decoder) run() (r task.Run) {
	o := d.object(runFields)
	for o.next() {
		switch o.name {
		case "group":
			r.Group = d.str("")
		case "job":
			r.Job = d.str("")
		case "replica":
			r.Replica = d.integer()
		case "token":
			r.Token = d.str("")
		case "state":
			d.peek()
			at := d.i
			switch r.State = task.JobState(d.str("")); r.State {
			case task.JobStarting, task.JobRunning, task.JobFailed, "":
			default:
				d.failValue(at, "must be starting, running or failed")
			}
		case "error":
			r.Error = d.str("")
		case "alive":
			r.Alive = d.time()
		}
	}
	o.need("group")
	o.need("job")
	o.need("token")
	return r
}

func (d *decoder) jobToken() task.JobToken {
	d.peek()
	at := d.i
	t, err := task.ParseJobToken(d.str(""))
	if err != nil {
		d.failValue(at, "%v", err)
	}
	return t
}

func (d *decoder) orders() (orders task.Orders) {
	for o := d.object(ordersFields); o.next(); {
		switch o.name {
		case "reset":
			orders.Reset = d.boolean()
		case "add":
			for a := d.array(maxJobs); a.next(); {
				orders.Add = add(orders.Add, &a, d.assignment())
			}
		case "end":
			for a := d.array(maxJobs); a.next(); {
				orders.End = add(orders.End, &a, d.run())
			}
		case "silence":
			orders.Silence = d.duration()
		case "signs":
			orders.Signs = d.boolean()
		}
	}
	return orders
}

func (d *decoder) assignment() (a task.Assignment) {
	o := d.object(assignmentFields)
	for o.next() {
		switch o.name {
		case "group":
			a.Group = d.str("")
		case "job":
			a.Job = d.str("")
		case "replica":
			a.Replica = d.integer()
		case "token":
			a.Token = d.jobToken()
		case "load":
			a.Load = d.units()
		case "spec":
			a.Spec = d.opaque()
		}
	}
	o.need("group")
	o.need("job")
	o.need("token")
	return a
}
