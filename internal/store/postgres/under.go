package postgres

import (
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Who adds children to a hand-out has for himself what everybody needs who records an outcome of
// it: its running row, which settlements, actions and the function finish delete; where none
// stands, the span, which settlements and the function finish share, and actions that end what is
// held. So the children come before the outcome, and count for it, or find it and do not come. Both
// are locked before any key is claimed.

const (
	lockHandOut = `SELECT FROM rota.running WHERE batch = $1 AND n = $2 AND seq = $3 FOR UPDATE`
	// lockHandedFrom waits for whoever shares the span. When there is a running row by now that
	// lockHandOut did not see, it locks nothing.
	lockHandedFrom = `SELECT FROM rota.span WHERE id = $4 AND NOT EXISTS (
  SELECT FROM rota.running WHERE batch = $1 AND n = $2 AND seq = $3) FOR UPDATE`

	// standsFor reads, by a later statement, what the right follows from, as settlements do: the
	// running row is it, else the span; and whether an outcome stands. The last is the task's run.
	standsFor = `SELECT u.batch IS NOT NULL, coalesce(u.span = $4 AND u.token = $5, false),
  s.id IS NOT NULL AND EXISTS (SELECT FROM rota.task($1, $2)),
  EXISTS (SELECT FROM rota.step WHERE batch = $1 AND n = $2 AND seq = $3),
  coalesce((SELECT seq + 1 FROM rota.step WHERE batch = $1 AND n = $2 AND kind = 11
    ORDER BY seq DESC LIMIT 1), 0)
FROM (SELECT 1) one
LEFT JOIN rota.running u ON u.batch = $1 AND u.n = $2 AND u.seq = $3
LEFT JOIN rota.span s ON s.id = $4 AND s.batch = $1 AND s.token = $5 AND $2 BETWEEN s.lo AND s.hi`
)

// handOutMarked tells whether a mark has the outcome of a first hand-out.
var handOutMarked = `SELECT ` + isMarked("$1::bigint", "$2::int")

// addition is the right to add children to a hand-out.
type addition struct {
	right  *store.Right
	locked bool // the running row, or else the span
	runs   bool // it has a running row,
	mine   bool // with its token
	holds  bool // the span has the token, and the task stands
	over   bool // an outcome stands
	run    int32
}

func (a *addition) queries() []query {
	id, at := a.right.ID, &a.right.Token
	key := []any{id.Batch, id.N, at.Seq}
	locked := func(row) error { a.locked = true; return nil }
	list := []query{ask(lockHandOut, locked, key...),
		ask(lockHandedFrom, locked, append(key, at.Span)...),
		ask(standsFor, func(r row) error {
			return r.Scan(&a.runs, &a.mine, &a.holds, &a.over, &a.run)
		}, append(key, at.Span, at.SpanToken)...)}
	if at.Seq == 0 {
		list = append(list, ask(handOutMarked, func(r row) error {
			var marked bool
			err := r.Scan(&marked)
			a.over = a.over || marked
			return err
		}, id.Batch, id.N))
	}
	return list
}

// check says whether children may be added.
func (a *addition) check() error {
	switch {
	case a.over, a.runs && !a.mine, !a.runs && !a.holds:
		return fmt.Errorf("add children of %s: the hand-out is over: %w", a.right.ID,
			store.ErrStale)
	case !a.locked: // its running row came meanwhile
		return errWentOn
	}
	return nil
}

// kin makes all batches of a submission the hand-out's children.
func (a *addition) kin(sub *store.Submission) map[int64]kinship {
	kin := make(map[int64]kinship, len(sub.Batches))
	for i := range sub.Batches {
		kin[sub.Batches[i].ID] = kinship{a.right.ID, a.run, a.right.Token.Seq, true}
	}
	return kin
}

// held are the spans that are shared, of tasks that actions are about to end. Of what nobody holds
// nothing is handed out that has no running row, so it needs none.
type held map[int64]bool

// shareHeld locks the owners of tasks, as settlements do.
const shareHeld = ownersOf + ` AND s.holder IS NOT NULL ORDER BY s.id FOR SHARE OF s`

// sharing shares the owners of what a round of actions ends.
func (h held) sharing(actions []store.Action, round []int) []query {
	var ids []task.ID
	for _, i := range round {
		if endsTask(&actions[i]) {
			ids = append(ids, actions[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	batches, ns := idColumns(ids)
	return []query{ask(shareHeld, func(r row) error {
		var id int64
		err := r.Scan(&id)
		h[id] = true
		return err
	}, batches, ns)}
}

// missed tells whether a task that is to end may have been handed out of a span that is not shared.
func (h held) missed(f *fact, a *store.Action) bool {
	return endsTask(a) && f.Running == nil && f.Owner.Holder.Node != "" && !h[f.Owner.ID]
}

func endsTask(a *store.Action) bool {
	return a.Kind == task.KindCancelled || a.Kind == task.KindRemoved
}
