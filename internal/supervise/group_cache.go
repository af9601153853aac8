package supervise

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
)

// kept is how long the end of an assignment is remembered: long enough for every penalty, and for a
// worker that was told late.
const kept = max(limits.MaxPenalty, store.EndedKept)

// groupCache is one group as its rows were read last. Rows are never changed once they are in: who
// has a pointer to one may read it without the lock.
type groupCache struct {
	reading chan struct{} // of size 1, full while somebody reads on; filled before mu is taken

	mu      sync.RWMutex
	group   store.Group
	gone    bool  // there is no such group any more
	version int64 // read up to here; 0 = not yet
	jobs    map[string]*store.GroupJob
	// by worker and job, those that have ended included
	at map[string]map[string]*store.Assignment
	// by job: those that have not ended, by replica and worker; a list never changes
	stand map[string][]*store.Assignment
	ended []*store.Assignment // tombstones, the oldest first
	// of the keys of jobs and stand, sorted; nil = to be sorted again
	names []string
}

func newGroupCache() *groupCache {
	return &groupCache{
		reading: make(chan struct{}, 1),
		jobs:    map[string]*store.GroupJob{}, at: map[string]map[string]*store.Assignment{},
		stand: map[string][]*store.Assignment{},
	}
}

// loaded tells whether what the cache does not know does not exist. The lock is held, here and
// below.
func (l *groupCache) loaded() bool { return l.version > 0 || l.gone }

// find is the newest assignment of a job on a worker, also when it has ended.
func (l *groupCache) find(worker, job string) *store.Assignment { return l.at[worker][job] }

// apply takes in what was read, and returns the workers whose assignments changed.
func (l *groupCache) apply(c store.Changes) (touched []string) {
	if c.Whole {
		for worker := range l.at {
			touched = append(touched, worker)
		}
		fresh := newGroupCache()
		l.jobs, l.at, l.stand, l.ended, l.names = fresh.jobs, fresh.at, fresh.stand, nil, nil
	}
	for i := range c.Jobs {
		l.applyJob(&c.Jobs[i])
	}
	for i := range c.Assignments {
		l.applyAssignment(&c.Assignments[i])
		touched = append(touched, c.Assignments[i].Worker)
	}
	if c.Whole {
		slices.SortFunc(l.ended, func(a, b *store.Assignment) int {
			return cmp.Compare(a.Since, b.Since)
		})
	}
	l.version = c.Version
	l.forget(c.Now - kept.Microseconds())
	slices.Sort(touched)
	return slices.Compact(touched)
}

func (l *groupCache) applyJob(j *store.GroupJob) {
	switch _, known := l.jobs[j.Name]; {
	case j.Gone:
		delete(l.jobs, j.Name)
		l.names = nil
		return
	case !known:
		l.names = nil
	}
	l.jobs[j.Name] = j
}

func (l *groupCache) applyAssignment(a *store.Assignment) {
	if j := l.jobs[a.Job]; j != nil {
		a.Job = j.Name // one copy of the name is enough
	}
	of := l.at[a.Worker]
	if of == nil {
		of = map[string]*store.Assignment{}
		l.at[a.Worker] = of
	}
	of[a.Job] = a
	stand := slices.DeleteFunc(slices.Clone(l.stand[a.Job]), func(old *store.Assignment) bool {
		return old.Worker == a.Worker
	})
	if a.State == store.Ended {
		l.ended = append(l.ended, a)
	} else {
		stand = append(stand, a)
		slices.SortFunc(stand, func(a, b *store.Assignment) int {
			return cmp.Or(cmp.Compare(a.Replica, b.Replica), strings.Compare(a.Worker, b.Worker))
		})
	}
	if (len(stand) > 0) != (len(l.stand[a.Job]) > 0) && l.jobs[a.Job] == nil {
		l.names = nil
	}
	if l.stand[a.Job] = stand; len(stand) == 0 {
		delete(l.stand, a.Job)
	}
}

// forget drops the tombstones of before a time.
func (l *groupCache) forget(before int64) {
	n := 0
	for ; n < len(l.ended) && l.ended[n].Since < before; n++ {
		a := l.ended[n]
		of := l.at[a.Worker]
		if of[a.Job] != a {
			continue
		}
		if delete(of, a.Job); len(of) == 0 {
			delete(l.at, a.Worker)
		}
	}
	l.ended = slices.Delete(l.ended, 0, n)
}

// sorted lists the names of the jobs, and of those that are gone while assignments of them stand.
// It needs the lock for writing.
func (l *groupCache) sorted() []string {
	if l.names == nil {
		l.names = slices.AppendSeq(make([]string, 0, len(l.jobs)), maps.Keys(l.jobs))
		for name := range l.stand {
			if l.jobs[name] == nil {
				l.names = append(l.names, name)
			}
		}
		slices.Sort(l.names)
	}
	return l.names
}

// errGroupGone: there is no such group any more.
var errGroupGone = errors.New("the group is gone")
