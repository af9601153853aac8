package wire

import (
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// Limits of a beat. A worker holds no more tasks than it may report at once.
const (
	maxLabels = 100
	maxGroups = 1000
	maxJobs   = 10_000
)

var (
	beatFields = []string{
		"incarnation", "capacity", "labels", "zone", "version", "load", "groups", "queues", "tasks",
		"jobs", "leaving",
	}
	loadFields = []string{"cpu", "memory"}
	heldFields = []string{"id", "token", "progress", "note"}

	beatAnswerFields = []string{"version", "beat", "tasks", "jobs"}
	actionFields     = []string{"id", "action"}
)

// AppendBeat appends the body of POST /v1/workers/{worker}/beat. The worker, Wait and Version
// travel in path and query. Labels go out in the order of their names.
func AppendBeat(b []byte, x task.Beat) []byte {
	b = append(b, `{"incarnation":`...)
	b = appendString(b, x.Incarnation)
	b = append(b, `,"capacity":`...)
	b = appendFloat(b, x.Capacity)
	b = appendStringMap(b, `,"labels":`, x.Labels)
	b = appendText(b, `,"zone":`, x.Zone)
	b = appendText(b, `,"version":`, x.Build)
	if x.Load != (task.Load{}) {
		b = append(b, `,"load":{"cpu":`...)
		b = appendFloat(b, x.Load.CPU)
		b = append(b, `,"memory":`...)
		b = appendFloat(b, x.Load.Memory)
		b = append(b, '}')
	}
	if len(x.Groups) > 0 {
		b = append(b, `,"groups":`...)
		b = appendStrings(b, x.Groups)
	}
	if len(x.Queues) > 0 {
		b = append(b, `,"queues":`...)
		b = appendStrings(b, x.Queues)
	}
	b = append(b, `,"tasks":[`...)
	for i := range x.Tasks {
		b = appendHeld(b, i, &x.Tasks[i])
	}
	b = append(b, ']')
	if len(x.Jobs) > 0 {
		b = append(b, `,"jobs":`...)
		b = appendRuns(b, x.Jobs)
	}
	if x.Leaving {
		b = append(b, `,"leaving":true`...)
	}
	return append(b, '}')
}

func appendHeld(b []byte, i int, h *task.Held) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"id":`...)
	b = appendID(b, h.ID)
	b = append(b, `,"token":`...)
	b = appendString(b, h.Token)
	if h.Progress != 0 {
		b = append(b, `,"progress":`...)
		b = appendFloat(b, h.Progress)
	}
	b = appendText(b, `,"note":`, h.Note)
	return append(b, '}')
}

// ParseBeat reads the body of POST /v1/workers/{worker}/beat.
func ParseBeat(b []byte) (task.Beat, error) {
	var d decoder
	d.begin(b)
	var x task.Beat
	o := d.object(beatFields)
	for o.next() {
		switch o.name {
		case "incarnation":
			x.Incarnation = d.str("")
		case "capacity":
			x.Capacity = d.float()
		case "labels":
			x.Labels = d.stringMap(maxLabels, "labels")
		case "zone":
			x.Zone = d.str("")
		case "version":
			x.Build = d.str("")
		case "load":
			x.Load = d.load()
		case "groups":
			x.Groups = d.strs(maxGroups)
		case "queues":
			x.Queues = d.strs(limits.MaxQueues)
		case "tasks":
			for a := d.array(limits.MaxReports); a.next(); {
				x.Tasks = add(x.Tasks, &a, d.held())
			}
		case "jobs":
			for a := d.array(maxJobs); a.next(); {
				x.Jobs = add(x.Jobs, &a, d.run())
			}
		case "leaving":
			x.Leaving = d.boolean()
		}
	}
	o.need("incarnation")
	if err := d.end("body"); err != nil {
		return task.Beat{}, err
	}
	return x, nil
}

func (d *decoder) load() (l task.Load) {
	for o := d.object(loadFields); o.next(); {
		switch o.name {
		case "cpu":
			l.CPU = d.float()
		case "memory":
			l.Memory = d.float()
		}
	}
	return l
}

func (d *decoder) held() (h task.Held) {
	o := d.object(heldFields)
	for o.next() {
		switch o.name {
		case "id":
			h.ID = d.id()
		case "token":
			h.Token = d.str("")
		case "progress":
			h.Progress = d.float()
		case "note":
			h.Note = d.str("")
		}
	}
	o.need("id")
	o.need("token")
	return h
}

// AppendBeatAnswer appends the answer to a beat.
func AppendBeatAnswer(b []byte, a task.BeatAnswer) []byte {
	b = append(b, `{"version":`...)
	b = appendString(b, a.Version)
	b = append(b, `,"beat":`...)
	b = appendDuration(b, a.Beat)
	b = append(b, `,"tasks":[`...)
	for i, t := range a.Tasks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendID(b, t.ID)
		b = append(b, `,"action":`...)
		b = appendString(b, string(t.Action))
		b = append(b, '}')
	}
	b = append(b, `],"jobs":`...)
	return append(appendOrders(b, &a.Jobs), '}')
}

// ParseBeatAnswer reads the answer to a beat. Specs are parts of b.
func ParseBeatAnswer(b []byte) (task.BeatAnswer, error) {
	d := decoder{lenient: true}
	d.begin(b)
	var answer task.BeatAnswer
	for o := d.object(beatAnswerFields); o.next(); {
		switch o.name {
		case "version":
			answer.Version = d.str("")
		case "beat":
			answer.Beat = d.duration()
		case "tasks":
			var before task.HeldAction
			for a := d.array(limits.MaxReports); a.next(); {
				before = d.action(&before)
				answer.Tasks = add(answer.Tasks, &a, before)
			}
		case "jobs":
			answer.Jobs = d.orders()
		}
	}
	if err := d.end("body"); err != nil {
		return task.BeatAnswer{}, err
	}
	return answer, nil
}

func (d *decoder) action(before *task.HeldAction) (h task.HeldAction) {
	o := d.object(actionFields)
	for o.next() {
		switch o.name {
		case "id":
			h.ID = d.id()
		case "action":
			h.Action = task.Action(d.str(string(before.Action)))
		}
	}
	o.need("id")
	o.need("action")
	return h
}
