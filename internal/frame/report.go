package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// The fields of a report that follow its flags, in this order, the token behind the id. An id that
// is left out is the one behind that of the report before; an outcome is done.
const (
	repID = 1 << iota
	repKind
	repStage
	repContext
	repResult
	repDelay
	repError
	repCommitted // no field: it is so
	repAwait
	repChildren
	repSpawn
	repHoldKey
	repAll = 1<<iota - 1
)

// CutReports appends the body of Report without the contexts and results of more than long bytes:
// they belong at the cuts. Both go out as they are: each must be one JSON value.
func CutReports(
	b []byte, worker string, reports []task.Report, long int,
) ([]byte, []wire.Cut) {
	var cuts []wire.Cut
	b = appendNumber(b, len(reports))
	b = appendText(b, worker)
	before := &task.Report{}
	for i := range reports {
		r := &reports[i]
		f := bit(repID, r.ID != after(before.ID)) | bit(repKind, r.Kind != task.KindDone) |
			bit(repStage, r.Stage != "") | bit(repContext, len(r.Context) > 0) |
			bit(repResult, len(r.Result) > 0) | bit(repDelay, r.Delay != 0) |
			bit(repError, r.Error != "") | bit(repCommitted, r.Committed) |
			bit(repAwait, r.Await != nil && r.Await.Children == "") |
			bit(repChildren, r.Await != nil && r.Await.Children != "") |
			bit(repSpawn, len(r.Spawn) > 0) | bit(repHoldKey, r.HoldKey != 0)
		b = binary.AppendUvarint(b, f)
		if f&repID != 0 {
			b = appendID(b, r.ID)
		}
		b = appendToken(b, before.Token, r.Token)
		if f&repKind != 0 {
			b = appendText(b, r.Kind.String())
		}
		if f&repStage != 0 {
			b = appendText(b, r.Stage)
		}
		if f&repContext != 0 {
			b, cuts = wire.AppendRaw(appendNumber(b, len(r.Context)), cuts, r.Context, long)
		}
		if f&repResult != 0 {
			b, cuts = wire.AppendRaw(appendNumber(b, len(r.Result)), cuts, r.Result, long)
		}
		if f&repDelay != 0 {
			b = appendSpell(b, r.Delay)
		}
		if f&repError != 0 {
			b = appendText(b, r.Error)
		}
		if f&repAwait != 0 {
			b = appendAwait(b, r.Await)
		}
		if f&repChildren != 0 {
			b = appendAwaitChildren(b, r.Await)
		}
		if f&repSpawn != 0 {
			b, cuts = cutTasks(b, cuts, r.Spawn, long)
		}
		if f&repHoldKey != 0 {
			b = appendSpell(b, r.HoldKey)
		}
		before = r
	}
	return b, cuts
}

// ParseReports reads the body of Report. Contexts and results are parts of b. Reports have no
// IDText: answers are in their order.
func ParseReports(b []byte) (worker string, reports []wire.Report, err error) {
	d := decoder{b: b}
	n := d.count("reports", limits.MaxReports)
	worker = d.str("worker", "")
	if n > len(d.b)-d.i {
		d.fail("reports", early, len(d.b))
		n = 0
	}
	reports = make([]wire.Report, n)
	before := &task.Report{}
	d.list = "reports"
	for d.n = 0; d.n < n && d.fault == nil; d.n++ {
		r := &reports[d.n]
		d.report(before, &r.Report)
		before = &r.Report
		if !valid(r.ID) {
			r.Invalid = fmt.Sprintf("id: %.40q is not a task id", r.ID.String())
		} else {
			r.CheckRest()
		}
	}
	if err := d.end(); err != nil {
		return "", nil, err
	}
	return worker, reports, nil
}

func (d *decoder) report(before, r *task.Report) {
	f := d.flags(repAll)
	r.ID, r.Kind = after(before.ID), task.KindDone
	if f&repID != 0 {
		r.ID = d.id("id")
	}
	r.Token = d.token(before.Token)
	if f&repKind != 0 {
		r.Kind, _ = task.ParseKind(string(d.sound("outcome"))) // no kind at all is found by Check
	}
	if f&repStage != 0 {
		r.Stage = d.str("stage", before.Stage)
	}
	if f&repContext != 0 {
		r.Context = d.opaque("context")
	}
	if f&repResult != 0 {
		r.Result = d.opaque("result")
	}
	if f&repDelay != 0 {
		r.Delay = d.spell("delay")
	}
	if f&repError != 0 {
		r.Error = d.str("error", before.Error)
	}
	r.Committed = f&repCommitted != 0
	if f&repAwait != 0 {
		r.Await = d.await()
	}
	if f&repChildren != 0 {
		r.Await = d.awaitChildren()
	}
	if f&repSpawn != 0 {
		r.Spawn = d.spawn()
	}
	if f&repHoldKey != 0 {
		r.HoldKey = d.spell("hold_key")
	}
}

// AppendAnswers appends the answer to Report: runs of reports of which the same became, and behind
// them what became of children, if there are any.
func AppendAnswers(b []byte, answers []wire.Answer) []byte {
	b = appendNumber(b, len(answers))
	for i := 0; i < len(answers); {
		a, n := &answers[i], 1
		for i+n < len(answers) && answers[i+n].Status == a.Status &&
			answers[i+n].Detail == a.Detail {
			n++
		}
		b = appendNumber(b, n)
		b = appendText(b, string(a.Status))
		b = appendText(b, a.Detail)
		i += n
	}
	return appendSpawned(b, answers)
}

// ParseAnswers reads the answer to Report. The answers have no ids: they are in the order of the
// reports.
func ParseAnswers(b []byte) ([]task.Answer, error) {
	d := decoder{b: b}
	n := d.length("results", limits.MaxReports)
	answers := make([]task.Answer, 0, n)
	for d.fault == nil && len(answers) < n {
		run := d.number("results")
		a := task.Answer{
			Status: task.Status(d.str("results", string(task.Recorded))),
			Detail: d.str("results", ""),
		}
		if run == 0 || run > uint64(n-len(answers)) {
			d.fail("results", "a run of %d behind %d of %d", run, len(answers), n)
			break
		}
		for range run {
			answers = append(answers, a)
		}
	}
	if d.i < len(d.b) {
		d.spawned(answers)
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return answers, nil
}
