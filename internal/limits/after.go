package limits

import (
	"fmt"
	"strings"

	"github.com/rotahq/rota/task"
)

// Limits of what tasks wait for (task.Submission.After).
const (
	MaxAfter    = 1_000   // others that one task waits for
	MaxAllAfter = 100_000 // that all tasks of a call wait for, counted for each of them
	MaxPriors   = 1 << 20 // bytes of contexts and results of others in one hand-out
)

// Other is a task that one of a call waits for.
type Other struct {
	Place int     // of one of the same call; -1 = it is none of them
	ID    task.ID // of one that is none of them
}

// checkOthers says what is wrong with what a submission says of others, by itself.
func checkOthers(s *task.Submission, wrong func(field, format string, args ...any)) {
	if s.Ref != "" {
		if _, err := task.ParseID(s.Ref); err == nil {
			wrong("ref", "reads as the id of a task, %s: give it another name", s.Ref)
		} else if !ValidText(s.Ref, MaxKey) {
			wrong("ref", "must be at most %d bytes of printable UTF-8", MaxKey)
		}
	}
	switch s.If {
	case "", task.IfDone, task.IfEnded:
		if s.If != "" && len(s.After) == 0 {
			wrong("if", "says how others have to end: name them in after")
		}
	default:
		wrong("if", "must be done or ended")
	}
	switch {
	case len(s.After) == 0:
	case len(s.After) > MaxAfter:
		wrong("after", "%d tasks are too many: at most %d. Let some of them be waited for by a "+
			"task in between", len(s.After), MaxAfter)
	case s.StartWithin != 0:
		wrong("start_within", "nobody knows when a task begins that waits for others: leave "+
			"start_within or after out")
	case s.Unique != nil:
		wrong("unique", "a task that waits for others has no unique key: leave unique or after "+
			"out, or give a key")
	}
}

// Others finds out for whom each task of a call waits; nil where none waits for another. It adds to
// e what is wrong with that, under the location of the list: refs that stand twice, or that nobody
// has, and circles.
func Others(tasks []task.Submission, e *task.InvalidError, location string) [][]Other {
	refs, all := map[string]int{}, 0
	for i := range tasks {
		all += len(tasks[i].After)
		ref := tasks[i].Ref
		if ref == "" {
			continue
		}
		if first, twice := refs[ref]; twice {
			e.Add(fmt.Sprintf("%s[%d].ref", location, i), "%q is that of task %d already: give "+
				"each task of a call its own", cut(ref), first)
			continue
		}
		refs[ref] = i
	}
	switch {
	case all == 0:
		return nil
	case all > MaxAllAfter:
		e.Add(location, "wait for %d others in all, which is too many: at most %d in one call. "+
			"Let a task in between wait for many, and many for it", all, MaxAllAfter)
		return nil
	}
	checkOwnKeys(tasks, e, location)
	others := make([][]Other, len(tasks))
	for i := range tasks {
		if others[i] = othersOf(tasks, i, refs, e, location); len(e.Fields) > maxFaults {
			return nil
		}
	}
	if len(e.Fields) == 0 {
		if ring := circle(others); ring != nil {
			e.Add(fmt.Sprintf("%s[%d].after", location, ring[0]), "%s: so none of them would "+
				"ever begin", ringText(tasks, ring))
		}
	}
	return others
}

// checkOwnKeys refuses a task that waits for others and has the key of another one in its queue:
// one of the two would not be submitted, and who waited for that one would wait for itself.
func checkOwnKeys(tasks []task.Submission, e *task.InvalidError, location string) {
	type key struct{ queue, key string }
	first := map[key]int{}
	for i := range tasks {
		t := &tasks[i]
		k := key{t.Queue, t.Key}
		if t.Key == "" {
			continue
		}
		at, twice := first[k]
		if !twice {
			first[k] = i
		} else if len(t.After)+len(tasks[at].After) > 0 && len(e.Fields) <= maxFaults {
			e.Add(fmt.Sprintf("%s[%d].key", location, i), "%q is that of task %d in this queue, and "+
				"one of the two waits for others: give each its own", cut(t.Key), at)
		}
	}
}

// maxFaults are about so many faults of a call as an answer tells.
const maxFaults = 100

// othersOf finds out for whom one task waits.
func othersOf(
	tasks []task.Submission, i int, refs map[string]int, e *task.InvalidError, location string,
) []Other {
	after := tasks[i].After
	if len(after) == 0 {
		return nil
	}
	list := make([]Other, 0, len(after))
	seen := make(map[string]int, len(after))
	for k, name := range after {
		wrong := func(format string, args ...any) {
			e.Add(fmt.Sprintf("%s[%d].after[%d]", location, i, k), format, args...)
		}
		if first, twice := seen[name]; twice {
			wrong("%q stands there twice, at %d and %d", cut(name), first, k)
			continue
		}
		seen[name] = k
		if place, ok := refs[name]; ok {
			if place == i {
				wrong("%q is this task itself", cut(name))
			}
			list = append(list, Other{Place: place})
			continue
		}
		id, err := task.ParseID(name)
		if err != nil {
			wrong("%q is neither the ref of a task in this call nor the id of one", cut(name))
		}
		list = append(list, Other{Place: -1, ID: id})
	}
	return list
}

// circle finds tasks of which each waits for the next, and the last for the first; nil = there are
// none.
func circle(others [][]Other) (ring []int) {
	open := make([]int, len(others))      // others of the call that are not known to end
	waiting := make([][]int, len(others)) // who waits for a task
	ends := make([]int, 0, len(others))   // known to end
	for i := range others {
		for _, o := range others[i] {
			if o.Place >= 0 {
				open[i]++
				waiting[o.Place] = append(waiting[o.Place], i)
			}
		}
		if open[i] == 0 {
			ends = append(ends, i)
		}
	}
	for k := 0; k < len(ends); k++ {
		for _, who := range waiting[ends[k]] {
			if open[who]--; open[who] == 0 {
				ends = append(ends, who)
			}
		}
	}
	at := 0
	for at < len(open) && open[at] == 0 {
		at++
	}
	if at == len(open) {
		return nil
	}
	// whoever is left waits for one that is left
	seen := map[int]int{}
	for {
		if from, ok := seen[at]; ok {
			return ring[from:]
		}
		seen[at] = len(ring)
		ring = append(ring, at)
		for _, o := range others[at] {
			if o.Place >= 0 && open[o.Place] > 0 {
				at = o.Place
				break
			}
		}
	}
}

// shownRing are so many tasks of a circle as its fault names.
const shownRing = 10

// ringText names the tasks of a circle by their refs.
func ringText(tasks []task.Submission, ring []int) string {
	var b strings.Builder
	for k, i := range ring {
		if k == shownRing {
			fmt.Fprintf(&b, ", and %d more", len(ring)-k)
			break
		}
		next := ring[(k+1)%len(ring)]
		if k == 0 {
			fmt.Fprintf(&b, "%q waits for %q", cut(tasks[i].Ref), cut(tasks[next].Ref))
		} else {
			fmt.Fprintf(&b, ", %q for %q", cut(tasks[i].Ref), cut(tasks[next].Ref))
		}
	}
	return b.String()
}
