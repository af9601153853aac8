package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

// eventCalls keeps the log of events, and whom the store is to tell of what: its tables are event
// and event_head, notifier and hook.
type eventCalls struct{ *database }

// eventReads reads how far the log of events has come.
type eventReads struct{ *conn }

func (c *conn) events() eventReads { return eventReads{c} }

// eventWrites appends events.
type eventWrites struct{ *tx }

func (t *tx) events() eventWrites { return eventWrites{t} }

const (
	eventHead    = `SELECT last, time FROM event_head`
	putEventHead = `UPDATE event_head SET last = ?, time = ?`
	insertEvent  = `INSERT INTO event (seq, time, key, kind, subject, text, fields)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`
	// eventsAfter finds by the index where the log has come to a time: times only grow with seqs.
	eventsAfter = `SELECT seq, time, key, kind, subject, text, fields FROM event
WHERE seq > ?1 AND seq >= (SELECT seq FROM event INDEXED BY event_time WHERE time >= ?2
ORDER BY time, seq LIMIT 1) ORDER BY seq LIMIT ?3`
	newestEvent  = `SELECT last FROM event_head`
	oldEvents    = `SELECT seq, time FROM event ORDER BY seq LIMIT ?`
	deleteEvents = `DELETE FROM event WHERE seq <= ?`
)

// Append adds events that nobody reported before. See contract.Events.
func (s *eventCalls) Append(ctx context.Context, events []store.Event) (appended int, err error) {
	err = s.write(ctx, func(t *tx) (err error) {
		appended, err = t.events().append(events)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("append %d events: %w", len(events), err)
	}
	return appended, nil
}

func (t eventWrites) append(events []store.Event) (appended int, err error) {
	last, at, err := t.conn.events().eventHead()
	if err != nil {
		return 0, err
	}
	at = max(at, t.now)
	for i := range events {
		e := &events[i]
		var fields any
		if len(e.Fields) > 0 {
			b, err := json.Marshal(e.Fields)
			if err != nil {
				return 0, err
			}
			fields = string(b)
		}
		n, err := t.exec(insertEvent, last+int64(appended)+1, at, e.Key, e.Kind, e.Subject, e.Text,
			fields)
		if err != nil {
			return 0, err
		}
		appended += n
	}
	if appended > 0 {
		_, err = t.exec(putEventHead, last+int64(appended), at)
	}
	return appended, err
}

// eventHead is the seq and the time of the newest event that ever was.
func (c eventReads) eventHead() (last, at int64, err error) {
	_, err = c.one(eventHead, func(st *sqlite.Stmt) {
		last, at = st.ColumnInt64(0), st.ColumnInt64(1)
	})
	return last, at, err
}

// examinedEvents is how many events one page looks at.
const examinedEvents = 1000

// Events reads on in the log. See contract.Events.
func (s *eventCalls) Events(
	ctx context.Context, q store.EventQuery,
) (page store.EventPage, err error) {
	err = s.read(ctx, func(c *conn) error {
		var bad error
		looked, full := 0, false
		page = store.EventPage{Next: q.After}
		err := c.each(eventsAfter, func(st *sqlite.Stmt) bool {
			if full = len(page.Events) == q.Limit; full {
				return false
			}
			looked++
			page.Next = st.ColumnInt64(0)
			if store.Matches(q.Kinds, st.ColumnText(3)) {
				var e store.Event
				e, bad = scanEvent(st)
				page.Events = append(page.Events, e)
			}
			return bad == nil
		}, q.After, q.Since, examinedEvents)
		if err == nil && bad == nil && !full && looked < examinedEvents {
			// what is left is too old for the query
			_, err = c.one(newestEvent, func(st *sqlite.Stmt) {
				page.Next = max(page.Next, st.ColumnInt64(0))
			})
		}
		if err == nil {
			err = bad
		}
		return err
	})
	if err != nil {
		return store.EventPage{}, fmt.Errorf("read events after %d: %w", q.After, err)
	}
	return page, nil
}

func scanEvent(st *sqlite.Stmt) (store.Event, error) {
	e := store.Event{
		Seq: st.ColumnInt64(0), Time: st.ColumnInt64(1), Key: st.ColumnText(2),
		Kind: st.ColumnText(3), Subject: st.ColumnText(4), Text: st.ColumnText(5),
	}
	if st.ColumnIsNull(6) {
		return e, nil
	}
	if err := json.Unmarshal([]byte(st.ColumnText(6)), &e.Fields); err != nil {
		return e, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return e, nil
}

// pruneEvents deletes from the front of the log what is older than events are kept, and says when
// it is to be called again: times only grow with seqs.
func (s *eventCalls) pruneEvents(
	ctx context.Context, limit int,
) (pruned int, next int64, err error) {
	err = s.write(ctx, func(t *tx) error {
		pruned, next = 0, t.now+store.EventsKept.Microseconds()
		last := int64(0)
		err := t.each(oldEvents, func(st *sqlite.Stmt) bool {
			if until := st.ColumnInt64(1) + store.EventsKept.Microseconds(); until > t.now {
				next = until
				return false
			}
			last, next = st.ColumnInt64(0), t.now // there may be more
			return true
		}, min(limit, piece))
		if err == nil && last > 0 {
			pruned, err = t.exec(deleteEvents, last)
		}
		return err
	})
	return pruned, next, err
}
