package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	// standingSignal says whether a signal has ended a wait. One whose time is over is none.
	standingSignal = `SELECT used IS NOT NULL FROM rota.signal WHERE address = $2 AND key = $3
AND (until = 0 OR until > rota.micros($1))`

	openSignals = `SELECT count(*) FROM (SELECT FROM rota.signal
WHERE batch = $1 AND n = $2 AND used IS NULL LIMIT $3) s`

	// insertSignal inserts a signal unless it stands already, and says that something changed at
	// its address. One that stands is locked, so it is still there when it is read next.
	insertSignal = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now),
sent AS (
  INSERT INTO rota.signal AS s (address, key, batch, n, payload, sender, at, until)
  SELECT $2, $3, $4::bigint, $5::int, $6::bytea, $7::text, now,
    CASE WHEN $8::bigint > 0 THEN now + $8 ELSE 0 END FROM clock
  ON CONFLICT (address, key) DO UPDATE SET batch = excluded.batch, n = excluded.n,
    payload = excluded.payload, sender = excluded.sender, at = excluded.at,
    until = excluded.until, used = NULL
  WHERE s.until > 0 AND s.until <= (SELECT now FROM clock)
  RETURNING s.address, s.at),
told AS (INSERT INTO rota.change (address) SELECT address FROM sent)
SELECT at FROM sent`
)

// Signal writes down a signal, and looks at its address. See contract.Waits. It is
// there once the first transaction has committed: should the look fail, the change that stands by
// then has somebody look, so that is no failure of the call.
func (s *waiting) Signal(ctx context.Context, sig store.Signal) (store.Signalled, error) {
	answer, err := s.send(ctx, &sig)
	if err != nil {
		return store.Signalled{}, fmt.Errorf("send signal %q: %w", sig.To.Name, err)
	}
	if !answer.Found || answer.Final || answer.Full || answer.Repeated {
		return answer, nil
	}
	delivered := false
	looked, err := s.looks(context.WithoutCancel(ctx),
		store.LookRequest{Addresses: []store.Address{sig.To}, Limit: 1},
		ask(standingSignal, func(r row) error { return r.Scan(&delivered) },
			answer.Now, sig.To.String(), sig.Key))
	if err != nil {
		s.conf.Log.Warn("a signal was sent, and is looked at later", "error", err)
		return answer, nil
	}
	answer.Delivered, answer.Ready = delivered, looked.Ready
	s.hints.hintWoken(looked.Ready)
	return answer, nil
}

// send writes a signal down.
func (s *waiting) send(ctx context.Context, sig *store.Signal) (answer store.Signalled, err error) {
	address := sig.To.String()
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		answer = store.Signalled{Found: true}
		var batch *int64
		var n *int32
		if id := sig.To.Task; id != (task.ID{}) {
			batch, n = &id.Batch, &id.N
			goes, err := t.mayBeSent(ctx, sig, address, &answer)
			if err != nil || !goes {
				return err
			}
		}
		inserted := false
		err := t.finish(ctx, ask(countClock, func(r row) error {
			return r.Scan(&answer.Now)
		}, t.clock()), ask(insertSignal, func(r row) error {
			inserted = true
			return r.Scan(&answer.Now)
		}, t.clock(), address, sig.Key, batch, n, []byte(sig.Payload), printable(sig.By), sig.Keep),
			ask(standingSignal, func(r row) error {
				return r.Scan(&answer.Delivered)
			}, t.clock(), address, sig.Key))
		answer.Repeated = !inserted
		return err
	})
	return answer, err
}

// mayBeSent tells whether a task takes a signal: it stands, is not over, and has room. Otherwise
// the transaction ends with it. The task is not deleted as long as the transaction lasts.
func (t *tx) mayBeSent(
	ctx context.Context, sig *store.Signal, address string, answer *store.Signalled,
) (bool, error) {
	id := sig.To.Task
	found := make([]fact, 1)
	batches, ns := idColumns([]task.ID{id})
	open := 0
	queries := append([]query{tell(sharePackRows, batches, ns),
		ask(countClock, func(r row) error { return r.Scan(&answer.Now) }, t.clock())},
		factsOf([]task.ID{id}, false, found)...)
	err := t.run(ctx, append(queries, ask(openSignals, func(r row) error {
		return r.Scan(&open)
	}, id.Batch, id.N, store.MaxOpenSignals), ask(standingSignal, func(r row) error {
		answer.Repeated = true
		return r.Scan(&answer.Delivered)
	}, t.clock(), address, sig.Key))...)
	if err != nil {
		return false, err
	}
	f := &found[0]
	switch {
	case f.ID == (task.ID{}) || f.Removed():
		*answer = store.Signalled{Now: answer.Now}
	case answer.Repeated:
	case f.Base == store.Final:
		answer.Final = true
	case open >= store.MaxOpenSignals:
		answer.Full = true
	default:
		return true, nil
	}
	return false, t.finish(ctx, tell(confirm))
}
