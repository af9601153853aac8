package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// result is how a turn ended.
type result struct {
	more   bool          // there is more to deliver
	failed bool          // it could not go on
	after  time.Duration // what the other side asked to wait
	acted  int           // so many tasks were submitted, or commands run
}

// serve delivers what a notifier has missed, one message after the other, until it is served, has
// had its batch, or one can't be delivered.
func (s *Sender) serve(ctx context.Context, n store.Notifier) result {
	page, err := s.conf.Store.Events(ctx, store.EventQuery{
		After: n.Served.Delivered, Kinds: n.On, Limit: s.conf.Batch,
	})
	if err != nil {
		if ctx.Err() == nil {
			s.conf.Log.Warn("notifier is not served", "notifier", n.Name, "error", err)
		}
		return result{failed: true}
	}
	acted := 0
	for _, e := range page.Events {
		if !store.Matches(n.Subjects, e.Subject) || own(&n, &e) {
			continue
		}
		if err := s.deliver(ctx, &n, e); err != nil {
			return s.hung(ctx, n, err)
		}
		if acts(&n) {
			acted++
		}
		if !s.advance(ctx, &n, store.Progress{Delivered: e.Seq}) {
			return result{acted: acted} // another node serves it, or it is gone
		}
	}
	if page.Next > n.Served.Delivered { // what it is not on
		s.advance(ctx, &n, passedOver(n.Served, page.Next))
	}
	return result{more: len(page.Events) == s.conf.Batch, acted: acted}
}

// deliver sends the message of one event. A notifier that was told of as failing is told of as well
// again: before it advances, so that this is not forgotten when the process ends here.
func (s *Sender) deliver(ctx context.Context, n *store.Notifier, e store.Event) error {
	err := s.sendWithin(ctx, n, messageOf(n, &e, time.Now()))
	if errors.Is(err, errNobody) {
		s.conf.Log.Info("notice goes nowhere", "notifier", n.Name, "event", e.Seq, "about",
			e.Subject, "reason", err)
		err = nil
	}
	if err != nil {
		return err
	}
	if !n.Served.Told {
		return nil
	}
	text := fmt.Sprintf("notifier %s delivers again", n.Name)
	return s.tell(ctx, store.Event{
		Key: hungKey(store.NotifierOK, n), Kind: store.NotifierOK, Subject: n.Name, Text: text,
	})
}

// sendWithin sends a message within the time that it has.
func (s *Sender) sendWithin(ctx context.Context, n *store.Notifier, m message) error {
	within := s.conf.Timeout
	if n.Kind == kindRun {
		within = s.conf.RunFor
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within,
		fmt.Errorf("it took longer than %v", within))
	defer cancel()
	return s.send(ctx, n, m)
}

// transmit sends a message on its way.
func (s *Sender) transmit(ctx context.Context, n *store.Notifier, m message) error {
	switch n.Kind {
	case kindEmail:
		return s.mail(ctx, n, m)
	case kindSubmit:
		return s.submit(ctx, n, m)
	case kindRun:
		return s.run(ctx, n, m)
	}
	return s.out.post(ctx, n, m)
}

// passedOver is the progress of a notifier that passes over what it is not on, up to an event. One
// that was told of as failing has delivered nothing by that: it is told of again when it does.
func passedOver(p store.Progress, seq int64) store.Progress {
	if !p.Told {
		return store.Progress{Delivered: seq}
	}
	p.Delivered = seq
	return p
}

// advance notes how far a notifier was served; false when it is no longer this sender's to say.
func (s *Sender) advance(ctx context.Context, n *store.Notifier, to store.Progress) bool {
	ok, err := s.conf.Store.Advance(context.WithoutCancel(ctx), n.Name, n.Served.Delivered, to)
	if err != nil {
		s.conf.Log.Warn("notifier does not advance", "notifier", n.Name, "error", err)
	}
	n.Served = to
	return ok && err == nil
}

// hung notes that the message behind what was served can't be delivered, and tells of it when that
// has lasted too long.
func (s *Sender) hung(ctx context.Context, n store.Notifier, trouble error) result {
	if ctx.Err() != nil { // that is the trouble
		return result{}
	}
	before := n.Served
	after, tell := failing(before, time.Now().UnixMicro(), s.conf.Dead, trouble.Error())
	if tell {
		text := fmt.Sprintf("notifier %s has delivered nothing for %v: %v", n.Name, s.conf.Dead,
			trouble)
		err := s.tell(ctx, store.Event{
			Key: hungKey(store.NotifierFailed, &n), Kind: store.NotifierFailed, Subject: n.Name,
			Text: text,
		})
		after.Told = err == nil
	}
	if before.Failing == 0 {
		s.conf.Log.Warn("notifier can't be reached", "notifier", n.Name, "error", trouble)
	}
	if after != before {
		if _, err := s.conf.Store.Advance(ctx, n.Name, before.Delivered, after); err != nil {
			s.conf.Log.Warn("trouble of a notifier is not noted", "notifier", n.Name, "error", err)
		}
	}
	r := result{failed: true}
	var refused *refusedError
	if errors.As(trouble, &refused) {
		r.after = refused.after
	}
	return r
}

// failing is the progress of a notifier whose next message can't be delivered, and whether it is
// time to tell of that: once. Trouble that began in the future began by a clock that was ahead: it
// is counted anew, as else nothing would be told until that time comes again.
func failing(
	p store.Progress, now int64, dead time.Duration, trouble string,
) (after store.Progress, tell bool) {
	if p.Failing == 0 || p.Failing > now {
		p.Failing = now
	}
	p.Trouble = cut(trouble, 500)
	return p, !p.Told && now-p.Failing >= dead.Microseconds()
}

// hungKey makes one event of it whoever tells, and however often, that a notifier hangs where it
// does.
func hungKey(kind string, n *store.Notifier) string {
	return fmt.Sprintf("%s/%s/%d", kind, n.Name, n.Served.Delivered)
}

func (s *Sender) tell(ctx context.Context, e store.Event) error {
	if _, err := s.conf.Store.Append(ctx, []store.Event{e}); err != nil {
		return fmt.Errorf("tell of %s: %w", e.Kind, err)
	}
	s.Look()
	return nil
}
