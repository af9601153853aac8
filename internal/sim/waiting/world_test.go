package waiting

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
)

// wish is a lock that a transaction waits for.
type wish struct {
	t     *tx
	key   key
	alone bool
}

// process is a goroutine of some machine, which goes on when the world says so.
type process struct {
	name  string
	node  int // that it dies with; -1 = none
	yield func(*wish) bool
	next  func() (*wish, bool)
	stop  func()
	wish  *wish
	tx    *tx
}

var errKilled = errors.New("killed")

// pause lets others go on.
func (p *process) pause(w *wish) {
	if !p.yield(w) {
		panic(errKilled)
	}
}

// world is a cluster that one seed rules.
type world struct {
	*database
	*rand.Rand
	bug       string
	serial    bool // one writer: transactions do not overlap
	processes []*process
	nodes     [nodes]machine
	starts    int64 // of nodes, so far
	now       int64
	calm      bool // nothing goes wrong any more, and nothing new comes
	left      int  // tasks that may still be submitted
	ledger    *ledger
	counts    map[string]int
	trace     func(string)
	steps     int
	pick      func(n int) int // which of n processes goes on; nil = by luck
}

const nodes = 3

// machine is a node's process: the token of its membership.
type machine struct{ lease int64 }

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

func (w *world) did(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf(format, args...))
	}
}

// start begins a process.
func (w *world) start(name string, node int, run func(p *process)) {
	p := &process{name: name, node: node}
	p.next, p.stop = iter.Pull(func(yield func(*wish) bool) {
		p.yield = yield
		defer func() {
			if p.tx != nil {
				p.tx.end()
				p.tx = nil
			}
			if r := recover(); r != nil && r != errKilled {
				panic(r)
			}
		}()
		run(p)
	})
	w.processes = append(w.processes, p)
}

// goOn lets one process go on to its next statement.
func (w *world) goOn(p *process) {
	wish, more := p.next()
	p.wish = wish
	if !more {
		w.finish(p)
	}
}

func (w *world) finish(p *process) {
	p.stop()
	if i := slices.Index(w.processes, p); i >= 0 {
		w.processes = slices.Delete(w.processes, i, i+1)
	}
}

// step lets one thing happen; false: nothing can.
func (w *world) step() bool {
	w.steps++
	if w.serial {
		for _, p := range w.processes {
			if p.tx != nil {
				w.goOn(p)
				return true
			}
		}
	}
	var can []*process
	for _, p := range w.processes {
		if p.wish == nil || w.free(p.wish.t, p.wish.key, p.wish.alone) {
			can = append(can, p)
		}
	}
	if len(can) > 0 {
		n := 0
		if w.pick != nil {
			n = w.pick(len(can))
		} else {
			n = w.IntN(len(can))
		}
		w.goOn(can[n])
		return true
	}
	if len(w.processes) == 0 {
		return false
	}
	p := w.processes[w.IntN(len(w.processes))]
	w.ledger.breach("W12: all wait for each other: %s", w.stuck())
	w.finish(p)
	return true
}

// stuck says who waits for what, and who has it.
func (w *world) stuck() (text string) {
	for _, p := range w.processes {
		text += fmt.Sprintf("\n\t%s, which has %v, for %v", p.name, p.tx.held, p.wish.key)
	}
	return text
}

// do runs a transaction to its end; false: it was given up, nothing is changed.
func (w *world) do(p *process, name string, run func(t *tx) bool) bool {
	if w.serial {
		p.pause(nil) // whoever is in a transaction ends it first
	}
	t := &tx{database: w.database, by: p, written: map[key]any{}}
	p.tx = t
	ok := run(t)
	if ok {
		t.statement() // killed here, nothing stands
		before := w.commits
		t.commit()
		p.tx = nil
		if w.commits > before {
			if w.trace != nil {
				w.did("%s: %s %s", p.name, name, t.changes())
			}
			w.ledger.look(t)
			w.vacuum()
		}
	} else {
		t.end()
		p.tx = nil
	}
	p.pause(nil) // killed here, everything stands
	return ok
}

// vacuum forgets what nobody sees, now and then.
func (w *world) vacuum() {
	if w.commits%16 != 0 {
		return
	}
	from := w.commits
	for _, p := range w.processes {
		if p.tx != nil {
			from = min(from, p.tx.sees)
		}
	}
	w.database.vacuum(from)
}

func (t *tx) changes() (text string) {
	for _, k := range t.order {
		row := "-"
		if t.written[k] != nil {
			row = fmt.Sprintf("%+v", t.written[k])
		}
		text += fmt.Sprintf(" %s(%d %d %d %s)%s", k.table, k.a, k.b, k.c, k.s, row)
	}
	return text
}
