package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// InputError is everything that is wrong with an input, in order, up to twenty things and how many
// more there are.
type InputError struct {
	Problems []string
	More     int
}

func (e *InputError) Error() string {
	text := strings.Join(e.Problems, "; ")
	if e.More > 0 {
		text += fmt.Sprintf("; and %d more", e.More)
	}
	return text
}

func (e *InputError) add(format string, args ...any) {
	e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
}

// most is how many replicas there can be in all, so that an input cannot ask for more memory than
// there is.
const most = 50_000_000

// check refuses nonsense. What runs now is never nonsense: it is a fact, and what should not run is
// stopped.
func check(s State, p Policy) error {
	var wrong InputError
	if p.Replicas < 0 || p.Replicas > MaxReplicas {
		wrong.add("policy: %d replicas, not 0 to %d", p.Replicas, MaxReplicas)
	}
	checkJobs(s.Jobs, &wrong)
	checkWorkers(s.Workers, &wrong)
	if len(wrong.Problems) == 0 {
		all := 0
		for i := range s.Jobs {
			all += cmp.Or(s.Jobs[i].Replicas, p.Replicas, 1)
		}
		if all <= most {
			return nil
		}
		wrong.add("%d replicas in all, at most %d", all, most)
	}
	slices.Sort(wrong.Problems)
	if more := len(wrong.Problems) - 20; more > 0 {
		wrong.Problems, wrong.More = wrong.Problems[:20], more
	}
	return &wrong
}

func checkJobs(jobs []Job, wrong *InputError) {
	sorted := true
	for i := range jobs {
		j := &jobs[i]
		if j.Load < 0 || j.Load > MaxLoad {
			wrong.add("job %q: load %v, not 0 to %v", j.Name, j.Load, MaxLoad)
		}
		if j.Replicas < 0 || j.Replicas > MaxReplicas {
			wrong.add("job %q: %d replicas, not 0 to %d", j.Name, j.Replicas, MaxReplicas)
		}
		if j.Name == "" {
			wrong.add("a job without a name")
		}
		sorted = sorted && (i == 0 || jobs[i-1].Name < j.Name)
	}
	if sorted {
		return // no name comes twice
	}
	seen := make(map[string]bool, len(jobs))
	for i := range jobs {
		if name := jobs[i].Name; seen[name] && name != "" {
			wrong.add("job %q: listed twice", name)
		} else {
			seen[name] = true
		}
	}
}

func checkWorkers(workers []Worker, wrong *InputError) {
	seen := make(map[string]bool, len(workers))
	for i := range workers {
		w := &workers[i]
		switch {
		case w.Name == "":
			wrong.add("a worker without a name")
		case seen[w.Name]:
			wrong.add("worker %q: listed twice", w.Name)
		}
		seen[w.Name] = true
		if w.Most < 0 {
			wrong.add("worker %q: at most %d replicas, not 0 or more", w.Name, w.Most)
		}
		for _, amount := range []struct {
			of string
			Load
		}{
			{"capacity", w.Capacity}, {"used", w.Used}, {"passing", w.Passing}, {"shed", w.Shed},
		} {
			if amount.Load < 0 || amount.Load > MaxLoad {
				wrong.add("worker %q: %s %v, not 0 to %v", w.Name, amount.of, amount.Load, MaxLoad)
			}
		}
	}
}
