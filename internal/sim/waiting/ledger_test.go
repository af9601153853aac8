package waiting

import (
	"fmt"
	"strings"
)

// ledger watches what stands after each commit, and compares it with what has to hold.
type ledger struct {
	*world
	breaches []string
	held     map[int64]map[string]bool // why a wait might end, by its mark
	links    map[key]map[string]bool   // how what is waited for stood since it is waited for
	woken    map[int64]int             // waits that were ended by a step, by mark
	signals  map[string]int            // waits that a signal ended, by its row
	gone     map[id]counts             // children that were deleted: how they had ended
	spawned  map[[2]int64]int64        // the batch that an outcome spawned
}

func newLedger(w *world) *ledger {
	return &ledger{
		world: w, held: map[int64]map[string]bool{}, links: map[key]map[string]bool{},
		woken: map[int64]int{}, signals: map[string]int{}, gone: map[id]counts{},
		spawned: map[[2]int64]int64{},
	}
}

func (l *ledger) found() bool { return len(l.breaches) > 0 }

func (l *ledger) breach(format string, args ...any) {
	l.breaches = append(l.breaches, fmt.Sprintf(format, args...))
	l.did("BREACH "+format, args...)
}

// look is called after each commit.
func (l *ledger) look(t *tx) {
	now := l.present()
	before := &tx{database: l.database, sees: l.commits - 1}
	for _, k := range t.order {
		switch row := t.written[k].(type) {
		case stepRow:
			l.step(before, now, id(k.a), k.b, &row)
		case batchRow:
			l.batch(before, k.a, &row)
		case dependencyRow:
			if row.state == "" {
				l.links[k] = map[string]bool{}
			} else if !l.links[k][row.state] {
				l.breach("W8: task %d waits for %d, which is said to be %s and never was",
					k.b, k.a, row.state)
			}
		case spanRow:
			l.span(before, now, k, &row)
		case nil:
			if k.table == "task" {
				l.deleted(before, id(k.a))
			}
			if s, was := before.at(k, before.sees).(signalRow); was && s.until > l.now {
				l.breach("W6: signal %q is forgotten before its time", k.s)
			}
		}
	}
	l.waits(now)
	l.childCounts(now)
	l.marks(now)
}

// step looks at a new step.
func (l *ledger) step(before, now *tx, i id, seq int64, s *stepRow) {
	if seq > 0 {
		if _, ok := get[stepRow](now, stepKey(i, seq-1)); !ok {
			l.breach("task %d has a step at %d and none before", i, seq)
		}
	}
	l.counts["step: "+s.kind]++
	wait, waited := get[waitRow](before, waitKey(i))
	if live := waited && wait.seq == seq; !live && s.kind == "woken" {
		l.breach("W1: task %d is woken at %d, and waits for nothing there", i, seq)
		return
	}
	if s.kind != "woken" {
		if s.token != unasked && waited && wait.seq <= seq {
			l.breach("W8: task %d has an outcome at %d, and waits", i, seq)
		}
		if s.kind == "edited" && waited {
			l.counts["a task that waits was edited"]++
		}
		if f := before.fact(now.fact(i).batch.parent); s.kind == "cancelled" && f.over() {
			l.counts["a child of one that is over was cancelled"]++
		}
		if s.kind == "replayed" && now.fact(i).batch.parent != 0 {
			l.counts["a child was replayed"]++
		}
		if s.kind == "cancelled" && waited {
			l.counts["a task that waits was cancelled"]++
		}
		return
	}
	l.counts["woken: "+s.why]++
	if l.woken[s.mark]++; l.woken[s.mark] > 1 {
		l.breach("W1: a wait of task %d has ended twice", i)
	}
	if !l.held[s.mark][s.why] {
		l.breach("W2: task %d is woken by %s, which never held", i, s.why)
	}
	over := wait.until > 0 && wait.until <= l.now
	switch c := l.facts(before, i, wait.run); {
	case s.why == "children" && c.open() > 0:
		l.counts["the first child that died woke its parent"]++
	case s.why == "children" && c.total > 1:
		l.counts["the last of several children woke their parent"]++
	case s.why == "signal" && over:
		l.counts["a signal was before a time that was over"]++
	case s.why == "timeout" && len(l.waiting(before, wait.addr)) > 0:
		l.counts["a time that was over was before a signal"]++
	}
	if s.why != "signal" {
		return
	}
	if l.signals[s.by]++; l.signals[s.by] > 1 {
		l.breach("W6: signal %q has ended two waits", s.by)
	}
}

// batch looks at a new batch.
func (l *ledger) batch(before *tx, b int64, row *batchRow) {
	if row.parent == 0 {
		return
	}
	l.counts["children were submitted"]++
	if row.orphan {
		l.counts["children were to outlive their parent"]++
	}
	if _, over := get[stepRow](before, stepKey(row.parent, row.seq)); over {
		l.breach("W5: children of task %d come behind the outcome of their hand-out", row.parent)
	}
	if _, with := get[stepRow](l.present(), stepKey(row.parent, row.seq)); with {
		at := [2]int64{int64(row.parent), row.seq}
		if l.spawned[at] != 0 {
			l.breach("W5: task %d spawned twice at %d", row.parent, row.seq)
		}
		l.spawned[at] = b
		l.counts["an outcome spawned"]++
	}
}

// span looks at a span that is held anew: none of its tasks may wait, and none begin below a task
// that died, once its end was looked at.
func (l *ledger) span(before, now *tx, k key, s *spanRow) {
	if was, ok := get[spanRow](before, k); s.holder == 0 || ok && was.holder == s.holder {
		return
	}
	for i := s.lo; i <= s.hi; i++ {
		f := now.fact(i)
		if !f.found || f.over() || f.base != s.seq0 {
			continue
		}
		if w, waits := get[waitRow](now, waitKey(i)); waits && w.seq == f.seq+1 {
			l.breach("W8: task %d is handed out, and waits", i)
		}
		for _, x := range list(now, "dependency", func(k key, r dependencyRow) bool {
			return id(k.b) == i && (r.state == "" || r.fits == "done" && r.state != "done")
		}) {
			if !f.replayed {
				l.breach("W8: task %d is handed out before %d has ended as it should", i, x.a)
			}
		}
		p := now.fact(f.batch.parent)
		if f.batch.parent == 0 || f.begun || f.replayed || f.batch.orphan || !p.over() ||
			p.state() == "done" {
			continue
		}
		if len(list(now, "change", func(_ key, n changeRow) bool { return n.topic == p.id })) == 0 {
			l.breach("W7: task %d begins, its parent %d is %s", i, p.id, p.state())
		}
	}
}

// deleted notes how a task had ended that is deleted.
func (l *ledger) deleted(before *tx, i id) {
	l.counts["a task was deleted"]++
	f := before.fact(i)
	if !f.over() {
		l.breach("W9: task %d is deleted and was not over", i)
	}
	if f.batch.parent != 0 {
		l.gone[i] = one(f.state(), 1)
		p := l.present().fact(f.batch.parent)
		if p.found && !p.over() && p.run == f.batch.run {
			l.breach("W9: child %d is deleted before its parent is over", i)
		}
	}
	for _, x := range list(before, "dependency", func(k key, r dependencyRow) bool {
		return id(k.a) == i && r.state == ""
	}) {
		l.breach("W9: task %d is deleted before %d has learnt how it ended", i, x.b)
	}
}

// waits notes which conditions of waits hold.
func (l *ledger) waits(now *tx) {
	for _, r := range list(now, "dependency", func(key, dependencyRow) bool { return true }) {
		if f := now.fact(id(r.a)); f.over() && l.links[r.key] != nil {
			l.links[r.key][f.state()] = true
		}
	}
	for _, x := range list(now, "wait", func(_ key, x waitRow) bool { return true }) {
		h := l.held[x.row.mark]
		if h == nil {
			h = map[string]bool{}
			l.held[x.row.mark] = h
		}
		switch x.row.what {
		case "children":
			c := l.facts(now, id(x.a), x.row.run)
			h["children"] = h["children"] || c.open() == 0 || x.row.first && c.dead > 0
		case "signal":
			h["timeout"] = h["timeout"] || x.row.until > 0 // the clock is the looker's
			h["signal"] = h["signal"] || len(l.waiting(now, x.row.addr)) > 0
		case "after":
			fit := true
			for _, r := range list(now, "dependency", func(k key, _ dependencyRow) bool {
				return k.b == x.a
			}) {
				if r.row.state == "" {
					fit = fit && (l.links[r.key]["done"] ||
						r.row.fits == "ended" && len(l.links[r.key]) > 0)
				} else {
					fit = fit && (r.row.fits == "ended" || r.row.state == "done")
				}
			}
			h["after"] = h["after"] || fit
		}
	}
}

// waiting are the signals at an address that ended no wait.
func (l *ledger) waiting(now *tx, addr string) []found[signalRow] {
	return list(now, "signal", func(k key, s signalRow) bool {
		return s.mark == 0 && strings.HasPrefix(k.s, addr+" ")
	})
}

// facts are the counts of a task's children as their steps say.
func (l *ledger) facts(now *tx, i id, run int64) (c counts) {
	for _, b := range list(now, "batch", func(_ key, b batchRow) bool {
		return b.parent == i && b.run == run
	}) {
		for n := range int64(100) {
			child := id(b.a*100 + n)
			if how, gone := l.gone[child]; gone {
				c.add(how)
				c.total++
				continue
			}
			f := now.fact(child)
			if !f.found {
				break
			}
			c.total++
			if f.over() {
				c.add(one(f.state(), 1))
			}
		}
	}
	return c
}

// childCounts holds what is counted against the facts.
func (l *ledger) childCounts(now *tx) {
	seen := map[key]bool{}
	for _, b := range list(now, "batch", func(_ key, b batchRow) bool { return b.parent != 0 }) {
		i, run := b.row.parent, b.row.run
		if at := childCountKey(i, run); now.row(taskKey(i)) == nil || seen[at] {
			continue
		} else {
			seen[at] = true
		}
		sum, _ := get[counts](now, childCountKey(i, run))
		for _, n := range list(now, "change", func(_ key, n changeRow) bool {
			return n.addr == "" && n.topic == i && n.run == run && !n.ended && !n.tree
		}) {
			sum.add(n.row.counts)
		}
		if facts := l.facts(now, i, run); sum != facts {
			l.breach("W4: of the children of task %d %+v are counted, %+v stand", i, sum, facts)
		}
	}
}

// marks looks whether the rows that give the right to report tell of links.
func (l *ledger) marks(now *tx) {
	below := map[id]bool{}
	for _, b := range list(now, "batch", func(_ key, b batchRow) bool { return b.parent != 0 }) {
		below[b.row.parent] = true
	}
	for _, x := range list(now, "dependency", func(_ key, x dependencyRow) bool {
		return x.state == ""
	}) {
		below[id(x.a)] = true
	}
	for _, k := range list(now, "task", func(key, taskRow) bool { return true }) {
		f := now.fact(id(k.a))
		if f.over() {
			continue
		}
		linked := 0
		if f.batch.parent != 0 {
			linked = upwards
		}
		if below[f.id] {
			linked |= downwards
		}
		s, ok := now.owner(&f)
		if !ok {
			l.breach("task %d is not over, and has no span", f.id)
		}
		r, runs := get[runningRow](now, runningKey(f.id, f.seq+1))
		if s.row.linked&linked != linked || runs && r.linked&linked != linked {
			l.breach("W10: nothing tells that something hangs on task %d", f.id)
		}
	}
}

// last looks at how everything stands in the end.
func (l *ledger) last() {
	if l.found() {
		return
	}
	now := l.present()
	for _, k := range list(now, "task", func(key, taskRow) bool { return true }) {
		f := now.fact(id(k.a))
		if f.over() {
			continue
		}
		if w, waits := get[waitRow](now, waitKey(f.id)); waits && w.seq == f.seq+1 {
			l.breach("W3: task %d waits for ever: %+v", f.id, w)
		} else {
			l.breach("W11: task %d never ends", f.id)
		}
	}
	if !l.found() && !l.quiet() && l.steps >= 40_000 {
		l.breach("W11: nobody looks at a change")
	}
	for _, x := range list(now, "wait", func(key, waitRow) bool { return true }) {
		l.breach("W3: a wait of task %d is left behind: %+v", x.a, x.row)
	}
}
