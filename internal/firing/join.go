package firing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A schedule that follows several others joins their fires to turns: docs/followers.md says which
// belong together, and why each turn is taken once.

// followSeveral fires schedules that follow several others, turn by turn. Those that they follow of
// which not all was done are added to undone.
func (f *followers) followSeveral(
	ctx context.Context, list []*store.Schedule, ended []*store.OpenFire,
	leaders map[string]*scheduleState, now int64, undone map[string]bool,
) error {
	if len(list) == 0 {
		return nil
	}
	j := joiner{
		followers: f, leaders: leaders, ended: ended, now: now,
		known: map[string]*store.Schedule{},
	}
	var wrong []error
	for _, s := range list {
		parents := s.Parents()
		if s.AfterMode == task.AfterAll {
			if _, err := f.reads.ancestors(ctx, parents, j.known); err != nil {
				wrong = append(wrong, err)
				for _, name := range parents {
					undone[name] = true
				}
				continue
			}
		}
		for _, o := range ended {
			if !slices.Contains(parents, o.Schedule) {
				continue
			}
			switch done, err := j.follow(ctx, s.Name, o); {
			case err != nil:
				wrong = append(wrong,
					fmt.Errorf("schedule %q after %q: %w", s.Name, o.Schedule, err))
				fallthrough
			case !done:
				undone[o.Schedule] = true
			}
		}
	}
	return errors.Join(wrong...)
}

// joiner joins fires to turns, in one look of the watcher.
type joiner struct {
	*followers
	leaders map[string]*scheduleState // of the fires that ended
	ended   []*store.OpenFire
	now     int64
	known   map[string]*store.Schedule // whom they follow, and whom those do
}

// turn is what a schedule that follows several others is to do at a due time.
type turn struct {
	at      int64
	run     store.FireKey
	parents []parent // that it takes
	tail    int64    // see store.FirePart
	over    bool     // a row stands, and is decided about again
}

// follow does what follows the end of a parent's task. done tells whether that is all of it: it is
// not if somebody changed or fired the schedule meanwhile.
func (j *joiner) follow(
	ctx context.Context, name string, o *store.OpenFire,
) (done bool, err error) {
	// anew for each turn: it counts what the turn before has fired
	s, err := j.reads.stateOf(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, errUnreadable):
		return true, nil
	case err != nil:
		return false, err
	case !slices.Contains(s.Parents(), o.Schedule):
		return true, nil
	}
	var t *turn
	if s.AfterMode == task.AfterAny {
		t, err = j.any(ctx, s, o)
	} else {
		t, err = j.all(ctx, s, o)
	}
	if err != nil || t == nil || !s.within(t.at) {
		return err == nil, err
	}
	var well, badly []store.Fire
	row, ok := s.follower(t.at, t.run, t.parents, j.leaders[o.Schedule].times.show)
	if ok {
		well = append(well, row)
	} else if !t.over {
		badly = append(badly, row)
	}
	return j.take(ctx, s, t, s.decided(well, badly))
}

// take writes a turn down.
func (j *joiner) take(
	ctx context.Context, s *scheduleState, t *turn, list []decision,
) (done bool, err error) {
	for _, d := range list {
		if err := j.writes.cancel(ctx, s, d.cancel); err != nil {
			return false, err
		}
		d.part.Tail = t.tail
		var v fireBatch
		v.add(s, d.part, s.dueAfter(j.ofTurn(t), j.now))
		got, err := j.writes.sendOrSkip(ctx, v)
		if err != nil {
			return false, err
		}
		if why := got[0].Refused; why != "" && why != store.FireGone {
			return false, nil
		}
	}
	return true, nil
}

// ofTurn are the fires that a turn takes, as far as this look has found them ended, as if they were
// of its due time.
func (j *joiner) ofTurn(t *turn) (list []*store.OpenFire) {
	for _, o := range j.ended {
		if slices.ContainsFunc(t.parents, func(p parent) bool {
			return p.Schedule == o.Schedule && p.At == o.At
		}) {
			is := *o
			is.At = t.at
			list = append(list, &is)
		}
	}
	return list
}

// any is the turn of a schedule that follows any of several: each due time of theirs is one. It is
// fired when the first of their tasks has ended as is asked for, and skipped when none has that is
// there.
func (j *joiner) any(ctx context.Context, s *scheduleState, o *store.OpenFire) (*turn, error) {
	p := parentOf(o)
	t := &turn{at: o.At, run: o.Run, parents: []parent{p}}
	if suits(s.AfterOn, p.kind) {
		return t, nil
	}
	for _, name := range s.Parents() {
		if name == o.Schedule {
			continue
		}
		other, err := j.at(ctx, name, o.At)
		if err != nil {
			return nil, err
		}
		if other != nil && !other.ended {
			return nil, nil // its end decides
		}
	}
	return t, nil
}

// all is the turn of a schedule that follows all of several, which a fire completes; nil = it
// completes none.
func (j *joiner) all(ctx context.Context, s *scheduleState, o *store.OpenFire) (*turn, error) {
	t, taken, err := j.taken(ctx, s, o)
	if taken || err != nil {
		return t, err
	}
	groups := j.related(s.Parents())
	mine := slices.IndexFunc(groups, func(g []string) bool {
		return slices.Contains(g, o.Schedule)
	})
	set, _, err := j.set(ctx, groups[mine], o.At)
	if err != nil || set == nil {
		return nil, err
	}
	t = &turn{run: o.Run}
	if len(groups) > 1 {
		var marks map[string]int64
		if t.tail, marks, err = j.marks(ctx, s); err != nil || o.At <= mark(groups[mine], marks) {
			return nil, err // a later one was taken before it
		}
		for i, group := range groups {
			if i == mine {
				continue
			}
			other, err := j.newest(ctx, group, o.At, mark(group, marks))
			if err != nil || other == nil {
				return nil, err
			}
			set = append(set, other...)
		}
	}
	for _, name := range s.Parents() {
		i := slices.IndexFunc(set, func(p parent) bool { return p.Schedule == name })
		t.parents = append(t.parents, set[i])
		if set[i].At > t.at {
			t.at, t.run = set[i].At, set[i].run
		}
	}
	// The newest row is the one that says what was taken, also if those that were followed then
	// were due later.
	if len(groups) > 1 && t.at <= t.tail {
		t.at = t.tail + 1
	}
	return t, nil
}

// taken finds the row that has taken a fire already. It is decided about again if it was not fired:
// a task of its parents was let begin again.
func (j *joiner) taken(
	ctx context.Context, s *scheduleState, o *store.OpenFire,
) (t *turn, taken bool, err error) {
	key := store.FireKey{Schedule: o.Schedule, At: o.At}
	var row *store.Fire
	err = j.rows(ctx, store.FireQuery{Schedule: s.Name, From: o.At}, func(f *store.Fire) bool {
		if slices.Contains(f.Parents, key) {
			row = f
		}
		return row == nil
	})
	if err != nil || row == nil {
		return nil, false, err
	}
	if row.HasTask() {
		return nil, true, nil
	}
	t = &turn{at: row.At, run: row.Run, over: true}
	for _, k := range row.Parents {
		p, err := j.at(ctx, k.Schedule, k.At)
		if err != nil || p == nil || !p.ended {
			return nil, true, err
		}
		t.parents = append(t.parents, *p)
	}
	return t, true, nil
}

// rowsPage is how many rows are read at a time.
const rowsPage = 200

// rows goes over rows of a schedule, as far as more says.
func (j *joiner) rows(
	ctx context.Context, q store.FireQuery, more func(*store.Fire) bool,
) error {
	q.Limit = rowsPage
	for {
		list, err := j.store.Fires(ctx, q)
		if err != nil {
			return fmt.Errorf("read fires of schedule %q: %w", q.Schedule, err)
		}
		for i := range list {
			if !more(&list[i]) {
				return nil
			}
		}
		if len(list) < rowsPage {
			return nil
		}
		q.After = list[len(list)-1].At
	}
}

// at is the fire of a schedule at a due time, nil = it has none with a task.
func (j *joiner) at(ctx context.Context, schedule string, at int64) (*parent, error) {
	for _, o := range j.ended { // they were looked at already
		if o.Schedule == schedule && o.At == at {
			p := parentOf(o)
			return &p, nil
		}
	}
	list, err := j.store.Fires(ctx, store.FireQuery{Schedule: schedule, From: at, To: at + 1})
	if err != nil {
		return nil, fmt.Errorf("read fires of schedule %q: %w", schedule, err)
	}
	for i := range list {
		if f := &list[i]; f.At == at && f.HasTask() {
			return j.stands(ctx, f)
		}
	}
	return nil, nil
}

// stands says how the task of a fire stands.
func (j *joiner) stands(ctx context.Context, f *store.Fire) (*parent, error) {
	p := &parent{
		FireKey: store.FireKey{Schedule: f.Schedule, At: f.At}, run: f.Run, task: f.Task,
		kind: f.Ended, ended: f.Ended != 0,
	}
	if p.ended || f.Outcome == task.FireQueued {
		return p, nil
	}
	stood, err := j.store.Stand(ctx, []task.ID{f.Task})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at the task %s: %w", f.Task, err)
	case !stood[0].Found:
		p.kind, p.ended = task.KindRemoved, true
	case stood[0].Final:
		p.kind, p.ended = stood[0].Kind, true
	}
	return p, nil
}

// set are the fires of related schedules at one due time, nil = not all of them are there and
// final. begun tells whether any of them is there.
func (j *joiner) set(
	ctx context.Context, group []string, at int64,
) (set []parent, begun bool, err error) {
	whole := true
	for _, name := range group {
		p, err := j.at(ctx, name, at)
		if err != nil {
			return nil, false, err
		}
		begun = begun || p != nil
		if whole = whole && p != nil && p.ended; whole {
			set = append(set, *p)
		}
	}
	if !whole {
		return nil, begun, nil
	}
	return set, begun, nil
}

// newest are the fires of related schedules that a turn takes to which others of a due time belong:
// those of the same due time, if they have any; else the newest that no turn has taken. nil = they
// are not there yet, or not final.
func (j *joiner) newest(
	ctx context.Context, group []string, at, mark int64,
) (set []parent, err error) {
	if at > mark {
		set, begun, err := j.set(ctx, group, at)
		if begun || err != nil {
			return set, err
		}
	}
	looked := 0
	q := store.FireQuery{Schedule: group[0], From: mark + 1, Newest: true}
	var bad error
	err = j.rows(ctx, q, func(f *store.Fire) bool {
		if f.At > mark && f.HasTask() {
			looked++
			set, _, bad = j.set(ctx, group, f.At)
		}
		return set == nil && bad == nil && looked < maxSets
	})
	return set, cmp.Or(err, bad)
}

// maxSets is among how many fires of a parent the newest is looked for that has ended.
const maxSets = 100

// marks says up to which due times a schedule has taken the fires of those that it follows: what
// its newest turn took; of one that had no part in that, when it came to be followed. tail is the
// due time of that turn, -1 = there was none.
func (j *joiner) marks(
	ctx context.Context, s *scheduleState,
) (tail int64, marks map[string]int64, err error) {
	tail, marks = -1, map[string]int64{}
	q := store.FireQuery{Schedule: s.Name, Newest: true}
	err = j.rows(ctx, q, func(f *store.Fire) bool {
		if len(f.Parents) == 0 {
			return true
		}
		tail = f.At
		for _, k := range f.Parents {
			marks[k.Schedule] = k.At
		}
		return false
	})
	if err != nil {
		return 0, nil, err
	}
	var eras []store.Schedule
	for _, name := range s.Parents() {
		if _, known := marks[name]; known {
			continue
		}
		if eras == nil {
			if eras, err = j.store.Eras(ctx, s.Name, 0); err != nil {
				return 0, nil, fmt.Errorf("read what it was: %w", err)
			}
		}
		for i := len(eras) - 1; i >= 0 && eras[i].AfterMode == task.AfterAll &&
			slices.Contains(eras[i].Parents(), name); i-- {
			marks[name] = eras[i].Since
		}
	}
	return tail, marks, nil
}

// mark is up to which due time a turn has taken the fires of related schedules.
func mark(group []string, marks map[string]int64) int64 {
	newest := int64(0)
	for _, name := range group {
		newest = max(newest, marks[name])
	}
	return newest
}
