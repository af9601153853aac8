package sqlite

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// limitCalls lets tasks of queues with limits begin. Its tables are gate, bucket, key_owner and
// key_rule; and it inserts the rows of running that such tasks have from their begin on.
type limitCalls struct{ *database }

// limitReads reads how queues and their keys stand beside their limits.
type limitReads struct{ *conn }

func (c *conn) limits() limitReads { return limitReads{c} }

// limitWrites lets tasks begin, and keeps what their queues and keys have left.
type limitWrites struct{ *tx }

func (t *tx) limits() limitWrites { return limitWrites{t} }

// A hand-out of a queue that has limits has its running row before anybody sees it. So the rows of
// such a queue are what runs, whoever handed it out, and who writes them, one at a time, counts
// them. What a rate has left stands in table gate.

const (
	limitsOf = `SELECT ` + queueColumns + `, coalesce(level, 0), coalesce(at, 0), coalesce(since, 0)
FROM queue LEFT JOIN gate ON queue = name WHERE name = ? AND ` + hasLimits
	limited   = `SELECT name FROM queue WHERE ` + hasLimits + ` ORDER BY name`
	hasLimits = `(max_running > 0 OR rate_count > 0 OR key_running > 0 OR key_rate_count > 0
  OR key_rules)`
	// countRunning goes no further than it has to; of a queue with a rate only, none is counted.
	countRunning = `SELECT count(*) FROM (SELECT 1 FROM running INDEXED BY running_queue
WHERE queue = ? LIMIT ?)`
	keepBucket = `UPDATE gate SET level = ?, at = ? WHERE queue = ?`
	newGate    = `REPLACE INTO gate (queue, level, at, since) VALUES (?1, 0, ?2, ?2)`
	newSince   = `UPDATE gate SET since = ? WHERE queue = ?`
	deleteGate = `DELETE FROM gate WHERE queue = ?`

	heldHere = `SELECT queue, batch, lo, hi, gaps FROM span WHERE id = ? AND token = ?
AND holder = ? AND htok = ?`
	// beginAgain is for a hand-out that has its row already: it is with another worker now.
	beginAgain = `UPDATE running SET worker = ?, incarnation = ?, started = ?, until = ?
WHERE batch = ? AND n = ? AND seq = ?`
)

// beginRows inserts running rows.
var beginRows = newInserter("running", []string{"queue"}, []string{
	"batch", "n", "seq", "span", "token", "worker", "incarnation", "started", "until", "key",
})

// Begin writes hand-outs down, as many as the limits of their queues allow. See contract.Steps.
func (s *limitCalls) Begin(
	ctx context.Context, r store.BeginRequest,
) (answer store.Begun, err error) {
	err = s.write(ctx, func(t *tx) error {
		answer = store.Begun{Now: t.now}
		lives, err := t.leases().lives(r.Holder)
		if answer.LeaseGone = !lives; err != nil || !lives {
			return err
		}
		answer.Rows = make([]store.Beginning, len(r.Rows))
		queues, rows := r.ByQueue()
		for _, queue := range queues {
			if err := t.limits().beginOf(&r, queue, rows[queue], &answer); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.Begun{}, fmt.Errorf("begin %d hand-outs: %w", len(r.Rows), err)
	}
	return answer, nil
}

// beginOf lets hand-outs of one queue begin; at is where they stand in the request.
func (t limitWrites) beginOf(
	r *store.BeginRequest, queue string, at []int, answer *store.Begun,
) error {
	gates, limited, err := t.conn.limits().gates(queue)
	if err != nil {
		return err
	}
	b := beginner{
		tx: t.tx, holder: r.Holder, spans: map[store.Taking]*spanHeld{},
		marks: map[packID]pack.Bits{},
	}
	written, err := b.written(r, at)
	if err != nil {
		return err
	}
	keys, err := t.keyStands(&gates, r, at, written)
	if err != nil {
		return err
	}
	list := rules.LetBegin(&gates.Gate.Gate, written, t.now)
	stands := make([]bool, len(at))
	var fresh []*store.Begin
	for k, i := range at {
		u := &r.Rows[i]
		if list[k] != store.Begins {
			continue
		}
		if stands[k], err = b.may(&u.Running); err == nil && stands[k] &&
			written[k].Written == rules.Itself {
			_, err = t.exec(beginAgain, u.Worker, u.Incarnation, u.Started, u.Until, u.ID.Batch,
				u.ID.N, u.Seq)
		} else if stands[k] {
			fresh = append(fresh, u)
		}
		if err != nil {
			return fmt.Errorf("hand-out %d of task %s: %w", u.Seq, u.ID, err)
		}
	}
	if err := t.insertRunning(queue, fresh); err != nil {
		return err
	}
	namer := keyNamer{t, map[int64]bool{}}
	for _, u := range fresh {
		if u.Key == "" {
			if err := namer.name(&u.Running); err != nil {
				return err
			}
		}
	}
	rules.Began(&gates.Gate.Gate, written, list, func(k int) bool { return stands[k] })
	for k, i := range at {
		answer.Rows[i] = list[k]
	}
	if !limited {
		return nil
	}
	answer.Gates = append(answer.Gates, gates.Gate)
	if _, err := t.exec(keepBucket, gates.Bucket.Level, gates.Bucket.At, queue); err != nil {
		return err
	}
	from := len(answer.Keys)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		answer.Keys = append(answer.Keys, keys[key].KeyGate)
	}
	if err := t.keepOwners(keys); err != nil {
		return err
	}
	return t.keepBuckets(&gates, answer.Keys[from:])
}

// keyStands reads how the keys stand of hand-outs that are to begin.
func (t limitWrites) keyStands(
	of *gates, r *store.BeginRequest, at []int, rows []rules.Asked,
) (keys map[string]*rules.KeyStand, err error) {
	keys = map[string]*rules.KeyStand{}
	for k, i := range at {
		u := &r.Rows[i]
		stand, known := keys[u.Key]
		if !known {
			if stand, err = t.conn.limits().keyStand(of, u.Key); err != nil {
				return nil, err
			}
			if stand != nil {
				keys[u.Key] = stand
			}
			if stand != nil && stand.InOrder() && stand.Owner == (task.ID{}) {
				stand.Next, err = t.conn.limits().firstOfKey(of.Queue, u.Key, t.now)
				if err != nil {
					return nil, err
				}
			}
		}
		rows[k].Key = stand
	}
	return keys, nil
}

// insertRunning writes down hand-outs of one queue that have no rows.
func (t limitWrites) insertRunning(queue string, list []*store.Begin) error {
	return beginRows.insert(t.conn, len(list), func(st *sqlite.Stmt) {
		st.BindText(1, queue)
	}, func(st *sqlite.Stmt, p, i int) {
		u := list[i]
		st.BindInt64(p, u.ID.Batch)
		st.BindInt64(p+1, int64(u.ID.N))
		st.BindInt64(p+2, int64(u.Seq))
		st.BindInt64(p+3, u.Span)
		st.BindInt64(p+4, u.Token)
		st.BindText(p+5, u.Worker)
		st.BindText(p+6, u.Incarnation)
		st.BindInt64(p+7, u.Started)
		st.BindInt64(p+8, u.Until)
		st.BindText(p+9, u.Key)
	}, nil)
}

// beginner looks at hand-outs that are to begin: at each span and each mark once.
type beginner struct {
	*tx
	holder store.Holder
	spans  map[store.Taking]*spanHeld
	marks  map[packID]pack.Bits
}

// packID is where a pack stands, and its mark.
type packID struct {
	batch int64
	lo    int32
}

// spanHeld is a span of the holder's; without a queue it is not.
type spanHeld struct {
	queue  string
	batch  int64
	lo, hi int32
	gaps   bool
}

// written says what stands where the rows of hand-outs are to be.
func (b *beginner) written(r *store.BeginRequest, at []int) ([]rules.Asked, error) {
	type run struct{ lo, hi int32 }
	batches := map[int64]run{}
	for _, i := range at {
		id := r.Rows[i].ID
		known, ok := batches[id.Batch]
		if !ok {
			known = run{id.N, id.N}
		}
		batches[id.Batch] = run{min(known.lo, id.N), max(known.hi, id.N)}
	}
	stand := map[store.Watch]store.Running{}
	for batch, of := range batches {
		if err := b.each(runningIn, func(st *sqlite.Stmt) bool {
			u := scanRunning(st)
			stand[store.Watch{ID: u.ID, Seq: u.Seq}] = u
			return true
		}, batch, of.lo, of.hi); err != nil {
			return nil, err
		}
	}
	list := make([]rules.Asked, len(at))
	for k, i := range at {
		u := &r.Rows[i].Running
		list[k].ID, list[k].Span = u.ID, u.Span
		switch old, ok := stand[store.Watch{ID: u.ID, Seq: u.Seq}]; {
		case !ok:
		case old.Span == u.Span && old.Token == u.Token:
			list[k].Written = rules.Itself
		default:
			list[k].Written = rules.Another
		}
	}
	return list, nil
}

// may tells whether a hand-out is one: as keepRunning does.
func (b *beginner) may(u *store.Running) (bool, error) {
	taking := store.Taking{Span: u.Span, Token: u.Token}
	sp := b.spans[taking]
	if sp == nil {
		sp = &spanHeld{batch: -1}
		b.spans[taking] = sp
		if _, err := b.one(heldHere, func(st *sqlite.Stmt) {
			*sp = spanHeld{st.ColumnText(0), st.ColumnInt64(1), st.ColumnInt32(2),
				st.ColumnInt32(3), st.ColumnBool(4)}
		}, u.Span, u.Token, b.holder.Node, b.holder.Token); err != nil {
			return false, err
		}
	}
	if sp.batch != u.ID.Batch || u.ID.N < sp.lo || u.ID.N > sp.hi {
		return false, nil
	}
	if sp.gaps {
		if is, err := b.members().isTask(u.ID); err != nil || !is {
			return false, err
		}
	}
	if over, err := b.has(findStep, u.ID.Batch, u.ID.N, u.Seq); err != nil || over {
		return false, err
	}
	if u.Seq > 0 {
		return true, nil
	}
	at := packID{u.ID.Batch, pack.Lo(u.ID.N)}
	bits, known := b.marks[at]
	if !known {
		if _, err := b.one(bitsAt, func(st *sqlite.Stmt) {
			bits = pack.Bits(st.ColumnInt64(0))
		}, at.batch, at.lo); err != nil {
			return false, err
		}
		b.marks[at] = bits
	}
	return !bits.Has(u.ID.N), nil
}

// gates is how a queue stands beside its limits, and what the limits of each of its keys are.
type gates struct {
	store.Gate
	perKey admission.Limits
	onDead task.OnDead
	rules  bool  // keys may have rules of their own
	since  int64 // when the rate of each key was set
}

// gates reads how a queue stands beside its limits, if it has any.
func (c limitReads) gates(queue string) (g gates, limited bool, err error) {
	g.Queue = queue
	limited, err = c.one(limitsOf, func(st *sqlite.Stmt) {
		q := scanQueue(st)
		g.Limits, g.perKey = admission.LimitsOf(&q), admission.KeyLimitsOf(&q)
		g.onDead, g.rules = q.PerKey.OnDead, q.KeyRules
		k := st.ColumnCount()
		g.Bucket = admission.Bucket{Level: st.ColumnInt64(k - 3), At: st.ColumnInt64(k - 2)}
		g.since = st.ColumnInt64(k - 1)
	}, queue)
	if err != nil || !limited {
		return g, limited, err
	}
	if most := g.Limits.Running; most > 0 {
		_, err = c.one(countRunning, func(st *sqlite.Stmt) { g.Running = st.ColumnInt(0) }, queue,
			most)
	}
	return g, true, err
}

// Gates says how queues stand beside their limits. See contract.Views.
func (s *limitCalls) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	err = s.read(ctx, func(c *conn) error {
		now, gates = s.clock(), nil
		names := slices.Clone(queues) // the caller's own stays as it is
		if len(names) == 0 {
			if err := c.each(limited, func(st *sqlite.Stmt) bool {
				names = append(names, st.ColumnText(0))
				return true
			}); err != nil {
				return err
			}
		}
		for _, name := range names {
			g, limited, err := c.limits().gates(name)
			if err == nil && limited && g.perKey.Running > 0 {
				_, err = c.one(fullKeys, func(st *sqlite.Stmt) {
					g.FullKeys = st.ColumnInt(0)
				}, name, g.perKey.Running)
			}
			if err == nil && g.rules {
				_, err = c.one(pausedKeys, func(st *sqlite.Stmt) {
					g.PausedKeys = st.ColumnInt(0)
				}, name, now)
			}
			if err != nil {
				return err
			}
			if limited {
				gates = append(gates, g.Gate)
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read limits of queues: %w", err)
	}
	return now, gates, nil
}

// changeGate keeps what a queue has left of its rate, if its limits change: a rate that changes
// begins with an empty bucket.
func (t limitWrites) changeGate(before, after *task.Queue) error {
	if limitsKeys(after) && !limitsKeys(before) {
		if err := t.nameKeys(after.Name); err != nil {
			return err
		}
	}
	switch {
	case !admission.Limited(after):
		_, err := t.exec(deleteGate, after.Name)
		return err
	case !admission.Limited(before):
		_, err := t.exec(newGate, after.Name, t.now)
		return err
	}
	was, is := admission.LimitsOf(before), admission.LimitsOf(after)
	if was.Rate != is.Rate {
		if _, err := t.exec(keepBucket, 0, t.now, after.Name); err != nil {
			return err
		}
	}
	if was, is = admission.KeyLimitsOf(before), admission.KeyLimitsOf(after); was.Rate != is.Rate {
		_, err := t.exec(newSince, t.now, after.Name)
		return err
	}
	return nil
}
