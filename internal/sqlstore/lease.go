package sqlstore

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/rows"
)

const (
	readLease = `SELECT name, holder, token, until, value FROM lease WHERE name = ?`
	putLease  = `INSERT INTO lease (name, holder, token, until, value) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET holder = ?2, token = ?3, until = ?4, value = ?5`
	removedToken = `SELECT tokens FROM store`
)

func scanLease(st *sqlite.Stmt) rows.Lease {
	return rows.Lease{Name: st.ColumnText(0), Holder: st.ColumnText(1), Token: st.ColumnInt64(2), Until: st.ColumnInt64(3), Value: bytesOf(st, 4)}
}

// Acquire gives a lease to a holder. See the contract, storetest.Leases.
func (s *Store) Acquire(ctx context.Context, name, holder string, ttl time.Duration, value []byte) (rows.Lease, error) {
	var l rows.Lease
	err := s.write(ctx, func(t *tx) error {
		found, err := t.one(readLease, func(st *sqlite.Stmt) { l = scanLease(st) }, name)
		if err != nil {
			return err
		}
		if found && l.Holder != holder && l.Until > t.now {
			return fmt.Errorf("it is held by %q: %w", l.Holder, rows.ErrConflict)
		}
		if !found { // it may have been there before, and its last token must never be good again
			if _, err := t.one(removedToken, func(st *sqlite.Stmt) { l.Token = st.ColumnInt64(0) }); err != nil {
				return err
			}
		}
		l = rows.Lease{Name: name, Holder: holder, Token: l.Token + 1, Until: t.now + ttl.Microseconds(), Value: value}
		_, err = t.exec(putLease, l.Name, l.Holder, l.Token, l.Until, l.Value)
		return err
	})
	if err != nil {
		return rows.Lease{}, fmt.Errorf("acquire lease %q: %w", name, err)
	}
	return l, nil
}

const renewLease = `UPDATE lease SET until = ?, value = coalesce(?, value) WHERE name = ? AND token = ?`

// Renew extends leases, one row each. See the contract, storetest.Leases.
func (s *Store) Renew(ctx context.Context, leases []rows.Lease, ttl time.Duration) ([]rows.Lease, error) {
	var renewed []rows.Lease
	err := s.write(ctx, func(t *tx) error {
		renewed = renewed[:0]
		for _, l := range leases {
			n, err := t.exec(renewLease, t.now+ttl.Microseconds(), l.Value, l.Name, l.Token)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			if _, err := t.one(readLease, func(st *sqlite.Stmt) { renewed = append(renewed, scanLease(st)) }, l.Name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	return renewed, nil
}

const (
	endLease    = `UPDATE lease SET token = token + 1, until = 0 WHERE name = ? AND token = ?`
	removeLease = `DELETE FROM lease WHERE name = ? AND token = ?`
	noteToken   = `UPDATE store SET tokens = max(tokens, ?)`
)

// End ends a lease. See the contract, storetest.Leases.
func (s *Store) End(ctx context.Context, name string, token int64, remove bool) error {
	err := s.write(ctx, func(t *tx) error {
		if !remove {
			_, err := t.exec(endLease, name, token)
			return err
		}
		n, err := t.exec(removeLease, name, token)
		if err == nil && n > 0 {
			_, err = t.exec(noteToken, token)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("end lease %q: %w", name, err)
	}
	return nil
}

const leasesOf = `SELECT name, holder, token, until, value FROM lease WHERE name >= ?1 AND substr(name, 1, length(?1)) = ?1 ORDER BY name`

// LeasesOf lists the leases whose name begins with prefix, by name.
func (s *Store) LeasesOf(ctx context.Context, prefix string) ([]rows.Lease, error) {
	var list []rows.Lease
	err := s.read(ctx, func(c *conn) error {
		return c.each(leasesOf, func(st *sqlite.Stmt) bool {
			list = append(list, scanLease(st))
			return true
		}, prefix)
	})
	if err != nil {
		return nil, fmt.Errorf("list leases %q: %w", prefix, err)
	}
	return list, nil
}
