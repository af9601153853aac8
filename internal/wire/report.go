package wire

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

var (
	reportsFields = []string{"worker", "reports"}
	reportFields  = []string{
		"id", "token", "outcome", "stage", "context", "result", "delay", "error", "committed",
		"await", "when", "spawn", "hold_key",
	}
	resultsFields = []string{"results"}
	resultFields  = []string{"id", "status", "detail", "spawned"}
)

// Report is one report as it came in. A value in it that cannot be makes only this one report
// Invalid; faults of JSON and types spoil the whole call, because then nothing in it can be
// trusted.
type Report struct {
	task.Report
	IDText string // as it was given, to be answered the same
	// what is wrong with this report; "" = nothing, and the fields of task.Report are good
	Invalid string
}

// AppendReports appends the body of POST /v1/tasks/report. Contexts and results go out as they are:
// each must be one JSON value.
func AppendReports(b []byte, worker string, reports []task.Report) []byte {
	b = append(b, `{"worker":`...)
	b = appendString(b, worker)
	b = append(b, `,"reports":[`...)
	for i := range reports {
		r := &reports[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendID(b, r.ID)
		b = append(b, `,"token":`...)
		b = appendString(b, r.Token)
		b = append(b, `,"outcome":`...)
		b = appendString(b, r.Kind.String())
		b = appendText(b, `,"stage":`, r.Stage)
		b = appendRaw(b, `,"context":`, r.Context)
		b = appendRaw(b, `,"result":`, r.Result)
		b = appendSpell(b, `,"delay":`, r.Delay)
		b = appendText(b, `,"error":`, r.Error)
		if r.Committed {
			b = append(b, `,"committed":true`...)
		}
		b = appendAwait(b, r.Await)
		if len(r.Spawn) > 0 {
			b = appendTasks(append(b, `,"spawn":`...), r.Spawn)
		}
		b = appendSpell(b, `,"hold_key":`, r.HoldKey)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// ParseReports reads the body of POST /v1/tasks/report. Contexts and results are parts of b.
func ParseReports(b []byte) (worker string, reports []Report, err error) {
	var d decoder
	d.begin(b)
	o := d.object(reportsFields)
	for o.next() {
		switch o.name {
		case "worker":
			worker = d.str("")
		case "reports":
			before := ""
			for a := d.array(limits.MaxReports); a.next(); {
				r := d.report(before)
				before = r.Stage
				reports = add(reports, &a, r)
			}
		}
	}
	o.need("worker")
	o.need("reports")
	if err := d.end("body"); err != nil {
		return "", nil, err
	}
	return worker, reports, nil
}

// report reads one report; stage is the stage that the one before named.
func (d *decoder) report(stage string) (r Report) {
	var when *string
	text := false // await was a text
	for o := d.object(reportFields); o.next(); {
		switch o.name {
		case "id":
			r.IDText = d.str("")
		case "token":
			r.Token = d.str("")
		case "outcome":
			word := d.text("a string")
			r.Kind, _ = task.ParseKind(string(word)) // no kind at all is found by Check
		case "stage":
			r.Stage = d.str(stage)
		case "context":
			r.Context = d.opaque()
		case "result":
			r.Result = d.opaque()
		case "delay":
			r.Delay = d.ownSpell("delay", &r)
		case "hold_key":
			r.HoldKey = d.ownSpell("hold_key", &r)
		case "error":
			r.Error = d.str("")
		case "committed":
			r.Committed = d.boolean()
		case "await":
			var invalid string
			if r.Await, text, invalid = d.await(); invalid != "" {
				r.Invalid = invalid
			}
		case "when":
			when = new(d.str(""))
		case "spawn":
			r.Spawn = d.spawn()
		}
	}
	if when != nil && r.Invalid == "" {
		r.Invalid = endsWhen(r.Await, text, *when)
	}
	if d.fault == "" {
		r.check()
	}
	return r
}

// ownSpell reads a duration; one that is none makes only its own report invalid.
func (d *decoder) ownSpell(name string, of *Report) time.Duration {
	v, err := view.ParseDuration(string(d.text(`a duration in quotes, like "1m30s"`)))
	if err != nil {
		of.Invalid = name + `: must be a duration like "1m30s"`
	}
	return v
}

// check sets Invalid to the first thing that is wrong.
func (r *Report) check() {
	var err error
	if r.ID, err = task.ParseID(r.IDText); err != nil {
		r.Invalid = fmt.Sprintf("id: %.40q is not a task id", r.IDText)
		return
	}
	r.CheckRest()
}

// CheckRest sets Invalid to the first thing that is wrong with what stands behind the id.
func (r *Report) CheckRest() {
	if _, err := task.ParseToken(r.Token); err != nil {
		r.Invalid = fmt.Sprintf("token: %.60q is not a hand-out token", r.Token)
		return
	}
	if r.Invalid == "" {
		r.Invalid = limits.CheckReport(&r.Report)
	}
}

// Answer is what became of one Report, under the id that was given.
type Answer struct {
	IDText  string
	Status  task.Status
	Detail  string
	Spawned []task.ID // see task.Answer
}

// AppendAnswers appends the answer to POST /v1/tasks/report.
func AppendAnswers(b []byte, answers []Answer) []byte {
	b = append(b, `{"results":[`...)
	for i, a := range answers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendString(b, a.IDText)
		b = append(b, `,"status":`...)
		b = appendString(b, string(a.Status))
		b = appendText(b, `,"detail":`, a.Detail)
		b = appendSpawned(b, a.Spawned)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// ParseAnswers reads the answer to POST /v1/tasks/report. An id that is none, echoed with status
// invalid, is the zero ID.
func ParseAnswers(b []byte) ([]task.Answer, error) {
	d := decoder{lenient: true}
	d.begin(b)
	var answers []task.Answer
	for o := d.object(resultsFields); o.next(); {
		var before task.Answer
		for a := d.array(limits.MaxReports); a.next(); {
			before = d.answer(&before)
			answers = add(answers, &a, before)
		}
	}
	if err := d.end("body"); err != nil {
		return nil, err
	}
	return answers, nil
}

func (d *decoder) answer(before *task.Answer) (a task.Answer) {
	o := d.object(resultFields)
	for o.next() {
		switch o.name {
		case "id":
			a.ID, _ = task.ParseID(string(d.text("a string")))
		case "status":
			a.Status = d.status(before.Status)
		case "detail":
			a.Detail = d.str(before.Detail)
		case "spawned":
			a.Spawned = d.spawned()
		}
	}
	o.need("status")
	return a
}

func (d *decoder) status(before task.Status) task.Status {
	if before == "" {
		before = task.Recorded
	}
	return task.Status(d.str(string(before)))
}
