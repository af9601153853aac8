package dispatch

import (
	"sync"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// reporting is what memory thinks of one report on its way into the store.
type reporting struct {
	row      *store.Report // in its settlement
	decision progress.Decision
	spot     spot  // where the task is; nowhere when another node (or nobody) holds it
	was      *item // what memory knew of the task; nil when it was plain, too
	first    bool  // the report that took the item out of its worker's hands; a repeated one is not
	status   task.Status
	// it says that a transaction has recorded the outcome: what is decided is for when none has
	committed bool
}

// settlement is one caller's part of a gather of settlements.
type settlement struct {
	rows    []store.Report    // never moved: the reports point into it
	reports []reporting       // of the rows, in the same order
	bytes   int               // of the contexts and results that travel in the rows
	spawned map[int][]task.ID // children of reports, by their places; nil = there are none
	err     error
	done    chan struct{}
}

func newSettlement(size int) *settlement {
	return &settlement{
		rows: make([]store.Report, 0, size), reports: make([]reporting, 0, size),
		done: make(chan struct{}),
	}
}

// reuse is memory of settlements that were recorded, to be used again: there are hundreds a second,
// and each is large for a moment. What a write that failed may still look at never comes here.
type reuse struct {
	settlements sync.Pool // of *settlement
	rows        sync.Pool // of *[]store.Report
}

// settlement is an empty one for so many reports.
func (u *reuse) settlement(size int) *settlement {
	s, _ := u.settlements.Get().(*settlement)
	if s == nil || cap(s.rows) < size {
		return newSettlement(size)
	}
	s.done = make(chan struct{})
	return s
}

// done takes back a settlement that was recorded and answered.
func (u *reuse) done(s *settlement) {
	clear(s.rows)
	clear(s.reports)
	*s = settlement{rows: s.rows[:0], reports: s.reports[:0]}
	u.settlements.Put(s)
}

// gather puts the rows of several settlements together.
func (u *reuse) gather(load []*settlement) []store.Report {
	n := 0
	for _, s := range load {
		n += len(s.rows)
	}
	var all []store.Report
	if p, _ := u.rows.Get().(*[]store.Report); p != nil && cap(*p) >= n {
		all = *p
	} else {
		all = make([]store.Report, 0, n)
	}
	for _, s := range load {
		all = append(all, s.rows...)
	}
	return all
}

// gathered takes back rows that were recorded.
func (u *reuse) gathered(rows []store.Report) {
	clear(rows)
	rows = rows[:0]
	u.rows.Put(&rows)
}

// add makes room for one more report, within the size that was asked for.
func (s *settlement) add() *reporting {
	s.rows = append(s.rows, store.Report{})
	s.reports = append(s.reports, reporting{row: &s.rows[len(s.rows)-1]})
	return &s.reports[len(s.reports)-1]
}

// size is the weight in the gather, as a submission's.
func (s *settlement) size() int { return len(s.reports) + s.bytes>>10 }
