package dispatch

import (
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// batchKey is what the tasks of a batch share.
type batchKey struct {
	queue     string
	rank, due int64
	call      int32 // whose it is alone, as nothing of it may be inserted; 0 = of whoever submits
	waits     bool  // for other tasks: see store.DependBit
}

// planSubmission sorts a gather's tasks into batches, and decides which of them this node holds
// from the start: those that are due, in a queue somebody waits for, where nothing older is waiting
// in the store. With share it says which of the others other nodes had better take.
func (m *memory) planSubmission(
	load []*submitting, now time.Time, share bool,
) (sub store.Submission, where [][]task.ID) {
	at := m.clock.read(now)
	sub.Holder = m.conf.Holder
	sub.Batches, where = m.batches(load, at)
	held := map[*queue]int{}
	for i := range sub.Batches {
		b := &sub.Batches[i]
		q := m.queue(b.Queue)
		if _, known := held[q]; !known {
			if held[q] = 0; !q.stored {
				sub.NewQueues = append(sub.NewQueues, b.Queue)
			}
		}
		// a take is to sort the former by key first
		if ls := q.ready.lanes; ls != nil && !ls.takesIn(b) || b.Depends() {
			b.Spans = []store.NewSpan{{Lo: 0, Hi: int32(len(b.Tasks)) - 1}}
			continue
		}
		want := q.demand(now) - held[q]
		if share && b.Due <= at && !q.backlog && !q.conf.Paused && !m.shut() {
			mine, shares := q.shareOut(len(b.Tasks), q.roomFor()-q.ready.usable()-held[q],
				now)
			if len(shares) > 0 {
				want = mine
				sub.Shares = append(sub.Shares, shares...)
			}
		}
		b.Spans = q.splitSpan(b, at, want)
		if b.Spans[0].Hold {
			held[q] += int(b.Spans[0].Hi) + 1
		}
	}
	return sub, where
}

// batches sorts a gather's tasks into batches of equal queue, rank and due, and says where each
// caller's tasks are. Tasks without a time of their own are due at the gather's time, so that they
// share one batch.
func (bs *batchIDs) batches(load []*submitting, at int64) (list []store.Batch, where [][]task.ID) {
	index := map[batchKey]int{}
	var lastKey batchKey
	last := -1
	where = make([][]task.ID, len(load))
	left := 0 // tasks without a place
	for _, s := range load {
		left += len(s.tasks)
	}
	order := int32(0)
	for i, s := range load {
		where[i] = make([]task.ID, len(s.tasks))
		call := callOf(s.tasks, i)
		for j := range s.tasks {
			t := &s.tasks[j]
			due := dueOf(t, at)
			key := batchKey{
				t.Queue, progress.Rank(due, t.Priority), due, call, len(t.After) > 0,
			}
			if last < 0 || key != lastKey {
				var ok bool
				if last, ok = index[key]; !ok {
					last = len(list)
					index[key] = last
					id := bs.nextBatch(at)
					if key.waits {
						id |= store.DependBit
					}
					list = append(list, store.Batch{
						ID: id, Queue: key.queue, Rank: key.rank, Due: due,
						Created: createdAt(id, at), Origin: bs.origin, Call: call,
					})
					if last == 0 { // mostly it is the only one
						list[0].Tasks = make([]store.Task, 0, left)
					}
				}
				lastKey = key
			}
			b := &list[last]
			n := int32(len(b.Tasks))
			where[i][j] = task.ID{Batch: b.ID, N: n}
			b.Tasks = append(b.Tasks, rowOf(t, n, s.contexts[j], at))
			if t.Unique != nil {
				b.Tasks[n].Unique = uniqueOf(t, at, order)
				order++
			}
		}
		dependOn(list, where[i], s.tasks, s.others)
	}
	return list, where
}

// dueOf is when a task is due that was submitted at a time.
func dueOf(t *task.Submission, at int64) int64 {
	switch {
	case !t.Due.IsZero():
		return t.Due.UnixMicro()
	case t.Delay > 0:
		return at + t.Delay.Microseconds()
	}
	return at
}

// rowOf is a task as it is stored.
func rowOf(t *task.Submission, n int32, context store.Value, at int64) store.Task {
	row := store.Task{
		N: n, Stage: t.Stage, Context: context, Key: t.Key, GroupKey: t.GroupKey,
		MaxAttempts: int32(t.MaxAttempts), Timeout: t.Timeout.Microseconds(),
		StartWithin: t.StartWithin.Microseconds(), Meta: store.MetaOf(t.Meta),
	}
	if t.Key != "" {
		row.KeyUntil = at + keyFor(t.KeyFor).Microseconds()
	}
	return row
}

func keyFor(d time.Duration) time.Duration {
	if d == 0 {
		return limits.DefaultKeyFor
	}
	return d
}

// splitSpan says how much of a new batch this node holds, when it wants so many tasks.
func (q *queue) splitSpan(b *store.Batch, at int64, demand int) []store.NewSpan {
	n := int32(len(b.Tasks))
	hold := int32(0)
	if b.Due <= at && !q.backlog && !q.conf.Paused && !q.memory.shut() {
		hold = int32(max(0, min(demand, int(n))))
	}
	switch hold {
	case 0:
		return []store.NewSpan{{Lo: 0, Hi: n - 1}}
	case n:
		return []store.NewSpan{{Lo: 0, Hi: n - 1, Hold: true}}
	}
	return []store.NewSpan{{Lo: 0, Hi: hold - 1, Hold: true}, {Lo: hold, Hi: n - 1}}
}

// createdAt is when a batch was created by what is said of it: not so long before its id that a
// list by time would miss it.
func createdAt(id, at int64) int64 {
	return max(at, store.BatchTime(id)-store.CreatedWithin.Microseconds())
}

// batchIDs gives batches ids: each is greater than all before it of this process, and names the
// node.
type batchIDs struct {
	node uint32 // hash of the node's name, in batch ids; stands from the start, as origin does
	// origin marks this process: its batches, so that they are told apart should the clock go back
	// and an id be made twice, and the versions of its answers to beats.
	origin    string
	lastBatch int64 // the newest batch's id, as a time
}

// nextBatch makes an id that no other batch of this node has. It says that its tasks are nobody's
// children, and wait for nobody: see store.MayBeChildren and store.MayDepend.
func (bs *batchIDs) nextBatch(at int64) int64 {
	at = max(at, bs.lastBatch+1)
	bs.lastBatch = at
	return store.BatchID(at, bs.node) &^ (store.ChildBit | store.DependBit)
}

// nextChildren is nextBatch for a batch of children.
func (bs *batchIDs) nextChildren(at int64) int64 { return bs.nextBatch(at) | store.ChildBit }
