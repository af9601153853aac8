package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/rows"
)

// result is how a turn ended.
type result struct {
	more   bool          // there is more to deliver
	failed bool          // it could not go on
	after  time.Duration // what the other side asked to wait
}

// serve delivers what a notifier has missed, one message after the other, until it is served, has had its batch, or one can't be
// delivered.
func (h *Herald) serve(ctx context.Context, n rows.Notifier) result {
	page, err := h.conf.Store.Events(ctx, rows.EventQuery{After: n.Served.Delivered, Kinds: n.On, Limit: h.conf.Batch})
	if err != nil {
		if ctx.Err() == nil {
			h.conf.Log.Warn("notifier is not served", "notifier", n.Name, "error", err)
		}
		return result{failed: true}
	}
	for _, e := range page.Events {
		if !rows.Matches(n.Subjects, e.Subject) {
			continue
		}
		if err := h.deliver(ctx, &n, e); err != nil {
			return h.hung(ctx, n, err)
		}
		if !h.advance(ctx, &n, e.Seq) {
			return result{} // another node serves it, or it is gone
		}
	}
	if page.Next > n.Served.Delivered { // what it is not on
		h.advance(ctx, &n, page.Next)
	}
	return result{more: len(page.Events) == h.conf.Batch}
}

// deliver sends the message of one event. A notifier that was told of as failing is told of as well again: before it advances, so that
// this is not forgotten when the process ends here.
func (h *Herald) deliver(ctx context.Context, n *rows.Notifier, e rows.Event) error {
	if err := h.sendWithin(ctx, n, messageOf(n, &e, time.Now())); err != nil {
		return err
	}
	if !n.Served.Told {
		return nil
	}
	text := fmt.Sprintf("notifier %s delivers again", n.Name)
	return h.tell(ctx, rows.Event{Key: hungKey(rows.NotifierOK, n), Kind: rows.NotifierOK, Subject: n.Name, Text: text})
}

// sendWithin sends a message within the time that it has.
func (h *Herald) sendWithin(ctx context.Context, n *rows.Notifier, m message) error {
	ctx, cancel := context.WithTimeout(ctx, h.conf.Timeout)
	defer cancel()
	return h.send(ctx, n, m)
}

// transmit sends a message on its way.
func (h *Herald) transmit(ctx context.Context, n *rows.Notifier, m message) error {
	if n.Kind == kindEmail {
		return h.out.mail(ctx, n, m)
	}
	return h.out.post(ctx, n, m)
}

// advance notes that a notifier was served up to an event; false when it is no longer this herald's to say.
func (h *Herald) advance(ctx context.Context, n *rows.Notifier, seq int64) bool {
	to := rows.Progress{Delivered: seq}
	ok, err := h.conf.Store.Advance(context.WithoutCancel(ctx), n.Name, n.Served.Delivered, to)
	if err != nil {
		h.conf.Log.Warn("notifier does not advance", "notifier", n.Name, "error", err)
	}
	n.Served = to
	return ok && err == nil
}

// hung notes that the message behind what was served can't be delivered, and tells of it when that has lasted too long.
func (h *Herald) hung(ctx context.Context, n rows.Notifier, trouble error) result {
	if ctx.Err() != nil { // that is the trouble
		return result{}
	}
	before := n.Served
	after, tell := failing(before, time.Now().UnixMicro(), h.conf.Dead, trouble.Error())
	if tell {
		text := fmt.Sprintf("notifier %s has delivered nothing for %v: %v", n.Name, h.conf.Dead, trouble)
		err := h.tell(ctx, rows.Event{Key: hungKey(rows.NotifierFailed, &n), Kind: rows.NotifierFailed, Subject: n.Name, Text: text})
		after.Told = err == nil
	}
	if before.Failing == 0 {
		h.conf.Log.Warn("notifier can't be reached", "notifier", n.Name, "error", trouble)
	}
	if after != before {
		if _, err := h.conf.Store.Advance(ctx, n.Name, before.Delivered, after); err != nil {
			h.conf.Log.Warn("trouble of a notifier is not noted", "notifier", n.Name, "error", err)
		}
	}
	r := result{failed: true}
	var refused *refusedError
	if errors.As(trouble, &refused) {
		r.after = refused.after
	}
	return r
}

// failing is the progress of a notifier whose next message can't be delivered, and whether it is time to tell of that: once.
func failing(p rows.Progress, now int64, dead time.Duration, trouble string) (after rows.Progress, tell bool) {
	if p.Failing == 0 {
		p.Failing = now
	}
	p.Trouble = cut(trouble, 500)
	return p, !p.Told && now-p.Failing >= dead.Microseconds()
}

// hungKey makes one event of it whoever tells, and however often, that a notifier hangs where it does.
func hungKey(kind string, n *rows.Notifier) string {
	return fmt.Sprintf("%s/%s/%d", kind, n.Name, n.Served.Delivered)
}

func (h *Herald) tell(ctx context.Context, e rows.Event) error {
	if _, err := h.conf.Store.Append(ctx, []rows.Event{e}); err != nil {
		return fmt.Errorf("tell of %s: %w", e.Kind, err)
	}
	h.Look()
	return nil
}
