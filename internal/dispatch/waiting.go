package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// A task that waits is in no node's memory. Whether its wait is over the store decides whenever
// somebody looks (docs/waiting.md): a node does after each of its settlements that made tasks wait,
// or ended children, and once a beat at all that is left, by whomever; so what a node that was
// killed did not look at costs a beat. Nothing is lost with a look that fails, and nobody waits for
// one.

const (
	lookedAtOnce = 1000 // waits that one look ends, and addresses that it names
	lookedPieces = 16   // looks more in a beat for what one has left; the rest is for the next
	// looks at waits that are over one after the other follow no closer: so they end a little late
	lookedApart = 50 * time.Millisecond
)

// wakes end the waiting of tasks: they look in the store at what is over, and bring signals.
type wakes struct{ *core }

// waitLooks is what memory knows of looks: what is to be looked at next, and when.
type waitLooks struct {
	memory  *memory                // that it is in
	changed map[store.Address]bool // where this node's settlements changed something
	all     bool                   // look at all that is left, and at waits whose time is over
	looking bool                   // a look is under way: there is one at a time
	pieces  int                    // looks since the beat for what one has left
	until   int64                  // of the wait that is over next, where the alarm is set
	timer   *tick.Timer            // its alarm
}

// changedAt notes that a settlement changed something that tasks may wait for at an address.
func (wl *waitLooks) changedAt(a store.Address) {
	if len(wl.changed) >= lookedAtOnce { // a look at all finds them as well
		clear(wl.changed)
		wl.all = true
	} else if !wl.all {
		if wl.changed == nil {
			wl.changed = map[store.Address]bool{}
		}
		wl.changed[a] = true
	}
	wl.lookSoon()
}

// lookAround looks at all that is left, as each beat does.
func (wl *waitLooks) lookAround() {
	wl.all = true
	wl.lookSoon()
}

// lookSoon begins looks, unless one is under way, which goes on with what is left then.
func (wl *waitLooks) lookSoon() {
	if !wl.looking && !wl.memory.closed {
		wl.looking, wl.memory.do.look = true, true
	}
}

// nextLook is what to look at now; no says that there is nothing, and nobody looks any more.
func (wl *waitLooks) nextLook() (r store.LookRequest, no bool) {
	if wl.memory.closed || !wl.all && len(wl.changed) == 0 {
		wl.looking = false
		return r, true
	}
	r.Limit = lookedAtOnce
	if len(wl.changed) > 0 && !wl.all {
		r.Addresses = slices.SortedFunc(maps.Keys(wl.changed), func(a, b store.Address) int {
			return strings.Compare(a.String(), b.String())
		})
	}
	wl.all, wl.changed = false, nil
	return r, false
}

// lookOn looks until there is nothing to look at.
func (wk *wakes) lookOn() {
	for {
		wk.mu.Lock()
		r, over := wk.mem.waits.nextLook()
		wk.release()
		if over {
			return
		}
		var got store.Looked
		err := wk.conf.Reach()
		if err == nil {
			got, err = wk.store.Look(wk.ctx, r)
			wk.note(err)
		}
		if err != nil { // the next beat looks at it again
			if !errors.Is(err, store.ErrOutOfReach) {
				wk.log.Warn("look at what tasks wait for", "error", err)
			}
			got = store.Looked{}
		}
		watches := got.NextUntil != 0 && wk.conf.Judges()
		wk.mu.Lock()
		wk.mem.waits.looked(got, watches, time.Now())
		wk.release()
	}
}

// looked takes in what became of a look. watches: this node looks again as soon as the next wait is
// over; the others find it with their beats, unless this one has ended it before.
func (wl *waitLooks) looked(got store.Looked, watches bool, now time.Time) {
	m := wl.memory
	// who was cancelled may be waited for, in its turn
	if (got.More || len(got.Cancelled) > 0) && wl.pieces < lookedPieces {
		wl.pieces++
		wl.all = true
	}
	for _, r := range got.Ready {
		m.hearReady(r.Queue, r.Rank, now)
	}
	m.fell(got.Cancelled, now)
	at := got.NextUntil
	// else a beat is in time
	soon := at > got.Now && at-got.Now <= 2*m.conf.Beat.Microseconds()
	if watches && soon && at != wl.until {
		wl.until = at
		wait := max(fromNow(now, got.Now, at).Sub(now), lookedApart)
		m.ask(alarm{what: waitOver, wait: wait})
	}
}

// awaitOf is what the report of a task's outcome says of its wait. at is the store's time.
func awaitOf(id task.ID, a *task.Await, at int64) *store.Await {
	w := &store.Await{
		Address: store.Address{Name: names.Canonical(a.Signal), Key: a.Key}, Else: a.Else,
		First: a.Children == task.FirstDead,
	}
	if a.Children != "" {
		w.Address = store.ChildrenOf(id, 0)
	} else if a.Key == "" {
		w.Address.Task = id
	}
	if a.Timeout > 0 {
		w.Until = at + max(a.Timeout.Microseconds(), 1)
	}
	return w
}

// tellWoken tells a hand-out what ended the wait before its stage.
func tellWoken(w *store.Woken, t *task.Handout) {
	switch {
	case w == nil:
	case w.TimedOut:
		t.TimedOut = true
	case w.Children != nil:
		t.Children = w.Children
	case w.Others: // Handout.After tells
	default:
		t.Signal = &task.Signal{Name: w.Signal, Payload: json.RawMessage(w.Payload), By: w.By}
		if w.At > 0 {
			t.Signal.At = time.UnixMicro(w.At).UTC()
		}
	}
}

// Signal sends a signal in the name of by, to a task or to whoever waits for its name and key, now
// or while it is kept. Errors: *task.InvalidError with locations below "body", store.ErrNotFound,
// store.ErrConflict with the reason.
func (wk *wakes) Signal(
	ctx context.Context, by string, s task.SignalRequest,
) (task.SignalReceipt, error) {
	s.Name = names.Canonical(s.Name)
	e := &task.InvalidError{}
	limits.CheckSignal(&s, e, "body")
	if problem := wire.CheckValue(s.Payload); len(s.Payload) > 0 && problem != "" {
		e.Add("body.payload", "%s", problem)
	}
	if err := e.Err(); err != nil {
		return task.SignalReceipt{}, err
	}
	row := store.Signal{To: store.Address{Task: s.Task, Name: s.Name}, By: by}
	if string(s.Payload) != "null" {
		row.Payload = store.Value(s.Payload)
	}
	if s.Task != (task.ID{}) {
		row.Key = cmp.Or(s.Key, wk.ownKey())
	} else {
		row.To.Key = s.Key
		row.Keep = cmp.Or(s.Keep, limits.DefaultKeep).Microseconds()
	}
	var got store.Signalled
	err := wk.again(func() (err error) {
		got, err = wk.store.Signal(ctx, row)
		return err
	})
	if err != nil {
		return task.SignalReceipt{}, fmt.Errorf("signal: %w", err)
	}
	switch {
	case !got.Found:
		return task.SignalReceipt{}, fmt.Errorf("task %s: %w", s.Task, store.ErrNotFound)
	case got.Final:
		return task.SignalReceipt{}, fmt.Errorf("task %s is over, so no signal can come to it: %w",
			s.Task, store.ErrConflict)
	case got.Full:
		return task.SignalReceipt{}, fmt.Errorf("%d signals stand at task %s that ended no wait, "+
			"and that is the most: %w", store.MaxOpenSignals, s.Task, store.ErrConflict)
	}
	now := time.Now()
	wk.mu.Lock()
	defer wk.release()
	for _, r := range got.Ready {
		wk.mem.hearReady(r.Queue, r.Rank, now)
	}
	return task.SignalReceipt{Delivered: got.Delivered, Repeated: got.Repeated}, nil
}

// ownKey is a key for a signal that has none, so that it counts by itself, and once also when it is
// written a second time. No caller's key has such a character.
func (wk *wakes) ownKey() string {
	wk.mu.Lock()
	defer wk.release()
	return fmt.Sprintf("\x01%016x", wk.mem.nextBatch(wk.mem.clock.read(time.Now())))
}
