package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	insertEdits = `INSERT INTO rota.edit (batch, n, seq, changed, over, head_start, group_key,
max_attempts, expires, meta)
SELECT e.batch, e.n, e.seq, e.changed, nullif(e.over, -2), e.head_start, nullif(e.group_key, ''),
  e.max_attempts, nullif(e.expires, 0), e.meta
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[], $6::bigint[], $7::text[],
$8::int[], $9::bigint[], $10::text[]) e (batch, n, seq, changed, over, head_start, group_key,
max_attempts, expires, meta)`

	// lockFresh and lockUsed lock the spans to which tasks belong, so that nobody takes them until
	// what is written here is committed: who takes reads what they hold after that. Of those that
	// nobody ever held the tasks are counted, and leaving changes the row. What was handed out of
	// the others may be in an open transaction that shares the lock (finish), for as long as it
	// likes. Those of other holders stay as they are: who gives one back passes over it while it is
	// locked.
	lockFresh    = ownersOf + ofNobodyElse + ` AND s.token = 0 ORDER BY s.id FOR UPDATE OF s`
	lockUsed     = ownersOf + ofNobodyElse + ` AND s.token > 0 ORDER BY s.id FOR SHARE OF s`
	ofNobodyElse = ` AND (s.holder IS NULL OR s.holder = $3 AND s.htok = $4)`

	ownersOf = `WITH o AS MATERIALIZED (
  SELECT DISTINCT o.id FROM unnest($1::bigint[], $2::int[]) w (batch, n)
  LEFT JOIN LATERAL (SELECT base FROM rota.step WHERE batch = w.batch AND n = w.n ORDER BY seq DESC
  LIMIT 1) p ON true
  CROSS JOIN LATERAL (SELECT id, hi FROM rota.span WHERE batch = w.batch
    AND seq0 = coalesce(p.base, 0) AND lo <= w.n ORDER BY lo DESC LIMIT 1) o
  WHERE o.hi >= w.n)
SELECT s.id FROM rota.span s WHERE s.id IN (SELECT id FROM o)`

	// changedBy are the newest edits of a task: at least those among as many newest steps.
	changedBy = `SELECT seq, changed FROM rota.edit WHERE batch = $1 AND n = $2 ORDER BY seq DESC
LIMIT $3`

	replacing = `SELECT e.batch, e.n, e.seq, coalesce(s.stage, s.ran), e.over,
  e.changed
FROM unnest($1::bigint[], $2::int[]) w (batch, n)
JOIN rota.edit e ON e.batch = w.batch AND e.n = w.n AND e.over IS NOT NULL
JOIN rota.step s ON s.batch = e.batch AND s.n = e.n AND s.seq = e.seq`
)

// owners are the spans that are locked.
type owners map[int64]bool

// locking locks the spans of tasks that are free, or the holder's.
func (o owners) locking(ids []task.ID, h store.Holder) []query {
	batches, ns := idColumns(ids)
	locked := func(r row) error {
		var id int64
		err := r.Scan(&id)
		o[id] = true
		return err
	}
	return []query{ask(lockFresh, locked, batches, ns, h.Node, h.Token),
		ask(lockUsed, locked, batches, ns, h.Node, h.Token)}
}

// missed tells whether a task that is to be edited has moved to a span which is not locked.
func (o owners) missed(f *fact, a *store.Action) bool {
	h := f.Owner.Holder
	return a.Kind == task.KindEdited && !a.Fenced && f.Owner.ID != 0 && !o[f.Owner.ID] &&
		(h == store.Holder{} || h == a.Holder)
}

// editsOf are the tasks that a round of actions edits, and who asks: one node, as for all actions
// of a call.
func editsOf(actions []store.Action, round []int) (ids []task.ID, h store.Holder) {
	for _, i := range round {
		if actions[i].Kind == task.KindEdited && !actions[i].Fenced {
			ids = append(ids, actions[i].ID)
			h = actions[i].Holder
		}
	}
	return ids, h
}

// editColumns are what edits make of tasks.
type editColumns struct {
	keyColumns
	changed, over, attempts []int32
	starts, expires         []int64
	looks                   lookColumns
	groups                  []string
	moved                   movedKeys
	metas                   []*string
	blobs                   blobColumns
}

func (c *editColumns) add(id task.ID, seq int32, s *store.Step) {
	o := s.Override
	c.keyColumns.add(id, seq)
	c.changed = append(c.changed, int32(o.Changed))
	c.over = append(c.over, o.Over)
	c.attempts = append(c.attempts, o.MaxAttempts)
	c.starts = append(c.starts, o.HeadStart)
	c.expires = append(c.expires, o.Expires)
	c.looks.add(id.Batch, o.Expires)
	c.groups = append(c.groups, o.GroupKey)
	if o.Changed&store.ChangedGroupKey != 0 {
		c.moved = append(c.moved, id)
	}
	c.metas = append(c.metas, (*string)(o.Meta))
	c.blobs.add(id, s.Context)
}

func (c *editColumns) queries() []query {
	if len(c.batch) == 0 {
		return nil
	}
	return slices.Concat(c.moved.queries(), []query{tell(insertEdits, c.batch, c.n, c.seq,
		c.changed, c.over, c.starts, c.groups, c.attempts, c.expires, c.metas)},
		c.blobs.queries(), c.looks.queries())
}

// replaced makes of each place where a replay lets a task begin what edits have made of it.
func (t *tx) replaced(ctx context.Context, begins map[task.ID]*rules.Begin) error {
	ids := make([]task.ID, 0, len(begins))
	for id := range begins {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, task.ID.Compare)
	batches, ns := idColumns(ids)
	list := map[task.ID][]store.Replacement{}
	err := t.run(ctx, ask(replacing, func(r row) error {
		var id task.ID
		var p store.Replacement
		var changed store.EditedFields
		err := r.Scan(&id.Batch, &id.N, &p.Seq, &p.Stage, &p.Over, (*int32)(&changed))
		p.Restaged = changed&store.ChangedStage != 0
		list[id] = append(list[id], p)
		return err
	}, batches, ns))
	for id, edits := range list {
		slices.SortFunc(edits, func(a, b store.Replacement) int {
			return cmp.Compare(a.Seq, b.Seq)
		})
		*begins[id] = begins[id].After(edits)
	}
	return err
}

// noteEdits says of steps what those that are edits changed. What stands as the error of one is
// that of the attempt before.
func noteEdits(steps []task.Step, changed map[int32]store.EditedFields) {
	for i := range steps {
		if s := &steps[i]; s.Kind == task.KindEdited {
			s.Error, s.Changed = "", changed[s.Seq].String()
		}
	}
}
