package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// submissionWrites inserts what is submitted: batches, packs, keys and spans.
type submissionWrites struct{ *tx }

func (t *tx) submissions() submissionWrites { return submissionWrites{t} }

// Submit inserts batches with their tasks, keys and spans. See contract.Spans.
func (s *spanCalls) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	var answer store.Submitted
	err := s.room()
	if err == nil {
		err = s.write(ctx, func(t *tx) (err error) {
			if sub.Under != nil {
				answer, err = t.children().submitUnder(&sub)
			} else {
				answer, err = t.submissions().submit(&sub)
			}
			return err
		})
	}
	if err != nil { // its large contexts stay: it may be tried again
		return store.Submitted{}, fmt.Errorf("submit: %w", err)
	}
	if len(answer.Existing) > 0 {
		s.values.dropUnused(ctx, largeOf(sub))
	}
	return answer, nil
}

// largeOf lists the contexts of a submission that are blobs.
func largeOf(sub store.Submission) (large []store.Value) {
	for i := range sub.Batches {
		for k := range sub.Batches[i].Tasks {
			if v := sub.Batches[i].Tasks[k].Context; len(v) > 0 && v[0] == 0 {
				large = append(large, v)
			}
		}
	}
	return large
}

func (t submissionWrites) submit(sub *store.Submission) (store.Submitted, error) {
	answer := store.Submitted{Now: t.now}
	granted, err := t.leases().lives(sub.Holder)
	if err != nil {
		return answer, err
	}
	for _, name := range sub.NewQueues {
		if _, err := t.queues().putQueue(insertQueue, limits.DefaultQueue(name)); err != nil {
			return answer, err
		}
	}
	unique, err := t.uniqueKeys().chooseUnique(sub)
	if err != nil {
		return answer, err
	}
	repeats := false // all of them, or none
	for i := range sub.Batches {
		b := &sub.Batches[i]
		if unique.Refuses(b) {
			continue
		}
		repeated, err := t.repeat(b, sub.Holder, &answer)
		if err == nil && !repeated {
			err = t.insertBatch(b, sub.Holder, granted, unique, &answer)
		}
		repeats = repeats || repeated
		if err != nil {
			return answer, fmt.Errorf("batch %d: %w", b.ID, err)
		}
	}
	d := depending{tx: t.tx, refuses: unique.Refuses, repeats: repeats}
	if answer.Look, err = d.write(sub.Batches, answer.Existing); err != nil {
		return answer, err
	}
	if unique == nil {
		return answer, nil
	}
	answer.Refused = unique.Refusals()
	return answer, t.uniqueKeys().replaceWaiting(unique)
}

const findBatch = `SELECT origin, span, granted, existing FROM batch WHERE id = ?`

// repeat answers a batch that stands already as the first time.
func (t submissionWrites) repeat(
	b *store.Batch, h store.Holder, answer *store.Submitted,
) (repeated bool, err error) {
	var origin string
	var span int64
	var granted bool
	var existing []byte
	repeated, err = t.one(findBatch, func(st *sqlite.Stmt) {
		origin, span, granted = st.ColumnText(0), st.ColumnInt64(1), st.ColumnBool(2)
		existing = bytesOf(st, 3)
	}, b.ID)
	if err != nil || !repeated {
		return false, err
	}
	if origin != b.Origin {
		return true, fmt.Errorf("it stands already, from %q: %w", origin, store.ErrConflict)
	}
	for i, n := range b.Spans {
		answer.Spans = append(answer.Spans, newSpan(span+int64(i), b, n, h, granted))
	}
	list, err := store.DecodeExisting(b.ID, existing)
	if err != nil {
		return true, err
	}
	answer.Existing = append(answer.Existing, list...)
	return true, nil
}

// newSpan is a span as its submission is answered.
func newSpan(id int64, b *store.Batch, n store.NewSpan, h store.Holder, granted bool) store.Span {
	sp := store.Span{
		ID: id, Batch: b.ID, Lo: n.Lo, Hi: n.Hi, Queue: b.Queue, Rank: b.Rank, Due: b.Due,
	}
	if n.Hold && granted {
		sp.Holder, sp.Token = h, 1
	}
	if b.Depends() {
		sp.Rank, sp.Due = store.Never, store.Never
	}
	return sp
}

const insertBatch = `INSERT INTO batch (id, queue, rank, due, created, origin, span, granted,
existing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (t submissionWrites) insertBatch(
	b *store.Batch, h store.Holder, granted bool, unique *rules.UniqueChoice,
	answer *store.Submitted,
) error {
	before := len(answer.Existing)
	existing := unique.ExistingIn(b)
	answer.Existing = append(answer.Existing, existing...)
	tasks, err := t.withoutExisting(b, existing, answer)
	if err != nil {
		return err
	}
	first, err := t.spans().spanIDs(len(b.Spans))
	if err != nil {
		return err
	}
	for i, n := range b.Spans {
		answer.Spans = append(answer.Spans, newSpan(first+int64(i), b, n, h, granted))
	}
	spans := answer.Spans[len(answer.Spans)-len(b.Spans):]
	if err := t.spans().insertSpans(spans, tasks); err != nil {
		return err
	}
	if _, err := t.exec(
		insertBatch, b.ID, b.Queue, b.Rank, b.Due, b.Created, b.Origin, first, granted,
		store.EncodeExisting(answer.Existing[before:]),
	); err != nil {
		return err
	}
	if err := t.insertTasks(b.ID, tasks); err != nil {
		return err
	}
	if at := rules.FirstLimit(b.Due, tasks); at != 0 {
		if err := t.expiries().lookAt(b.ID, at); err != nil {
			return err
		}
	}
	for i := range tasks {
		id := task.ID{Batch: b.ID, N: tasks[i].N}
		if err := t.values().noteBlobs(id, tasks[i].Context); err != nil {
			return err
		}
	}
	t.stat(b.Queue).Submitted += int64(len(tasks))
	t.history.Submitted(b.Created, b.Queue, tasks)
	return nil
}

const insertKey = `INSERT INTO task_key (queue, key, batch, n, until) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET batch = ?3, n = ?4, until = ?5`

// withoutExisting claims the tasks' keys and leaves out those whose key another task has; existing
// are those, in order, of which it is known.
func (t submissionWrites) withoutExisting(
	b *store.Batch, existing []store.Existing, answer *store.Submitted,
) ([]store.Task, error) {
	var left []store.Task // copied when the first one is left out
	out := false
	for i := range b.Tasks {
		k := &b.Tasks[i]
		if len(existing) > 0 && existing[0].ID.N == k.N {
			if !out {
				out, left = true, append(left, b.Tasks[:i]...)
			}
			existing = existing[1:]
			continue
		}
		if k.Key != "" {
			first, found, err := t.keyed(b.Queue, k.Key)
			if err != nil {
				return nil, err
			}
			if found {
				if !out {
					out, left = true, append(left, b.Tasks[:i]...)
				}
				answer.Existing = append(answer.Existing, store.Existing{
					ID: task.ID{Batch: b.ID, N: k.N}, First: first, Action: task.SubmittedKept,
				})
				continue
			}
			if _, err := t.exec(insertKey, b.Queue, k.Key, b.ID, k.N, k.KeyUntil); err != nil {
				return nil, err
			}
		}
		if out {
			left = append(left, *k)
		}
	}
	if !out {
		return b.Tasks, nil
	}
	return left, nil
}

const findKey = `SELECT batch, n FROM task_key WHERE queue = ? AND key = ? AND until > ?`

// keyed is the task that has a key.
func (t submissionWrites) keyed(queue, key string) (id task.ID, found bool, err error) {
	found, err = t.one(findKey, func(st *sqlite.Stmt) {
		id = task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}
	}, queue, key, t.now)
	return id, found, err
}

const (
	reserveSpans  = `UPDATE store SET spans = spans + ?`
	reservedSpans = `SELECT spans FROM store`
)

// spanBlock is how many span ids are reserved at once: one row is written for so many, and as many
// may stay unused at a stop.
const spanBlock = 1 << 20

// spans are reserved ids: next to end-1.
type spans struct{ next, end int64 }

// spanIDs gives n consecutive ids that no span ever had. They count as used when the transaction is
// committed.
func (t spanWrites) spanIDs(n int) (first int64, err error) {
	if t.reserved.end-t.reserved.next < int64(n) {
		size := max(spanBlock, int64(n))
		if _, err := t.exec(reserveSpans, size); err != nil {
			return 0, err
		}
		_, err = t.one(reservedSpans, func(st *sqlite.Stmt) {
			end := st.ColumnInt64(0) + 1
			t.reserved = spans{end - size, end}
		})
	}
	first = t.reserved.next
	t.reserved.next += int64(n)
	return first, err
}

var spanInserter = newInserter("span",
	[]string{"batch", "seq0", "queue", "rank", "due", "holder", "htok", "token", "deaths", "key",
		"linked"},
	[]string{"id", "lo", "hi", "size", "gaps"})

// insertSpans inserts the spans of a new batch and notes which of its tasks they have.
func (t spanWrites) insertSpans(list []store.Span, tasks []store.Task) error {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Token == list[0].Token { // held ones, or free ones
			n++
		}
		next := 0
		err := spanInserter.insert(t.conn, n, func(st *sqlite.Stmt) {
			bindSpan(st, &list[0])
		}, func(st *sqlite.Stmt, p, i int) {
			size := next
			for next < len(tasks) && tasks[next].N <= list[i].Hi {
				next++
			}
			size = next - size
			bindOwn(st, p, &list[i], size, size != width(&list[i]))
		}, nil)
		if err != nil {
			return err
		}
		list, tasks = list[n:], tasks[next:]
	}
	return nil
}

// insertSpan inserts a span of size tasks and answers its id.
func (t spanWrites) insertSpan(sp store.Span, size int, gaps bool) (id int64, err error) {
	if sp.ID, err = t.spanIDs(1); err != nil {
		return 0, err
	}
	return sp.ID, spanInserter.insert(t.conn, 1, func(st *sqlite.Stmt) {
		bindSpan(st, &sp)
	}, func(st *sqlite.Stmt, p, _ int) {
		bindOwn(st, p, &sp, size, gaps)
	}, nil)
}

func bindSpan(st *sqlite.Stmt, sp *store.Span) {
	st.BindInt64(1, sp.Batch)
	st.BindInt64(2, int64(sp.Seq0))
	st.BindText(3, sp.Queue)
	st.BindInt64(4, sp.Rank)
	st.BindInt64(5, sp.Due)
	bindText(st, 6, sp.Holder.Node)
	st.BindInt64(7, sp.Holder.Token)
	st.BindInt64(8, sp.Token)
	st.BindInt64(9, int64(sp.Deaths))
	if st.BindText(10, sp.Key); !sp.Sorted {
		st.BindNull(10)
	}
	st.BindInt64(11, int64(sp.Linked))
}

func bindOwn(st *sqlite.Stmt, p int, sp *store.Span, size int, gaps bool) {
	st.BindInt64(p, sp.ID)
	st.BindInt64(p+1, int64(sp.Lo))
	st.BindInt64(p+2, int64(sp.Hi))
	st.BindInt64(p+3, int64(size))
	st.BindBool(p+4, gaps)
}

const findLease = `SELECT 1 FROM lease WHERE name = 'node/' || ? AND token = ? AND until > ?`

// lives is the rule LEASE: a holder whose lease is gone changes nothing.
func (t leaseWrites) lives(h store.Holder) (bool, error) {
	return t.has(findLease, h.Node, h.Token, t.now)
}
