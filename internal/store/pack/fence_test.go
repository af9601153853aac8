package pack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The protocol by which a database with many writers keeps two outcomes of one first hand-out from
// standing in a mark and as a step, statement by statement. Every order of the statements is tried,
// and every transaction may be rolled back before any of them.
//
//	mark   lock the pack alone, or become a step if that can't be had at once; look for a step;
//	       add the bit, unless it is set; commit
//	step   share the lock of the pack; look at the bit; insert the step, unless one stands; commit
//	user   a step whose transaction a stranger commits, or not, when he likes
//
// What a statement sees is what was committed when it began (READ COMMITTED). A lock ends with its
// transaction. A row that another transaction has written is waited for.

// rule is one that can be left out, to see that it is needed.
type rule string

const (
	lockAlone  rule = "who writes a mark locks the pack"
	lockShared rule = "who writes a step shares the lock"
	lookSteps  rule = "who writes a mark looks for a step"
	lookMark   rule = "who writes a step looks at the mark"
	later      rule = "what is looked at is looked at after the lock is had"
	clearOnly  rule = "a bit is only set if it is clear"
	noWait     rule = "who can't have the lock alone goes on without it"
)

// writer is a transaction: what it is, and its next statement.
type writer struct {
	kind  string // "mark", "step", "user"
	at    int    // 0 lock, 1 look, 2 write, 3 commit, 4 over
	lock  string // "", "alone", "shared"
	wrote string // "", "bit", "step"
	found bool   // it saw an outcome, and will not write
	began bool   // what its first statement sees is settled
}

// world is everything that stands, and who is at what.
type world struct {
	bit, steps int // committed outcomes in the mark, and as steps
	writers    [3]writer
}

type model struct {
	without rule
	world
}

func (m *model) rule(r rule) bool { return m.without != r }

// blocked tells whether a writer other than i has a lock that a wish can't stand beside.
func (m *model) blocked(i int, wish string) bool {
	for k, w := range m.writers {
		if k != i && w.lock != "" && (wish == "alone" || w.lock == "alone") {
			return true
		}
	}
	return false
}

// writes tells whether a writer other than i has written a row of a kind that is not committed.
func (m *model) writes(i int, what string) bool {
	for k, w := range m.writers {
		if k != i && w.wrote == what {
			return true
		}
	}
	return false
}

// step lets writer i do its next statement; false: it has to wait, or is over.
func (m *model) step(i int) bool {
	w := &m.writers[i]
	switch w.at {
	case 0:
		if !w.began && !m.rule(later) {
			m.look(w)
			w.began = true
			return true
		}
		return m.lock(i, w)
	case 1:
		if m.rule(later) {
			m.look(w)
		}
		w.at = 2
	case 2:
		return m.write(i, w)
	case 3:
		switch w.wrote {
		case "bit":
			m.bit++
		case "step":
			m.steps++
		}
		*w = writer{kind: w.kind, at: 4}
	default:
		return false
	}
	return true
}

func (m *model) lock(i int, w *writer) bool {
	wish := "shared"
	need := m.rule(lockShared)
	if w.kind == "mark" {
		wish, need = "alone", m.rule(lockAlone)
	}
	switch {
	case !need:
	case !m.blocked(i, wish):
		w.lock = wish
	case wish == "alone" && m.rule(noWait):
		w.kind = "step"
		return true // its next statement is that of a step
	default:
		return false
	}
	w.at = 1
	return true
}

func (m *model) look(w *writer) {
	if w.kind == "mark" {
		w.found = w.found || m.rule(lookSteps) && m.steps > 0
	} else {
		w.found = w.found || m.rule(lookMark) && m.bit > 0
	}
}

func (m *model) write(i int, w *writer) bool {
	what, stands := "step", m.steps > 0
	if w.kind == "mark" {
		what, stands = "bit", m.rule(clearOnly) && m.bit > 0
	}
	if !w.found && m.writes(i, what) {
		return false // who wrote it may still roll back
	}
	if !w.found && !stands {
		w.wrote = what
	}
	w.at = 3
	return true
}

// search tries everything from here on and answers the shortest way to something wrong, or nil.
func search(from model) []string {
	type node struct {
		model
		way []string
	}
	seen := map[world]bool{from.world: true}
	for queue := []node{{model: from}}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		if n.bit+n.steps > 1 {
			return append(n.way, fmt.Sprintf("%d in the mark, %d steps", n.bit, n.steps))
		}
		if stuck := n.stuck(); stuck != "" {
			return append(n.way, stuck)
		}
		for i := range n.writers {
			for _, act := range []string{"goes on", "rolls back"} {
				next := n.model
				w := &next.writers[i]
				if act == "rolls back" && w.at < 4 {
					*w = writer{kind: w.kind, at: 4}
				} else if act == "rolls back" || !next.step(i) {
					continue
				}
				if !seen[next.world] {
					seen[next.world] = true
					way := append(slices.Clone(n.way), fmt.Sprintf("%s %d %s to %+v",
						n.writers[i].kind, i, act, *w))
					queue = append(queue, node{next, way})
				}
			}
		}
	}
	return nil
}

// stuck tells whether writers wait for ever while a stranger keeps his transaction open, though
// they have nothing to do with his task. A step waits for him: it is about his task.
func (m *model) stuck() string {
	can := *m
	for moved := true; moved; {
		moved = false
		for i, w := range can.writers {
			if w.kind != "user" && can.step(i) {
				moved = true
			}
		}
	}
	for i, w := range can.writers {
		if w.kind == "mark" && w.at < 4 {
			return fmt.Sprintf("mark %d waits for a transaction that a stranger has open", i)
		}
	}
	return ""
}

func TestOneFirstOutcomeStandsWhateverTheOrder(t *testing.T) {
	var kinds [][3]writer
	for _, list := range []string{
		"mark mark mark", "mark mark step", "mark mark user", "mark step step", "mark step user",
		"mark user user", "step step user",
	} {
		var three [3]writer
		for i, kind := range strings.Fields(list) {
			three[i].kind = kind
		}
		kinds = append(kinds, three)
	}
	for _, three := range kinds {
		if way := search(model{world: world{writers: three}}); way != nil {
			t.Errorf("%v:\n\t%s", three, strings.Join(way, "\n\t"))
		}
	}
	for _, out := range []rule{
		lockAlone, lockShared, lookSteps, lookMark, later, clearOnly, noWait,
	} {
		found := false
		for _, three := range kinds {
			found = found || search(model{out, world{writers: three}}) != nil
		}
		if !found {
			t.Errorf("without %q nothing goes wrong: it is not needed, or not modelled", out)
		}
	}
}
