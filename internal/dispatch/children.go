package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Children are submitted with the report of their parent's outcome, in its transaction, or before
// it by a call of their own, with the token of its hand-out. Their spans are free from the start,
// so that whichever node has workers waiting takes them. Whose children tasks are their spans say,
// as all tasks of a span are of one batch.

// brood are children before they have ids.
type brood struct {
	tasks    []task.Submission // with what they have of their parent
	contexts []store.Value     // of the tasks; large ones are in the blob store already
	bytes    int               // of the others
	others   [][]limits.Other  // that tasks wait for; nil = none of them does
}

// size is the weight in a gather, as a submission's.
func (b *brood) size() int {
	if b == nil {
		return 0
	}
	return (len(b.tasks)+countOthers(b.others))<<10 + b.bytes
}

// checkBroods refuses a call with more children than a submission may have tasks.
func checkBroods(reports []task.Report) error {
	n := 0
	for i := range reports {
		if n += len(reports[i].Spawn); n > task.MaxSubmissions {
			e := &task.InvalidError{}
			e.Add(fmt.Sprintf("body.reports[%d].spawn", i), "more than %d children in one call",
				task.MaxSubmissions)
			return e
		}
	}
	return nil
}

// broodOf readies the children of a report. invalid says what is wrong with them, each with its
// place; nil and "" when there are none.
func (ss *submissions) broodOf(
	ctx context.Context, r *task.Report,
) (b *brood, invalid string, err error) {
	if len(r.Spawn) > 0 {
		if b, invalid, err = ss.spawned(ctx, r); err != nil || invalid != "" {
			return nil, invalid, err
		}
	}
	if r.Await != nil && r.Await.Children != "" {
		invalid, err = ss.waitsForParent(ctx, r.ID, b)
	}
	return b, invalid, err
}

// spawned readies the children of a report that has some.
func (ss *submissions) spawned(
	ctx context.Context, r *task.Report,
) (b *brood, invalid string, err error) {
	meta, err := ss.metaOf(ctx, r.ID)
	if err != nil {
		return nil, "", err
	}
	b, err = ss.brood(ctx, r.ID, r.Spawn, meta, "spawn")
	if wrong, ok := errors.AsType[*task.InvalidError](err); ok {
		places := make([]string, 0, shownFaults)
		for i := range wrong.Fields {
			if i == shownFaults {
				break
			}
			places = append(places, wrong.Fields[i].Location+": "+wrong.Fields[i].Message)
		}
		return nil, strings.Join(places, "; "), nil
	}
	return b, "", err
}

// standingChildren is among how many children, the oldest ones, is looked for those that would wait
// for their parent.
const standingChildren = 1000

// waitsForParent names a child that would wait for the end of the parent that waits for it: one of
// the parent's key, in its queue, whose keys go in order. b are those that come with the report;
// nil = none do. "" = no child would, as far as this node knows.
func (ss *submissions) waitsForParent(
	ctx context.Context, parent task.ID, b *brood,
) (string, error) {
	queue, key := ss.ordered(parent)
	if key == "" {
		return "", nil
	}
	const why = "keys of queue %q go in order, so this child of key %q begins when its parent is " +
		"over, which waits for it: give it another key, or none"
	if b != nil {
		for i := range b.tasks {
			if b.tasks[i].Queue == queue && b.tasks[i].GroupKey == key {
				return fmt.Sprintf("spawn[%d].group_key: "+why, i, queue, key), nil
			}
		}
	}
	page, _, err := ss.store.Children(ctx, store.ChildrenQuery{
		Parent: parent, Limit: standingChildren,
	})
	for i := range page {
		v := &page[i]
		if v.Queue == queue && v.GroupKey == key && !v.State.Final() {
			return fmt.Sprintf("await: child %v: "+why, v.ID, queue, key), err
		}
	}
	return "", err
}

// ordered is the queue and the key of a task whose key goes in order; "" = it has none, or this
// node does not know.
func (ss *submissions) ordered(id task.ID) (queue, key string) {
	ss.mu.Lock()
	defer ss.release()
	it := ss.mem.item(id)
	if it == nil || !it.queue.conf.PerKey.InOrder() {
		return "", ""
	}
	return it.queue.name, it.key()
}

// shownFaults are so many faults of children as a report's answer tells.
const shownFaults = 10

// brood readies children of a task with a meta: it checks them, under a location, and keeps their
// large contexts.
func (ss *submissions) brood(
	ctx context.Context, parent task.ID, children []task.Submission, meta store.Meta,
	location string,
) (*brood, error) {
	b := &brood{
		tasks: slices.Clone(children), contexts: make([]store.Value, len(children)),
	}
	parents := meta.Strings()
	for i := range b.tasks {
		b.tasks[i].Queue = names.Canonical(b.tasks[i].Queue)
		b.tasks[i] = limits.WithMeta(b.tasks[i], parents)
	}
	if err := ss.checkTasks(b.tasks, location, limits.CheckChild); err != nil {
		return nil, err
	}
	var err error
	if b.others, err = ss.others(ctx, b.tasks, parent, location); err != nil {
		return nil, err
	}
	b.bytes, err = ss.keepContexts(ctx, b.tasks, b.contexts)
	return b, err
}

// metaOf are the strings that a task carries; of one that there is not, none.
func (ss *submissions) metaOf(ctx context.Context, id task.ID) (store.Meta, error) {
	ss.mu.Lock()
	s := ss.mem.find(id)
	here := s.cell != nil
	meta := store.Meta("")
	if here && s.cell.item != nil {
		meta = s.cell.item.meta
	}
	ss.release()
	if here {
		return meta, nil
	}
	stood, err := ss.store.Stand(ctx, []task.ID{id})
	if err != nil {
		ss.note(err)
		return "", fmt.Errorf("read where task %s stands: %w", id, err)
	}
	return stood[0].Meta, nil
}

// broodKey is what the tasks of a batch of children share.
type broodKey struct {
	queue     string
	rank, due int64
	orphan    bool
	waits     bool // for other tasks
}

// bear sorts children into batches of equal queue, rank and due, apart from orphans, and from those
// that wait for others. Their numbers are their places among all of them; ids are those that they
// will have.
func (bs *batchIDs) bear(b *brood, at int64) (list []store.Batch, ids []task.ID) {
	index := map[broodKey]int{}
	ids = make([]task.ID, len(b.tasks))
	for i := range b.tasks {
		t, n := &b.tasks[i], int32(i)
		due := dueOf(t, at)
		key := broodKey{
			t.Queue, progress.Rank(due, t.Priority), due, t.Orphan, len(t.After) > 0,
		}
		k, ok := index[key]
		if !ok {
			k = len(list)
			index[key] = k
			id := bs.nextChildren(at)
			if key.waits {
				id |= store.DependBit
			}
			list = append(list, store.Batch{
				ID: id, Queue: key.queue, Rank: key.rank, Due: due, Created: createdAt(id, at),
				Origin: bs.origin, Orphan: t.Orphan,
			})
			if k == 0 { // mostly it is the only one
				list[0].Tasks = make([]store.Task, 0, len(b.tasks))
			}
		}
		ids[i] = task.ID{Batch: list[k].ID, N: n}
		list[k].Tasks = append(list[k].Tasks, rowOf(t, n, b.contexts[i], at))
	}
	dependOn(list, ids, b.tasks, b.others)
	for k := range list {
		rows := list[k].Tasks
		list[k].Spans = []store.NewSpan{{Lo: rows[0].N, Hi: rows[len(rows)-1].N}}
	}
	return list, ids
}

// spawn adds the children of a report, which are submitted if it is recorded.
func (r *reporting) spawn(m *memory, b *brood, at int64) {
	if b != nil {
		r.row.Spawn, _ = m.bear(b, at)
	}
}

// hearSpawned takes in that children of a report came to be.
func (m *memory) hearSpawned(r *store.Report, storeNow int64, now time.Time, touch func(*queue)) {
	for i := range r.Spawn {
		b := &r.Spawn[i]
		q := m.queue(b.Queue)
		q.stored = true
		if b.Depends() { // nobody takes it before the store says so
			continue
		}
		q.reserve = time.Time{}
		q.signAt(b.Rank, b.Due, storeNow, now)
		touch(q)
	}
}

// noteSpawned gives the ids of children to the settlements that had their reports.
func noteSpawned(load []*settlement, spawned []store.Spawned) {
	first := 0
	for _, s := range load {
		for _, x := range spawned {
			if i := x.Report - first; i >= 0 && i < len(s.reports) {
				if s.spawned == nil {
					s.spawned = map[int][]task.ID{}
				}
				s.spawned[i] = x.IDs
			}
		}
		first += len(s.reports)
	}
}

// fell takes out of memory, and of workers' hands, the children that a look cancelled.
func (m *memory) fell(ids []task.ID, now time.Time) {
	for _, id := range ids {
		if it := m.item(id); it != nil {
			it.leave(it.queue.name, true, now)
		}
		m.watchers.tell(id, &m.do)
	}
}

// AddChildren submits children of a task that a worker has in its hands, all or none of them, and
// answers after they are durable. Any node does it, by the token of the hand-out. Errors:
// *task.InvalidError with locations below "body", store.ErrConflict when the hand-out is no longer
// the worker's, and as of Submit.
func (ss *submissions) AddChildren(
	ctx context.Context, worker string, id task.ID, token string, children []task.Submission,
) ([]task.Receipt, error) {
	worker = names.Canonical(worker)
	e := &task.InvalidError{}
	if !limits.ValidName(worker) {
		e.Add("body.worker", "%.40q %s", worker, limits.NameRule)
	}
	given, err := task.ParseToken(token)
	if err != nil {
		e.Add("body.token", "%.60q is not a hand-out token", token)
	}
	if len(children) > task.MaxSubmissions {
		e.Add("body.tasks", "%d tasks are too many: at most %d in one call", len(children),
			task.MaxSubmissions)
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	if ss.mem.seals.Check(given, id) != seal.Good {
		return nil, notYours(id)
	}
	if len(children) == 0 {
		return nil, nil
	}
	if err := ss.open(); err != nil {
		return nil, err
	}
	meta, err := ss.metaOf(ctx, id)
	if err != nil {
		return nil, err
	}
	b, err := ss.brood(ctx, id, children, meta, "body.tasks")
	if err != nil {
		return nil, err
	}
	if err := ss.writeDown(ctx, id, given); err != nil {
		return nil, err
	}
	return ss.add(ctx, b, &store.Right{ID: id, Token: given})
}

// notYours says that a worker has no right to speak of a hand-out.
func notYours(id task.ID) error {
	return fmt.Errorf("task %s: the hand-out is no longer yours: %w", id, store.ErrConflict)
}

// writeDown gives a hand-out of this node's own its running row, if it has none yet: so the store
// need not keep the others of its span waiting while children are added.
func (ss *submissions) writeDown(ctx context.Context, id task.ID, token task.Token) error {
	ss.mu.Lock()
	it := ss.mem.item(id)
	var rows []store.Running
	if it != nil && it.place == out && it.token == token && !it.row && !it.asked &&
		token.Span == it.span.ID && token.SpanToken == it.span.Token {
		rows = []store.Running{it.running()}
	}
	ss.release()
	if rows == nil {
		return nil
	}
	got, err := ss.store.Sync(ctx, store.SyncRequest{Holder: ss.conf.Holder, Insert: rows})
	if err != nil {
		ss.note(err)
		return fmt.Errorf("write down that task %s runs: %w", id, err)
	}
	ss.mu.Lock()
	defer ss.release()
	if !got.LeaseGone && len(got.Missing) == 0 && it.place == out && it.token == token {
		it.row = true
	}
	return nil
}

// add is one transaction that submits children under a hand-out.
func (ss *submissions) add(
	ctx context.Context, b *brood, under *store.Right,
) ([]task.Receipt, error) {
	defer ss.loads.begin()()
	var sub store.Submission
	var ids []task.ID
	var got store.Submitted
	err := store.ErrConflict
	for try := 0; try < 3 && errors.Is(err, store.ErrConflict); try++ {
		// the clock went back: other ids
		ss.mu.Lock()
		sub, ids = ss.mem.planAdded(b, time.Now())
		ss.release()
		sub.Under = under
		err = ss.again(func() (err error) {
			got, err = ss.store.Submit(ss.ctx, sub)
			return err
		})
	}
	switch {
	case errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrUnknown):
		return nil, notYours(under.ID)
	case err != nil:
		return nil, fmt.Errorf("add children: %w", err)
	}
	known := existing(got)
	ss.mu.Lock()
	defer ss.release()
	ss.mem.admit(sub, got, known, time.Now())
	ss.mem.waits.lookAt(got.Look)
	return receipts(ids, known), nil
}

// planAdded is the submission of children that are added.
func (m *memory) planAdded(b *brood, now time.Time) (sub store.Submission, ids []task.ID) {
	sub.Batches, ids = m.bear(b, m.clock.read(now))
	for i := range sub.Batches {
		name := sub.Batches[i].Queue
		if !m.queue(name).stored && !slices.Contains(sub.NewQueues, name) {
			sub.NewQueues = append(sub.NewQueues, name)
		}
	}
	return sub, ids
}
