package waiting

import (
	"slices"
	"strings"
)

// piece is how many tasks one look changes at most.
const piece = 2

// look takes the changes of one topic and does what follows.
func (w *world) look(p *process, topic id) {
	if w.bug == "a look deletes the changes before it does what follows" {
		var kept []changeRow
		w.do(p, "takes changes", func(t *tx) bool {
			t.statement()
			kept = w.takeChanges(t, topic)
			w.addUp(t, topic, kept)
			return true
		})
		w.do(p, "follows", func(t *tx) bool {
			w.follow(t, topic, kept)
			return true
		})
		return
	}
	w.do(p, "looks", func(t *tx) bool {
		var early found[waitRow]
		if w.bug == "a look reads the wait before the changes" {
			t.statement()
			early.key = waitKey(topic)
			early.row, _ = get[waitRow](t, early.key)
			t.statement()
			changes := w.takeChanges(t, topic)
			w.addUp(t, topic, changes)
			if early.row.mark == 0 {
				return true
			}
			w.follow(t, topic, changes)
			return true
		}
		t.statement()
		changes := w.takeChanges(t, topic)
		w.addUp(t, topic, changes)
		w.follow(t, topic, changes)
		return true
	})
}

// takeChanges deletes the changes of a topic, without those that another look has just now.
func (w *world) takeChanges(t *tx, topic id) (taken []changeRow) {
	for _, n := range list(t, "change", func(_ key, n changeRow) bool {
		return n.addr == "" && n.topic == topic
	}) {
		if t.free(t, n.key, true) && t.remove(n.key) {
			taken = append(taken, n.row)
		}
	}
	return taken
}

// addUp adds changes to the counts of the topic's children. Whoever does has the row of counts
// until it commits, so looks at one topic come one after the other.
func (w *world) addUp(t *tx, topic id, changes []changeRow) {
	sums := map[int64]counts{}
	var runs []int64
	for _, n := range changes {
		if n.ended || n.tree {
			continue
		}
		if _, known := sums[n.run]; !known {
			runs = append(runs, n.run)
		}
		c := sums[n.run]
		c.add(n.counts)
		sums[n.run] = c
	}
	slices.Sort(runs)
	for _, run := range runs {
		t.statement()
		k := childCountKey(topic, run)
		before, _ := get[counts](t, k)
		if w.bug != "counts are read before they are locked" {
			t.lock(k, true) // it may not stand yet: whoever inserts it is waited for
			before, _ = t.newest(k).(counts)
		}
		before.add(sums[run])
		t.put(k, before)
	}
}

// follow does what follows from how everything stands, whatever the changes said.
func (w *world) follow(t *tx, topic id, changes []changeRow) {
	ended, tree, from := false, false, id(0)
	for _, n := range changes {
		if n.ended || n.tree {
			if !ended && !tree || n.from < from {
				from = n.from
			}
			ended, tree = ended || n.ended, tree || n.tree
		}
	}
	t.statement()
	f := t.fact(topic)
	switch {
	case !f.found:
		t.forget(topic)
	case f.over() && (ended || tree):
		w.followEnd(t, &f, tree, from)
	case !f.over():
		w.followWait(t, &f)
	}
}

// forget deletes what is left of a task that is deleted.
func (t *tx) forget(i id) {
	for _, c := range list(t, "child_count", func(k key, _ counts) bool { return id(k.a) == i }) {
		t.remove(c.key)
	}
}

// followWait ends the wait of a task if what it waits for is there.
func (w *world) followWait(t *tx, f *fact) {
	s := &w.lockTasks(t, f.id)[0]
	if !s.ok && !s.over() && w.bug != "who went on meanwhile is passed over" {
		t.put(changeKey(t.id()), changeRow{topic: f.id, run: s.run})
	}
	if !s.ok || !s.waits {
		return
	}
	t.statement()
	switch s.wait.what {
	case "children":
		c := w.countsOf(t, f.id, &s.wait)
		if c.open() == 0 || s.wait.first && c.dead > 0 {
			w.wake(t, s, "children", "")
		}
	case "signal":
		if s.wait.addr == ownAddress(f.id) {
			w.deliver(t, s)
		}
	}
}

// countsOf are those of the children that a wait is about: what was added up, and what was not yet.
// They are read after the wait is locked, so all that its task added before it waited is there.
func (w *world) countsOf(t *tx, i id, wait *waitRow) (c counts) {
	switch w.bug {
	case "a look decides by the changes that it has added up":
		c, _ = get[counts](t, childCountKey(i, wait.run))
		return c
	case "children of former runs count":
		for _, r := range list(t, "child_count", func(k key, _ counts) bool {
			return id(k.a) == i
		}) {
			c.add(r.row)
		}
		return c
	}
	c, _ = get[counts](t, childCountKey(i, wait.run))
	for _, n := range list(t, "change", func(_ key, n changeRow) bool {
		return n.addr == "" && n.topic == i && n.run == wait.run && !n.ended && !n.tree
	}) {
		c.add(n.row.counts)
	}
	return c
}

// deliver ends a wait by the oldest signal at its address that ended none.
func (w *world) deliver(t *tx, to *lockedTask) bool {
	for _, s := range list(t, "signal", func(k key, s signalRow) bool {
		return s.mark == 0 && s.until > w.now && strings.HasPrefix(k.s, to.wait.addr+" ")
	}) {
		row, ok := locked[signalRow](t, s.key)
		if !ok || row.mark != 0 {
			continue
		}
		if !w.wake(t, to, "signal", s.key.s) {
			return false
		}
		if w.bug == "a signal that was delivered is deleted" {
			t.remove(s.key)
			return true
		}
		row.mark = to.wait.mark
		t.write(s.key, row)
		return true
	}
	return false
}

// lookAt takes the changes of an address of signals.
func (w *world) lookAt(p *process, addr string) {
	w.do(p, "looks at "+addr, func(t *tx) bool {
		t.statement()
		for _, n := range list(t, "change", func(_ key, n changeRow) bool {
			return n.addr == addr
		}) {
			if t.free(t, n.key, true) {
				t.remove(n.key)
			}
		}
		t.statement()
		var ids []id
		for _, r := range list(t, "wait", func(_ key, x waitRow) bool { return x.addr == addr }) {
			ids = append(ids, id(r.a))
		}
		more := len(ids) > piece
		all := w.lockTasks(t, ids[:min(piece, len(ids))]...)
		for k := range all {
			s := &all[k]
			t.statement()
			if s.ok && s.waits && s.wait.addr == addr && !w.deliver(t, s) {
				return true // there are no more signals
			}
			more = more || !s.ok
		}
		if more {
			t.put(changeKey(t.id()), changeRow{addr: addr})
		}
		return true
	})
}

// lookDue ends a wait whose time is over.
func (w *world) lookDue(p *process, i id) {
	w.do(p, "looks whether it is time", func(t *tx) bool {
		t.statement()
		early, waited := get[waitRow](t, waitKey(i))
		s := &w.lockTasks(t, i)[0]
		if w.bug == "a time that is over ends the wait wherever its task is" {
			s.wait, s.waits = early, waited
			s.wait.seq = s.seq + 1
		}
		if !s.ok || !s.waits || s.wait.until == 0 || s.wait.until > w.now {
			return false
		}
		t.statement()
		if len(list(t, "signal", func(k key, x signalRow) bool {
			return x.mark == 0 && x.until > w.now && strings.HasPrefix(k.s, s.wait.addr+" ")
		})) > 0 { // it came in time: another look has its change, or the next one takes it
			t.put(changeKey(t.id()), changeRow{addr: s.wait.addr})
			return true
		}
		return w.wake(t, s, "timeout", "")
	})
}

// wake writes the step that ends a wait. Its place is the wait's: the key of step lets nothing else
// stand there.
func (w *world) wake(t *tx, s *lockedTask, why, by string) bool {
	seq := s.wait.seq
	if w.bug == "a wake-up has neither lock nor place" {
		t.statement()
		f := t.fact(s.id)
		if seq = f.seq + 1; f.over() {
			return false
		}
	}
	row := stepRow{
		kind: "woken", base: seq + 1, token: unasked, why: why, by: by, mark: s.wait.mark,
	}
	if !t.insert(stepKey(s.id, seq), row) {
		t.statement()
		t.remove(waitKey(s.id))
		return false
	}
	t.statement()
	if s.span.row.lo == s.span.row.hi {
		t.remove(s.span.key)
	}
	t.put(spanKey(t.id()), spanRow{lo: s.id, hi: s.id, seq0: seq + 1, linked: s.linked})
	if w.bug != "a wake-up leaves the wait" {
		t.remove(waitKey(s.id))
	}
	return true
}

// followEnd does what follows from the end of a task: for those that wait for it, and below it.
func (w *world) followEnd(t *tx, f *fact, tree bool, from id) {
	t.statement()
	open := list(t, "dependency", func(k key, l dependencyRow) bool {
		return id(k.a) == f.id && l.state == ""
	})
	more := len(open) > piece
	open = open[:min(piece, len(open))]
	var ids []id
	for _, l := range open {
		ids = append(ids, id(l.b))
	}
	for k, s := range w.lockTasks(t, ids...) {
		more = !w.followDependency(t, f, open[k], &s) || more
	}
	if below := tree || f.state() != "done"; below && len(open) > 0 &&
		w.bug != "a look locks twice" {
		more = true // the next look is for those below: each locks once
	} else if below && !more {
		from, more = w.cancelBelow(t, f, tree, from)
	}
	if more && w.bug != "a look does one piece" {
		t.put(changeKey(t.id()), changeRow{topic: f.id, ended: true, tree: tree, from: from})
	}
}

// followDependency notes with a task that waits how what it waits for has ended; false: another
// look has to.
func (w *world) followDependency(t *tx, f *fact, l found[dependencyRow], s *lockedTask) bool {
	if !s.ok && s.found && !s.over() {
		return w.bug == "who went on meanwhile is passed over"
	}
	l.row.state = f.state()
	t.put(l.key, l.row)
	if !s.ok || !s.waits ||
		s.wait.what != "after" && w.bug != "what a task once waited for ends another wait" {
		return true
	}
	if l.row.fits == "done" && l.row.state != "done" {
		w.end(t, s)
		return true
	}
	t.statement()
	if len(list(t, "dependency", func(k key, l dependencyRow) bool {
		return id(k.b) == s.id && l.state == ""
	})) == 0 {
		w.wake(t, s, "after", "")
	}
	return true
}

// cancelBelow cancels what has not begun below a task that is over, or all of it: a piece, behind a
// child.
func (w *world) cancelBelow(t *tx, f *fact, all bool, from id) (next id, more bool) {
	t.statement()
	rest := slices.DeleteFunc(t.children(f.id), func(c id) bool { return c <= from })
	slices.Sort(rest)
	more = len(rest) > piece
	rest = rest[:min(piece, len(rest))]
	for _, s := range w.lockTasks(t, rest...) {
		next = max(next, s.id)
		switch {
		case !s.found:
		case s.over():
			if t.statement(); all && len(t.children(s.id)) > 0 {
				t.put(changeKey(t.id()), changeRow{topic: s.id, tree: true})
			}
		case s.ok && !all && (s.begun || s.batch.orphan):
		case !w.end(t, &s):
			if w.bug != "who went on meanwhile is passed over" {
				return from, true // once more
			}
		case all:
			t.put(changeKey(t.id()), changeRow{topic: s.id, tree: true})
		}
	}
	return next, more
}
