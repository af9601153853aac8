package walk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// jobWalk is what a walk knows of jobs, from the answers alone. It has luck of its own.
type jobWalk struct {
	luck    *rand.Rand
	claims  map[string][]store.Lease  // of the groups, also those that are over
	mirrors map[string]*caller.Mirror // what somebody knows who reads on now and then
	seats   int64                     // version of all that this one knows
}

func newJobWalk(seed uint64) jobWalk {
	return jobWalk{
		luck: rand.New(rand.NewPCG(seed, 2)), claims: map[string][]store.Lease{},
		mirrors: map[string]*caller.Mirror{},
	}
}

var (
	walkGroups  = []string{"g0", "g1"}
	walkJobs    = []string{"j0", "j1", "j2", "j3"}
	walkWorkers = []string{"w0", "w1", "w2"}
)

// any picks one of a list.
func (j *jobWalk) any(list []string) string { return list[j.luck.IntN(len(list))] }

// jobs does one thing about jobs.
func (w *walk) jobs() {
	j := &w.job
	group := j.any(walkGroups)
	switch p := j.luck.IntN(100); {
	case p < 5:
		w.putGroup(group)
	case p < 14:
		w.changeJobs(group)
	case p < 34:
		w.seat()
	case p < 62:
		if j.luck.IntN(3) > 0 {
			w.claimGroup(group)
		}
		w.readOn(group)
		w.assign(group)
	case p < 82:
		if j.luck.IntN(2) == 0 {
			w.readOn(group)
		}
		w.observe(group)
	case p < 92:
		w.readOn(group)
	case p < 94:
		worker := j.any(walkWorkers)
		w.note("delete seat %s -> %s", worker, w.told(w.DeleteSeat(w.ctx, worker)))
	case p < 95:
		force := j.luck.IntN(2) == 0
		w.note("delete group %s force %v -> %s", group, force,
			w.told(w.DeleteGroup(w.ctx, group, force)))
	case p < 97:
		refresh, rebalance := j.luck.IntN(2) == 0, j.luck.IntN(2) == 0
		w.note("ask group %s %v %v -> %s", group, refresh, rebalance,
			w.told(w.AskGroup(w.ctx, group, refresh, rebalance)))
	default:
		w.jobLog(group)
	}
}

// openJobs begins with groups that have jobs, and workers.
func (w *walk) openJobs() {
	for _, group := range walkGroups {
		w.putGroup(group)
		w.changeJobs(group)
		w.changeJobs(group)
	}
	w.seat()
}

// closeJobs lets everything that is over go.
func (w *walk) closeJobs() {
	w.clock.Advance(store.SeatsKept)
	w.prune()
	w.auditJobs()
}

func (w *walk) putGroup(name string) {
	replicas, kind := 1+w.job.luck.IntN(3), task.SourceAPI
	if w.job.luck.IntN(8) == 0 {
		kind = task.SourceFile
	}
	refuse := len(w.lines)%8 == 0
	changed, err := w.ChangeGroup(w.ctx, name, func(g *task.Group, _ bool) error {
		g.Replicas, g.Source.Kind = replicas, kind
		g.Policy.Moves++ // goes on from what stands
		if refuse {
			return store.ErrConflict
		}
		return nil
	})
	w.note("change group %s to %d -> created %v moves %d %s", name, replicas, changed.Created,
		changed.Is.Policy.Moves, w.told(err))
}

func (w *walk) claimGroup(name string) {
	l, err := w.Acquire(w.ctx, "group/"+name, w.job.any([]string{"a", "a", "b"}), time.Minute, nil)
	w.seeLease(l)
	if err == nil {
		w.job.claims[name] = append(w.job.claims[name], l)
	}
	w.note("claim group %s for %q -> until %d %s", name, l.Holder, l.Until-w.start, w.told(err))
}

// load is zero, one or two units.
func (j *jobWalk) load() task.Units { return task.Units(j.luck.IntN(3)) * task.Unit }

func (w *walk) changeJobs(group string) {
	j := &w.job
	c := store.JobChange{Group: group, Whole: j.luck.IntN(4) == 0}
	for _, name := range walkJobs {
		switch j.luck.IntN(4) {
		case 0, 1:
			c.Put = append(c.Put, task.Job{
				Name: name, Load: j.load(),
				Spec: [][]byte{nil, []byte(` {"a":"☃"}`)}[j.luck.IntN(2)],
			})
		case 2:
			c.Remove = append(c.Remove, name)
		}
	}
	if j.luck.IntN(3) == 0 {
		c.Claim = j.claim(group)
		c.Read = &store.SourceRead{Time: w.clock.Micros(), Hash: fmt.Sprint(len(w.lines))}
	}
	got, err := w.ChangeJobs(w.ctx, c)
	w.note("change jobs of %s: whole %v put %s remove %v claim %v -> %+v %s", group, c.Whole,
		told(c.Put), c.Remove, c.Read != nil, got, w.told(err))
}

// told tells of values in an order of their own.
func told[T any](list []T) string {
	lines := make([]string, len(list))
	for i, v := range list {
		lines[i] = fmt.Sprintf("%+v", v)
	}
	slices.Sort(lines)
	return "[" + strings.Join(lines, " ") + "]"
}

// seat lets workers beat at a node, or says that they do not any more.
func (w *walk) seat() {
	j := &w.job
	n := w.nodes[max(j.luck.IntN(len(w.nodes)+2)-2, 0)] // mostly at the first
	r := store.SeatRequest{Holder: n.Holder, Overlap: time.Duration(j.luck.IntN(2)) * time.Second}
	for _, worker := range walkWorkers {
		incarnation := fmt.Sprint(len(w.lines) / (200 + j.luck.IntN(100)))
		s := store.Seat{
			Worker: worker, Incarnation: incarnation,
			Capacity: task.Units(2+j.luck.IntN(4)) * task.Unit,
		}
		switch j.luck.IntN(8) {
		default:
			s.Groups, s.Draining = walkGroups, j.luck.IntN(9) == 0
			s.Silence = time.Duration(j.luck.IntN(20)/19) * time.Minute
			r.Taken = append(r.Taken, s)
		case 0:
			s.State = []store.SeatState{store.SeatSilent, store.SeatLeft}[j.luck.IntN(2)]
			r.Away = append(r.Away, s)
		}
	}
	got, err := w.Seat(w.ctx, r)
	slices.Sort(got.Superseded)
	w.note("seats at %s: %d taken %d away -> gone %v version %d superseded %v %s",
		n.name, len(r.Taken), len(r.Away), got.LeaseGone, got.Version, got.Superseded, w.told(err))
}

// claim picks a claim on a group, mostly the newest.
func (j *jobWalk) claim(group string) store.Lease {
	list := j.claims[group]
	if len(list) == 0 {
		return store.Lease{Name: "group/none"}
	}
	return list[max(len(list)-1-max(j.luck.IntN(8)-6, 0), 0)]
}

// site picks an assignment that somebody knows, and sometimes another.
func (j *jobWalk) site(group string) store.Assignment {
	if m := j.mirrors[group]; m != nil {
		if known := m.Places(); len(known) > 0 && j.luck.IntN(6) > 0 {
			return known[j.luck.IntN(len(known))]
		}
	}
	return store.Assignment{
		Group: group, Job: j.any(walkJobs), Worker: j.any(walkWorkers),
		Token: int64(j.luck.IntN(40)), Replica: j.luck.IntN(3),
	}
}

func (w *walk) assign(group string) {
	j := &w.job
	a := store.Assign{Group: group, Claim: j.claim(group)}
	for range 1 + j.luck.IntN(4) {
		at := j.site(group)
		p := store.Place{Job: at.Job, Replica: at.Replica, Worker: at.Worker, Token: at.Token}
		switch j.luck.IntN(8) {
		case 0:
			a.Drop = append(a.Drop, p)
		case 1:
			a.End = append(a.End, p)
		case 2, 3:
			p.From, p.Worker, p.Load = p.Worker, j.any(walkWorkers), at.Load
			a.Move = append(a.Move, p)
		default:
			p.Replica, p.Worker, p.Load = j.luck.IntN(3), j.any(walkWorkers), j.load()
			a.Start = append(a.Start, p)
		}
	}
	got, err := w.Assign(w.ctx, a)
	var refused []store.Place
	for _, r := range got.Refused {
		refused = append(refused, r.Place)
	}
	w.note("assign in %s: drop %+v end %+v move %+v start %+v -> gone %v version %d refused %s %s",
		group, a.Drop, a.End, a.Move, a.Start, got.ClaimGone, got.Version, told(refused),
		w.told(err))
}

func (w *walk) observe(group string) {
	j := &w.job
	n := w.nodes[max(j.luck.IntN(len(w.nodes)+2)-2, 0)]
	o := store.Observed{Holder: n.Holder}
	states := []task.JobState{
		task.JobStarting, task.JobRunning, task.JobRunning, task.JobFailed, store.Ended,
	}
	for range 1 + j.luck.IntN(3) {
		at := j.site(group)
		seen := store.Observation{
			Group: group, Job: at.Job, Replica: at.Replica, Worker: at.Worker, Token: at.Token,
			Note: "n",
		}
		seen.State = states[j.luck.IntN(len(states))]
		if j.luck.IntN(4) == 0 {
			seen.Token, seen.Load = at.Token+int64(j.luck.IntN(3)), j.load()
			o.Adopt = append(o.Adopt, seen)
		} else {
			seen.Anew = j.luck.IntN(6) == 0
			seen.Quiet = seen.State == task.JobFailed && j.luck.IntN(2) == 0
			o.States = append(o.States, seen)
		}
	}
	got, err := w.Observe(w.ctx, o)
	w.note("observe at %s: %+v adopt %+v -> gone %v refused %s %s", n.name, o.States, o.Adopt,
		got.LeaseGone, told(got.Refused), w.told(err))
}

// readOn reads on in a group's changes.
func (w *walk) readOn(group string) {
	j := &w.job
	m := j.mirrors[group]
	if m == nil {
		m = &caller.Mirror{}
		j.mirrors[group] = m
	}
	c, err := w.Changes(w.ctx, group, m.Version)
	for i := range c.Assignments {
		c.Assignments[i].Since -= w.start
		c.Assignments[i].Failed = max(c.Assignments[i].Failed-w.start, -1)
	}
	w.note("changes of %s after %d -> whole %v version %d jobs %s assignments %s %s",
		group, m.Version, c.Whole, c.Version, told(c.Jobs), told(c.Assignments), w.told(err))
	if err == nil {
		m.Read(c)
	}
}

func (w *walk) jobLog(group string) {
	j := &w.job
	name := j.any(walkJobs)
	err := w.AppendJobLog(w.ctx, group, name, caller.LogLines(w.clock.Now(), len(w.lines), 2, 9))
	page, err2 := w.JobLog(w.ctx, group, name, 0, 3)
	w.note("log of %s in %s -> %s, %d lines %v next %d %s", name, group, w.told(err),
		len(page.Lines), page.Lines, page.Next, w.told(err2))
}

// auditJobs tells all that can be read, and watches RELIABILITY's I5: no two replicas of a job on
// one worker, and never more load than is said to be in use. That a reader who reads on now and
// then knows what one knows who reads everything, it watches too.
func (w *walk) auditJobs() {
	j := &w.job
	b, err := w.Board(w.ctx, j.seats)
	w.note("board after %d -> %d seats version %d %s", j.seats, len(b.Seats.Seats), b.Seats.Version,
		w.told(err))
	if b, err = w.Board(w.ctx, 0); err != nil {
		w.breach("board: %v", err)
		return
	}
	j.seats = b.Seats.Version
	used := map[string]task.Units{}
	for _, g := range b.Groups {
		w.note("group %s of %d: version %d jobs %d refresh %d rebalance %d read %q",
			g.Name, g.Replicas, g.Version, g.Jobs, g.Refresh, g.Rebalance, g.Read.Hash)
		w.readOn(g.Name)
		whole, err := w.Changes(w.ctx, g.Name, 0)
		if err != nil {
			w.breach("changes: %v", err)
			return
		}
		w.note("everything of %s: %d jobs, %d assignments", g.Name, len(whole.Jobs),
			len(whole.Assignments))
		for i := range whole.Assignments {
			a := &whole.Assignments[i]
			if a.Since, a.Failed = a.Since-w.start,
				max(a.Failed-w.start, -1); a.State != store.Ended {
				used[a.Worker] += a.Load
			}
		}
		m := &caller.Mirror{}
		if m.Read(whole); len(m.Places()) < len(whole.Assignments) {
			w.breach("I5: a worker has two replicas of a job of %s", g.Name)
		}
		w.watchReplicas(g.Name, whole.Assignments)
		if know, is := told(j.mirrors[g.Name].Known()), told(m.Known()); know != is {
			w.breach("a reader of %s knows %s, there is %s", g.Name, know, is)
		}
	}
	for _, s := range b.Seats.Seats {
		w.note("seat %s at %q %s since %d joined %d capacity %d used %d before %v draining %v "+
			"silence %v overlap %d", s.Worker, s.Node.Node, s.State, s.Since-w.start,
			s.Joined-w.start, s.Capacity, s.Used, s.Before, s.Draining, s.Silence,
			max(s.Overlap-w.start, -1))
		if s.Used != used[s.Worker] {
			w.breach("I5: %d of worker %s is in use, it is said to be %d", used[s.Worker], s.Worker,
				s.Used)
		}
	}
}

// watchReplicas watches that each replica has one worker at most at which it goes on, and that what
// moves has a successor.
func (w *walk) watchReplicas(group string, list []store.Assignment) {
	owners := map[string]string{}
	slices.SortFunc(list, func(a, b store.Assignment) int { return caller.CompareText(a, b) })
	for _, a := range list {
		replica := fmt.Sprintf("%s/%s/%d", group, a.Job, a.Replica)
		if takesRoom(a.State) {
			if other := owners[replica]; other != "" {
				w.breach("replica %s goes on at %s and at %s", replica, other, a.Worker)
			}
			owners[replica] = a.Worker
		}
	}
	for _, a := range list {
		if a.State == task.JobMoving &&
			owners[fmt.Sprintf("%s/%s/%d", group, a.Job, a.Replica)] == "" {
			w.breach("job %s moves from %s to nowhere", a.Job, a.Worker)
		}
	}
}

// takesRoom tells whether what is in that state has a worker that is to keep it.
func takesRoom(s task.JobState) bool {
	return s == task.JobStarting || s == task.JobRunning || s == task.JobFailed
}
