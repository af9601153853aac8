package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// The table unique_key says which task got a unique key last. Whether the task still has it follows
// from how it stands, so nothing is written when that changes: a submission that wants the key
// looks. Such tasks are handed out by Begin, so their running rows tell of every hand-out. Who
// wants the key has its row for himself until his commit, and Begin shares it: so of a replacement
// and the hand-out of the same task one sees the other. What ends a task takes no notice; a key
// that becomes free just then may be answered as taken.

const (
	// claimUniques waits for whoever inserts the same keys just now. What was there before stays:
	// lockUniques reads it, and has it for itself from then on. Both are in the order of the keys.
	claimUniques = `INSERT INTO rota.unique_key (queue, key, batch, n, waiting, until)
SELECT k.queue, k.key, k.batch, k.n, k.waiting, nullif(k.until, 0)
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::bool[], $6::bigint[])
  k (queue, key, batch, n, waiting, until)
ORDER BY k.queue, k.key ON CONFLICT DO NOTHING`
	lockUniques = `SELECT k.queue, k.key, k.batch, k.n, k.waiting, coalesce(k.until, 0)
FROM unnest($1::text[], $2::text[]) w (queue, key)
JOIN rota.unique_key k ON k.queue = w.queue AND k.key = w.key
ORDER BY k.queue, k.key FOR UPDATE OF k`

	giveUniques = `UPDATE rota.unique_key u SET batch = k.batch, n = k.n, waiting = k.waiting,
  until = nullif(k.until, 0)
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::bool[], $6::bigint[])
  k (queue, key, batch, n, waiting, until)
WHERE u.queue = k.queue AND u.key = k.key`
	dropUniques = `DELETE FROM rota.unique_key u USING unnest($1::text[], $2::text[]) k (queue, key)
WHERE u.queue = k.queue AND u.key = k.key`

	// shareUniques keeps tasks from being replaced until what is about to be written is committed.
	shareUniques = `SELECT FROM unnest($1::bigint[], $2::int[]) w (batch, n)
JOIN rota.unique_key k ON k.batch = w.batch AND k.n = w.n ORDER BY k.queue, k.key FOR SHARE OF k`

	uniquesIn = `SELECT w.i::int, u.n
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, lo, hi, i)
CROSS JOIN LATERAL (SELECT n FROM rota.unique_key WHERE batch = w.batch AND n BETWEEN w.lo
AND w.hi OFFSET 0) u`

	// A row that somebody has locked is about to be given to another task.
	dropUniquesOf = `WITH o AS MATERIALIZED (SELECT k.queue, k.key
  FROM unnest($1::bigint[], $2::int[]) w (batch, n)
  JOIN rota.unique_key k ON k.batch = w.batch AND k.n = w.n
  ORDER BY k.queue, k.key FOR UPDATE OF k SKIP LOCKED)
DELETE FROM rota.unique_key u USING o
WHERE u.queue = o.queue AND u.key = o.key`
)

// uniqueColumns are rows of unique_key.
type uniqueColumns struct {
	queue, key   []string
	batch, until []int64
	n            []int32
	waiting      []bool
}

func (c *uniqueColumns) add(name rules.UniqueName, r rules.UniqueRow) {
	c.queue = append(c.queue, name.Queue)
	c.key = append(c.key, name.Key)
	c.batch = append(c.batch, r.ID.Batch)
	c.n = append(c.n, r.ID.N)
	c.waiting = append(c.waiting, r.Waiting)
	c.until = append(c.until, r.Until)
}

func (c *uniqueColumns) args() []any {
	return []any{c.queue, c.key, c.batch, c.n, c.waiting, c.until}
}

// errUniqueRace: what was found of a unique key changed before the submission was written.
var errUniqueRace = errors.New("the tasks that have its unique keys change too fast")

// uniques are the unique keys that a submission wants.
type uniques struct {
	asks  []rules.UniqueAsk
	names []rules.UniqueName // each once, sorted
	rows  map[rules.UniqueName]rules.UniqueRow
	*rules.UniqueChoice
}

// chooseUnique says what becomes of those tasks of a submission that want unique keys, and has
// these for itself from here on; nil: none of them wants any.
func (s *submissions) chooseUnique(
	ctx context.Context, r runner, sub *store.Submission, stands func(int64) bool,
) (*uniques, error) {
	u := &uniques{asks: rules.UniqueAsks(sub.Batches, stands)}
	if len(u.asks) == 0 {
		return nil, nil
	}
	if err := u.lock(ctx, r); err != nil {
		return nil, err
	}
	held, err := u.held(ctx, s.database, r)
	if err == nil {
		u.UniqueChoice = rules.ChooseUnique(u.asks, held)
	}
	return u, err
}

// lock claims the keys, each for the first task that wants it, and reads whose they are.
func (u *uniques) lock(ctx context.Context, r runner) error {
	first := map[rules.UniqueName]*rules.UniqueAsk{}
	for i := range u.asks {
		a := &u.asks[i]
		if name := a.Name(); first[name] == nil {
			first[name] = a
			u.names = append(u.names, name)
		}
	}
	slices.SortFunc(u.names, func(a, b rules.UniqueName) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Key, b.Key))
	})
	var c uniqueColumns
	for _, name := range u.names {
		c.add(name, first[name].Row())
	}
	for range tries { // a row may be deleted between the two statements
		u.rows = map[rules.UniqueName]rules.UniqueRow{}
		if err := r.run(ctx, tell(claimUniques, c.args()...), ask(lockUniques, func(r row) error {
			var name rules.UniqueName
			var k rules.UniqueRow
			err := r.Scan(&name.Queue, &name.Key, &k.ID.Batch, &k.ID.N, &k.Waiting, &k.Until)
			u.rows[name] = k
			return err
		}, c.queue, c.key)); err != nil {
			return err
		}
		if len(u.rows) == len(u.names) {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", store.ErrBusy, errUniqueRace)
}

// held are the tasks that have the keys.
func (u *uniques) held(
	ctx context.Context, d *database, r runner,
) (map[rules.UniqueName]rules.UniqueHolder, error) {
	own := make(map[task.ID]bool, len(u.asks))
	for i := range u.asks {
		own[u.asks[i].ID] = true
	}
	var others []rules.UniqueName
	var ids []task.ID
	for _, name := range u.names {
		if id := u.rows[name].ID; !own[id] {
			others = append(others, name)
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found := make([]fact, len(ids))
	begun := map[task.ID]bool{}
	var now int64
	batches, ns := idColumns(ids)
	if err := r.run(ctx, append(factsOf(ids, false, found), ask(handedOut, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		begun[id] = true
		return err
	}, batches, ns), ask(clockNow, func(r row) error { return r.Scan(&now) }, d.clock()))...,
	); err != nil {
		return nil, err
	}
	held := map[rules.UniqueName]rules.UniqueHolder{}
	for i, name := range others {
		var f *rules.Fact
		if found[i].ID != (task.ID{}) {
			f = &found[i].Fact
			f.Begun = begun[f.ID]
		}
		row := u.rows[name]
		if h, has := row.Holder(f, now); has {
			held[name] = h
		}
	}
	return held, nil
}

// refuses tells whether nothing of a batch is to be inserted.
func (u *uniques) refuses(b *store.Batch) bool { return u != nil && u.Refuses(b) }

// existingIn are the tasks of a batch that others' unique keys keep out.
func (u *uniques) existingIn(b *store.Batch) []store.Existing {
	if u == nil {
		return nil
	}
	return u.ExistingIn(b)
}

// queries write who has the keys from now on. What was claimed for a task of a call that is refused
// is nobody's.
func (u *uniques) queries() (list []query) {
	var give uniqueColumns
	var drop uniqueColumns
	own := make(map[task.ID]bool, len(u.asks))
	for i := range u.asks {
		own[u.asks[i].ID] = true
	}
	for _, name := range u.names {
		a, row := u.Owners[name], u.rows[name]
		switch {
		case a == nil && own[row.ID]:
			drop.add(name, row)
		case a != nil && row != a.Row():
			give.add(name, a.Row())
		}
	}
	if len(give.key) > 0 {
		list = append(list, tell(giveUniques, give.args()...))
	}
	if len(drop.key) > 0 {
		list = append(list, tell(dropUniques, drop.queue, drop.key))
	}
	return list
}

// replace makes of tasks that wait what was submitted in their place.
func (u *uniques) replace(ctx context.Context, d *database, r runner) (after aftermath, err error) {
	t, ok := r.(*tx)
	if !ok {
		t = &tx{database: d, inside: r}
	}
	acted := make([]store.Acted, len(u.Replace))
	for _, round := range rounds(u.Replace) {
		if err := t.actRound(ctx, u.Replace, round, acted, &after); err != nil {
			return after, err
		}
	}
	for i := range acted {
		if !acted[i].Changed {
			return after, fmt.Errorf("replace task %s: %w: %w", acted[i].ID, store.ErrBusy,
				errUniqueRace)
		}
	}
	return after, nil
}

// shareUniques keeps the tasks that are about to begin from being replaced meanwhile.
func (b *beginning) shareUniques() []query {
	var ids []task.ID
	for i := range b.Rows {
		if b.Rows[i].Unique {
			ids = append(ids, b.Rows[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	batches, ns := idColumns(ids)
	return []query{limitWait(), tell(shareUniques, batches, ns), usualWait()}
}
