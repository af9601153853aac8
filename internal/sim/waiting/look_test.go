package waiting

import (
	"cmp"
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
	ended, fell := false, false
	for _, n := range news {
		ended, fell = ended || n.ended, fell || n.fell
	}
	t.statement()
	f := t.fact(topic)
	switch {
	case !f.found:
		t.forget(topic)
	case f.over() && (ended || fell):
		w.followEnd(t, &f, fell)
	case !f.over():
		w.followWait(t, &f, news)
	}
}

// forget deletes what is left of a task that is deleted.
func (t *tx) forget(i id) {
	for _, c := range list(t, "family", func(k key, _ counts) bool { return id(k.a) == i }) {
		t.remove(c.key)
	}
}

// followWait ends the wait of a task if what it waits for is there.
func (w *world) followWait(t *tx, f *fact, news []newsRow) {
	t.statement()
	k := waitKey(f.id)
	wait, ok := get[waitRow](t, k)
	if !ok {
		return
	}
	if wait, ok = locked[waitRow](t, k); !ok {
		return
	}
	t.statement()
	switch wait.what {
	case "children":
		if c := w.countsOf(t, f.id, &wait, news); c.open() == 0 || wait.first && c.dead > 0 {
			w.wake(t, f.id, &wait, "children", "")
		}
	case "signal":
		if wait.addr == mailbox(f.id) {
			w.deliver(t, f.id, &wait)
		}
	}
}

// countsOf are those of the children that a wait is about: what was added up, and what was not yet.
// They are read after the wait is locked, so all that its task added before it waited is there.
func (w *world) countsOf(t *tx, i id, wait *waitRow, news []newsRow) (c counts) {
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
func (w *world) deliver(t *tx, i id, wait *waitRow) bool {
	for _, s := range list(t, "signal", func(k key, s signalRow) bool {
		return s.mark == 0 && s.until > w.now && strings.HasPrefix(k.s, wait.addr+" ")
	}) {
		row, ok := locked[signalRow](t, s.key)
		if !ok || row.mark != 0 {
			continue
		}
		if !w.wake(t, i, wait, "signal", s.key.s) {
			return false
		}
		if w.bug == "a signal that was delivered is deleted" {
			t.remove(s.key)
			return true
		}
		row.mark = wait.mark
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
		for _, r := range list(t, "wait", func(_ key, x waitRow) bool { return x.addr == addr }) {
			t.statement()
			wait, ok := locked[waitRow](t, r.key)
			if !ok || wait.addr != addr {
				continue
			}
			t.statement()
			if !w.deliver(t, id(r.a), &wait) {
				return true
			}
		}
		return true
	})
}

// lookDue ends a wait whose time is over.
func (w *world) lookDue(p *process, i id) {
	w.do(p, "looks whether it is time", func(t *tx) bool {
		t.statement()
		wait, ok := get[waitRow](t, waitKey(i))
		if !ok || wait.until == 0 || wait.until > w.now {
			return false
		}
		if w.bug == "a time that is over ends the wait wherever its task is" {
			t.statement()
			f := t.fact(i)
			wait.seq = f.seq + 1
		} else if wait, ok = locked[waitRow](t, waitKey(i)); !ok || wait.until == 0 ||
			wait.until > w.now {
			return false
		}
		return w.wake(t, i, &wait, "timeout", "")
	})
}

// wake writes the step that ends a wait. Its place is the wait's: the key of step lets nothing else
// stand there.
func (w *world) wake(t *tx, i id, wait *waitRow, why, by string) bool {
	t.statement()
	f := t.fact(i)
	s, ok := t.owner(&f)
	if ok && w.bug != "a wake-up does not lock the span that it reads" {
		t.lock(s.key, true)
		t.statement()
		f = t.fact(i)
		s, ok = t.owner(&f)
	}
	seq := wait.seq
	if w.bug == "a wake-up stands wherever its task is" {
		seq = f.seq + 1
		if f.over() {
			return false
		}
	}
	row := stepRow{
		kind: "woken", base: seq + 1, token: unasked, why: why, by: by, mark: wait.mark,
	}
	if !t.insert(stepKey(i, seq), row) {
		t.statement()
		t.remove(waitKey(i))
		return false
	}
	t.statement()
	if ok && s.row.lo == s.row.hi {
		t.remove(s.key)
	}
	t.put(spanKey(t.id()), spanRow{lo: i, hi: i, seq0: seq + 1, kin: s.row.kin})
	if w.bug != "a wake-up leaves the wait" {
		t.remove(waitKey(i))
	}
	return true
}

// followEnd does what follows from the end of a task: for those that wait for it, and below it.
func (w *world) followEnd(t *tx, f *fact, fell bool) {
	t.statement()
	open := list(t, "link", func(k key, l linkRow) bool { return id(k.a) == f.id && l.state == "" })
	more := len(open) > piece
	for _, l := range open[:min(piece, len(open))] {
		w.followLink(t, f, l)
	}
	if !more && (fell || f.state() != "done") {
		more = w.fell(t, f, fell)
	}
	if more && w.bug != "a look does one piece" {
		t.put(newsKey(t.id()), newsRow{topic: f.id, ended: true, fell: fell})
	}
}

// followLink notes with a task that waits how what it waits for has ended.
func (w *world) followLink(t *tx, f *fact, l found[linkRow]) {
	y := id(l.b)
	t.statement()
	wait, ok := locked[waitRow](t, waitKey(y))
	if w.bug == "two that end at once both look before either is written" {
		t.end()
	}
	l.row.state = f.state()
	t.put(l.key, l.row)
	if !ok || wait.what != "after" && w.bug != "what a task once waited for ends another wait" {
		return
	}
	if l.row.fits == "done" && l.row.state != "done" {
		w.end(t, y, true)
		return
	}
	t.statement()
	if len(list(t, "link", func(k key, l linkRow) bool {
		return id(k.b) == y && l.state == ""
	})) == 0 {
		w.wake(t, y, &wait, "after", "")
	}
}

// fell cancels what has not begun below a task that is over, or all of it; a piece.
func (w *world) fell(t *tx, f *fact, all bool) (more bool) {
	t.statement()
	var fall []id
	for _, c := range t.children(f.id) {
		g := t.fact(c)
		switch {
		case g.over() || g.batch.orphan && !all:
		case all || !g.begun:
			fall = append(fall, c)
		}
	}
	slices.SortFunc(fall, func(a, b id) int { return cmp.Compare(a, b) })
	more = len(fall) > piece
	for _, c := range fall[:min(piece, len(fall))] {
		if !w.end(t, c, all) && w.bug != "who went on meanwhile is passed over" {
			more = true
		}
	}
	if more || !all {
		return more
	}
	for _, c := range t.children(f.id) {
		if g := t.fact(c); g.over() && len(t.children(c)) > 0 && !slices.Contains(fall, c) {
			t.put(newsKey(t.id()), newsRow{topic: c, fell: true})
		}
	}
	return false
}
