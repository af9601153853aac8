package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

const leaseColumns = `name, holder, token, until, value`

func scanLease(r row) (l store.Lease, err error) {
	err = r.Scan(&l.Name, &l.Holder, &l.Token, &l.Until, &l.Value)
	return l, err
}

const (
	// takeLeases takes over rows that stand: those that ended, and until $6 also those that expired
	// and the holder's own. What stands with a membership ($7 is the Until of such) has expired
	// with it. That of a holder who takes such stays until the commit, and those that have expired
	// are not renewed before it: their holders find what they lost in the statement after the
	// renewal. marks says that the holder knows marks: who does not is no member.
	takeLeases = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now),
self AS MATERIALIZED (` + memberLives + `),
old AS MATERIALIZED (SELECT l.name, l.holder, l.until FROM unnest($3::text[]) w (name)
JOIN rota.lease l ON l.name = w.name),
over AS MATERIALIZED (
  SELECT m.holder FROM rota.lease m WHERE m.name IN (SELECT 'node/' || regexp_replace(holder, '@[^@]*$', '')
  FROM old WHERE until = $7 AND holder <> $2)
  AND m.until <= (SELECT now FROM clock) ORDER BY m.name FOR SHARE OF m),
free AS MATERIALIZED (
  SELECT l.name, w.value, w.until
  FROM unnest($3::text[], $4::bytea[], $8::bigint[]) w (name, value, until)
  JOIN rota.lease l ON l.name = w.name
  WHERE (w.until <> $7 OR EXISTS (SELECT FROM self))
  AND (l.until = 0 OR (SELECT now FROM clock) <= $6 AND (l.until <= (SELECT now FROM clock)
  OR l.holder = $2
    OR l.until = $7 AND (l.holder IN (SELECT holder FROM over) OR NOT EXISTS (
      SELECT FROM rota.lease m WHERE m.name = 'node/' || regexp_replace(l.holder, '@[^@]*$', '')
      AND m.holder = l.holder))))
  ORDER BY l.name FOR UPDATE OF l)
UPDATE rota.lease l SET holder = $2, token = l.token + 1, until = CASE f.until WHEN $7 THEN $7
ELSE (SELECT now FROM clock) + $5 END, value = f.value, marks = true
FROM free f WHERE l.name = f.name
RETURNING l.name, l.holder, l.token, l.until, l.value`

	// memberLives locks the membership of $2 until the commit, so that it is not ended before.
	memberLives = `SELECT FROM rota.lease WHERE name = 'node/' || regexp_replace($2, '@[^@]*$', '')
AND holder = $2 AND until > rota.micros($1) FOR KEY SHARE`

	leasesNamed = `SELECT ` + leaseColumns + ` FROM rota.lease WHERE name = ANY($1::text[])`

	// lockStore makes those wait for one another who make rows of leases and who remove them: a
	// name may have been there before, and its last token must never be good again. What it locks
	// is read by the next statement.
	lockStore = `SELECT FROM rota.store FOR UPDATE`

	makeLeases = `WITH self AS MATERIALIZED (` + memberLives + `)
INSERT INTO rota.lease (name, holder, token, until, value, marks)
SELECT w.name, $2, (SELECT tokens FROM rota.store) + 1, CASE w.until WHEN $6 THEN $6
ELSE rota.micros($1) + $5 END, w.value, true
FROM unnest($3::text[], $4::bytea[], $7::bigint[]) w (name, value, until)
WHERE w.until <> $6 OR EXISTS (SELECT FROM self) ORDER BY w.name
ON CONFLICT DO NOTHING RETURNING ` + leaseColumns
)

// leases keeps rights that end by themselves: memberships, claims and chores. The table lease is
// its own. Others share the lock of a row, so that a right can't end while they write; and Free
// (hold.go) ends those of dead nodes in the transaction that frees their spans.
type leases struct{ *database }

// Acquire gives a lease to a holder. See contract.Leases.
func (s *leases) Acquire(
	ctx context.Context, name, holder string, ttl time.Duration, value []byte,
) (store.Lease, error) {
	granted, others, err := s.acquireAll(ctx, holder, []store.Lease{{Name: name, Value: value}},
		ttl, math.MaxInt64)
	if err == nil && len(granted.Leases) == 0 {
		by := ""
		for _, l := range others {
			by = l.Holder
		}
		err = fmt.Errorf("it is held by %q: %w", by, store.ErrConflict)
	}
	if err != nil {
		return store.Lease{}, fmt.Errorf("acquire lease %q: %w", name, err)
	}
	return granted.Leases[0], nil
}

// AcquireAll gives a holder what nobody else has of the wanted leases. See contract.Leases.
func (s *leases) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	granted, _, err := s.acquireAll(ctx, holder, wants, ttl, judge)
	if err != nil {
		return store.Granted{}, fmt.Errorf("acquire %d leases: %w", len(wants), err)
	}
	return granted, nil
}

// acquireAll takes over the rows that stand; only for names without a row it makes one, which is
// rare. others are those that it did not get.
func (s *leases) acquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (g store.Granted, others []store.Lease, err error) {
	err = s.writeWithin(ctx, func(ctx context.Context, t *tx) error {
		g, others = store.Granted{}, nil
		list := columnsOf(wants)
		missing := make(map[string]store.Lease, len(wants))
		for _, w := range wants {
			missing[w.Name] = w
		}
		got := func(r row) error {
			l, err := scanLease(r)
			g.Leases = append(g.Leases, l)
			delete(missing, l.Name)
			return err
		}
		notGot := func(r row) error {
			l, err := scanLease(r)
			if _, ok := missing[l.Name]; ok {
				others = append(others, l)
				delete(missing, l.Name)
			}
			return err
		}
		err := t.run(ctx, ask(countClock, func(r row) error { return r.Scan(&g.Now) }, s.clock()),
			ask(takeLeases, got, s.clock(), holder, list.names, list.values, ttl.Microseconds(),
				judge, int64(store.WhileMember), list.untils),
			ask(leasesNamed, notGot, list.names))
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			return t.finish(ctx)
		}
		list = columnsOf(slices.Collect(maps.Values(missing)))
		return t.finish(ctx, tell(lockStore),
			ask(makeLeases, got, s.clock(), holder, list.names, list.values, ttl.Microseconds(),
				int64(store.WhileMember), list.untils),
			ask(leasesNamed, notGot, list.names)) // somebody made the row just then
	})
	return g, others, err
}

// leaseLists are leases as statements take them, one list a column.
type leaseLists struct {
	names  []string
	tokens []int64
	untils []int64
	values [][]byte
}

func columnsOf(leases []store.Lease) (c leaseLists) {
	for _, l := range leases {
		c.names = append(c.names, l.Name)
		c.tokens = append(c.tokens, l.Token)
		c.untils = append(c.untils, l.Until)
		c.values = append(c.values, l.Value)
	}
	return c
}

const (
	renewLeases = `WITH mine AS MATERIALIZED (
  SELECT l.name, w.value FROM unnest($2::text[], $3::bigint[], $4::bytea[]) w (name, token, value)
  JOIN rota.lease l ON l.name = w.name AND l.token = w.token ORDER BY l.name FOR NO KEY UPDATE OF l)
UPDATE rota.lease l SET until = rota.micros($1) + $5, value = coalesce(m.value, l.value) FROM mine m
WHERE l.name = m.name
RETURNING l.name, l.holder, l.token, l.until, l.value`

	leasesWith = `SELECT l.name, l.holder, l.token, l.until, l.value
FROM unnest($1::text[]) w (prefix)
CROSS JOIN LATERAL (SELECT * FROM rota.lease WHERE name >= w.prefix
AND starts_with(name, w.prefix) OFFSET 0) l`
)

// Renew extends leases in one statement. See contract.Leases.
func (s *leases) Renew(
	ctx context.Context, leases []store.Lease, ttl time.Duration,
) ([]store.Lease, error) {
	b, err := s.beat(ctx, leases, ttl)
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	return b.Kept, nil
}

// Beat renews what a node holds and lists what all hold. See contract.Leases.
func (s *leases) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	b, err := s.beat(ctx, held, ttl, prefixes...)
	if err != nil {
		return store.Beat{}, fmt.Errorf("renew %d leases and list %q: %w", len(held), prefixes, err)
	}
	return b, nil
}

func (s *leases) beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (b store.Beat, err error) {
	err = s.writeWithin(ctx, func(ctx context.Context, t *tx) error {
		b = store.Beat{}
		list := columnsOf(held)
		queries := []query{ask(countClock, func(r row) error { return r.Scan(&b.Now) }, s.clock())}
		if len(held) > 0 {
			queries = append(queries, ask(renewLeases, func(r row) error {
				l, err := scanLease(r)
				b.Kept = append(b.Kept, l)
				return err
			}, s.clock(), list.names, list.tokens, list.values, ttl.Microseconds()))
		}
		if len(prefixes) > 0 {
			queries = append(queries, ask(leasesWith, func(r row) error {
				l, err := scanLease(r)
				b.Leases = append(b.Leases, l)
				return err
			}, prefixes))
		}
		return t.finish(ctx, queries...)
	})
	if err == nil {
		s.theirs.Store(b.Now)
	}
	byName(b.Leases)
	return b, err
}

func byName(list []store.Lease) {
	slices.SortFunc(list, func(a, b store.Lease) int { return cmp.Compare(a.Name, b.Name) })
}

const (
	endLeases = `UPDATE rota.lease l SET token = l.token + 1, until = 0 FROM (
  SELECT l.name FROM unnest($1::text[], $2::bigint[]) w (name, token)
  JOIN rota.lease l ON l.name = w.name AND l.token = w.token
  ORDER BY l.name FOR UPDATE OF l) mine
WHERE l.name = mine.name`

	// lockMembers comes before outlive: what its members are just given by another transaction is
	// given before.
	lockMembers = `SELECT FROM rota.lease l
JOIN unnest($1::text[], $2::bigint[]) w (name, token) ON l.name = w.name AND l.token = w.token
WHERE starts_with(l.name, 'node/') ORDER BY l.name FOR UPDATE OF l`

	// outlive leaves what stands with memberships the time that these had.
	outlive = `UPDATE rota.lease l SET until = m.until
FROM unnest($1::text[], $2::bigint[]) w (name, token) JOIN rota.lease m ON m.name = w.name
AND m.token = w.token
WHERE starts_with(m.name, 'node/') AND m.until > 0 AND l.until = $3 AND l.holder = m.holder`

	removeLeases = `WITH gone AS (
  DELETE FROM rota.lease l USING (
    SELECT l.name FROM unnest($1::text[], $2::bigint[]) w (name, token)
    JOIN rota.lease l ON l.name = w.name AND l.token = w.token
    ORDER BY l.name FOR UPDATE OF l) mine
  WHERE l.name = mine.name RETURNING l.token)
UPDATE rota.store SET tokens = greatest(tokens, (SELECT max(token) FROM gone)) WHERE EXISTS (SELECT
FROM gone)`
)

// End ends a lease. See contract.Leases.
func (s *leases) End(ctx context.Context, name string, token int64, remove bool) error {
	if err := s.end(ctx, []store.Lease{{Name: name, Token: token}}, remove); err != nil {
		return fmt.Errorf("end lease %q: %w", name, err)
	}
	return nil
}

// EndAll ends leases in one statement. See contract.Leases.
func (s *leases) EndAll(ctx context.Context, leases []store.Lease, remove bool) error {
	if err := s.end(ctx, leases, remove); err != nil {
		return fmt.Errorf("end %d leases: %w", len(leases), err)
	}
	return nil
}

func (s *leases) end(ctx context.Context, leases []store.Lease, remove bool) error {
	return s.writeWithin(ctx, func(ctx context.Context, t *tx) error {
		var queries []query
		list := columnsOf(leases)
		if slices.ContainsFunc(list.names, store.IsMembership) {
			queries = append(queries, tell(lockMembers, list.names, list.tokens),
				tell(outlive, list.names, list.tokens, int64(store.WhileMember)))
		}
		if remove {
			return t.finish(ctx,
				append(queries, tell(lockStore), tell(removeLeases, list.names, list.tokens))...)
		}
		return t.finish(ctx, append(queries, tell(endLeases, list.names, list.tokens))...)
	})
}

// LeasesOf lists the leases whose name begins with prefix, by name.
func (s *leases) LeasesOf(ctx context.Context, prefix string) (list []store.Lease, err error) {
	err = s.glance(ctx, ask(leasesWith, func(r row) error {
		l, err := scanLease(r)
		list = append(list, l)
		return err
	}, []string{prefix}))
	if err != nil {
		return nil, fmt.Errorf("list leases %q: %w", prefix, err)
	}
	byName(list)
	return list, nil
}
