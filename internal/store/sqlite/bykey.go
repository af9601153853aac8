package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A queue that goes by keys has spans with the tasks of one key each, so that a take finds the next
// key however much is queued of another one. What is submitted, moved or was there before is sorted
// by the first take that comes upon it.

const (
	setKey = `UPDATE span SET hi = ?, size = ?, key = ? WHERE id = ?`

	firstKey = `SELECT key FROM span INDEXED BY span_key WHERE holder IS NULL AND key IS NOT NULL
AND queue = ? ORDER BY key LIMIT 1`
	nextKey = `SELECT key FROM span INDEXED BY span_key WHERE holder IS NULL AND key IS NOT NULL
AND queue = ? AND key > ? ORDER BY key LIMIT 1`
	spansOfKey = `SELECT ` + spanColumns + ` FROM span INDEXED BY span_key WHERE holder IS NULL
AND key IS NOT NULL AND queue = ?1 AND key = ?2 AND rank <= ?3 AND due <= ?3
ORDER BY rank, id LIMIT ?4`

	countReady = `SELECT count(*), coalesce(sum(width), 0), coalesce(max(deaths), 0) FROM (
SELECT * FROM (SELECT rank, id, hi - lo + 1 AS width, deaths FROM span INDEXED BY span_ready
  WHERE holder IS NULL AND key IS NULL AND queue = ?1 AND rank <= ?2 AND due <= ?2
  ORDER BY rank, id LIMIT ?3)
UNION ALL SELECT * FROM (SELECT rank, id, hi - lo + 1, 0 FROM span INDEXED BY span_sorted
  WHERE holder IS NULL AND key IS NOT NULL AND queue = ?1 AND rank <= ?2 AND due <= ?2
  ORDER BY rank, id LIMIT ?3)
ORDER BY rank, id LIMIT ?3)`
	anySorted = `SELECT 1 FROM span INDEXED BY span_sorted WHERE holder IS NULL
AND key IS NOT NULL AND queue = ?1 AND rank <= ?2 AND due <= ?2 LIMIT 1`

	countOfKey = `SELECT count(*) FROM (SELECT 1 FROM running INDEXED BY running_queue
WHERE queue = ? AND key = ? LIMIT ?)`
	fullKeys = `SELECT count(*) FROM (SELECT 1 FROM running INDEXED BY running_queue
WHERE queue = ? AND key > '' GROUP BY key HAVING count(*) >= ? LIMIT 1000)`
	bucketOf    = `SELECT level, at FROM bucket WHERE queue = ? AND key = ? AND at >= ?`
	keepKey     = `REPLACE INTO bucket (queue, key, level, at, full_at) VALUES (?, ?, ?, ?, ?)`
	dropBuckets = `DELETE FROM bucket WHERE (queue, key) IN (SELECT queue, key FROM bucket
WHERE queue = ? AND full_at <= ? ORDER BY full_at LIMIT ?)`
	deleteBuckets = `DELETE FROM bucket WHERE queue = ?`
)

// keyTake is a take by keys under way.
type keyTake struct {
	*tx
	store.TakeRequest
	choice *rules.ByKey
	gates  gates
	spans  map[int64]store.Span // that were looked at
	owners map[int64]task.ID    // tasks that own their keys, by span
}

func (t spanWrites) takeByKey(r store.TakeRequest) (store.Taken, error) {
	answer := store.Taken{Now: t.now}
	if r.Limit <= 0 {
		return answer, nil
	}
	b := keyTake{
		tx: t.tx, TakeRequest: r, choice: rules.ChooseByKey(&r, t.now),
		spans: map[int64]store.Span{}, owners: map[int64]task.ID{},
	}
	defer t.members().keepPack()()
	n, is, err := b.asItIs()
	if err != nil {
		return answer, err
	}
	if is {
		return b.takeAsItIs(n)
	}
	if b.gates, _, err = t.conn.limits().gates(r.Queue); err != nil {
		return answer, err
	}
	more, err := b.sort()
	if err == nil && !r.Keys.Fair && !b.choice.Enough() {
		err = b.byRank()
	}
	cut := false
	if err == nil && !b.choice.Enough() {
		answer.After, cut, err = b.byTurn()
	} else {
		answer.After = r.Keys.After
	}
	if err != nil {
		return answer, err
	}
	answer.More = more || cut || b.choice.Enough() || answer.After != nil || r.Keys.After != nil
	for _, id := range b.choice.Chosen {
		sp := b.spans[id]
		if err := t.takeWhole(&sp, r.Holder, &answer); err != nil {
			return answer, err
		}
		if owner, owned := b.owners[id]; owned {
			answer.Owners = append(answer.Owners, owner)
		}
		if err := b.noteTurn(sp.Key, &answer); err != nil {
			return answer, err
		}
	}
	if answer.Left = more; !more {
		if answer.Left, err = t.has(anySorted, r.Queue, t.now); err != nil {
			return answer, err
		}
	}
	_, err = t.one(nextDue, func(st *sqlite.Stmt) { answer.NextDue = st.ColumnInt64(0) }, r.Queue,
		t.now)
	if soon := b.choice.Soon(); soon > 0 && (answer.NextDue == 0 || soon < answer.NextDue) {
		answer.NextDue = soon
	}
	return answer, err
}

// asItIs is how many tasks are to be taken as they are, and whether any are.
func (b *keyTake) asItIs() (n int, is bool, err error) {
	count := rules.ReadyToCount(b.Keys)
	if count == 0 {
		return 0, false, nil
	}
	var ready rules.Ready
	_, err = b.one(countReady, func(st *sqlite.Stmt) {
		ready.Spans, ready.Tasks, ready.Deaths = st.ColumnInt(0), st.ColumnInt(1), st.ColumnInt32(2)
	}, b.Queue, b.now, count)
	n, is = ready.AsItIs(b.Keys)
	return n, is, err
}

// takeAsItIs takes the first tasks, and says which keys they have.
func (b *keyTake) takeAsItIs(n int) (store.Taken, error) {
	r := b.TakeRequest
	r.Limit = n
	answer, err := b.tx.spans().takeByRank(r)
	if err != nil {
		return answer, err
	}
	if answer.Left, answer.NextRank = answer.More, 0; answer.More {
		answer.After = b.Keys.After
	}
	for i := range answer.Spans {
		if sp := &answer.Spans[i]; !sp.Sorted {
			if err := b.addKeys(sp); err != nil {
				return answer, fmt.Errorf("read keys of span %d: %w", sp.ID, err)
			}
		}
	}
	return answer, nil
}

// addKeys says which keys the tasks of a span have that is not sorted.
func (b *keyTake) addKeys(held *store.HeldSpan) error {
	var bad error
	err := b.members().members(held.Batch, held.Lo, held.Hi, brief, func(s *member) bool {
		if len(held.Keys) < len(held.Tasks) && s.N == held.Tasks[len(held.Keys)].N {
			var key string
			key, bad = b.conn.limits().keyOfMember(&held.Span, s)
			held.Keys = append(held.Keys, key)
		}
		return bad == nil
	})
	return cmp.Or(err, bad)
}

// sort gives the first ready spans keys; more tells that there are others.
func (b *keyTake) sort() (more bool, err error) {
	list, err := b.tx.spans().ready(readySpans, store.TakeRequest{
		Queue: b.Queue, Limit: rules.SortedAtOnce,
	})
	if err != nil {
		return false, err
	}
	for i := range list {
		if err := b.sortSpan(&list[i]); err != nil {
			return false, fmt.Errorf("find out keys of span %d: %w", list[i].ID, err)
		}
	}
	rest, err := b.tx.spans().ready(readySpans, store.TakeRequest{Queue: b.Queue, Limit: 1})
	return len(rest) > 0, err
}

func (b *keyTake) sortSpan(f *free) error {
	runs := rules.RunsOf(&f.Span)
	var bad error
	err := b.members().members(f.Batch, f.Lo, f.Hi, brief, func(s *member) bool {
		if s.Base != f.Seq0 {
			return true
		}
		var key string
		key, bad = b.conn.limits().keyOfMember(&f.Span, s)
		runs.Add(s.N, key)
		return bad == nil
	})
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	for i, run := range runs.List() {
		if i == 0 { // it keeps its row, and with it what was handed out under its token
			if _, err := b.exec(setKey, run.Hi, run.Size, run.Key, f.ID); err != nil {
				return err
			}
			continue
		}
		sp := f.Span
		sp.Lo, sp.Hi, sp.Key, sp.Sorted = run.Lo, run.Hi, run.Key, true
		gaps := f.gaps || run.Size != width(&sp)
		if _, err := b.tx.spans().insertSpan(sp, run.Size, gaps); err != nil {
			return err
		}
	}
	return nil
}

// byRank chooses among the first sorted spans.
func (b *keyTake) byRank() error {
	var list []store.Span
	if err := b.each(sortedSpans, func(st *sqlite.Stmt) bool {
		list = append(list, scanSpan(st))
		return true
	}, b.Queue, b.now, rules.SpansByRank*b.Limit); err != nil {
		return err
	}
	return b.offer(list)
}

// byTurn chooses among the spans of the next keys. It says behind which key to go on, and whether
// keys that it looked at may have more.
func (b *keyTake) byTurn() (after *string, cut bool, err error) {
	var open []string
	at, after := firstKey, b.Keys.After
	for looked := 0; looked < rules.KeysAtOnce && len(open) < b.Limit; looked++ {
		args := []any{b.Queue}
		if after != nil {
			at, args = nextKey, append(args, *after)
		}
		key := ""
		found, err := b.one(at, func(st *sqlite.Stmt) { key = st.ColumnText(0) }, args...)
		if err != nil {
			return nil, false, err
		}
		if !found {
			after = nil
			break
		}
		after = &key
		if err := b.stands(key); err != nil {
			return nil, false, err
		}
		if b.choice.Open(key) {
			open = append(open, key)
		}
	}
	if len(open) == 0 {
		return after, false, nil
	}
	turns, err := b.turnsOf(open)
	if err != nil {
		return nil, false, err
	}
	rounds, most := b.choice.Rounds(turns)
	lists := make([][]store.Span, len(open))
	for i, key := range open {
		if err := b.each(spansOfKey, func(st *sqlite.Stmt) bool {
			lists[i] = append(lists[i], scanSpan(st))
			return true
		}, b.Queue, key, b.now, most[i]); err != nil {
			return nil, false, err
		}
	}
	for round := range rounds {
		for i, list := range lists {
			from, to := min(round*turns[i], len(list)), min((round+1)*turns[i], len(list))
			if err := b.offer(list[from:to]); err != nil {
				return nil, false, err
			}
		}
	}
	for i, key := range open {
		cut = cut || len(lists[i]) == most[i] && b.choice.Open(key)
	}
	return after, cut, nil
}

// turnsOf is how many spans a turn of each of some keys has.
func (b *keyTake) turnsOf(keys []string) (turns []int, err error) {
	turns = make([]int, len(keys))
	for i, key := range keys {
		if turns[i], err = b.turnOf(key); err != nil {
			return nil, err
		}
	}
	return turns, nil
}

// noteTurn answers how many tasks a turn of a key has, if that is not one.
func (b *keyTake) noteTurn(key string, answer *store.Taken) error {
	turn, err := b.turnOf(key)
	if turn > 1 {
		if answer.Turns == nil {
			answer.Turns = map[string]int{}
		}
		answer.Turns[key] = turn
	}
	return err
}

// turnOf is how many tasks a turn of a key has.
func (b *keyTake) turnOf(key string) (int, error) {
	if !b.gates.rules {
		return 1, nil
	}
	rule, err := b.conn.limits().keyRule(b.Queue, key)
	return rule.Turn(), err
}

// offer has the choice between spans.
func (b *keyTake) offer(list []store.Span) error {
	for i := range list {
		sp := &list[i]
		if b.choice.Enough() {
			return nil
		}
		if err := b.stands(sp.Key); err != nil {
			return err
		}
		if only := b.choice.Only(sp.Key); only != 0 {
			*sp = b.spans[only]
		}
		b.spans[sp.ID] = *sp
		b.choice.Offer(sp.ID, sp.Key, width(sp))
	}
	return nil
}

// stands tells the choice how a key stands.
func (b *keyTake) stands(key string) error {
	if b.choice.Knows(key) {
		return nil
	}
	stand, err := b.conn.limits().keyStand(&b.gates, key)
	if err == nil && stand != nil && stand.InOrder() {
		err = b.next(stand)
	}
	b.choice.Stands(key, stand)
	return err
}

// keyStand reads how a key of a queue stands; nil = it has no limits.
func (c limitReads) keyStand(of *gates, key string) (*rules.KeyStand, error) {
	if key == "" || of.perKey.None() && !of.rules {
		return nil, nil
	}
	g := &rules.KeyStand{KeyGate: store.KeyGate{
		Queue: of.Queue, Key: key,
		Gate: admission.Gate{Limits: of.perKey, Bucket: admission.Bucket{At: of.since}},
	}}
	if of.rules {
		rule, err := c.keyRule(of.Queue, key)
		if err != nil {
			return nil, err
		}
		g.Paused = rule.Paused
	}
	if of.perKey.Rate.Count > 0 {
		if _, err := c.one(bucketOf, func(st *sqlite.Stmt) {
			g.Bucket = admission.Bucket{Level: st.ColumnInt64(0), At: st.ColumnInt64(1)}
		}, of.Queue, key, of.since); err != nil {
			return nil, err
		}
	}
	if most := of.perKey.Running; most > 0 {
		if _, err := c.one(countOfKey, func(st *sqlite.Stmt) {
			g.Running = st.ColumnInt(0)
		}, of.Queue, key, most); err != nil {
			return nil, err
		}
	}
	if !g.InOrder() {
		return g, nil
	}
	o, err := c.owner(of.Queue, key)
	g.SetOwner(o, of.onDead)
	return g, err
}

// KeyGates says how keys of a queue stand beside the limits of each key. See contract.Views.
func (s *limitCalls) KeyGates(
	ctx context.Context, queue string, keys []string,
) (now int64, list []store.KeyGate, err error) {
	err = s.read(ctx, func(c *conn) error {
		now, list = s.clock(), nil
		g, limited, err := c.limits().gates(queue)
		if err != nil || !limited {
			return err
		}
		for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
			stand, err := c.limits().keyStand(&g, key)
			if err != nil {
				return err
			}
			if stand != nil {
				list = append(list, stand.KeyGate)
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read limits of %d keys of queue %q: %w", len(keys), queue, err)
	}
	return now, list, nil
}

// keepBuckets writes down what keys have left of their rate, and drops some rows of others that
// have all of it again.
func (t limitWrites) keepBuckets(of *gates, list []store.KeyGate) error {
	if of.perKey.Rate.Count == 0 || len(list) == 0 {
		return nil
	}
	for i := range list {
		k := &list[i]
		if _, err := t.exec(keepKey, k.Queue, k.Key, k.Bucket.Level, k.Bucket.At,
			k.Bucket.FullAt(&of.perKey.Rate)); err != nil {
			return err
		}
	}
	_, err := t.exec(dropBuckets, of.Queue, t.now, 2*len(list))
	return err
}
