// Package listing walks the tasks of a store for a list, newest first, one page at a time. It is
// pure, and the same for every store.
//
// No filter may make a page slow, however many tasks the store has and however few of them the
// filter selects. So a page does a bounded amount of work, and answers what it found and where to
// go on. Each page gets further, also one that finds nothing; following the pages to their end
// lists every task that the filter selects exactly once.
//
// The work is counted in rows. A row that is only passed over costs one; one whose task's newest
// step and batch are compared with the filter costs [Compare]; a task that is read whole costs
// [Look].
package listing

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What rows cost that are more than passed over, as measured on both stores.
const (
	Compare = 5
	Look    = 20
)

// Examined is how many rows a page examines, besides the tasks that it lists.
const Examined = 10_000

// Top is where all walks begin.
var Top = task.ID{Batch: math.MaxInt64, N: math.MaxInt32}

// CreatedWithin is how long before the time in its batch's id a task may have been created; it is
// never created after that time. See store.Batch.
const CreatedWithin = store.CreatedWithin

// From is where the walk of a filter begins: below what is asked for, and below what is too new for
// the filter.
func From(f store.Filter, after task.ID) task.ID {
	at := Top
	if after != (task.ID{}) {
		at = after
	}
	if f.Until > 0 && f.Until < math.MaxInt64>>store.NodeBits-2*CreatedWithin.Microseconds() {
		if top := (task.ID{Batch: store.BatchID(f.Until+CreatedWithin.Microseconds(),
			0)}); top.Compare(at) < 0 {
			return top
		}
	}
	return at
}

// Bottom is the least batch whose tasks are not too old for the filter.
func Bottom(f store.Filter) int64 {
	return store.BatchID(min(max(f.Since, 0), math.MaxInt64>>store.NodeBits), 0)
}

// Candidates are what a reader found in a piece of a table.
type Candidates struct {
	IDs   []task.ID // that the filter may select, newest first
	Floor task.ID   // down to here everything was passed over, this one included
	Cost  int
	End   bool // nothing is below Floor
}

// Reader reads one store's tables for one page.
type Reader interface {
	// Candidates passes over tasks, newest first, from the first one below a place on; about size
	// rows, at least one. Floor is below that place, unless it is the end.
	Candidates(ctx context.Context, below task.ID, size int) (Candidates, error)
	// Views reads tasks. Those that the filter does not select have no ID.
	Views(ctx context.Context, ids []task.ID) ([]task.View, error)
}

// most is how many rows are read at once: no more than the page lacks at first, as a filter that
// selects much needs no more, then more each time.
const most = 1000

// Walk makes a page of at most limit tasks below a place, for which it examines so many rows
// besides those that it lists: a filter that selects everything makes no page short, and a page
// that may be long searches no further than a short one. next is where to go on, zero at the end.
func Walk(
	ctx context.Context, r Reader, from task.ID, limit, examined int,
) (page []task.View, next task.ID, err error) {
	const listed = Compare + Look
	at, budget := from, examined+listed
	for size := min(limit+1, most); ; size = min(10*size, most) {
		c, err := r.Candidates(ctx, at, size)
		if err != nil {
			return nil, task.ID{}, err
		}
		budget -= c.Cost
		for len(c.IDs) > 0 {
			if len(page) == limit || budget <= 0 && at != from {
				return page, at, nil
			}
			n := min(len(c.IDs), limit-len(page), max(budget/Look, 1))
			views, err := r.Views(ctx, c.IDs[:n])
			if err != nil {
				return nil, task.ID{}, err
			}
			for i := range views {
				if views[i].ID != (task.ID{}) {
					page = append(page, views[i])
					budget += listed
				}
			}
			budget -= n * Look
			at = c.IDs[n-1]
			c.IDs = c.IDs[n:]
		}
		if c.End {
			return page, task.ID{}, nil
		}
		at = c.Floor
		if budget <= 0 {
			// a full page goes on while it may: perhaps nothing is left, and it is the last
			return page, at, nil
		}
	}
}

// Merge is what several tables have between them: it goes no further down than the least far of
// them. live are hand-outs that only memory knows, below the place where the reading began.
func Merge(live []task.ID, parts ...Candidates) Candidates {
	m := Candidates{End: true}
	for _, p := range parts {
		m.Cost += p.Cost
		if !p.End {
			m.End = false
			m.Floor = slices.MaxFunc([]task.ID{m.Floor, p.Floor}, task.ID.Compare)
		}
		m.IDs = append(m.IDs, p.IDs...)
	}
	m.IDs = append(m.IDs, live...)
	m.IDs = slices.DeleteFunc(m.IDs, func(id task.ID) bool { return id.Compare(m.Floor) < 0 })
	slices.SortFunc(m.IDs, func(a, b task.ID) int { return b.Compare(a) })
	m.IDs = slices.Compact(m.IDs)
	return m
}

// Live lists the hand-outs in a filter's memory that are below a place, and a worker's if there is
// one in the filter.
func Live(f store.Filter, below task.ID) (ids []task.ID) {
	for id, l := range f.Live {
		if id.Compare(below) < 0 && cmp.Or(f.Worker, l.Worker) == l.Worker {
			ids = append(ids, id)
		}
	}
	return ids
}

// Selects tells whether a filter selects a task by what its view shows.
func Selects(f *store.Filter, v *task.View) bool {
	created := v.Created.UnixMicro()
	return (f.Reach == nil || f.Reach(v.Queue)) &&
		cmp.Or(f.Queue, v.Queue) == v.Queue && cmp.Or(f.State, v.State) == v.State &&
		cmp.Or(f.Stage, v.Stage) == v.Stage &&
		cmp.Or(f.Worker, v.Worker) == v.Worker && cmp.Or(f.Key, v.Key) == v.Key &&
		(f.Meta == "" || store.MetaOf(v.Meta).Has(f.Meta)) &&
		created >= f.Since && (f.Until == 0 || created < f.Until) &&
		(f.Error == nil || v.Error != "" && f.Error.MatchString(v.Error))
}

// FinalKind is the kind by which tasks of a state ended that have an index of their own: cancelled
// or expired; 0 = dead, of any other kind.
func FinalKind(s task.State) task.Kind {
	switch s {
	case task.Cancelled:
		return task.KindCancelled
	case task.Expired:
		return task.KindExpired
	}
	return 0
}

// Class is what of a task's newest step is compared with a filter, beside its stage.
type Class int

// The classes.
const (
	Any  Class = iota
	Done       // it is final, and done
	Open       // it is not final
)

// ClassOf is the class of the tasks that a filter selects. Dead and cancelled ones have an index of
// their own.
func ClassOf(f store.Filter) Class {
	switch f.State {
	case task.Done:
		return Done
	case task.Blocked, task.Waiting, task.Ready:
		return Open
	}
	return Any
}

// Compares tells whether anything but the place of a task in its table is compared with the filter
// before it is looked at.
func Compares(f store.Filter) bool {
	return f.Queue != "" || f.Stage != "" || f.Meta != "" || f.Worker != "" || f.Since != 0 ||
		f.Until != 0 || ClassOf(f) != Any
}

// Stretch is a run of one batch's tasks, both ends included.
type Stretch struct {
	Batch  int64
	Lo, Hi int32
}

// Window are the stretches that a piece of a table of batches or spans leads to, newest first and
// apart from one another.
type Window struct {
	Stretches []Stretch
	Floor     int64 // all batches down to this one were passed over
	Cost      int
	End       bool
}

// Stretches reads tasks by stretches. Load gives those of some rows of batches below a bound. Read
// reads tasks of stretches, of which all but the last have less than size places between them: all
// of these, and of the last one the newest, about size of them. It says how far down it came.
type Stretches struct {
	Load func(ctx context.Context, bound int64, size int) (Window, error)
	Read func(ctx context.Context, list []Stretch, size int) (Candidates, error)

	window *Window
}

// Candidates is that of a [Reader].
func (s *Stretches) Candidates(
	ctx context.Context, below task.ID, size int,
) (c Candidates, err error) {
	cost := 0
	if s.window == nil {
		bound := below.Batch // the batch that the last page ended in goes on
		if below.N > 0 && bound < math.MaxInt64 {
			bound++
		}
		w, err := s.Load(ctx, bound, size)
		if err != nil {
			return c, err
		}
		s.window = &w
		cost = w.Cost
	}
	list := clip(s.window.Stretches, below)
	if len(list) == 0 {
		c = Candidates{Floor: task.ID{Batch: s.window.Floor}, Cost: cost, End: s.window.End}
		s.window = nil
		return c, nil
	}
	s.window.Stretches = list
	n, width := 0, 0
	for ; n < len(list) && width < size; n++ {
		width += list[n].width()
	}
	c, err = s.Read(ctx, list[:n], size)
	c.Cost += cost
	return c, err
}

func (s Stretch) width() int { return int(s.Hi-s.Lo) + 1 }

// clip takes away what of stretches is not below a place.
func clip(list []Stretch, below task.ID) []Stretch {
	for len(list) > 0 &&
		(list[0].Batch > below.Batch || list[0].Batch == below.Batch && list[0].Lo >= below.N) {
		list = list[1:]
	}
	if len(list) > 0 && list[0].Batch == below.Batch {
		list[0].Hi = min(list[0].Hi, below.N-1)
	}
	return list
}

// Apart are stretches, in any order, newest first and without what they have in common.
func Apart(list []Stretch) []Stretch {
	slices.SortFunc(list, func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(b.Batch, a.Batch), cmp.Compare(b.Hi, a.Hi))
	})
	apart := list[:0]
	for _, s := range list {
		if n := len(apart); n > 0 && apart[n-1].Batch == s.Batch {
			s.Hi = min(s.Hi, apart[n-1].Lo-1)
		}
		if s.Lo <= s.Hi {
			apart = append(apart, s)
		}
	}
	return apart
}
