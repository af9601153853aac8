package firing

import (
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// recent is how many of the newest due times a decision looks at one by one: those that may be
// fired, and those that have a row each. Due times are a second apart at least, so no more than a
// minute's worth are on time.
const recent = store.MaxRun + limits.MaxCatchUp + int(limits.OnTime/time.Second) + 1

// overdue are due times that have come and are not handled, oldest first.
type overdue struct {
	old    []int64 // the first and the last of those before the newest; none when there are none
	oldest int64   // how many they are, from the first to the last
	newest []int64
	then   int64 // the first due time that is not among them
}

// pass goes over the due times from next up to now, at most limit of them, which must be more than
// recent. When those are not all, what would be the newest is left for another time.
func (t *timetable) pass(next, now int64, limit int) overdue {
	var p overdue
	n := 0
	for ; next <= now && n < limit; n++ {
		if len(p.newest) == 2*recent {
			p.fold()
		}
		p.newest = append(p.newest, next)
		next = t.next(next)
	}
	p.fold()
	p.then = next
	if next <= now {
		p.then, p.newest = p.newest[0], nil
	}
	return p
}

// fold counts those that are not among the newest any more.
func (p *overdue) fold() {
	n := len(p.newest) - recent
	if n <= 0 {
		return
	}
	if p.oldest == 0 {
		p.old = []int64{p.newest[0], 0}
	}
	p.old[1] = p.newest[n-1]
	p.oldest += int64(n)
	p.newest = append(p.newest[:0], p.newest[n:]...)
}

// scheduleState is a schedule with all that a decision about it needs, as it was read.
type scheduleState struct {
	*store.Schedule
	times    *timetable
	open     []store.OpenFire // its fires of which something is to come, by At
	followed bool             // other schedules follow it
}

// decision is what is to be done about a schedule whose due times have come.
type decision struct {
	part   store.FirePart
	cancel []task.ID // before: what is to be replaced
}

// maxPass is how many due times one decision handles at most.
const maxPass = 100_000

// due decides about the due times up to now that are not handled: each gets a row, or shares one.
func (s *scheduleState) due(now int64) decision { return s.dueUpTo(now, maxPass) }

func (s *scheduleState) dueUpTo(now int64, limit int) decision {
	p := s.times.pass(s.Next, now, limit)
	punctual := 0 // of the newest
	for punctual < len(p.newest) &&
		lateness(p.newest[len(p.newest)-1-punctual], now) <= limits.OnTime {
		punctual++
	}
	fires := make([]store.Fire, 0, len(p.newest)+1)
	if p.oldest > 0 {
		f := s.passOver(p.old[1], now, recent, recent) // at least, and more than matter
		f.At, f.Through, f.Count = p.old[0], p.old[1], p.oldest
		fires = append(fires, f)
	}
	for i, at := range p.newest {
		newer := len(p.newest) - 1 - i
		fires = append(fires, s.passOver(at, now, newer, newer-punctual))
	}
	r := s.rule(fires)
	r.part.Next, r.part.Then, r.part.Fires = s.Next, p.then, s.share(r.part.Fires)
	return r
}

// rule says what becomes of those of the fires, oldest first, that have no outcome yet: they are to
// be fired if what stands before them allows it.
func (s *scheduleState) rule(fires []store.Fire) decision {
	r := decision{part: store.FirePart{
		Schedule: s.Name, Version: s.Version, Fires: fires, Most: int32(s.AtOnce()),
	}}
	q := s.queue()
	for i := range fires {
		if fires[i].Outcome == "" {
			q.admit(s, &fires[i])
		}
	}
	if s.Overlap == task.OverlapReplace {
		r.cancel = s.replace(fires)
	}
	for i := range fires {
		s.watch(&fires[i])
	}
	return r
}

// fire is the row of a due time, without an outcome yet.
func (s *scheduleState) fire(at int64, origin task.Origin) store.Fire {
	return store.Fire{Schedule: s.Name, At: at, Through: at, Count: 1, Origin: origin, Seq: -1}
}

func lateness(at, now int64) time.Duration { return time.Duration(now-at) * time.Microsecond }

// passOver says whether a due time is skipped or missed because of the time that it is; then its
// row has an outcome. There are so many newer ones to be handled, and so many of them are late.
func (s *scheduleState) passOver(at, now int64, newer, newerLate int) store.Fire {
	f := s.fire(at, task.OriginSchedule)
	late := lateness(at, now)
	missed := func(format string, args ...any) {
		f.Outcome = task.FireMissed
		f.Reason = fmt.Sprintf("%v late, ", late.Round(time.Second)) + fmt.Sprintf(format, args...)
	}
	switch {
	case s.Paused:
		f.Outcome, f.Reason = task.FireSkipped, "paused"
	case late <= limits.OnTime:
	case late > s.MisfireWindow:
		missed("more than %v", s.MisfireWindow)
	case s.Misfire == task.MisfireSkip:
		missed("and what is late is not fired")
	case s.Misfire == task.MisfireOnce && newer > 0:
		missed("and only the newest is fired")
	case s.Misfire == task.MisfireAll && newerLate >= limits.MaxCatchUp:
		missed("and only the newest %d are fired", limits.MaxCatchUp)
	}
	return f
}

// queue is what stands before a due time.
type queue struct {
	last    int64 // the newest due time whose task is not final
	running int
	queued  int
}

func (s *scheduleState) queue() queue {
	var q queue
	for i := range s.open {
		switch f := &s.open[i]; {
		case f.Outcome == task.FireQueued:
			q.queued++
			q.last = f.At
		case running(f):
			q.running++
			q.last = f.At
		}
	}
	return q
}

// running tells whether the task of an open fire is there and not final.
func running(f *store.OpenFire) bool { return f.Outcome == task.FireFired && f.Found && !f.Final }

// admit says what becomes of a due time that is to be fired, by what stands before it.
func (q *queue) admit(s *scheduleState, f *store.Fire) {
	full := q.running+q.queued >= s.AtOnce()
	switch {
	case s.Overlap == task.OverlapSkip && full:
		f.Outcome = task.FireSkipped
		f.Reason = q.text(s)
		return
	case s.Overlap == task.OverlapQueue && q.queued >= limits.MaxQueued:
		f.Outcome = task.FireSkipped
		f.Reason = fmt.Sprintf("%d due times wait for earlier tasks already", q.queued)
		return
	case s.Overlap == task.OverlapQueue && (full || q.queued > 0):
		f.Outcome = task.FireQueued
		f.Reason = "waits: " + q.text(s)
		if s.AtOnce() == 1 {
			f.Reason = fmt.Sprintf("waits for the task of %s", s.times.show(q.last))
		}
		f.Limit = int32(s.AtOnce())
		q.queued++
	default:
		f.Outcome = task.FireFired
		q.running++
	}
	q.last = f.At
}

// text says what keeps a due time from being fired.
func (q *queue) text(s *scheduleState) string {
	if n := s.AtOnce(); n > 1 {
		text := fmt.Sprintf("%d of at most %d tasks are not final", q.running, n)
		if q.queued > 0 {
			return text + fmt.Sprintf(", and %d due times wait, the last that of %s", q.queued,
				s.times.show(q.last))
		}
		return text + ", the last that of " + s.times.show(q.last)
	}
	return fmt.Sprintf("the task of %s is not final", s.times.show(q.last))
}

// replace lets only the newest of the due times be fired, as many as may run at once, and says
// which tasks are to be cancelled for them: the earliest.
func (s *scheduleState) replace(fires []store.Fire) (cancel []task.ID) {
	room := s.AtOnce()
	newest := -1
	due := map[int64]bool{}
	for i := len(fires) - 1; i >= 0; i-- {
		switch f := &fires[i]; {
		case f.Outcome != task.FireFired:
		case room > 0:
			room--
			newest = max(newest, i)
			due[f.At] = true
		default:
			f.Outcome = task.FireSkipped
			f.Reason = fmt.Sprintf("the task of %s takes its place", s.times.show(fires[newest].At))
		}
	}
	if newest < 0 {
		return nil
	}
	for i := len(s.open) - 1; i >= 0; i-- { // open is by At
		if o := &s.open[i]; running(o) && !s.ahead(o) && !due[o.At] {
			if room--; room < 0 {
				cancel = append(cancel, o.Task)
			}
		}
	}
	slices.Reverse(cancel)
	return cancel
}

// ahead tells whether a fire is of a due time that was not handled yet when the schedule was read:
// another node was faster, and what is decided here will be refused.
func (s *scheduleState) ahead(o *store.OpenFire) bool {
	return o.Origin == task.OriginSchedule && o.At >= s.Next
}

// share makes one row of the oldest in a run of more than store.MaxRun due times of which nothing
// came for one reason.
func (s *scheduleState) share(fires []store.Fire) []store.Fire {
	n := 0
	for n < len(fires) && fires[n].Outcome == fires[0].Outcome &&
		fires[0].Outcome != task.FireFired && fires[0].Outcome != task.FireQueued {
		n++
	}
	if shared := n - store.MaxRun; shared > 1 {
		first, last := &fires[0], &fires[shared-1]
		for i := range fires[1:shared] {
			first.Count += fires[1+i].Count
		}
		first.Through, first.Reason = last.Through, last.Reason
		fires = slices.Delete(fires, 1, shared)
	}
	if len(fires) > 0 && fires[0].Count > 1 && fires[0].Outcome == task.FireMissed {
		fires[0].Reason = "the last was " + fires[0].Reason
	}
	return fires
}

// watch marks the row if somebody wants to know what becomes of it.
func (s *scheduleState) watch(f *store.Fire) {
	switch f.Outcome {
	case task.FireFired, task.FireQueued:
		wanted := slices.ContainsFunc(s.Notices.On, func(n task.Notice) bool {
			return n != task.NoticeMissed
		})
		f.Watch = f.Limit > 0 || s.followed || s.Overlap != task.OverlapAllow || wanted ||
			s.OnDead == task.OnDeadStop
	default:
		f.Watch = wants(&s.Notices, task.NoticeMissed, f.Origin)
	}
}

// wants tells whether there is to be an event of a notice.
func wants(n *task.Notices, what task.Notice, origin task.Origin) bool {
	return slices.Contains(n.On, what) &&
		(len(n.Origins) == 0 || slices.Contains(n.Origins, origin))
}

// submission is the task of a fire, due at a time.
func (s *scheduleState) submission(due int64) task.Submission {
	return task.Submission{
		Queue: s.Queue, Stage: s.Stage, Context: s.Context, Priority: s.Priority,
		Due: time.UnixMicro(due), MaxAttempts: s.MaxAttempts, Timeout: s.Timeout,
		StartWithin: s.StartWithin, Meta: s.Meta,
	}
}
