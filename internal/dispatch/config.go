package dispatch

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// queueCalls change the configurations of queues, and what is said of their group keys, and keep
// what memory knows of them up to date.
type queueCalls struct {
	*core
	// changing is of size 1, and full while somebody changes a queue here: memory hears of changes
	// in the order in which they were made.
	changing chan struct{}
	// toFollow and following are of size 1: the one is full while somebody waits to follow what was
	// changed elsewhere, the other while somebody does so.
	toFollow, following chan struct{}
}

func (qs queues) confOf(name string) task.Queue {
	if q := qs[name]; q != nil {
		return q.conf
	}
	return limits.DefaultQueue(name)
}

// configs say how up to date the configurations of queues are that memory has.
type configs struct {
	memory *memory // that it is in
	// when the queues' configurations were read; zero = they are to be read again
	configRead time.Time
	changes    int   // counts them here: what was read before one is out of date
	configWord int64 // token of the lease that grows with each change at any node
	readWord   int64 // what it was when the read began that memory goes by
	// followed is the word up to which this node goes by the configurations, and has written down
	// what runs of queues with limits; see follow.
	followed int64
	told     int64     // the word of which the other nodes know that this one follows it
	toldAt   time.Time // and since when
}

// reloadQueues reads all configurations again, unless one is changed here meanwhile: then it is up
// to the next round. An answer that a later read has overtaken changes nothing, as this node may
// have told by now that it goes by that one. word is that up to which memory goes by what was read;
// 0 = by nothing of it.
func (qc *queueCalls) reloadQueues(ctx context.Context) (word int64, err error) {
	qc.mu.Lock()
	before := qc.mem.changes
	word = qc.mem.configWord
	qc.release()
	list, err := qc.store.Queues(ctx)
	if err != nil {
		return 0, fmt.Errorf("read queues: %w", err)
	}
	now := time.Now()
	qc.mu.Lock()
	defer qc.release()
	if qc.mem.changes != before || word < qc.mem.readWord {
		return 0, nil
	}
	qc.mem.readWord = word
	qc.mem.configureAll(list, now)
	if qc.mem.configWord > word { // heard meanwhile of a change that the answer may be older than
		qc.mem.configRead = time.Time{}
	}
	return word, nil
}

// areDue tells whether the configurations are to be read again.
func (cs *configs) areDue(now time.Time) bool { return now.Sub(cs.configRead) >= configEvery }

// hear takes in the word, where it is among those leases.
func (cs *configs) hear(leases []store.Lease) {
	for i := range leases {
		if leases[i].Name == queuesWord {
			cs.hearChange(leases[i].Token)
		}
	}
}

// hearChange takes in the token of the lease that grows with each change.
func (cs *configs) hearChange(token int64) {
	if token > cs.configWord {
		cs.configWord = token
		cs.configRead = time.Time{}
	}
}

// configureAll takes over the configurations of all queues that have one.
func (cs *configs) configureAll(list []task.Queue, now time.Time) {
	cs.configRead = now
	for _, q := range cs.memory.queues {
		q.stored = false
	}
	for _, conf := range list {
		cs.configure(conf, now)
	}
	for name, q := range cs.memory.queues {
		if !q.stored { // it was deleted, at any node
			q.setConf(limits.DefaultQueue(name))
		}
	}
}

// reconfigured notes that a configuration was changed here. A change of another node may have come
// after it, so the next round reads them all.
func (cs *configs) reconfigured() {
	cs.changes++
	cs.configRead = time.Time{}
}

// change lets one at a time change queues. It says no when ctx ends before, whose cause it answers;
// else done must be called.
func (qc *queueCalls) change(ctx context.Context) (done func(), err error) {
	select {
	case qc.changing <- struct{}{}:
		return func() { <-qc.changing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// spread tells the other nodes, with their next beat, that a configuration has changed. They would
// find out by themselves, later. It answers the word by which they are told, 0 when they are not.
func (qc *queueCalls) spread(ctx context.Context) (word int64) {
	got, err := qc.store.AcquireAll(
		ctx, anyNode, []store.Lease{{Name: queuesWord}}, remembered, math.MaxInt64,
	)
	if err != nil {
		qc.note(err)
		qc.log.Warn("tell other nodes of a queue's configuration", "error", err)
		return 0
	}
	for i := range got.Leases {
		word = got.Leases[i].Token
	}
	qc.mu.Lock()
	defer qc.release()
	qc.mem.hearChange(word)
	return word
}

// configure takes a queue's configuration over. A queue that was not known may have ready tasks in
// the store.
func (cs *configs) configure(conf task.Queue, now time.Time) {
	q := cs.memory.queues[conf.Name]
	if q == nil {
		q = cs.memory.queue(conf.Name)
		q.sign(unknownRank)
		q.backlog = true
	}
	q.stored = true
	if q.conf.Paused && !conf.Paused {
		q.sign(unknownRank)
		q.backlog = true
	}
	q.setConf(conf)
	q.match(now)
}

// ChangeQueue changes a queue's configuration, or creates it; see store.Change. Of a queue with
// limits it answers when every node goes by them, or names those that do not yet.
// *task.InvalidError says what is wrong with what comes of it.
func (qc *queueCalls) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	changed, word, err := qc.changeQueue(ctx, name, change)
	if err == nil && admission.Limited(&changed.Is) {
		changed.Unheard = qc.everywhere(ctx, word)
	}
	return changed, err
}

// changeQueue changes a configuration in the store and in memory. word is that of the change.
func (qc *queueCalls) changeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (changed store.Changed[task.Queue], word int64, err error) {
	done, err := qc.change(ctx)
	if err != nil {
		return changed, 0, err
	}
	defer done()
	name = names.Canonical(name)
	changed, err = qc.store.ChangeQueue(ctx, name, func(q *task.Queue, stands bool) error {
		before := q.FinalQueue
		if err := change(q, stands); err != nil {
			return err
		}
		q.HoldLimit = min(q.HoldLimit, limits.MaxHold) // as a hold's own limit is
		q.FinalQueue = names.Canonical(q.FinalQueue)
		var e task.InvalidError
		limits.CheckQueue(q, &e, "body")
		if q.FinalQueue != before {
			if last := qc.comesBack(q); last != "" {
				e.Add("body.final_queue", "must not lead back here, as by the final queue of %q: "+
					"notices that die would leave notices for ever", last)
			}
		}
		return e.Err()
	})
	if err != nil {
		qc.note(err)
		return store.Changed[task.Queue]{}, 0, err
	}
	qc.mu.Lock()
	qc.mem.reconfigured()
	qc.mem.configure(changed.Is, time.Now())
	qc.release()
	return changed, qc.spread(ctx), nil
}

// comesBack is the queue whose final queue is this one, of those that this one's notices, the
// notices of those and so on go to; "" = none is, as far as this node knows.
func (qc *queueCalls) comesBack(q *task.Queue) string {
	at := q.FinalQueue
	for range finalQueues {
		next := qc.queueConf(at).FinalQueue
		if next == q.Name {
			return at
		}
		if at = next; at == "" {
			break
		}
	}
	return ""
}

// finalQueues is how many queues are looked through for a circle of final queues.
const finalQueues = 100

// PauseQueue stops handing out a queue's tasks, or goes on. What runs goes on; what is held is
// given back within a beat.
func (qc *queueCalls) PauseQueue(ctx context.Context, name string, paused bool) error {
	_, _, err := qc.changeQueue(ctx, name, func(q *task.Queue, stands bool) error {
		q.Paused = paused
		if !stands {
			return store.ErrNotFound
		}
		return nil
	})
	return err
}

// DeleteQueue deletes a queue with all its tasks. With unfinished ones and without force:
// store.ErrConflict. Tasks go in pieces, which may take minutes: nobody who changes a queue waits
// for that. So the queue may stand anew by then, and what it is now is read.
func (qc *queueCalls) DeleteQueue(ctx context.Context, name string, force bool) error {
	if err := qc.store.DeleteQueue(ctx, name, force); err != nil {
		qc.note(err)
		return err
	}
	if done, err := qc.change(ctx); err == nil { // else the next round reads it
		defer done()
	}
	qc.mu.Lock()
	qc.mem.forgetTasks(name)
	qc.mem.reconfigured()
	qc.mem.waits.lookAround() // at those whose children were in it
	qc.release()
	_, err := qc.reloadQueues(ctx)
	qc.note(err)
	qc.spread(ctx)
	return nil
}

// forgetTasks drops what memory has of the tasks of a queue that was deleted. Some may have been
// submitted since, to a new queue of that name, so the store is asked which of them stand.
func (cs *configs) forgetTasks(name string) {
	m := cs.memory
	q := m.queues[name]
	if q == nil {
		return
	}
	var held []*item
	for _, sp := range m.sortedSpans() {
		if sp.queue != q {
			continue
		}
		for s := range sp.live() {
			held = append(held, s.item())
			m.watchers.tell(s.id(), &m.do)
		}
	}
	m.reloadSoon(held...)
}
