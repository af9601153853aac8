package firing

import (
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// related sorts schedules into groups: two are related if their due times come from the same
// schedule. What they fire for one run has one due time.
func (j *joiner) related(names []string) [][]string {
	return relate(names, j.known, map[string]map[string]bool{})
}

// relate is related; from are the schedules from which the due times of others come, as far as they
// were looked for.
func relate(
	names []string, known map[string]*store.Schedule, from map[string]map[string]bool,
) (groups [][]string) {
	var sources []map[string]bool // of each group
	for _, name := range names {
		group := []string{name}
		all := maps.Clone(source(name, known, from))
		for k := 0; k < len(groups); {
			if !meet(sources[k], all) {
				k++
				continue
			}
			group = append(groups[k], group...)
			maps.Copy(all, sources[k])
			groups = slices.Delete(groups, k, k+1)
			sources = slices.Delete(sources, k, k+1)
		}
		groups = append(groups, group)
		sources = append(sources, all)
	}
	return groups
}

// source are the schedules from which the due times of a schedule come: its own, if it follows none
// or joins what is not related; else those of the ones that it follows.
func source(
	name string, known map[string]*store.Schedule, from map[string]map[string]bool,
) map[string]bool {
	if all := from[name]; all != nil {
		return all
	}
	from[name] = map[string]bool{name: true}
	is := known[name]
	if is == nil || is.After == "" {
		return from[name]
	}
	parents := is.Parents()
	if len(parents) > 1 && is.AfterMode == task.AfterAll && len(relate(parents, known, from)) > 1 {
		return from[name]
	}
	all := map[string]bool{}
	for _, parent := range parents {
		maps.Copy(all, source(parent, known, from))
	}
	from[name] = all
	return all
}

// meet tells whether two sets have something in common.
func meet(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}
