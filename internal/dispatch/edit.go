package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// An edit is an action on a task that neither runs nor is over; see Act. What other actions leave
// to the fence in the store, that a hand-out which was decided meanwhile comes to nothing, is not
// enough here: a worker would have run the task with what it had before, for nothing. So, as long
// as an edit is under way, nothing of its tasks goes out here; of what another node holds nothing
// is changed, until that node has given it up.

// edits are the tasks with edits under way.
type edits map[task.ID]*editing

// editing is a task with edits under way.
type editing struct {
	under int     // so many
	items []*item // what came into memory meanwhile, and is kept from going out
}

// hold keeps an item that comes into memory from going out while its task is being edited.
func (e edits) hold(it *item) bool {
	at := e[it.id]
	if at == nil {
		return false
	}
	it.place = settling
	it.span.idle--
	it.span.under++
	at.items = append(at.items, it)
	return true
}

func (e edits) begin(id task.ID) {
	if e[id] == nil {
		e[id] = &editing{}
	}
	e[id].under++
}

// end answers the items that were kept from going out; with the last edit of their task.
func (e edits) end(id task.ID) []*item {
	at := e[id]
	if at.under--; at.under > 0 {
		return nil
	}
	delete(e, id)
	return at.items
}

// reserve keeps an item from going out: it is ready, parked or asleep.
func (it *item) reserve() {
	it.span.idle--
	if it.place != ready {
		it.span.under++
	}
	it.stopAlarm()
	it.place = settling
}

// loads are the answers of the store that bring tasks into memory, as long as they are on their
// way. What they say may be older than an edit that was made meanwhile.
type loads struct {
	mu   sync.Mutex
	open map[chan struct{}]struct{}
}

// begin notes that an answer is asked for. What it answers notes that memory knows it.
func (l *loads) begin() (end func()) {
	c := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[chan struct{}]struct{}{}
	}
	l.open[c] = struct{}{}
	return func() {
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
		close(c)
	}
}

// wait returns when the answers that are on their way have come. Each ends with its call of the
// store.
func (l *loads) wait() {
	l.mu.Lock()
	open := make([]chan struct{}, 0, len(l.open))
	for c := range l.open {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		<-c
	}
}

// Edit changes a task that neither runs nor is over. Errors: *task.InvalidError with locations
// below "body", store.ErrNotFound, store.ErrConflict with the reason, store.ErrHeld.
func (as *actions) Edit(
	ctx context.Context, by string, id task.ID, e task.Edit,
) (task.State, error) {
	if err := limits.CheckEdit(&e, "body"); err != nil {
		return "", err
	}
	if e.Context != nil {
		queues, err := as.views.QueuesOf(ctx, []task.ID{id})
		if err != nil {
			return "", err
		}
		if err := as.checkContext(e.Context, queues, "body"); err != nil {
			return "", err
		}
	}
	acted, err := as.edit(ctx, by, &e, []task.ID{id})
	if err == nil {
		err = refusal(&acted[0], task.KindEdited)
	}
	if err != nil {
		return "", err
	}
	return as.stateAfter(&e, acted[0].Was), nil
}

// stateAfter is where a task stands after an edit.
func (as *actions) stateAfter(e *task.Edit, was task.State) task.State {
	if e.Due == nil && e.Delay == nil || was == task.Blocked {
		return was
	}
	as.mu.Lock()
	defer as.release()
	if e.Due != nil && e.Due.UnixMicro() > as.mem.clock.read(time.Now()) ||
		e.Delay != nil && *e.Delay > 0 {
		return task.Waiting
	}
	return task.Ready
}

// EditAll edits tasks that the filter selects as ActAll acts on them.
func (as *actions) EditAll(
	ctx context.Context, by string, e task.Edit, f store.Filter, after task.ID, dryRun bool,
) (store.ActedAll, error) {
	if err := limits.CheckEdit(&e, "body.set"); err != nil {
		return store.ActedAll{}, err
	}
	size := bulk
	if n := len(e.Context); n > store.InlineLimit { // each task keeps one of its own
		size = min(bulk, max(1, keptAtOnce/n))
	}
	return as.actPage(ctx, task.KindEdited, f, after, size, dryRun,
		func(page []task.View) ([]store.Acted, error) {
			ids, queues := make([]task.ID, len(page)), make([]string, len(page))
			for i := range page {
				ids[i], queues[i] = page[i].ID, page[i].Queue
			}
			if err := as.checkContext(e.Context, queues, "body.set"); err != nil {
				return nil, err
			}
			return as.edit(ctx, by, &e, ids)
		})
}

// keptAtOnce is how many bytes of large contexts one page of EditAll writes.
const keptAtOnce = 32 << 20

// checkContext refuses a context that is larger than a queue allows.
func (as *actions) checkContext(v []byte, queues []string, location string) error {
	last := ""
	for _, q := range queues {
		if q == last {
			continue
		}
		last = q
		if limit := as.queueConf(q).ContextLimit; int64(len(v)) > limit {
			e := &task.InvalidError{TooLarge: true}
			e.Add(location+".context", "%d bytes are more than the %d that queue %q allows", len(v),
				limit, q)
			return e
		}
	}
	return nil
}

const (
	// heldFor is how long an edit waits for other nodes to give its tasks up.
	heldFor = 3 * time.Second
	// It looks soon at first, then more seldom.
	heldFirst = 10 * time.Millisecond
	heldLast  = 160 * time.Millisecond
	// wantedFor is how long who gave tasks up for an edit leaves them alone: longer than from one
	// look to the next.
	wantedFor = 300 * time.Millisecond
)

// edit changes tasks. Those that another node holds it edits when that one has given them up, of
// which the store tells it.
func (as *actions) edit(
	ctx context.Context, by string, e *task.Edit, ids []task.ID,
) ([]store.Acted, error) {
	acted, err := as.editOnce(ctx, by, e, ids)
	wait := heldFirst
	for end := time.Now().Add(heldFor); err == nil && time.Now().Before(end); {
		var held []task.ID
		var at []int
		for i := range acted {
			if acted[i].Held != "" {
				held = append(held, ids[i])
				at = append(at, i)
			}
		}
		if len(held) == 0 {
			break
		}
		look := time.NewTimer(wait)
		wait = min(2*wait, heldLast)
		select {
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return acted, nil
		}
		var again []store.Acted
		again, err = as.editOnce(ctx, by, e, held)
		for k := range again {
			acted[at[k]] = again[k]
		}
	}
	return acted, err
}

func (as *actions) editOnce(
	ctx context.Context, by string, e *task.Edit, ids []task.ID,
) ([]store.Acted, error) {
	what := store.Action{Kind: task.KindEdited, By: by, Edit: &store.Edit{GroupKey: e.GroupKey}}
	if e.Priority != nil {
		what.Edit.Priority = new(e.Priority.Microseconds())
	}
	if e.Due != nil {
		what.Edit.Due = new(e.Due.UnixMicro())
	}
	if e.Delay != nil {
		as.mu.Lock()
		what.Edit.Due = new(as.mem.clock.read(time.Now()) + e.Delay.Microseconds())
		as.release()
	}
	if e.MaxAttempts != nil {
		what.Edit.MaxAttempts = new(int32(*e.MaxAttempts))
	}
	if e.StartWithin != nil {
		what.Edit.StartWithin = new(e.StartWithin.Microseconds())
	}
	if e.Meta != nil {
		what.Edit.Meta = new(store.MetaOf(e.Meta))
	}
	if e.Context == nil {
		return as.act(ctx, what, ids, nil)
	}
	text := []byte(e.Context)
	if string(text) == "null" {
		text = nil
	}
	if len(text) <= store.InlineLimit {
		what.Edit.Context = (*store.Value)(&text)
		return as.act(ctx, what, ids, nil)
	}
	if err := as.store.Check(ctx); err != nil {
		as.note(err)
		return nil, err
	}
	texts := make([]store.Value, len(ids))
	for i := range ids {
		var err error
		if texts[i], err = as.keep(ctx, text); err != nil {
			as.note(err)
			return nil, fmt.Errorf("keep context of task %s: %w", ids[i], err)
		}
	}
	return as.act(ctx, what, ids, func(i int, a *store.Action) {
		own := *a.Edit
		own.Context = &texts[i]
		a.Edit = &own
	})
}

// endEdits lets what is left of tasks go out again after edits: what came in meanwhile, once all
// has come that may be older, and what was not changed. It is read anew.
func (as *actions) endEdits(actions []store.Action, unchanged []*item) {
	as.loads.wait()
	as.mu.Lock()
	for i := range actions {
		unchanged = append(unchanged, as.mem.edits.end(actions[i].ID)...)
	}
	as.release()
	as.reloads.reload(unchanged)
}
