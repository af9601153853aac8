package supervise

import (
	"cmp"
	"slices"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// verdict is what is thought of a run that a worker tells of.
type verdict int

const (
	goesOn  verdict = iota // it is to run
	ends                   // it is not
	unknown                // no row speaks of it: the store may have lost it
)

// judge holds a run against the cache of its group, whose lock is held: one that was not read yet
// speaks of no run. Of what is to go on, a is the row.
func (r *Sessions) judge(
	l *groupCache, worker string, run *task.Run,
) (v verdict, a *store.Assignment, number int64) {
	t, err := task.ParseJobToken(run.Token)
	if err != nil || l.gone {
		return ends, nil, 0
	}
	worth := r.seals.CheckJob(t, run.Group, run.Job, run.Replica, worker)
	switch a = l.find(worker, run.Job); {
	case worth == seal.Forged:
		return ends, nil, 0
	case worth == seal.Old && (a == nil || a.Token != t.Number || a.Replica != run.Replica):
		// it is good for what a row says, too
		return ends, nil, 0
	case a == nil || a.Token < t.Number:
		return unknown, nil, t.Number
	case a.Token == t.Number && lives(a.State):
		return goesOn, a, t.Number
	}
	return ends, nil, t.Number
}

// lives tells whether an assignment in this state is to run.
func lives(s task.JobState) bool { return s != store.Ended && s != task.JobEnding }

// groupsOf lists the groups that a beat speaks of, sorted.
func groupsOf(b *task.Beat) []string {
	if len(b.Jobs) == 0 && slices.IsSorted(b.Groups) {
		return b.Groups
	}
	list := slices.Clone(b.Groups)
	for i := range b.Jobs {
		if i == 0 || b.Jobs[i].Group != b.Jobs[i-1].Group {
			list = append(list, b.Jobs[i].Group)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// orders are what a worker is to do that said b. Nothing ends by ignorance: what no row speaks of
// goes on until the rounds have asked the store. The sessions's lock is held.
func (r *Sessions) orders(s *session, b *task.Beat) task.Orders {
	o := task.Orders{Reset: s.reset}
	runs := map[site]bool{} // those that go on
	for i := range b.Jobs {
		run := &b.Jobs[i]
		switch v := r.verdict(s.name, run); {
		case v == goesOn:
			runs[site{run.Group, run.Job}] = true
		case v == ends || s.refused[run.Token]:
			o.End = append(o.End, task.Run{
				Group: run.Group, Job: run.Job, Replica: run.Replica, Token: run.Token,
			})
		}
	}
	if o.Reset {
		runs, o.End = nil, nil
	}
	own := groupsOf(b) // a newer beat than b may name groups that b's caller may not see
	for _, group := range s.beat.Groups {
		if _, named := slices.BinarySearch(own, group); !named {
			continue
		}
		if l, _ := r.cache.known(group); l != nil {
			o.Add = r.appendMissing(o.Add, l, s.name, group, runs)
		}
	}
	for i := range o.Add {
		s.given = append(s.given, site{o.Add[i].Group, o.Add[i].Job})
	}
	s.reset = false
	return o
}

// verdict is what the cache says of a run.
func (r *Sessions) verdict(worker string, run *task.Run) verdict {
	l, exists := r.cache.known(run.Group)
	if l == nil {
		if exists {
			return goesOn
		}
		return ends
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	v, _, _ := r.judge(l, worker, run)
	return v
}

// appendMissing appends what a worker is to run of a group and does not.
func (r *Sessions) appendMissing(
	add []task.Assignment, l *groupCache, worker, group string, runs map[site]bool,
) []task.Assignment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	from := len(add)
	for job, a := range l.at[worker] {
		j := l.jobs[job]
		if !lives(a.State) || j == nil || runs[site{group, job}] {
			continue
		}
		t := r.seals.SealJob(task.JobToken{Number: a.Token}, group, job, a.Replica, worker)
		add = append(add, task.Assignment{
			Group: group, Job: job, Replica: a.Replica, Token: t, Load: a.Load, Spec: j.Spec,
		})
	}
	slices.SortFunc(add[from:], func(a, b task.Assignment) int { return cmp.Compare(a.Job, b.Job) })
	return add
}

// known is the cache of a group, nil when it was never read, and whether there is such a group.
func (b *ClusterCache) known(group string) (l *groupCache, exists bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	_, exists = b.groups[group]
	return b.loaded[group], exists
}
