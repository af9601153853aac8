package caller

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// spot is where at most one replica of a job is.
type spot struct{ job, worker string }

// Mirror is what a reader knows of a group of jobs who reads on in its changes.
type Mirror struct {
	Version int64 // up to which it has read
	jobs    map[string]store.GroupJob
	places  map[spot]store.Assignment
}

// Read takes in what has changed.
func (m *Mirror) Read(c store.Changes) {
	if m.Version = c.Version; c.Whole || m.jobs == nil {
		m.jobs, m.places = map[string]store.GroupJob{}, map[spot]store.Assignment{}
	}
	for _, j := range c.Jobs {
		m.jobs[j.Name] = j
	}
	for _, a := range c.Assignments {
		m.places[spot{a.Job, a.Worker}] = a
	}
}

// Known is what is left when tombstones are left out, sorted.
func (m *Mirror) Known() (lines []string) {
	for _, j := range m.jobs {
		if !j.Gone {
			lines = append(lines, fmt.Sprintf("%+v", j))
		}
	}
	for _, a := range m.places {
		if a.State != store.Ended {
			lines = append(lines, fmt.Sprintf("%+v", a))
		}
	}
	slices.Sort(lines)
	return lines
}

// Places are the assignments, those that ended too, sorted by how they are printed.
func (m *Mirror) Places() []store.Assignment {
	return slices.SortedFunc(maps.Values(m.places), func(a, b store.Assignment) int {
		return CompareText(a, b)
	})
}
