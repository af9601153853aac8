package firing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// followers fire the schedules that follow others.
type followers struct {
	*core
	reads  *reads
	writes *writes
}

// follow fires what follows fires whose tasks are final. late are those of their schedules of which
// not all was done: it is to be done again.
func (f *followers) follow(
	ctx context.Context, ended []*store.OpenFire, leaders map[string]*scheduleState, now int64,
) (late map[string]bool, err error) {
	late = map[string]bool{}
	for _, o := range ended {
		late[o.Schedule] = true
	}
	followers, err := f.reads.followers(ctx, slices.Sorted(maps.Keys(late)))
	if err != nil {
		return late, err
	}
	byName := map[string]*store.Schedule{}
	for _, list := range followers {
		for _, s := range list {
			byName[s.Name] = s
		}
	}
	var single, joining []*store.Schedule
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if s := byName[name]; len(s.Parents()) > 1 {
			joining = append(joining, s)
		} else {
			single = append(single, s)
		}
	}
	undone, wrong := f.followOne(ctx, single, ended, leaders, now)
	if undone == nil {
		return late, wrong
	}
	return undone, errors.Join(wrong, f.followSeveral(ctx, joining, ended, leaders, now, undone))
}

// followOne fires schedules that follow one other. undone are those that they follow of which not
// all was done; nil = nobody knows.
func (f *followers) followOne(
	ctx context.Context, list []*store.Schedule, ended []*store.OpenFire,
	leaders map[string]*scheduleState, now int64,
) (undone map[string]bool, err error) {
	undone = map[string]bool{}
	states, err := f.reads.states(ctx, list)
	if err != nil {
		return nil, err
	}
	var v fireBatch
	var wrong []error
	leaderOf := map[string]string{}
	for i := range states {
		s := &states[i]
		leaderOf[s.Name] = s.After
		for _, r := range s.after(ended, leaders[s.After].times) {
			if err := f.writes.cancel(ctx, s, r.cancel); err != nil {
				undone[s.After] = true
				wrong = append(wrong, err)
				continue
			}
			v.add(s, r.part, s.dueAfter(ended, now))
		}
	}
	done, err := f.writes.sendAll(ctx, v)
	if err != nil {
		return nil, errors.Join(append(wrong, err)...)
	}
	for i, part := range done {
		if part.Refused != "" && part.Refused != store.FireGone {
			// the follower was changed meanwhile
			undone[leaderOf[v.parts[i].Schedule]] = true
		}
	}
	return undone, errors.Join(wrong...)
}

// after decides about the due times of the schedule that s follows, whose tasks are final: what
// ended as s asks for is fired, also if it did not the first time.
func (s *scheduleState) after(ended []*store.OpenFire, leader *timetable) (list []decision) {
	var well, badly []store.Fire
	for _, o := range ended {
		if o.Schedule != s.After || !s.within(o.At) {
			continue
		}
		p := parentOf(o)
		if f, ok := s.follower(o.At, o.Run, []parent{p}, leader.show); ok {
			well = append(well, f)
		} else {
			badly = append(badly, f)
		}
	}
	return s.decided(well, badly)
}

// decided are the decisions about due times that suit and about those that don't.
func (s *scheduleState) decided(well, badly []store.Fire) (list []decision) {
	byTime := func(a, b store.Fire) int { return cmp.Compare(a.At, b.At) }
	slices.SortFunc(well, byTime)
	slices.SortFunc(badly, byTime)
	if len(well) > 0 {
		r := s.rule(well)
		r.part.Over = true
		list = append(list, r)
	}
	if len(badly) > 0 {
		list = append(list, s.rule(badly))
	}
	return list
}

// within tells whether a due time lies between starts and ends.
func (s *scheduleState) within(at int64) bool {
	return at >= s.times.starts && at <= s.times.ends
}

// parent is a fire of a schedule that another one follows, and how its task stands.
type parent struct {
	store.FireKey
	run    store.FireKey
	task   task.ID // zero = there is none
	kind   task.Kind
	ended  bool
	reason string // of a dead one: the error of its last step, as far as it is known
}

// parentOf is the parent that an open fire is whose task is final, or gone.
func parentOf(o *store.OpenFire) parent {
	p := parent{
		FireKey: store.FireKey{Schedule: o.Schedule, At: o.At}, run: o.Run, task: o.Task,
		kind: o.Kind, ended: true, reason: o.Error,
	}
	if !o.Found {
		p.kind = task.KindRemoved
	}
	return p
}

// follower is the row of a schedule that follows fires whose tasks are final, and tells whether
// they ended as it asks for. It has no outcome if it is to be fired. show writes the due times of
// a parent.
func (s *scheduleState) follower(
	at int64, run store.FireKey, parents []parent, show func(at int64) string,
) (f store.Fire, well bool) {
	f = s.fire(at, task.OriginAfter)
	f.Run = run
	for _, p := range parents {
		f.Parents = append(f.Parents, p.FireKey)
		if f.Outcome == "" && !suits(s.AfterOn, p.kind) {
			f.Outcome = task.FireSkipped
			f.Reason = fmt.Sprintf("the task of schedule %s for %s %s", p.Schedule, show(p.At),
				p.fate())
		}
	}
	if well = f.Outcome == ""; well && s.Paused {
		f.Outcome, f.Reason = task.FireSkipped, "paused"
	}
	return f, well
}

// suits tells whether a final task ended as is asked for. A removed one is there no more, and was
// neither done nor dead.
func suits(on task.AfterOn, kind task.Kind) bool {
	switch on {
	case task.AfterFailed:
		return failed(kind)
	case task.AfterEnded:
		return true
	}
	return kind == task.KindDone
}

// failed tells whether a final task ended without being done though nobody asked for that: it is
// dead, or it expired.
func failed(kind task.Kind) bool {
	state := kind.Leaves()
	return kind != task.KindRemoved && (state == task.Dead || state == task.Expired)
}

// fate says what became of a task.
func (p *parent) fate() string {
	switch {
	case p.kind == task.KindDone:
		return "is done"
	case p.kind == task.KindRemoved:
		return "was removed"
	case p.kind == task.KindCancelled:
		return "was cancelled"
	case p.kind == task.KindExpired:
		return "has expired: " + p.reason
	case p.reason == "":
		return "is dead: " + p.kind.String()
	}
	return "is dead: " + strings.ToValidUTF8(p.reason[:min(len(p.reason), 200)], "")
}

// dueAfter says when the task of a due time is due that follows tasks that ended: so long after the
// last of them as the schedule says, and not before now.
func (s *scheduleState) dueAfter(ended []*store.OpenFire, now int64) func(at int64) int64 {
	finished := map[int64]int64{}
	parents := s.Parents()
	for _, o := range ended {
		if slices.Contains(parents, o.Schedule) {
			finished[o.At] = max(finished[o.At], o.Finished)
		}
	}
	return func(at int64) int64 {
		due := max(now, finished[at]+s.AfterDelay.Microseconds())
		return due + s.times.jitter(&s.Schedule.Schedule, at)
	}
}

// delayed says when the tasks of rows are due that waited for earlier ones: at once, but for what
// is left of the delay after those that they follow.
func (s *scheduleState) delayed(rows []store.Fire, now int64) func(at int64) int64 {
	due := map[int64]int64{}
	for i := range rows {
		if f := &rows[i]; f.Origin == task.OriginAfter {
			due[f.At] = f.Time + s.AfterDelay.Microseconds()
		}
	}
	return func(at int64) int64 { return max(now, due[at]) }
}
