package waiting

import "slices"

// handout is a task in a worker's hands.
type handout struct {
	id
	seq, span, token int64
	depth            int
	run              int64
}

// need says what a task waits for that is submitted.
type need struct {
	on   id
	fits string
}

// draft is a task that is to be submitted; those of one submission come in order, and the ones with
// needs last.
type draft struct {
	depth int
	refs  []int  // earlier ones of the same submission
	after []need // tasks that stand
	fits  string // of refs
}

// under is whose children are submitted.
type under struct {
	handout
	run    int64
	orphan bool
}

// report is what a worker says of a hand-out.
type report struct {
	handout
	kind   string // "done", "dead", "retry", "next", "lost"
	moves  bool   // a long delay
	spawn  []draft
	orphan bool
	await  string // "", "children", "signal"
	first  bool
	addr   string
	until  int64
	hash   int64
}

// insert writes a batch with its tasks, spans, links and waits.
func (w *world) insert(t *tx, u *under, drafts []draft) {
	t.statement()
	b := t.id()
	row, linked := batchRow{}, 0
	if u != nil {
		row = batchRow{parent: u.id, run: u.run, seq: u.seq, orphan: u.orphan}
		linked = upwards
	}
	t.put(batchKey(b), row)
	ids := make([]id, len(drafts))
	free, linkedOf := 0, linked
	for i := range drafts {
		d := &drafts[i]
		ids[i] = id(b*100 + int64(i))
		t.put(taskKey(ids[i]), taskRow{d.depth})
		needs := d.after
		for _, r := range d.refs {
			needs = append(needs, need{ids[r], d.fits})
			linkedOf |= downwards
		}
		if len(needs) == 0 {
			free++
			continue
		}
		for _, n := range needs {
			t.put(dependencyKey(n.on, ids[i]), dependencyRow{fits: n.fits})
		}
		t.put(waitKey(ids[i]), waitRow{what: "after", mark: t.id()})
	}
	if free > 0 {
		t.put(spanKey(t.id()), spanRow{lo: ids[0], hi: ids[free-1], linked: linkedOf})
	}
	if free < len(ids) {
		t.put(spanKey(t.id()), spanRow{
			lo: ids[free], hi: ids[len(ids)-1], linked: linkedOf, parked: true,
		})
	}
	if u != nil {
		t.put(changeKey(t.id()), changeRow{
			topic: u.id, run: u.run, counts: counts{total: len(ids)},
		})
	}
}

// mark notes on the rows that give the right to report tasks that something hangs on them, and
// answers how they stand, by a later statement: so whatever ends them from then on knows. Spans
// come first, then running rows, each in the order of their keys. ok is false when a task went on
// into another span meanwhile: then all of it is to be tried again.
func (w *world) mark(t *tx, ids ...id) (facts []fact, ok bool) {
	var spans, running []key
	owners := map[id]key{}
	t.statement()
	for _, i := range ids {
		f := t.fact(i)
		facts = append(facts, f)
		if s, ok := t.owner(&f); ok {
			owners[i] = s.key
			spans = append(spans, s.key)
		}
	}
	early := slices.Clone(facts)
	if w.bug == "who waits leaves no mark" {
		return facts, true
	}
	t.statement()
	t.lockAll(spans)
	for _, k := range spans {
		if s, ok := t.newest(k).(spanRow); ok {
			s.linked |= downwards
			t.put(k, s)
		}
	}
	if w.bug != "span and running row are marked by one statement" {
		t.statement()
	}
	for k, i := range ids {
		facts[k] = t.fact(i)
		if s, ok := t.owner(&facts[k]); ok && s.key != owners[i] {
			return facts, false
		}
		for _, r := range list(t, "running", func(k key, _ runningRow) bool {
			return id(k.a) == i
		}) {
			running = append(running, r.key)
		}
	}
	t.lockAll(running)
	for _, k := range running {
		if r, ok := t.newest(k).(runningRow); ok {
			r.linked |= downwards
			t.put(k, r)
		}
	}
	t.statement()
	for k, i := range ids {
		facts[k] = t.fact(i)
		if s, ok := t.owner(&facts[k]); ok && s.key != owners[i] {
			return facts, false
		}
	}
	if w.bug == "who waits looks before it marks" {
		return early, true
	}
	return facts, true
}

// submit submits tasks that nobody is the parent of.
func (w *world) submit(p *process, drafts []draft) {
	var ids []id
	for i := range drafts {
		for _, n := range drafts[i].after {
			ids = append(ids, n.on)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	again := true
	for again {
		again = false
		w.do(p, "submits", func(t *tx) bool {
			t.statement()
			for _, i := range ids {
				t.lock(taskKey(i), false)
			}
			facts, ok := w.mark(t, ids...)
			if again = !ok; again {
				return false
			}
			for k := range facts {
				if !facts[k].found {
					return false
				}
			}
			w.insert(t, nil, drafts)
			for k := range facts {
				if facts[k].over() {
					t.put(changeKey(t.id()), changeRow{topic: ids[k], ended: true})
				}
			}
			return true
		})
	}
}

// right tells whether a token gives the right to report, by the rows that the present statement
// sees, and what they say of links.
func (t *tx) right(h *handout) (right bool, linked int) {
	if r, ok := get[runningRow](t, runningKey(h.id, h.seq)); ok {
		return r.span == h.span && r.token == h.token, r.linked
	}
	s, ok := get[spanRow](t, spanKey(h.span))
	return ok && s.token == h.token && s.lo <= h.id && h.id <= s.hi, s.linked
}

// addChildren submits children of a task that runs. They are written first, so that others wait as
// short as can be for what is locked.
func (w *world) addChildren(p *process, h *handout, drafts []draft) {
	const early = "children are fenced before they are written"
	again := true
	for again {
		again = false
		w.do(p, "adds children", func(t *tx) bool {
			if w.bug == early && !t.stands(h) {
				return false
			}
			w.insert(t, &under{handout: *h, run: h.run}, drafts)
			if w.bug == early {
				return true
			}
			_, ok := w.mark(t, h.id)
			if again = !ok && t.stands(h); !ok {
				return false
			}
			return t.stands(h)
		})
	}
}

// stands tells whether a hand-out may still report.
func (t *tx) stands(h *handout) bool {
	t.statement()
	right, _ := t.right(h)
	_, over := get[stepRow](t, stepKey(h.id, h.seq))
	return right && !over
}

// settle records a report. It answers "recorded", "repeated" or "stale".
func (w *world) settle(p *process, r *report) (verdict string) {
	later := changeRow{}
	w.do(p, "settles", func(t *tx) bool {
		t.statement()
		t.lock(spanKey(r.span), false)
		t.statement()
		right, linked := t.right(&r.handout)
		f := t.fact(r.id)
		right = right && f.found // retention leaves no right behind
		row := stepRow{kind: r.kind, base: f.base, token: r.token, hash: r.hash}
		moves := r.moves || r.await != "" || len(r.spawn) > 0
		switch {
		case r.kind == "done" || r.kind == "dead":
			row.base, moves = final, false
		case r.kind == "lost" || r.kind == "retry":
			row.kind = "retry"
			fallthrough
		default:
			if moves {
				row.base = r.seq + 1
			}
		}
		if !right || !t.insert(stepKey(r.id, r.seq), row) {
			verdict = "stale"
			t.statement()
			if s, ok := get[stepRow](t, stepKey(r.id, r.seq)); ok && s.token == r.token &&
				s.hash == r.hash {
				verdict = "repeated"
			}
			if verdict == "repeated" && w.bug == "a repeated report spawns again" &&
				len(r.spawn) > 0 {
				w.insert(t, &under{r.handout, r.run, r.orphan}, r.spawn)
				return true
			}
			return false
		}
		verdict = "recorded"
		linked |= w.deleteRunning(t, r.id, r.seq)
		if len(r.spawn) > 0 && w.bug != "children are spawned after the outcome" {
			w.insert(t, &under{r.handout, r.run, r.orphan}, r.spawn)
		}
		if moves {
			w.moveOut(t, r, linked)
		}
		if row.base == final {
			later = w.tell(t, r.id, linked, r.kind)
		}
		return true
	})
	if verdict != "recorded" {
		return verdict
	}
	if later.run >= 0 && later.counts != (counts{}) {
		w.do(p, "counts", func(t *tx) bool {
			t.statement()
			t.put(changeKey(t.id()), later)
			return true
		})
	}
	if len(r.spawn) > 0 && w.bug == "children are spawned after the outcome" {
		w.do(p, "spawns", func(t *tx) bool {
			w.insert(t, &under{r.handout, r.run, r.orphan}, r.spawn)
			return true
		})
	}
	return verdict
}

// deleteRunning deletes a running row, and says what it tells of links: as it is by then, whoever
// has marked it meanwhile.
func (w *world) deleteRunning(t *tx, i id, seq int64) (linked int) {
	t.statement()
	k := runningKey(i, seq)
	r, _ := locked[runningRow](t, k)
	t.remove(k)
	if w.bug == "links of a running row are read before it is deleted" {
		return 0
	}
	return r.linked
}

// moveOut gives a task a span of its own; one that is to wait gets one that nobody takes.
func (w *world) moveOut(t *tx, r *report, linked int) {
	t.statement()
	if len(r.spawn) > 0 {
		linked |= downwards
	}
	if w.bug == "a span of its own is not marked" {
		linked = 0
	}
	if w.bug == "a task that spawns is not marked" {
		linked &^= downwards
	}
	t.put(spanKey(t.id()), spanRow{
		lo: r.id, hi: r.id, seq0: r.seq + 1, linked: linked, parked: r.await != "",
	})
	if r.await == "" {
		return
	}
	wait := waitRow{
		seq: r.seq + 1, mark: t.id(), what: r.await, run: r.run, first: r.first, addr: r.addr,
		until: r.until,
	}
	t.put(waitKey(r.id), wait)
	change := changeRow{topic: r.id, run: r.run}
	if r.await == "signal" && r.addr != ownAddress(r.id) {
		change = changeRow{addr: r.addr}
	}
	if w.bug != "a wait leaves no change" {
		t.put(changeKey(t.id()), change)
	}
}

// tell writes down for others that a task ended. It costs a task on which nothing hangs nothing.
func (w *world) tell(t *tx, i id, linked int, state string) (later changeRow) {
	if linked&upwards != 0 {
		t.statement()
		b, _ := get[batchRow](t, batchKey(i.batch()))
		n := changeRow{topic: b.parent, run: b.run, counts: one(state, 1)}
		if w.bug == "an end is counted in a transaction of its own" {
			later = n
		} else {
			t.put(changeKey(t.id()), n)
		}
	}
	if linked&downwards != 0 {
		t.statement()
		if t.below(i) {
			t.put(changeKey(t.id()), changeRow{topic: i, ended: true})
		}
	}
	return later
}
