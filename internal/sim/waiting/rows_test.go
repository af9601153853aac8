package waiting

import "fmt"

// id is a task: hundred times its batch, and its number there.
type id int64

func (i id) batch() int64 { return int64(i) / 100 }

// The rows of docs/waiting.md, and what they need of those that were there before. A state is
// "done", "dead" or "cancelled"; what expired is dead here.

type batchRow struct {
	parent id    // 0 = none
	run    int64 // of the parent: the seq behind its newest replay
	seq    int64 // of the hand-out of the parent that added them; with spawned: that outcome's
	orphan bool
}

type taskRow struct{ depth int }

const (
	final   = -1 // a step's base
	unasked = -1 // a step's token: no report's
)

type stepRow struct {
	kind  string // a state, or "next", "retry", "woken", "edited", "replayed"
	base  int64
	token int64
	hash  int64
	why   string // of "woken": "children", "after", "signal", "timeout"
	by    string // the signal's row
	mark  int64  // of the wait that it ends
}

// What a task has to do with others stands on the row that gives the right to report it: its
// running row, or else its span.
const (
	upwards   = 1 // it has a parent
	downwards = 2 // it has children, or somebody waits for it
)

type spanRow struct {
	lo, hi id
	seq0   int64
	parked bool  // due and rank are never
	holder int64 // a lease; 0 = free
	token  int64
	linked int
}

type runningRow struct {
	span, token int64
	linked      int
}

type waitRow struct {
	seq   int64 // where the step will stand that ends it
	mark  int64 // no other wait has it
	what  string
	run   int64 // of children
	first bool  // of children: the first that is dead is enough
	addr  string
	until int64 // 0 = for ever
}

type counts struct{ total, done, dead, cancelled int }

func (c counts) open() int { return c.total - c.done - c.dead - c.cancelled }

func (c *counts) add(o counts) {
	c.total += o.total
	c.done += o.done
	c.dead += o.dead
	c.cancelled += o.cancelled
}

// one is what the end of a child adds.
func one(state string, by int) (c counts) {
	switch state {
	case "done":
		c.done = by
	case "dead":
		c.dead = by
	default:
		c.cancelled = by
	}
	return c
}

type changeRow struct {
	topic id
	addr  string // instead of a topic: of signals
	run   int64
	counts
	ended bool // the topic ended
	tree  bool // all below it is to be cancelled, begun or not
	from  id   // of ended and tree: children up to here were looked at
}

type dependencyRow struct {
	fits  string // "done", "ended"
	state string // how it ended; "" = nobody has looked at that yet
}

type signalRow struct {
	until int64
	mark  int64 // of the wait that it ended; 0 = none
}

func batchKey(b int64) key              { return key{table: "batch", a: b} }
func taskKey(i id) key                  { return key{table: "task", a: int64(i)} }
func stepKey(i id, seq int64) key       { return key{table: "step", a: int64(i), b: seq} }
func spanKey(s int64) key               { return key{table: "span", a: s} }
func runningKey(i id, seq int64) key    { return key{table: "running", a: int64(i), b: seq} }
func waitKey(i id) key                  { return key{table: "wait", a: int64(i)} }
func changeKey(n int64) key             { return key{table: "change", a: n} }
func childCountKey(i id, run int64) key { return key{table: "child_count", a: int64(i), b: run} }
func signalKey(addr, name string) key   { return key{table: "signal", s: addr + " " + name} }
func leaseKey(lease int64) key          { return key{table: "lease", a: lease} }

func dependencyKey(x, y id) key {
	return key{table: "dependency", a: int64(x), b: int64(y)}
}

func ownAddress(i id) string { return fmt.Sprintf("task %d", i) }

// fact is a task as its newest step left it.
type fact struct {
	id
	found bool
	seq   int64 // of the newest step, -1 = none
	stepRow
	begun    bool  // a report tells of a hand-out, or a running row
	run      int64 // behind the newest replay
	replayed bool
	batch    batchRow
}

func (f *fact) over() bool { return f.found && f.seq >= 0 && f.base == final }

// state is that of a task that is over; a tombstone's is that of a cancelled one.
func (f *fact) state() string { return f.kind }

// fact reads a task.
func (t *tx) fact(i id) fact {
	f := fact{id: i, seq: -1}
	if _, f.found = get[taskRow](t, taskKey(i)); !f.found {
		return f
	}
	f.batch, _ = get[batchRow](t, batchKey(i.batch()))
	for {
		s, ok := get[stepRow](t, stepKey(i, f.seq+1))
		if !ok {
			break
		}
		f.seq++
		f.stepRow = s
		f.begun = f.begun || s.token != unasked
		if s.kind == "replayed" {
			f.run, f.replayed = f.seq+1, true
		}
	}
	if _, runs := get[runningRow](t, runningKey(i, f.seq+1)); runs {
		f.begun = true
	}
	return f
}

// owner is the span that a task belongs to.
func (t *tx) owner(f *fact) (s found[spanRow], ok bool) {
	rows := list(t, "span", func(_ key, s spanRow) bool {
		return s.seq0 == f.base && s.lo <= f.id && f.id <= s.hi
	})
	if len(rows) == 0 || !f.found || f.over() {
		return s, false
	}
	return rows[0], true
}

// below tells whether anybody waits for a task, or has it for a parent.
func (t *tx) below(i id) bool {
	return len(list(t, "dependency", func(k key, l dependencyRow) bool {
		return id(k.a) == i && l.state == ""
	})) > 0 || len(list(t, "batch", func(_ key, b batchRow) bool { return b.parent == i })) > 0
}

// children are the tasks that have a parent, in their order.
func (t *tx) children(i id) (all []id) {
	for _, b := range list(t, "batch", func(_ key, b batchRow) bool { return b.parent == i }) {
		for _, k := range list(t, "task", func(k key, _ taskRow) bool {
			return id(k.a).batch() == b.a
		}) {
			all = append(all, id(k.a))
		}
	}
	return all
}
