package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// submissions bring tasks into the store: those of callers, and the children that running tasks
// add. What they have in memory is what came of it.
type submissions struct {
	*core
	submits gather[submitting]
}

func newSubmissions(c *core) *submissions {
	ss := &submissions{core: c}
	ss.submits = gather[submitting]{
		flights: c.conf.Flights, patience: lateFlight, company: c.conf.Company,
		limit: c.conf.Gather, room: c.conf.Room,
		fly: ss.flySubmissions, size: (*submitting).size,
	}
	return ss
}

// submitting is one caller's part of a gather.
type submitting struct {
	tasks    []task.Submission
	contexts []store.Value    // of the tasks; large ones are in the blob store already
	bytes    int              // of the others
	others   [][]limits.Other // that tasks wait for; nil = none of them does
	waits    int              // so many in all

	receipts []task.Receipt
	err      error
	done     chan struct{}
}

// size is the weight in the gather: the tasks, what they wait for, and a task's worth for each KiB
// of their contexts.
func (s *submitting) size() int { return len(s.tasks) + s.waits + s.bytes>>10 }

// Submit stores tasks, all or none of them, and answers after they are durable. Errors:
// *task.InvalidError with locations below "body", store.ErrFull, store.ErrBusy, store.ErrUnknown
// (only keyed tasks can be submitted again safely), store.ErrClosed.
func (ss *submissions) Submit(
	ctx context.Context, tasks []task.Submission,
) ([]task.Receipt, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	s, err := ss.accept(ctx, tasks)
	if err != nil {
		return nil, err
	}
	if !ss.submits.add(s) {
		return nil, store.ErrBusy
	}
	select {
	case <-s.done:
		return s.receipts, s.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
	}
}

// SubmitInside is Submit by way of write, which stores what it is given inside a transaction of the
// caller's: the tasks are there when that commits. Nothing of them is held by this node. Large
// contexts are kept at once; those of a transaction that is rolled back are swept.
func (ss *submissions) SubmitInside(
	ctx context.Context, tasks []task.Submission,
	write func(context.Context, store.Submission) (store.Submitted, error),
) ([]task.Receipt, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	sub, ids, err := ss.Draft(ctx, tasks)
	if err != nil {
		return nil, err
	}
	got, err := write(ctx, sub)
	if err != nil {
		ss.note(err)
		return nil, fmt.Errorf("submit: %w", err)
	}
	if err := refusedCall(&got, ids); err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	return receipts(ids, existing(got)), nil
}

// Draft plans a submission that is stored by somebody else, together with what belongs to it: with
// free spans only, so that whichever node has workers waiting takes it. ids are those that its
// tasks, at least one, will have. Errors as of Submit.
func (ss *submissions) Draft(
	ctx context.Context, tasks []task.Submission,
) (sub store.Submission, ids []task.ID, err error) {
	s, err := ss.accept(ctx, tasks)
	if err != nil {
		return sub, nil, err
	}
	ss.mu.Lock()
	sub, where := ss.mem.planSubmission([]*submitting{s}, time.Now(), false)
	ss.release()
	sub.Holder = store.Holder{}
	for i := range sub.Batches {
		b := &sub.Batches[i]
		b.Spans = []store.NewSpan{{Lo: 0, Hi: int32(len(b.Tasks)) - 1}}
	}
	return sub, where[0], nil
}

// accept checks a submission and keeps its large contexts.
func (ss *submissions) accept(ctx context.Context, tasks []task.Submission) (*submitting, error) {
	tasks = canonicalQueues(tasks)
	if err := ss.checkSubmission(tasks); err != nil {
		return nil, err
	}
	s := &submitting{
		tasks: tasks, contexts: make([]store.Value, len(tasks)), done: make(chan struct{}),
	}
	var err error
	if s.others, err = ss.others(ctx, tasks, task.ID{}, "body.tasks"); err != nil {
		return nil, err
	}
	s.waits = countOthers(s.others)
	if s.bytes, err = ss.keepContexts(ctx, tasks, s.contexts); err != nil {
		return nil, err
	}
	return s, ss.open()
}

// keepContexts makes the values of tasks' contexts, and says how many bytes of them are not in the
// blob store.
func (ss *submissions) keepContexts(
	ctx context.Context, tasks []task.Submission, values []store.Value,
) (bytes int, err error) {
	room := false
	for i := range tasks {
		if len(tasks[i].Context) > store.InlineLimit && !room {
			if err := ss.store.Check(ctx); err != nil {
				ss.note(err)
				return 0, err
			}
			room = true
		}
		v, err := ss.keep(ctx, tasks[i].Context)
		if err != nil {
			return 0, fmt.Errorf("keep context of task %d: %w", i, err)
		}
		values[i] = v
		bytes += len(v)
	}
	return bytes, nil
}

// existing maps the tasks that were left out to those that have their keys.
func existing(got store.Submitted) map[task.ID]store.Existing {
	first := make(map[task.ID]store.Existing, len(got.Existing))
	for _, e := range got.Existing {
		first[e.ID] = e
	}
	return first
}

// receipts says which task each submission made, or which one had its key.
func receipts(ids []task.ID, existing map[task.ID]store.Existing) []task.Receipt {
	list := make([]task.Receipt, len(ids))
	for i, id := range ids {
		list[i] = task.Receipt{ID: id, Action: task.SubmittedCreated}
		if len(existing) == 0 {
			continue
		}
		if first, ok := existing[id]; ok {
			list[i] = task.Receipt{ID: first.First, Existing: true, Action: first.Action}
		}
	}
	return list
}

func (ss *submissions) checkSubmission(tasks []task.Submission) error {
	var e task.InvalidError
	if len(tasks) > task.MaxSubmissions {
		e.Add("body.tasks", "%d tasks are too many: at most %d in one call", len(tasks),
			task.MaxSubmissions)
		return &e
	}
	return ss.checkTasks(tasks, "body.tasks", limits.CheckSubmission)
}

// checkTasks holds the tasks of a list against the limits, by their place below location.
func (ss *submissions) checkTasks(
	tasks []task.Submission, location string,
	check func(*task.Submission, *task.InvalidError, string),
) error {
	var e task.InvalidError
	large := true // everything that is wrong is too large
	limit, last := int64(0), ""
	for i := range tasks {
		s := &tasks[i]
		n := len(e.Fields)
		check(s, &e, "")
		for k := n; k < len(e.Fields); k++ {
			e.Fields[k].Location = fmt.Sprintf("%s[%d]%s", location, i, e.Fields[k].Location)
			large = false
		}
		if s.Queue != last || i == 0 {
			last, limit = s.Queue, ss.queueConf(s.Queue).ContextLimit
		}
		if int64(len(s.Context)) > limit {
			e.Add(fmt.Sprintf("%s[%d].context", location, i),
				"%d bytes are more than the %d that queue %q allows", len(s.Context), limit,
				s.Queue)
		}
		if len(e.Fields) > 100 {
			break
		}
	}
	e.TooLarge = large
	return e.Err()
}

// flySubmissions is one flight of the gather: plan, write, answer, hand out.
func (ss *submissions) flySubmissions(load []*submitting) {
	defer ss.loads.begin()()
	var sub store.Submission
	var where [][]task.ID
	var got store.Submitted
	err := store.ErrConflict
	for try := 0; try < 3 && errors.Is(err, store.ErrConflict); try++ {
		// the clock went back: other ids
		ss.mu.Lock()
		sub, where = ss.mem.planSubmission(load, time.Now(), true)
		ss.release()
		err = ss.again(func() (err error) {
			got, err = ss.store.Submit(ss.ctx, sub)
			return err
		})
	}
	if err != nil {
		for _, s := range load {
			s.err = fmt.Errorf("submit: %w", err)
			close(s.done)
		}
		return
	}
	known := existing(got)
	for i, s := range load {
		if s.err = refusedCall(&got, where[i]); s.err == nil {
			s.receipts = receipts(where[i], known)
		}
	}
	ss.mu.Lock()
	ss.mem.admit(sub, got, known, time.Now())
	ss.mem.hearReplaced(sub, got, time.Now())
	ss.mem.waits.lookAt(got.Look)
	for _, s := range load {
		close(s.done)
	}
	ss.release()
}

// admit takes what was submitted into memory: held spans become ready tasks, free ones a sign for
// the queue.
func (m *memory) admit(
	sub store.Submission, got store.Submitted, existing map[task.ID]store.Existing, now time.Time,
) {
	for _, name := range sub.NewQueues {
		if q := m.queue(name); !q.stored {
			q.stored = true
		}
	}
	k := 0
	for i := range sub.Batches {
		b := &sub.Batches[i]
		q := m.queue(b.Queue)
		if refusalOf(&got, b.Call) != nil {
			continue
		}
		for range b.Spans {
			s := got.Spans[k]
			k++
			switch {
			case s.Parked(): // nobody takes it before the store says so
			case s.Holder == m.conf.Holder:
				m.admitSpan(q, b, s, existing)
			case s.Due <= got.Now && offered(&sub, b.Queue):
				q.leaveToOthers(s.Rank, now)
			default:
				q.reserve = time.Time{}
				q.signAt(s.Rank, s.Due, got.Now, now)
			}
		}
		q.match(now)
	}
}

// offered tells whether other nodes were named for all free tasks of a queue.
func offered(sub *store.Submission, queue string) bool {
	left, named := 0, 0
	for _, s := range sub.Shares {
		if s.Queue == queue {
			named += s.Tasks
		}
	}
	for i := range sub.Batches {
		for _, s := range sub.Batches[i].Spans {
			if sub.Batches[i].Queue == queue && !s.Hold && !sub.Batches[i].Depends() {
				left += int(s.Hi-s.Lo) + 1
			}
		}
	}
	return named > 0 && named >= left
}

// admitSpan makes a span that was submitted held into ready tasks.
func (m *memory) admitSpan(
	q *queue, b *store.Batch, s store.Span, existing map[task.ID]store.Existing,
) {
	if m.spans[s.ID] != nil || m.isLate(&s) {
		return
	}
	sp := &span{
		memory: m, Span: s, queue: q, cells: make([]cell, s.Hi-s.Lo+1),
		priority: time.Duration(b.Due-b.Rank) * time.Microsecond,
	}
	if q.ready.lanes != nil && !s.Sorted {
		sp.keys = make([]string, len(sp.cells))
	}
	moved := m.index.knows(b.ID)
	var special []*item
	for i := range sp.cells {
		c, t := &sp.cells[i], &b.Tasks[s.Lo+int32(i)]
		c.n, c.place = s.Lo+int32(i), gone
		if sp.keys != nil {
			sp.keys[i] = t.GroupKey
		}
		id := task.ID{Batch: b.ID, N: c.n}
		if len(existing) > 0 {
			if _, ok := existing[id]; ok {
				continue
			}
		}
		if moved && m.has(id) { // before the answer came, and taken with its new span
			continue
		}
		sp.left++
		if t.MaxAttempts == 0 && t.Timeout == 0 && t.Meta == "" && t.StartWithin == 0 &&
			t.Unique == nil &&
			m.edits[id] == nil {
			c.place, c.stage, c.context = ready, t.Stage, t.Context
			continue
		}
		it := sp.newItem(c.n, t.Stage, t.Context)
		it.maxAttempts, it.timeout, it.meta = t.MaxAttempts, t.Timeout, t.Meta
		it.expires, it.unique = t.Expires(b.Due), t.Unique != nil
		spot{sp, c}.become(it)
		special = append(special, it)
	}
	m.keep(sp)
	for _, it := range special {
		if !m.edits.hold(it) {
			it.enqueue()
		}
	}
}

// signAt notes that the store has, or will have at due, a free span of q with a rank.
func (q *queue) signAt(rank, due, storeNow int64, now time.Time) {
	if due > storeNow {
		q.lookAgain(due, fromNow(now, storeNow, due), now)
		return
	}
	q.sign(rank)
	q.backlog = true
	q.takeSoon(now)
}

// sign notes that the store may have a ready span of a rank, or of a later one.
func (q *queue) sign(rank int64) {
	q.signs++
	q.news++
	q.look = true
	q.behind, q.sooner = min(q.behind, rank), min(q.sooner, rank)
}

// lookAgain looks at the store again when its next sleeping span is due.
func (q *queue) lookAgain(due int64, at, now time.Time) {
	if q.wakeAt != 0 && q.wakeAt <= due || q.memory.closed {
		return
	}
	q.wakeAt = due
	q.memory.ask(alarm{what: waking, queue: q, wait: at.Sub(now)})
}
