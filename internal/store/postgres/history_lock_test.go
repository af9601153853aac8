//go:build unix

package postgres

import (
	"testing"

	"github.com/rotahq/rota/task"
)

// Settlements that write marks are always under way somewhere while many tasks end, and that is
// when there is most to add up.
func TestHistoryIsAddedUpWhileMarksAreWritten(t *testing.T) {
	o := meanwhile(t)
	first, second := o.submit(o.batch(20, 20, true))[0], o.submit(o.batch(20, 20, true))[0]
	o.settles(ends(&first, 0, 19), all(task.Recorded))
	o.marksAlone(&second, 0, 4)
	if left := must(o.fold(t.Context(), o.today().UnixMicro()))(t); left {
		t.Error("something is left")
	}
	if n := o.count("SELECT count(*) FROM rota.history_change"); n != 0 {
		t.Errorf("%d changes are not in the history", n)
	}
	if n := o.count("SELECT count(*) FROM rota.history"); n == 0 {
		t.Error("the history has no row")
	}
}

// While one node adds up, others write marks, and leave the history to it.
func TestMarksAreWrittenWhileHistoryIsAddedUp(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(20, 20, true))[0]
	alone := foldAlone(new(bool))
	o.do(alone.text, alone.args...)
	o.settles(ends(&sp, 0, 19), all(task.Recorded))
	o.rows(1, 20, 0)
	must(o.fold(t.Context(), o.today().UnixMicro()))(t)
	if n := o.count("SELECT count(*) FROM rota.history_change"); n == 0 {
		t.Error("two nodes add up at once")
	}
	o.commits()
	must(o.fold(t.Context(), o.today().UnixMicro()))(t)
	if n := o.count("SELECT count(*) FROM rota.history_change"); n != 0 {
		t.Errorf("%d changes are not in the history", n)
	}
}

// A node of the version before has allPacks alone while it adds up.
func TestHistoryIsNotAddedUpBesideANodeOfBefore(t *testing.T) {
	o := meanwhile(t)
	o.submit(o.batch(20, 20, true))
	o.do("SELECT pg_advisory_xact_lock($1)", int64(allPacks))
	must(o.fold(t.Context(), o.today().UnixMicro()))(t)
	if n := o.count("SELECT count(*) FROM rota.history_change"); n == 0 {
		t.Error("two nodes add up at once")
	}
}
