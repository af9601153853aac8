package waiting

import "slices"

// lockedTask is a task that is not over, with all that a step of it from outside concerns, locked.
type lockedTask struct {
	fact
	ok     bool // false: it is over, or went on while it was waited for
	span   found[spanRow]
	wait   waitRow
	waits  bool
	linked int
}

// lockTasks locks tasks: their waits, then their spans, each in the order of their keys, and reads
// by a later statement how they stand. Wait and span are found by one
// statement: they come and go together.
func (w *world) lockTasks(t *tx, ids ...id) []lockedTask {
	list := make([]lockedTask, len(ids))
	t.statement()
	var waits, spans []key
	for k, i := range ids {
		list[k].fact = t.fact(i)
		if _, ok := get[waitRow](t, waitKey(i)); ok {
			waits = append(waits, waitKey(i))
		}
		if w.bug == "a wait and its span are read by two statements" {
			t.statement()
			list[k].fact = t.fact(i)
		}
		if list[k].span, list[k].ok = t.owner(&list[k].fact); list[k].ok {
			spans = append(spans, list[k].span.key)
		}
	}
	if w.bug == "tasks are locked one after the other" && len(ids) > 1 {
		list = list[:0]
		for _, i := range ids {
			list = append(list, w.lockTasks(t, i)...)
		}
		return list
	}
	if w.bug != "who acts from outside locks nothing" &&
		w.bug != "a wake-up has neither lock nor place" {
		t.lockAll(waits)
		t.lockAll(spans)
	}
	early := slices.Clone(list)
	t.statement()
	for k, i := range ids {
		s := &list[k]
		was := s.span.key
		s.fact = t.fact(i)
		s.span, s.ok = t.owner(&s.fact)
		s.ok = s.ok && s.span.key == was
		s.wait, s.waits = get[waitRow](t, waitKey(i))
		s.linked = s.span.row.linked
		if w.bug == "links are copied as they were before the lock" {
			s.linked = early[k].span.row.linked
		}
	}
	return list
}

// lockAll waits for rows, in the order of their keys.
func (t *tx) lockAll(keys []key) {
	slices.SortFunc(keys, key.compare)
	for _, k := range slices.Compact(keys) {
		t.lock(k, true)
	}
}

// end cancels a task that is lockedTask.
func (w *world) end(t *tx, s *lockedTask) bool {
	step := stepRow{kind: "cancelled", base: final, token: unasked}
	if !s.ok || !t.insert(stepKey(s.id, s.seq+1), step) {
		return false
	}
	w.leave(t, s)
	if w.bug != "who cancels tells nobody" {
		w.tell(t, s.id, s.linked, "cancelled")
	}
	return true
}

// leave takes a task out of its span, and ends its wait.
func (w *world) leave(t *tx, s *lockedTask) {
	s.linked |= w.deleteRunning(t, s.id, s.seq+1)
	if s.span.row.lo == s.span.row.hi && s.span.row.holder == 0 {
		t.remove(s.span.key)
	}
	t.remove(waitKey(s.id))
}

// cancel is what people ask for; tree: with all below it, begun or not.
func (w *world) cancel(p *process, i id, tree bool) {
	w.do(p, "cancels", func(t *tx) bool {
		if s := w.lockTasks(t, i); w.end(t, &s[0]) && !tree {
			return true
		}
		t.statement()
		if f := t.fact(i); !tree || !f.over() {
			return false
		}
		t.put(changeKey(t.id()), changeRow{topic: i, tree: true})
		return true
	})
}

// edit gives a task that does not run another priority. A wait goes along.
func (w *world) edit(p *process, i id) {
	w.do(p, "edits", func(t *tx) bool {
		s := &w.lockTasks(t, i)[0]
		if !s.ok {
			return false
		}
		if _, runs := get[runningRow](t, runningKey(i, s.seq+1)); runs {
			return false
		}
		span := s.span.row
		row := stepRow{kind: "edited", base: s.seq + 2, token: unasked}
		if span.holder != 0 || !t.insert(stepKey(i, s.seq+1), row) {
			return false
		}
		if span.lo == span.hi {
			t.remove(s.span.key)
		}
		t.put(spanKey(t.id()), spanRow{
			lo: i, hi: i, seq0: s.seq + 2, linked: s.linked, parked: span.parked,
		})
		if s.waits && w.bug != "an edit leaves the wait behind" {
			s.wait.seq = s.seq + 2
			t.put(waitKey(i), s.wait)
		}
		return true
	})
}

// replay lets a task that is over begin again.
func (w *world) replay(p *process, i id) {
	w.do(p, "replays", func(t *tx) bool {
		t.statement()
		if w.bug != "a replay does not wait for who begins to wait" {
			t.lock(taskKey(i), true)
		}
		t.statement()
		f := t.fact(i)
		if !f.over() {
			return false
		}
		row := stepRow{kind: "replayed", base: f.seq + 2, token: unasked}
		if !t.insert(stepKey(i, f.seq+1), row) {
			return false
		}
		t.statement()
		linked := 0
		if f.batch.parent != 0 {
			linked = upwards
			if w.bug != "a replay is not counted" {
				t.put(changeKey(t.id()), changeRow{
					topic: f.batch.parent, run: f.batch.run, counts: one(f.state(), -1),
				})
			}
		}
		if t.below(i) {
			linked |= downwards
		}
		t.put(spanKey(t.id()), spanRow{lo: i, hi: i, seq0: f.seq + 2, linked: linked})
		return true
	})
}

// signal sends a signal to an address; the same name twice counts once.
func (w *world) signal(p *process, addr, name string, to id) {
	w.do(p, "signals", func(t *tx) bool {
		t.statement()
		if to != 0 {
			if f := t.fact(to); !f.found || f.over() {
				return false
			}
		}
		k := signalKey(addr, name)
		if !t.insert(k, signalRow{until: w.now + 200}) {
			return false
		}
		if w.bug == "a signal leaves no change" {
			return true
		}
		if to != 0 {
			t.put(changeKey(t.id()), changeRow{topic: to})
		} else {
			t.put(changeKey(t.id()), changeRow{addr: addr})
		}
		return true
	})
}

// prune deletes a task that is over and that nobody needs.
func (w *world) prune(p *process, i id) {
	w.do(p, "prunes", func(t *tx) bool {
		t.statement()
		if !t.free(t, taskKey(i), true) {
			return false
		}
		t.lock(taskKey(i), true)
		t.statement() // spans with a token that is good tell from now on that the task is gone
		var spans []key
		for _, s := range list(t, "span", func(_ key, s spanRow) bool {
			return s.lo <= i && i <= s.hi
		}) {
			spans = append(spans, s.key)
		}
		t.lockAll(spans)
		t.statement()
		f := t.fact(i)
		if !f.over() || w.needed(t, &f) {
			return false
		}
		t.remove(taskKey(i))
		for seq := range f.seq + 1 {
			t.remove(stepKey(i, seq))
		}
		t.forget(i)
		for _, l := range list(t, "dependency", func(k key, _ dependencyRow) bool {
			return id(k.a) == i || id(k.b) == i
		}) {
			t.remove(l.key)
		}
		return true
	})
}

// needed tells whether somebody still has to look at a task that is over.
func (w *world) needed(t *tx, f *fact) bool {
	if w.bug == "retention asks nobody" {
		return false
	}
	if f.batch.parent != 0 {
		if p := t.fact(f.batch.parent); p.found && !p.over() && p.run == f.batch.run {
			return true
		}
	}
	for range list(t, "change", func(_ key, n changeRow) bool { return n.topic == f.id }) {
		return true
	}
	for _, l := range list(t, "dependency", func(k key, _ dependencyRow) bool {
		return id(k.a) == f.id
	}) {
		if y := t.fact(id(l.b)); l.row.state == "" || y.found && !y.over() {
			return true
		}
	}
	return false
}

// take makes a node hold a free span, and hands its tasks out.
func (w *world) take(p *process) {
	me := w.nodes[p.node].lease
	var out []handout
	var judged []handout
	w.do(p, "takes", func(t *tx) bool {
		out, judged = nil, nil
		t.statement()
		if _, member := get[bool](t, leaseKey(me)); !member {
			return false
		}
		t.lock(leaseKey(me), false)
		var s found[spanRow]
		for _, s = range list(t, "span", func(_ key, s spanRow) bool {
			return s.holder == 0 && (!s.parked || w.bug == "what waits is taken")
		}) {
			if t.free(t, s.key, true) && w.chance(70) {
				break
			}
			s.key = key{}
		}
		if s.key == (key{}) {
			return false
		}
		row, ok := locked[spanRow](t, s.key)
		if !ok || row.holder != 0 {
			return false
		}
		if row.lo < row.hi && w.chance(40) { // the free rest keeps its row
			rest := row
			row.hi = row.lo + id(w.IntN(int(row.hi-row.lo)))
			rest.lo = row.hi + 1
			t.write(s.key, rest)
			s.key = spanKey(t.id())
		}
		row.holder = me
		row.token++
		t.put(s.key, row)
		t.statement()
		for i := row.lo; i <= row.hi; i++ {
			f := t.fact(i)
			if !f.found || f.over() || f.base != row.seq0 {
				continue
			}
			d, _ := get[taskRow](t, taskKey(i))
			h := handout{i, f.seq + 1, s.key.a, row.token, d.depth, f.run}
			if r, runs := get[runningRow](t, runningKey(i, f.seq+1)); runs {
				h.span, h.token = r.span, r.token
				judged = append(judged, h)
			} else {
				out = append(out, h)
			}
		}
		if len(out)+len(judged) == 0 {
			t.remove(s.key) // spent
		}
		return true
	})
	for _, h := range out {
		w.start("worker", p.node, func(p *process) { w.work(p, h, false) })
	}
	for _, h := range judged {
		w.start("judge", p.node, func(p *process) { w.work(p, h, true) })
	}
}

// writeDown writes a running row, which takes along what its span says of links.
func (w *world) writeDown(p *process, h *handout) bool {
	me := w.nodes[p.node].lease
	return w.do(p, "writes down", func(t *tx) bool {
		t.statement()
		if _, member := get[bool](t, leaseKey(me)); !member {
			return false
		}
		t.lock(leaseKey(me), false)
		t.statement()
		t.lock(spanKey(h.span), false)
		t.statement()
		s, ok := get[spanRow](t, spanKey(h.span))
		if _, over := get[stepRow](t, stepKey(h.id, h.seq)); !ok || over || s.holder != me ||
			s.token != h.token {
			return false
		}
		row := runningRow{h.span, h.token, s.linked}
		if w.bug == "a running row does not take the mark along" {
			row.linked = 0
		}
		return t.insert(runningKey(h.id, h.seq), row)
	})
}

// giveBack gives back what nodes hold that are members no more.
func (w *world) giveBack(p *process) {
	w.do(p, "frees", func(t *tx) bool {
		t.statement()
		some := false
		for _, s := range list(t, "span", func(_ key, s spanRow) bool { return s.holder != 0 }) {
			if _, member := get[bool](t, leaseKey(s.row.holder)); member ||
				!t.free(t, s.key, true) {
				continue
			}
			row, ok := locked[spanRow](t, s.key)
			if ok && row.holder == s.row.holder {
				row.holder, some = 0, true
				t.write(s.key, row)
			}
		}
		return some
	})
}
