package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rotahq/rota/internal/store"
)

const (
	// lockEvents makes those wait for one another who append. What stands in the log is read by the
	// next statement.
	lockEvents = `SELECT last, time, rota.micros($1) FROM rota.event_head FOR UPDATE`
	eventKeys  = `SELECT key FROM rota.event WHERE key = ANY($1::text[])`

	insertEvents = `INSERT INTO rota.event (seq, time, key, kind, subject, text, fields)
SELECT e.seq, $2, e.key, e.kind, e.subject, e.text, nullif(e.fields, '')
FROM unnest($1::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) e (seq, key,
kind, subject, text, fields)`
	putEventHead = `UPDATE rota.event_head SET last = $1, time = $2`
)

// events keeps the log of what happened. The tables event and event_head are its own.
type events struct{ *database }

// Append adds events that nobody reported before. See contract.Events.
func (s *events) Append(ctx context.Context, events []store.Event) (appended int, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) (err error) {
		appended, err = t.append(ctx, events)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("append %d events: %w", len(events), err)
	}
	return appended, nil
}

// append writes whatever an event says: one that is refused would keep back all that come after it.
func (t *tx) append(ctx context.Context, events []store.Event) (appended int, err error) {
	known := map[string]bool{}
	keys := make([]string, len(events))
	for i := range events {
		keys[i] = printable(events[i].Key)
	}
	var last, at, now int64
	err = t.run(ctx, ask(lockEvents, func(r row) error {
		return r.Scan(&last, &at, &now)
	}, t.clock()), ask(eventKeys, func(r row) error {
		var key string
		err := r.Scan(&key)
		known[key] = true
		return err
	}, keys))
	if err != nil {
		return 0, err
	}
	at = max(at, now)
	var seqs []int64
	var kinds, subjects, texts, fields []string
	given := keys
	keys = nil
	for i := range events {
		e, key := &events[i], given[i]
		if known[key] {
			continue
		}
		known[key] = true
		var b []byte
		if len(e.Fields) > 0 {
			if b, err = json.Marshal(e.Fields); err != nil {
				return 0, err
			}
		}
		last++
		seqs = append(seqs, last)
		keys = append(keys, key)
		kinds = append(kinds, printable(e.Kind))
		subjects = append(subjects, printable(e.Subject))
		texts = append(texts, printable(e.Text))
		fields = append(fields, string(b))
	}
	if len(seqs) == 0 {
		return 0, t.finish(ctx) // the head's lock has it confirmed that they stand: see confirm
	}
	return len(seqs),
		t.finish(ctx, tell(insertEvents, seqs, at, keys, kinds, subjects, texts, fields),
			tell(putEventHead, last, at))
}

// examinedEvents is how many events one page looks at.
const examinedEvents = 1000

const (
	// eventsAfter finds by an index where the log has come to a time: times only grow with seqs.
	eventsAfter = `SELECT seq, time, key, kind, subject, text, coalesce(fields, '') FROM rota.event
WHERE seq > $1 AND seq >= (SELECT seq FROM rota.event WHERE time >= $2 ORDER BY time, seq LIMIT 1)
ORDER BY seq LIMIT $3`
	newestEvent = `SELECT last FROM rota.event_head`
)

// Events reads on in the log. See contract.Events.
func (s *events) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	page := store.EventPage{Next: q.After}
	looked, newest, full := 0, int64(0), false
	err := s.read(ctx, ask(eventsAfter, func(r row) error {
		var e store.Event
		var fields string
		err := r.Scan(&e.Seq, &e.Time, &e.Key, &e.Kind, &e.Subject, &e.Text, &fields)
		if full = full || len(page.Events) == q.Limit; err != nil || full {
			return err
		}
		looked++
		page.Next = e.Seq
		if !store.Matches(q.Kinds, e.Kind) {
			return nil
		}
		if fields != "" {
			if err := json.Unmarshal([]byte(fields), &e.Fields); err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		page.Events = append(page.Events, e)
		return nil
	}, q.After, q.Since, examinedEvents), ask(newestEvent, func(r row) error {
		return r.Scan(&newest)
	}))
	if err != nil {
		return store.EventPage{}, fmt.Errorf("read events after %d: %w", q.After, err)
	}
	if !full && looked < examinedEvents { // what is left is too old for the query
		page.Next = max(page.Next, newest)
	}
	return page, nil
}

const (
	// deleteEvents deletes from the front, at most $3 events: those before the first that is to be
	// kept.
	deleteEvents = `WITH f AS MATERIALIZED (SELECT seq, time FROM rota.event ORDER BY seq LIMIT $3)
DELETE FROM rota.event e USING f WHERE e.seq = f.seq AND f.time + $2 <= (SELECT rota.micros($1))
RETURNING 1`
	oldestEvent = `SELECT EXISTS (SELECT FROM (SELECT time FROM rota.event ORDER BY seq LIMIT 1) f
WHERE time + $2 <= rota.micros($1))`
)

// pruneEvents deletes from the front of the log what is older than events are kept. Times only grow
// with seqs.
func (s *events) pruneEvents(ctx context.Context, limit int) (pruned int, err error) {
	old := false
	err = s.glance(ctx, ask(oldestEvent, func(r row) error {
		return r.Scan(&old)
	}, s.clock(), store.EventsKept.Microseconds()))
	if err != nil || !old {
		return 0, err
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		pruned = 0
		return t.finish(ctx, ask(deleteEvents, func(row) error {
			pruned++
			return nil
		}, s.clock(), store.EventsKept.Microseconds(), min(limit, piece)))
	})
	return pruned, err
}
