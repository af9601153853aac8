package rules

import (
	"cmp"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Fires is what one Fire call has found. A store loads it while it keeps other calls away from the
// same schedules, and loads it anew when it tries again: Decide changes it.
type Fires struct {
	Node      string                   // that fires
	Now       int64                    // by the store's clock
	Stands    map[int64]bool           // batches of the call that stood before it
	Schedules map[string]*FireSchedule // of the call's parts, by name; those that there are
}

// FireSchedule is one schedule of a Fire call: as it was loaded, then as the parts that are decided
// leave it. Besides the fields a store loads rows: those at due times that the call names, and
// those from Now on if it asks for a fire now ([FireSchedule.Row], [FireSchedule.Asked]).
type FireSchedule struct {
	ID       int64 // of its row: for the store alone
	Version  int64
	Next     int64 // the cursor
	Moved    bool  // a part has moved the cursor
	Followed bool  // another schedule follows it by now
	// Running is how many tasks of its open fires were not final before the call. It is needed only
	// if a part has Most. Parts of the call don't add to it: see store.FirePart.
	Running int64
	// Tail is the newest due time that has a row with parents; -1 = none has. It is needed only if
	// a part has Tail. Parts of the call move it.
	Tail int64

	rows  fireRows
	asked map[task.ID]int64
}

// Row adds a row that stands, in any order. The same one may come twice.
func (s *FireSchedule) Row(at int64, outcome task.FireOutcome) {
	s.rows.put(fireRow{at: at, outcome: outcome})
}

// Asked adds the row of a task whose fire is asked for now, and was before: the call is a
// repetition.
func (s *FireSchedule) Asked(id task.ID, at int64) {
	if s.asked == nil {
		s.asked = map[task.ID]int64{}
	}
	s.asked[id] = at
}

// Decide says what is done of each part, in their order: a part finds the rows and the cursors of
// the parts before it as if they were written. Of a part that is refused nothing remains.
func (f *Fires) Decide(parts []store.FirePart) []store.FiredPart {
	done := make([]store.FiredPart, len(parts))
	for i := range parts {
		done[i] = f.part(&parts[i])
	}
	return done
}

// part does a part as a whole, or refuses it.
func (f *Fires) part(p *store.FirePart) (done store.FiredPart) {
	s := f.Schedules[p.Schedule]
	if refused := f.refuses(s, p); refused != "" {
		return store.FiredPart{Refused: refused}
	}
	rows := slices.Grow(slices.Clone(s.rows), len(p.Fires))
	for i := range p.Fires {
		row, free := f.row(s, p, &p.Fires[i], rows)
		switch {
		case !free:
			done.Left = append(done.Left, row.At)
		case f.Stands[row.Task.Batch]: // the row is new, and others may have the task already
			return store.FiredPart{Refused: store.FireMoved}
		default:
			rows.put(fireRow{at: row.At, outcome: row.Outcome, part: p})
			done.Fires = append(done.Fires, row)
		}
	}
	if fired := int64(done.Fired()); p.Most > 0 && fired > 0 && s.Running+fired > int64(p.Most) {
		return store.FiredPart{Refused: store.FireMoved}
	}
	s.rows = rows
	for i := range done.Fires {
		if f := &done.Fires[i]; len(f.Parents) > 0 {
			s.Tail = max(s.Tail, f.At)
		}
	}
	if !leavesCursor(p) {
		s.Next, s.Moved = p.Then, true
	}
	return done
}

// refuses says why nothing of a part is done, before its fires are held against the rows; "" = it
// may be done. A part with a fire in the future is refused as early whatever else stands in it.
func (f *Fires) refuses(s *FireSchedule, p *store.FirePart) string {
	switch {
	case s == nil:
		return store.FireGone
	case s.Version != p.Version || !leavesCursor(p) && s.Next != p.Next,
		p.Tail != 0 && p.Tail != s.Tail:
		return store.FireMoved
	}
	for i := range p.Fires {
		if max(p.Fires[i].At, p.Fires[i].Through) > f.Now {
			return store.FireEarly
		}
	}
	return ""
}

// leavesCursor tells whether a part leaves its schedule's cursor alone.
func leavesCursor(p *store.FirePart) bool { return p.Next == 0 && p.Then == 0 }

// row makes a row of a fire that is asked for, and tells whether it may be written. rows are those
// that stand, and those that the part has written already. Of a row that is left, At is what
// counts.
func (f *Fires) row(
	s *FireSchedule, p *store.FirePart, asked *store.Fire, rows fireRows,
) (row store.Fire, free bool) {
	row = *asked
	row.Schedule, row.Node, row.Time = p.Schedule, f.Node, f.Now
	row.Ended, row.Seq, row.Tries = 0, -1, 0
	// Perhaps nobody followed the schedule when the part was made.
	row.Watch = row.Watch || s.Followed && row.HasTask()
	if row.At == 0 {
		if at, found := s.asked[row.Task]; found {
			row.At = at
			return row, false
		}
		row.At = rows.unused(f.Now)
	}
	if row.Run == (store.FireKey{}) {
		row.Run = store.FireKey{Schedule: p.Schedule, At: row.At}
	}
	row.Through = max(row.Through, row.At) // a list by time misses a row that ends before it begins
	row.Count = max(row.Count, 1)
	i, found := rows.find(row.At)
	return row, !found || p.Over && rows[i].part != p && rows[i].outcome != task.FireFired
}

// fireRows are the rows of one schedule that a call knows, by their due times, each of which comes
// once.
type fireRows []fireRow

// fireRow is what matters of a row.
type fireRow struct {
	at      int64
	outcome task.FireOutcome
	part    *store.FirePart // that wrote it; nil = it stood before the call
}

// find says where a due time stands, or would.
func (r fireRows) find(at int64) (i int, found bool) {
	return slices.BinarySearchFunc(r, at, func(row fireRow, at int64) int {
		return cmp.Compare(row.at, at)
	})
}

// put adds a row, or replaces the one at its due time.
func (r *fireRows) put(row fireRow) {
	i, found := r.find(row.at)
	if found {
		(*r)[i] = row
		return
	}
	*r = slices.Insert(*r, i, row)
}

// unused is the due time of a fire that is asked for now: the next microsecond without a row that
// is no whole millisecond, as the due times of schedules are.
func (r fireRows) unused(now int64) int64 {
	i, _ := r.find(now)
	for at := now; ; at++ {
		if i < len(r) && r[i].at == at {
			i++
		} else if at%1000 != 0 {
			return at
		}
	}
}

// Submission is what a Fire call submits: the tasks that its written rows name, in the spans that
// have such a task, and the new queues that have one. It changes nothing of what it is given, but
// may share it.
func Submission(f *store.Firing, done []store.FiredPart) store.Submission {
	rows := 0
	for i := range done {
		rows += len(done[i].Fires)
	}
	wanted := make(map[task.ID]bool, rows)
	for i := range done {
		for k := range done[i].Fires {
			wanted[done[i].Fires[k].Task] = true
		}
	}
	var sub store.Submission
	queues := map[string]bool{}
	for _, b := range f.Batches {
		unwanted := func(t store.Task) bool { return !wanted[task.ID{Batch: b.ID, N: t.N}] }
		if slices.ContainsFunc(b.Tasks, unwanted) {
			b.Tasks = slices.DeleteFunc(slices.Clone(b.Tasks), unwanted)
		}
		empty := func(span store.NewSpan) bool {
			rest := from(b.Tasks, span.Lo)
			return len(rest) == 0 || rest[0].N > span.Hi
		}
		b.Spans = slices.DeleteFunc(slices.Clone(b.Spans), empty)
		if len(b.Tasks) > 0 {
			sub.Batches = append(sub.Batches, b)
			queues[b.Queue] = true
		}
	}
	for _, name := range f.NewQueues {
		if queues[name] {
			sub.NewQueues = append(sub.NewQueues, name)
		}
	}
	return sub
}

// from is the tasks from number lo on. They ascend.
func from(tasks []store.Task, lo int32) []store.Task {
	i, _ := slices.BinarySearchFunc(tasks, lo, func(t store.Task, lo int32) int {
		return cmp.Compare(t.N, lo)
	})
	return tasks[i:]
}
