package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// appendAwaitChildren appends a wait for children. What else a wait has, which is wrong with it,
// does not travel.
func appendAwaitChildren(b []byte, a *task.Await) []byte {
	return appendText(appendSpell(appendText(b, string(a.Children)), a.Timeout), a.Else)
}

func (d *decoder) awaitChildren() *task.Await {
	return &task.Await{
		Children: task.ChildrenEnd(d.str("await.children", string(task.AllChildren))),
		Timeout:  d.spell("await.timeout"), Else: d.str("await.else", ""),
	}
}

// spawn reads the children of one of the reports of a body. All of them together are no more than
// the tasks of a submission, so that what is made of a body is bounded.
func (d *decoder) spawn() []task.Submission {
	n := d.count("spawn", task.MaxSubmissions)
	if d.children += n; d.children > task.MaxSubmissions {
		d.failValue("spawn", "more than %d children in one call", task.MaxSubmissions)
		return nil
	}
	list, at := d.list, d.n
	d.list = fmt.Sprintf("%s[%d].spawn", list, at)
	subs := make([]task.Submission, n)
	before := &task.Submission{}
	for d.n = 0; d.n < n && d.fault == nil; d.n++ {
		d.submission(before, &subs[d.n])
		before = &subs[d.n]
	}
	d.list, d.n = list, at
	if n == 0 {
		return nil
	}
	return subs
}

// appendSpawned appends what became of the children of reports: how many reports had some, and of
// each its place behind that of the one before, how many there were, and runs of ids, one behind
// the other. Nothing, when no report had any.
func appendSpawned(b []byte, answers []wire.Answer) []byte {
	some := 0
	for i := range answers {
		some += min(len(answers[i].Spawned), 1)
	}
	if some == 0 {
		return b
	}
	b = appendNumber(b, some)
	before := 0
	for i := range answers {
		ids := answers[i].Spawned
		if len(ids) == 0 {
			continue
		}
		b = appendNumber(appendNumber(b, i-before), len(ids))
		for before = i; len(ids) > 0; {
			n := 1
			for n < len(ids) && ids[n] == after(ids[n-1]) {
				n++
			}
			b = appendID(appendNumber(b, n), ids[0])
			ids = ids[n:]
		}
	}
	return b
}

// spawned reads what became of the children of reports. All together are no more than the children
// of a call.
func (d *decoder) spawned(answers []task.Answer) {
	some := d.length("spawned", limits.MaxReports)
	for i := 0; some > 0 && d.fault == nil; some-- {
		behind := d.number("spawned")
		n := d.length("spawned", task.MaxSubmissions-d.children)
		if d.children += n; behind >= uint64(len(answers)-i) {
			d.fail("spawned", "is of a report that there is not")
			return
		}
		i += int(behind)
		for len(answers[i].Spawned) < n && d.fault == nil {
			run := d.number("spawned")
			id := d.id("spawned")
			if run == 0 || run > uint64(n-len(answers[i].Spawned)) {
				d.fail("spawned", "a run of %d behind %d of %d", run, len(answers[i].Spawned), n)
				return
			}
			for range run {
				answers[i].Spawned = append(answers[i].Spawned, id)
				id = after(id)
			}
		}
	}
}

// appendCounts appends how the children of a hand-out's task ended.
func appendCounts(b []byte, c *task.Children) []byte {
	for _, n := range [...]int64{c.Total, c.Done, c.Dead, c.Cancelled, c.Expired} {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func (d *decoder) counts() *task.Children {
	return &task.Children{
		Total: d.signed("children.total"), Done: d.signed("children.done"),
		Dead: d.signed("children.dead"), Cancelled: d.signed("children.cancelled"),
		Expired: d.signed("children.expired"),
	}
}
