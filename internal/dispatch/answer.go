package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// handed is a hand-out as it was when it was chosen; its task may have gone on since.
type handed struct {
	spot
	was     *item // nil = the task was plain
	token   task.Token
	meta    store.Meta
	guarded bool
	limited bool  // by its queue or a unique key: the store is to be asked, see letBegin
	doubted bool  // the context came out of the store: see span.unchecked
	room    int64 // bytes that the answer has asked for, for what was read for this hand-out
}

// handed is the present hand-out of an item.
func (it *item) handed() handed {
	return handed{
		spot: spot{it.span, it.cell}, was: it, token: it.token, meta: it.meta,
		// what has limits is written down in any case
		guarded: it.span.guarded() && !it.asked, limited: it.asked, doubted: it.unchecked,
	}
}

// handed is the present hand-out of a task.
func (s spot) handed() handed {
	if it := s.cell.item; it != nil {
		return it.handed()
	}
	return handed{spot: s, token: s.token(), doubted: s.span.doubts(s.cell.context)}
}

// handout is what the worker is to know of the present hand-out of a task; its token, its meta and
// a large context are still to come.
func (s spot) handout() task.Handout {
	if it := s.cell.item; it != nil {
		t := task.Handout{
			ID: it.id, Queue: it.queue.name, Stage: it.stage, Context: []byte(it.context),
			Attempt: int(it.attempt) + 1, Deadline: it.until, ContextBy: it.contextBy,
			Parent: it.span.parent, Ready: it.queue.memory.clock.readySince(it.due(), it.started),
		}
		tellWoken(it.woken, &t)
		t.After = priorsOf(it.after)
		return t
	}
	return task.Handout{
		ID: s.id(), Queue: s.span.queue.name, Stage: s.cell.stage,
		Context: []byte(s.cell.context), Attempt: 1, Deadline: s.cell.parcel.until,
		Parent: s.span.parent,
		Ready:  s.span.memory.clock.readySince(s.span.due(), s.cell.parcel.started),
	}
}

// current tells whether the hand-out still stands.
func (h *handed) current() bool {
	it := h.was
	if it == nil {
		if it = h.cell.item; it == nil {
			return h.cell.place == out // a plain task goes out once
		}
	}
	return it.place == out && it.token == h.token
}

// item is that of the hand-out's task, while the hand-out stands.
func (h *handed) item() *item {
	if h.was == nil {
		return h.spot.item()
	}
	return h.was
}

// collect ends the waiting and returns the tasks, and what their worker is to know of each. Those
// of a caller that is gone are ready again, as if never handed out. What memory has forgotten since
// it was given, as another node ended it or its queue was deleted, is left out.
func (wt *waiter) collect(left bool, now time.Time) (list []handed, tasks []task.Handout) {
	wt.leave()
	list, tasks = make([]handed, 0, len(wt.given)), make([]task.Handout, 0, len(wt.given))
	for _, s := range wt.given {
		if !s.forgotten() {
			list = append(list, s.handed())
			tasks = append(tasks, s.handout())
		}
	}
	if left {
		for i := range list {
			list[i].isNotAsked()
		}
		unhand(list, now)
		return nil, nil
	}
	return list, tasks
}

// lost tells whether something of what the waiter was given is forgotten.
func (wt *waiter) lost() bool { return slices.ContainsFunc(wt.given, spot.forgotten) }

// unhand takes hand-outs back whose tokens nobody has seen, for others.
func unhand(list []handed, now time.Time) {
	for _, q := range touchedBy(makeReady(list, now)) {
		q.match(now)
	}
}

// makeReady makes hand-outs ready again whose tokens nobody has seen, and answers which those are.
// One that counts against limits ends: its row must not stay.
func makeReady(list []handed, now time.Time) (back []*item) {
	for i := range list {
		if !list[i].current() {
			continue
		}
		it := list[i].item()
		if it.counts() {
			it.giveUp(now)
			continue
		}
		it.takeBack()
		it.stopAlarm()
		it.span.idle++
		it.span.under--
		it.enqueue()
		it.queue.ready.giveBack(it)
		back = append(back, it)
	}
	return back
}

// answer completes hand-outs: those of guarded spans are written down first, large contexts are
// fetched, as many as there is room for. What has none is ready again; what can't be written down
// comes back in a second. At last, so that nothing can come between, the store is asked about those
// that have limits: of and held are as letBegin says, and held also if something comes back.
func (hs *handouts) answer(
	ctx context.Context, list []handed, tasks []task.Handout, room func(int64) bool,
) (answer task.HoldAnswer, of []*queue, held bool) {
	if len(list) == 0 {
		return task.HoldAnswer{}, nil, false
	}
	guarded := hs.guard(list)
	if room == nil {
		room = func(int64) bool { return true }
	}
	given, complete := list[:0], tasks[:0]
	var back, unwritten []handed
	size := int64(0)
	for i := range list {
		h, t := list[i], tasks[i]
		if h.guarded && !guarded {
			unwritten = append(unwritten, h)
			continue
		}
		if v := store.Value(t.Context); isLarge(v) {
			most := hs.queueConf(t.Queue).ContextLimit // how large it is only reading it tells
			if size > hs.conf.AnswerMax || !room(most) {
				back = append(back, h)
				continue
			}
			text, err := hs.store.Value(ctx, v)
			room(int64(len(text)) - most)
			if err != nil { // one unreadable context must not hold up the others
				hs.unreadable(&h, err)
				continue
			}
			t.Context, h.room = text, int64(len(text))
		}
		if len(t.After) > 0 {
			fits, err := hs.tellPriors(ctx, t.After, size, room)
			if err != nil {
				hs.unreadable(&h, err)
				continue
			}
			if !fits {
				back = append(back, h)
				continue
			}
		}
		if h.doubted {
			if problem := wire.CheckValue(t.Context); problem != "" {
				hs.spoilt(&h, problem)
				continue
			}
		}
		t.Meta = h.meta.Strings()
		size += int64(len(t.Context))
		if t.Signal != nil {
			size += int64(len(t.Signal.Payload))
		}
		size += sizeOf(t.After)
		given = append(given, h)
		complete = append(complete, t)
	}
	if len(back) > 0 {
		hs.putBack(back)
	}
	if len(unwritten) > 0 {
		hs.letRest(unwritten)
	}
	given, complete, of, held = hs.gates.letBegin(given, complete, room)
	held = held || len(unwritten) > 0
	writeTokens(given, complete)
	return task.HoldAnswer{Tasks: complete, Written: func() { hs.written(given) }}, of, held
}

// isLarge tells whether a value is in the blob store.
func isLarge(v store.Value) bool {
	_, large := v.Blob()
	return large
}

// writeTokens gives each task the text of its token. Those of one answer share their memory.
func writeTokens(list []handed, tasks []task.Handout) {
	const usual = 48 // bytes
	text, ends := make([]byte, 0, usual*len(list)), make([]int, len(list))
	for i := range list {
		text = list[i].token.Append(text)
		ends[i] = len(text)
	}
	rest, from := string(text), 0
	for i, end := range ends {
		tasks[i].Token, from = rest[from:end], end
	}
}

// putBack is unhand with the lock.
func (hs *handouts) putBack(list []handed) {
	now := time.Now()
	hs.mu.Lock()
	defer hs.release()
	for i := range list {
		list[i].isNotAsked()
	}
	unhand(list, now)
}

// unreadable takes care of a hand-out whose context can't be read. If it is gone, that is the
// attempt's outcome: charged, and finally dead. Any other trouble is not the task's: it comes back
// in a second.
func (hs *handouts) unreadable(h *handed, err error) {
	hs.note(err)
	hs.mu.Lock()
	defer hs.release()
	h.isNotAsked()
	if errors.Is(err, fs.ErrNotExist) {
		h.end(task.KindRetry, fmt.Sprintf("read context: %v", err), time.Now())
		return
	}
	hs.log.Warn("read context", "task", h.id().String(), "error", err)
	h.rest(time.Second, time.Now())
}

// letRest lets hand-outs rest that the store could not be told of just now. Ready at once, they
// would be handed out and fail as often as their workers can ask.
func (hs *handouts) letRest(list []handed) {
	now := time.Now()
	hs.mu.Lock()
	defer hs.release()
	for i := range list {
		list[i].isNotAsked()
		list[i].rest(time.Second, now)
	}
}

// rest lets a hand-out whose token nobody has seen come again after a while, uncharged.
func (h *handed) rest(wait time.Duration, now time.Time) {
	if !h.current() {
		return
	}
	it := h.item()
	if it.counts() {
		it.giveUp(now)
		return
	}
	it.takeBack()
	it.stopAlarm()
	it.span.idle++
	it.sleep(wait)
	it.span.ended()
}

// end settles a hand-out, if it still stands, with an outcome that no worker reported, as none was
// told of it. What can't be written down the next rounds give back.
func (h *handed) end(kind task.Kind, why string, now time.Time) {
	if h.current() {
		it := h.item()
		it.queue.memory.endLater(it)
		it.end(kind, why, now)
	}
}

// spoilt settles a hand-out as failed whose context can't stand in an answer: it would make the
// whole answer one that no worker can read. All ways in are checked; the store may hold older ones.
func (hs *handouts) spoilt(h *handed, problem string) {
	hs.log.Error("context can't be handed out", "task", h.id().String(), "problem", problem)
	hs.mu.Lock()
	defer hs.release()
	h.isNotAsked()
	h.end(task.KindFail, "the stored context can't be handed out: it "+problem,
		time.Now())
}

// guard writes hand-outs of guarded spans down before they are answered: if one of them kills this
// process too, it is charged. It says no when they can't be.
func (hs *handouts) guard(list []handed) bool {
	if !slices.ContainsFunc(list, func(h handed) bool { return h.guarded }) {
		return true
	}
	hs.mu.Lock()
	insert := guardedRows(list)
	hs.release()
	if len(insert) == 0 {
		return true
	}
	got, err := hs.store.Sync(hs.ctx, store.SyncRequest{Holder: hs.conf.Holder, Insert: insert})
	if err == nil && got.LeaseGone {
		err = errLeaseGone
	}
	if err != nil {
		hs.note(err)
		hs.log.Warn("write down guarded hand-outs", "error", err)
		return false
	}
	hs.mu.Lock()
	defer hs.release()
	without, whole := setOf(got.Missing), true
	for i := range list {
		if list[i].guarded && list[i].current() {
			list[i].item().row = !without[list[i].id()]
			whole = whole && list[i].item().row
		}
	}
	return whole
}

// guardedRows are the rows of those hand-outs that are to be written down first.
func guardedRows(list []handed) (rows []store.Running) {
	for i := range list {
		if list[i].guarded && list[i].current() {
			rows = append(rows, list[i].item().running())
		}
	}
	sortRunning(rows)
	return rows
}

// sortRunning orders rows by their key, as every write of many does, so that two of them never wait
// for each other.
func sortRunning(list []store.Running) {
	slices.SortFunc(list, func(a, b store.Running) int { return a.ID.Compare(b.ID) })
}

// running is the row of a hand-out.
func (it *item) running() store.Running {
	clock := &it.queue.memory.clock
	return store.Running{
		ID: it.id, Seq: it.seq, Span: it.token.Span, Token: it.token.SpanToken,
		Worker: it.worker.name, Incarnation: it.incarnation,
		Started: clock.read(it.started),
		Until:   clock.read(it.until),
	}
}

// writing notes that the hand-out is in an answer on its way.
func (h *handed) writing() {
	if h.was == nil && h.cell.item == nil {
		h.cell.parcel.written = true
		return
	}
	h.item().written = true
}

// written notes that an answer is on its way: beats that begin from now on must name its tasks.
func (hs *handouts) written(list []handed) {
	hs.mu.Lock()
	defer hs.release()
	for i := range list {
		if list[i].current() {
			list[i].writing()
		}
	}
}
