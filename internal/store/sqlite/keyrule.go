package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// The table key_rule says what people and handlers have said of single group keys. Whether a queue
// has any stands in its configuration, so that other queues pay nothing.

const (
	findKeyRule   = `SELECT paused, weight FROM key_rule WHERE queue = ? AND key = ?`
	putKeyRule    = `REPLACE INTO key_rule (queue, key, paused, weight) VALUES (?, ?, ?, ?)`
	deleteKeyRule = `DELETE FROM key_rule WHERE queue = ? AND key = ?`
	anyKeyRule    = `SELECT 1 FROM key_rule WHERE queue = ? LIMIT 1`
	keyRulesOver  = `SELECT queue, key FROM key_rule INDEXED BY key_rule_over
WHERE weight = 0 AND paused <= ? ORDER BY paused, queue, key LIMIT ?`
	noteKeyRules  = `UPDATE queue SET key_rules = ? WHERE name = ?`
	standingRules = `SELECT count(*) FROM (SELECT 1 FROM key_rule INDEXED BY key_rule_stands
WHERE queue = ? AND (weight > 0 OR paused = ` + never + `) LIMIT ?)`
	pausedKeys = `SELECT count(*) FROM (SELECT 1 FROM key_rule
WHERE queue = ? AND paused > ? LIMIT 1000)`
	keyRulesOf = `SELECT key, paused, weight FROM key_rule WHERE queue = ? ORDER BY key LIMIT ?`

	// Spans of a queue that are due: those with a key, those that nobody has looked at, and those
	// of them that somebody holds.
	dueSorted = `SELECT ` + spanColumns + `, size FROM span INDEXED BY span_order
WHERE key IS NOT NULL AND queue = ?1 AND due <= ?2 ORDER BY key, rank, batch, lo LIMIT ?3`
	dueUnsorted = `SELECT ` + spanColumns + `, size FROM span INDEXED BY span_ready
WHERE holder IS NULL AND key IS NULL AND queue = ?1 AND rank <= ?2 AND due <= ?2
ORDER BY rank, id LIMIT ?3`
	dueHeld = `SELECT ` + spanColumns + `, size FROM span INDEXED BY span_held
WHERE holder IS NOT NULL AND key IS NULL AND queue = ?1 AND due <= ?2 LIMIT ?3`
)

// keyRule is what is said of a key.
func (c limitReads) keyRule(queue, key string) (store.KeyRule, error) {
	r := store.KeyRule{Queue: queue, Key: key}
	_, err := c.one(findKeyRule, func(st *sqlite.Stmt) {
		r.Paused, r.Weight = st.ColumnInt64(0), st.ColumnInt(1)
	}, queue, key)
	return r, err
}

// ChangeKey changes what is said of a key. See contract.Queues.
func (s *limitCalls) ChangeKey(
	ctx context.Context, c store.KeyChange,
) (rule store.KeyRule, err error) {
	err = s.write(ctx, func(t *tx) (err error) {
		rule, err = t.limits().changeKey(&c)
		return err
	})
	if err != nil {
		return store.KeyRule{}, fmt.Errorf("change key %q of queue %q: %w", c.Key, c.Queue, err)
	}
	return rule, nil
}

func (t limitWrites) changeKey(c *store.KeyChange) (rule store.KeyRule, err error) {
	found, err := t.has(findQueue, c.Queue)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return rule, err
	}
	before, err := t.conn.limits().keyRule(c.Queue, c.Key)
	if err != nil {
		return rule, err
	}
	rule = rules.ChangeKeyRule(before, c, t.now)
	if rule.Stands() && !before.Stands() {
		n := 0
		if _, err := t.one(standingRules, func(st *sqlite.Stmt) { n = st.ColumnInt(0) }, c.Queue,
			store.MaxKeyRules); err != nil {
			return rule, err
		}
		if n >= store.MaxKeyRules {
			return rule, store.ErrKeyRules
		}
	}
	return rule, t.setKeyRule(&rule)
}

// setKeyRule writes a rule down, or deletes that of a key of which nothing is said.
func (t limitWrites) setKeyRule(r *store.KeyRule) (err error) {
	if rules.SaysNothing(r) {
		_, err = t.exec(deleteKeyRule, r.Queue, r.Key)
	} else {
		_, err = t.exec(putKeyRule, r.Queue, r.Key, r.Paused, r.Weight)
	}
	if err != nil {
		return err
	}
	return t.noteKeyRules(r.Queue)
}

// noteKeyRules notes in the configuration of a queue whether any of its keys has a rule.
func (t limitWrites) noteKeyRules(queue string) error {
	any, err := t.has(anyKeyRule, queue)
	if err != nil {
		return err
	}
	var before task.Queue
	if _, err := t.one(findQueue, func(st *sqlite.Stmt) { before = scanQueue(st) },
		queue); err != nil || before.KeyRules == any {
		return err
	}
	if _, err := t.exec(noteKeyRules, any, queue); err != nil {
		return err
	}
	after := before
	after.KeyRules = any
	return t.changeGate(&before, &after)
}

// holdKey pauses the group key of a task, if it has one.
func (t limitWrites) holdKey(queue string, id task.ID, hold time.Duration) error {
	key, err := t.conn.limits().groupKey(id)
	if err != nil || key == "" {
		return err
	}
	before, err := t.conn.limits().keyRule(queue, key)
	if err != nil {
		return err
	}
	rule := rules.ChangeKeyRule(before, &store.KeyChange{Hold: hold}, t.now)
	return t.setKeyRule(&rule)
}

// groupKey is that of a task as it stands; "" = it has none.
func (c limitReads) groupKey(id task.ID) (string, error) {
	keys, err := c.groupKeys(id.Batch, id.N, id.N)
	return keys[id.N%pack.Size], err
}

// keyOfMember is the group key of a task of a span.
func (c limitReads) keyOfMember(sp *store.Span, s *member) (string, error) {
	if sp.Seq0 > 0 { // who is edited moves into a span of its own
		o, found, err := c.facts().override(task.ID{Batch: sp.Batch, N: s.N})
		if err != nil || found {
			return o.GroupKey, err
		}
	}
	return s.GroupKey, nil
}

// pruneKeyRules deletes the rules of keys whose pauses are over.
func (t limitWrites) pruneKeyRules(limit int) (pruned int, err error) {
	var over []store.KeyRule
	if err := t.each(keyRulesOver, func(st *sqlite.Stmt) bool {
		over = append(over, store.KeyRule{Queue: st.ColumnText(0), Key: st.ColumnText(1)})
		return true
	}, t.now, limit); err != nil {
		return 0, err
	}
	var queues []string
	for i := range over {
		if _, err := t.exec(deleteKeyRule, over[i].Queue, over[i].Key); err != nil {
			return pruned, err
		}
		queues = append(queues, over[i].Queue)
	}
	for _, queue := range slices.Compact(slices.Sorted(slices.Values(queues))) {
		if err := t.noteKeyRules(queue); err != nil {
			return pruned, err
		}
	}
	return len(over), nil
}

// Keys says how much work the group keys of a queue have. See contract.Views.
func (s *limitCalls) Keys(ctx context.Context, queue string) (answer store.KeyUses, err error) {
	err = s.read(ctx, func(c *conn) error {
		u := rules.NewKeyUses(queue, s.clock())
		if err := c.each(keyRulesOf, func(st *sqlite.Stmt) bool {
			return u.Rule(st.ColumnText(0), st.ColumnInt64(1), st.ColumnInt(2))
		}, queue, store.KeysExamined+1); err != nil {
			return err
		}
		for _, query := range []string{dueSorted, dueUnsorted, dueHeld} {
			if err := c.limits().keysOfSpans(u, query); err != nil {
				return err
			}
		}
		answer = u.Answer()
		return nil
	})
	if err != nil {
		return store.KeyUses{}, fmt.Errorf("look at the keys of queue %q: %w", queue, err)
	}
	return answer, nil
}

// keysOfSpans counts the tasks of some spans by key.
func (c limitReads) keysOfSpans(u *rules.KeyUses, query string) error {
	type sized struct {
		store.Span
		size int
	}
	var list []sized
	if err := c.each(query, func(st *sqlite.Stmt) bool {
		list = append(list, sized{scanSpan(st), st.ColumnInt(st.ColumnCount() - 1)})
		return true
	}, u.Queue, u.Now, u.Left()+1); err != nil {
		return err
	}
	for i := range list {
		sp := &list[i]
		if u.Left() <= 0 {
			u.Cut()
			return nil
		}
		if sp.Sorted && sp.Token == 0 { // nobody ever held it, so nothing of it is over or runs
			u.Examined()
			u.Ready(sp.Key, sp.size)
			continue
		}
		u.Opened()
		if err := c.keysOfSpan(u, &sp.Span); err != nil {
			return err
		}
	}
	return nil
}

// keysOfSpan counts the tasks of a span one by one.
func (c limitReads) keysOfSpan(u *rules.KeyUses, sp *store.Span) error {
	runs := map[int32]int32{} // the seqs of running rows, by number
	if sp.Token > 0 {         // of one that nobody ever held none run
		if err := c.each(runningIn, func(st *sqlite.Stmt) bool {
			r := scanRunning(st)
			runs[r.ID.N] = max(runs[r.ID.N], r.Seq)
			return true
		}, sp.Batch, sp.Lo, sp.Hi); err != nil {
			return err
		}
	}
	var bad error
	err := c.members().members(sp.Batch, sp.Lo, sp.Hi, brief, func(s *member) bool {
		if u.Left() <= 0 {
			u.Cut()
			return false
		}
		if u.Examined(); s.Base != sp.Seq0 {
			return true
		}
		key := sp.Key
		if !sp.Sorted {
			key, bad = c.keyOfMember(sp, s)
		}
		switch seq, running := runs[s.N]; {
		case running && seq == s.Seq+1:
			u.Running(key)
		case max(sp.Due, s.outcome.Due) <= u.Now:
			u.Ready(key, 1)
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}
