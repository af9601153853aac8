package waiting

import (
	"slices"
	"strings"
)

// piece is how many tasks one look changes at most.
const piece = 2

// look takes the news of one topic and does what follows.
func (w *world) look(p *process, topic id) {
	if w.bug == "a look deletes the news before it does what follows" {
		var kept []newsRow
		w.do(p, "takes news", func(t *tx) bool {
			t.statement()
			kept = w.takeNews(t, topic)
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
		if w.bug == "a look reads the wait before the news" {
			t.statement()
			early.key = waitKey(topic)
			early.row, _ = get[waitRow](t, early.key)
			t.statement()
			news := w.takeNews(t, topic)
			w.addUp(t, topic, news)
			if early.row.mark == 0 {
				return true
			}
			w.follow(t, topic, news)
			return true
		}
		t.statement()
		news := w.takeNews(t, topic)
		w.addUp(t, topic, news)
		w.follow(t, topic, news)
		return true
	})
}

// takeNews deletes the news of a topic, without those that another look has just now.
func (w *world) takeNews(t *tx, topic id) (taken []newsRow) {
	for _, n := range list(t, "news", func(_ key, n newsRow) bool {
		return n.addr == "" && n.topic == topic
	}) {
		if t.free(t, n.key, true) && t.remove(n.key) {
			taken = append(taken, n.row)
		}
	}
	return taken
}

// addUp adds news to the counts of the topic's children. Whoever does has the row of counts until
// it commits, so looks at one topic come one after the other.
func (w *world) addUp(t *tx, topic id, news []newsRow) {
	sums := map[int64]counts{}
	var runs []int64
	for _, n := range news {
		if n.ended || n.fell {
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
		k := familyKey(topic, run)
		before, _ := get[counts](t, k)
		if w.bug != "counts are read before they are locked" {
			t.lock(k, true) // it may not stand yet: whoever inserts it is waited for
			before, _ = t.newest(k).(counts)
		}
		before.add(sums[run])
		t.put(k, before)
	}
}

// follow does what follows from how everything stands, whatever the news said.
func (w *world) follow(t *tx, topic id, news []newsRow) {
	ended, fell, from := false, false, id(0)
	for _, n := range news {
		if n.ended || n.fell {
			if !ended && !fell || n.from < from {
				from = n.from
			}
			ended, fell = ended || n.ended, fell || n.fell
		}
	}
	t.statement()
	f := t.fact(topic)
	switch {
	case !f.found:
		t.forget(topic)
	case f.over() && (ended || fell):
		w.followEnd(t, &f, fell, from)
	case !f.over():
		w.followWait(t, &f)
	}
}

// forget deletes what is left of a task that is deleted.
func (t *tx) forget(i id) {
	for _, c := range list(t, "family", func(k key, _ counts) bool { return id(k.a) == i }) {
		t.remove(c.key)
	}
}

// followWait ends the wait of a task if what it waits for is there.
func (w *world) followWait(t *tx, f *fact) {
	s := &w.seize(t, f.id)[0]
	if !s.ok && !s.over() && w.bug != "who went on meanwhile is passed over" {
		t.put(newsKey(t.id()), newsRow{topic: f.id, run: s.run})
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
		if s.wait.addr == mailbox(f.id) {
			w.deliver(t, s)
		}
	}
}

// countsOf are those of the children that a wait is about: what was added up, and what was not yet.
// They are read after the wait is locked, so all that its task added before it waited is there.
func (w *world) countsOf(t *tx, i id, wait *waitRow) (c counts) {
	switch w.bug {
	case "a look decides by the news that it took":
		c, _ = get[counts](t, familyKey(i, wait.run))
		return c
	case "children of former runs count":
		for _, r := range list(t, "family", func(k key, _ counts) bool { return id(k.a) == i }) {
			c.add(r.row)
		}
		return c
	}
	c, _ = get[counts](t, familyKey(i, wait.run))
	for _, n := range list(t, "news", func(_ key, n newsRow) bool {
		return n.addr == "" && n.topic == i && n.run == wait.run && !n.ended && !n.fell
	}) {
		c.add(n.row.counts)
	}
	return c
}

// deliver ends a wait by the oldest signal at its address that ended none.
func (w *world) deliver(t *tx, to *seized) bool {
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

// lookAt takes the news of an address of signals.
func (w *world) lookAt(p *process, addr string) {
	w.do(p, "looks at "+addr, func(t *tx) bool {
		t.statement()
		for _, n := range list(t, "news", func(_ key, n newsRow) bool { return n.addr == addr }) {
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
		all := w.seize(t, ids[:min(piece, len(ids))]...)
		for k := range all {
			s := &all[k]
			t.statement()
			if s.ok && s.waits && s.wait.addr == addr && !w.deliver(t, s) {
				return true // there are no more signals
			}
			more = more || !s.ok
		}
		if more {
			t.put(newsKey(t.id()), newsRow{addr: addr})
		}
		return true
	})
}

// lookDue ends a wait whose time is over.
func (w *world) lookDue(p *process, i id) {
	w.do(p, "looks whether it is time", func(t *tx) bool {
		t.statement()
		early, waited := get[waitRow](t, waitKey(i))
		s := &w.seize(t, i)[0]
		if w.bug == "a time that is over ends the wait wherever its task is" {
			s.wait, s.waits = early, waited
			s.wait.seq = s.seq + 1
		}
		if !s.ok || !s.waits || s.wait.until == 0 || s.wait.until > w.now {
			return false
		}
		return w.wake(t, s, "timeout", "")
	})
}

// wake writes the step that ends a wait. Its place is the wait's: the key of step lets nothing else
// stand there.
func (w *world) wake(t *tx, s *seized, why, by string) bool {
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
	t.put(spanKey(t.id()), spanRow{lo: s.id, hi: s.id, seq0: seq + 1, kin: s.kin})
	if w.bug != "a wake-up leaves the wait" {
		t.remove(waitKey(s.id))
	}
	return true
}

// followEnd does what follows from the end of a task: for those that wait for it, and below it.
func (w *world) followEnd(t *tx, f *fact, fell bool, from id) {
	t.statement()
	open := list(t, "link", func(k key, l linkRow) bool { return id(k.a) == f.id && l.state == "" })
	more := len(open) > piece
	open = open[:min(piece, len(open))]
	var ids []id
	for _, l := range open {
		ids = append(ids, id(l.b))
	}
	for k, s := range w.seize(t, ids...) {
		more = !w.followLink(t, f, open[k], &s) || more
	}
	if !more && (fell || f.state() != "done") {
		from, more = w.fell(t, f, fell, from)
	}
	if more && w.bug != "a look does one piece" {
		t.put(newsKey(t.id()), newsRow{topic: f.id, ended: true, fell: fell, from: from})
	}
}

// followLink notes with a task that waits how what it waits for has ended; false: another look has
// to.
func (w *world) followLink(t *tx, f *fact, l found[linkRow], s *seized) bool {
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
	if len(list(t, "link", func(k key, l linkRow) bool {
		return id(k.b) == s.id && l.state == ""
	})) == 0 {
		w.wake(t, s, "after", "")
	}
	return true
}

// fell cancels what has not begun below a task that is over, or all of it: a piece, behind a child.
func (w *world) fell(t *tx, f *fact, all bool, from id) (next id, more bool) {
	t.statement()
	rest := slices.DeleteFunc(t.children(f.id), func(c id) bool { return c <= from })
	slices.Sort(rest)
	more = len(rest) > piece
	rest = rest[:min(piece, len(rest))]
	for _, s := range w.seize(t, rest...) {
		next = max(next, s.id)
		switch {
		case !s.found:
		case s.over():
			if t.statement(); all && len(t.children(s.id)) > 0 {
				t.put(newsKey(t.id()), newsRow{topic: s.id, fell: true})
			}
		case s.ok && !all && (s.begun || s.batch.orphan):
		case !w.end(t, &s):
			if w.bug != "who went on meanwhile is passed over" {
				return from, true // once more
			}
		case all:
			t.put(newsKey(t.id()), newsRow{topic: s.id, fell: true})
		}
	}
	return next, more
}
