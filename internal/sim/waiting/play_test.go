package waiting

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// now is how everything stands.
func (w *world) present() *tx { return &tx{database: w.database, sees: w.commits} }

// work is a hand-out in a worker's hands, and those of the same task that follow it at the same
// node. A judge reports one as lost that somebody else wrote down.
func (w *world) work(p *process, h handout, judge bool) {
	for {
		for range w.IntN(6) {
			p.pause(nil)
		}
		if !judge && p.node >= 0 && w.chance(40) {
			w.writeDown(p, &h)
		}
		r := w.draw(p, &h, judge)
		verdict := w.settle(p, &r)
		w.counts["a report was "+verdict]++
		for w.chance(20) {
			if again := w.settle(p, &r); again == "recorded" {
				w.counts["a report was recorded late"]++
			} else {
				w.counts["a report was "+again]++
			}
		}
		if w.chance(60) {
			w.lookSome(p)
		}
		if p.node < 0 {
			return
		}
		v := w.present()
		f := v.fact(h.id)
		s, ok := v.owner(&f)
		if !ok || s.row.holder != w.nodes[p.node].lease {
			return
		}
		h.seq, h.span, h.token, h.run, judge = f.seq+1, s.key.a, s.row.token, f.run, false
		if r, runs := get[runningRow](v, runningKey(h.id, h.seq)); runs {
			h.span, h.token, judge = r.span, r.token, true
		}
	}
}

// draw says what a worker does with a hand-out.
func (w *world) draw(p *process, h *handout, judge bool) report {
	w.ids++
	r := report{handout: *h, hash: w.ids, kind: "done"}
	may := !w.calm && h.depth < 2 && h.seq < 6
	for may && !judge && w.left > 0 && w.chance(15) {
		w.addChildren(p, h, w.drafts(h.depth+1, 1+w.IntN(2), false))
	}
	n := w.IntN(100)
	switch {
	case judge:
		r.kind = "lost"
		if h.seq > 6 {
			r.kind = "dead"
		}
	case n < 15:
		r.kind = "dead"
	case n < 38 || !may:
	case n < 65:
		r.kind, r.await, r.first = "next", "children", w.chance(25)
		r.spawn, r.orphan = w.drafts(h.depth+1, w.IntN(4), false), w.chance(15)
	case n < 80:
		r.kind, r.await, r.addr = "next", "signal", ownAddress(h.id)
		if w.chance(40) {
			r.addr = address
		}
		if w.chance(50) {
			r.until = w.now + int64(w.IntN(60))
		}
	case n < 88:
		r.spawn, r.orphan = w.drafts(h.depth+1, 1+w.IntN(2), false), w.chance(15)
	default:
		r.kind, r.moves = "retry", w.chance(50)
	}
	return r
}

const address = "paid"

// drafts are tasks to submit; some wait for others of the same submission.
func (w *world) drafts(depth, n int, needs bool) (list []draft) {
	free := n
	if needs && n > 1 {
		free = 1 + w.IntN(n)
	}
	for i := range min(n, w.left) {
		d := draft{depth: depth, fits: "done"}
		if w.chance(50) {
			d.fits = "ended"
		}
		if i >= free {
			for k := range i {
				if w.chance(60) {
					d.refs = append(d.refs, k)
				}
			}
			if len(d.refs) == 0 {
				d.refs = []int{i - 1}
			}
		}
		list = append(list, d)
	}
	w.left -= len(list)
	return list
}

// some is any task that stands, or one of those that are over, if there is one.
func (w *world) some(over bool) (i id, ok bool) {
	v := w.present()
	all := list(v, "task", func(k key, _ taskRow) bool {
		if !over {
			return true
		}
		f := v.fact(id(k.a))
		return f.over()
	})
	if len(all) == 0 {
		return 0, false
	}
	return id(all[w.IntN(len(all))].a), true
}

// lookSome looks at a topic that has changed, or at a wait whose time is over.
func (w *world) lookSome(p *process) {
	v := w.present()
	changes := list(v, "change", func(key, changeRow) bool { return true })
	due := list(v, "wait", func(_ key, x waitRow) bool { return x.until > 0 && x.until <= w.now })
	switch n := len(changes) + len(due); {
	case n == 0:
	default:
		k := w.IntN(n)
		if k >= len(changes) {
			w.lookDue(p, id(due[k-len(changes)].a))
		} else if a := changes[k].row.addr; a != "" {
			w.lookAt(p, a)
		} else {
			w.look(p, changes[k].row.topic)
		}
	}
}

// person does something that nobody expects.
func (w *world) person(p *process) {
	n := w.IntN(100)
	i, ok := w.some(n < 20)
	if !ok {
		return
	}
	switch {
	case n < 20:
		w.replay(p, i)
	case n < 35:
		w.cancel(p, i, w.chance(50))
	case n < 45:
		w.edit(p, i)
	case n < 60 && w.left > 0:
		d := w.drafts(1, 1, false)
		d[0].after = []need{{i, d[0].fits}}
		if other, _ := w.some(false); other != i && w.chance(50) {
			d[0].after = append(d[0].after, need{other, d[0].fits})
		}
		slices.SortFunc(d[0].after, func(a, b need) int { return int(a.on - b.on) })
		w.submit(p, d)
	case n < 80:
		name := fmt.Sprint(w.IntN(5))
		for range 1 + w.IntN(2) {
			w.signal(p, ownAddress(i), name, i)
		}
	default:
		name := fmt.Sprint(w.IntN(12))
		for range 1 + w.IntN(2) {
			w.signal(p, address, name, 0)
		}
	}
	if w.chance(50) {
		w.lookSome(p)
	}
}

// join lets a node's process begin.
func (w *world) join(n int) {
	w.starts++
	lease := w.starts
	w.nodes[n] = machine{lease}
	w.start("node", -1, func(p *process) {
		w.do(p, "joins", func(t *tx) bool {
			t.statement()
			t.put(leaseKey(lease), true)
			return true
		})
	})
}

// cut ends a node's membership; what it has in memory goes on.
func (w *world) cut(n int) {
	lease := w.nodes[n].lease
	w.start("judge of nodes", -1, func(p *process) {
		w.do(p, "ends a membership", func(t *tx) bool {
			t.statement()
			return t.remove(leaseKey(lease))
		})
	})
}

// kill ends a node's process wherever it is. Workers whose hand-outs are written down may go on.
func (w *world) kill(n int) {
	w.counts["a node was killed"]++
	w.did("node %d is killed", n)
	for _, p := range slices.Clone(w.processes) {
		switch {
		case p.node != n:
		case p.name == "worker" && p.tx == nil && w.chance(50):
			p.node = -1
		default:
			if p.tx != nil {
				w.counts["a transaction was cut off"]++
			}
			w.finish(p)
		}
	}
	w.cut(n)
	w.join(n)
}

// play lets a cluster do what a seed says.
func play(seed uint64, bug string, trace func(string)) *world {
	w := &world{
		database: newDatabase(), Rand: rand.New(rand.NewPCG(seed, 57)), bug: bug,
		left: 18, counts: map[string]int{}, trace: trace,
	}
	w.ledger = newLedger(w)
	w.serial = w.chance(15)
	for n := range nodes {
		w.join(n)
	}
	for length := 200 + w.IntN(800); w.steps < length && !w.ledger.found(); {
		w.trouble()
		w.step()
	}
	w.calm = true
	for n := range nodes {
		w.kill(n)
	}
	for w.steps < 40_000 && !w.ledger.found() && !w.quiet() {
		w.mend()
		w.step()
	}
	w.ledger.last()
	for len(w.processes) > 0 {
		w.finish(w.processes[0])
	}
	return w
}

const crowd = 14

// trouble begins things while a world is not calm.
func (w *world) trouble() {
	w.now += int64(w.IntN(2))
	if len(w.processes) > crowd {
		return
	}
	n := w.IntN(nodes)
	switch k := w.IntN(200); {
	case k < 5 && w.left > 0:
		w.start("submitter", -1, func(p *process) {
			w.submit(p, w.drafts(0, 1+w.IntN(3), w.chance(60)))
		})
	case k < 25:
		w.start("taker", n, w.take)
	case k < 33:
		w.start("looker", n, w.lookSome)
	case k < 37:
		w.start("freer", n, w.giveBack)
	case k < 43:
		w.start("person", -1, w.person)
	case k < 49:
		w.start("pruner", n, func(p *process) {
			if i, ok := w.some(true); ok {
				w.prune(p, i)
			}
		})
	case k < 50:
		w.kill(n)
	case k < 51:
		w.cut(n)
		w.counts["a node was cut off"]++
	}
}

// mend does what every node does in every beat, when nothing goes wrong any more.
func (w *world) mend() {
	w.now++
	if len(w.processes) > crowd {
		return
	}
	n := w.IntN(nodes)
	switch w.IntN(40) {
	case 0, 1, 2:
		w.start("taker", n, w.take)
	case 3, 4, 5:
		w.start("looker", n, w.lookSome)
	case 6:
		w.start("freer", n, w.giveBack)
	case 7:
		w.start("person", -1, func(p *process) {
			for _, x := range list(w.present(), "wait", func(_ key, x waitRow) bool {
				return x.addr != "" && x.until == 0
			}) {
				to := id(x.a)
				if x.row.addr == address {
					to = 0
				}
				w.ids++
				w.signal(p, x.row.addr, fmt.Sprint("late ", w.ids), to)
			}
		})
	}
}

// quiet tells whether everything is over, and nobody has to look at anything.
func (w *world) quiet() bool {
	if w.steps%16 != 0 || len(w.processes) > 0 {
		return false
	}
	v := w.present()
	if len(list(v, "change", func(key, changeRow) bool { return true })) > 0 {
		return false
	}
	return len(list(v, "task", func(k key, _ taskRow) bool {
		f := v.fact(id(k.a))
		return !f.over()
	})) == 0
}
