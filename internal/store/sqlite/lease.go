package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

// leaseCalls gives rights that end by themselves. Its table is lease.
type leaseCalls struct{ *database }

// leaseReads reads leases.
type leaseReads struct{ *conn }

func (c *conn) leases() leaseReads { return leaseReads{c} }

// leaseWrites writes leases, and tells whether one holds as of the transaction's time.
type leaseWrites struct{ *tx }

func (t *tx) leases() leaseWrites { return leaseWrites{t} }

const (
	readLease = `SELECT name, holder, token, until, value FROM lease WHERE name = ?`
	putLease  = `INSERT INTO lease (name, holder, token, until, value) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET holder = ?2, token = ?3, until = ?4, value = ?5`
	removedToken = `SELECT tokens FROM store`
)

func scanLease(st *sqlite.Stmt) store.Lease {
	return store.Lease{
		Name: st.ColumnText(0), Holder: st.ColumnText(1), Token: st.ColumnInt64(2),
		Until: st.ColumnInt64(3), Value: bytesOf(st, 4),
	}
}

// Acquire gives a lease to a holder. See contract.Leases.
func (s *leaseCalls) Acquire(
	ctx context.Context, name, holder string, ttl time.Duration, value []byte,
) (store.Lease, error) {
	var l store.Lease
	err := s.write(ctx, func(t *tx) error {
		old, err := t.leases().lease(name)
		if err != nil {
			return err
		}
		if old.Holder != holder && old.Until > t.now {
			return fmt.Errorf("it is held by %q: %w", old.Holder, store.ErrConflict)
		}
		l = store.Lease{
			Name: name, Holder: holder, Token: old.Token + 1, Until: t.now + ttl.Microseconds(),
			Value: value,
		}
		return t.leases().putLease(l)
	})
	if err != nil {
		return store.Lease{}, fmt.Errorf("acquire lease %q: %w", name, err)
	}
	return l, nil
}

// AcquireAll gives a holder what nobody else has of the wanted leases. See contract.Leases.
func (s *leaseCalls) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	var granted store.Granted
	err := s.write(ctx, func(t *tx) error {
		granted = store.Granted{Now: t.now}
		until, err := t.leases().membership(holder)
		if err != nil {
			return err
		}
		member := until > t.now
		for _, want := range wants {
			old, err := t.leases().lease(want.Name)
			if err != nil {
				return err
			}
			expires, err := t.leases().until(old)
			if err != nil {
				return err
			}
			l := store.Lease{
				Name: want.Name, Holder: holder, Token: old.Token + 1,
				Until: t.now + ttl.Microseconds(), Value: want.Value,
			}
			if want.Until == store.WhileMember {
				l.Until = store.WhileMember
			}
			free := old.Until == 0 || t.now <= judge && (expires <= t.now || old.Holder == holder)
			if !free || l.Until == store.WhileMember && !member {
				continue
			}
			if err := t.leases().putLease(l); err != nil {
				return err
			}
			granted.Leases = append(granted.Leases, l)
		}
		return nil
	})
	if err != nil {
		return store.Granted{}, fmt.Errorf("acquire %d leases: %w", len(wants), err)
	}
	return granted, nil
}

// lease reads a lease. Without a row it is one that ended: it may have been there before, and its
// last token must never be good again.
func (t leaseWrites) lease(name string) (l store.Lease, err error) {
	found, err := t.one(readLease, func(st *sqlite.Stmt) { l = scanLease(st) }, name)
	if err == nil && !found {
		_, err = t.one(removedToken, func(st *sqlite.Stmt) { l.Token = st.ColumnInt64(0) })
	}
	return l, err
}

const membership = `SELECT until FROM lease WHERE name = ? AND holder = ?`

// until is when a lease expires, by its own row or by its holder's membership.
func (t leaseWrites) until(l store.Lease) (int64, error) {
	if l.Until == store.WhileMember {
		return t.membership(l.Holder)
	}
	return l.Until, nil
}

// membership is when a holder's membership expires; 0 = it is none.
func (t leaseWrites) membership(holder string) (until int64, err error) {
	_, err = t.one(membership, func(st *sqlite.Stmt) {
		until = st.ColumnInt64(0)
	}, store.MembershipOf(holder), holder)
	return until, err
}

func (t leaseWrites) putLease(l store.Lease) error {
	_, err := t.exec(putLease, l.Name, l.Holder, l.Token, l.Until, l.Value)
	return err
}

const renewLease = `UPDATE lease SET until = ?, value = coalesce(?, value) WHERE name = ?
AND token = ?`

// Renew extends leases, one row each. See contract.Leases.
func (s *leaseCalls) Renew(
	ctx context.Context, leases []store.Lease, ttl time.Duration,
) ([]store.Lease, error) {
	var renewed []store.Lease
	err := s.write(ctx, func(t *tx) (err error) {
		renewed, err = t.leases().renew(leases, ttl)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	return renewed, nil
}

func (t leaseWrites) renew(
	leases []store.Lease, ttl time.Duration,
) (renewed []store.Lease, err error) {
	for _, l := range leases {
		n, err := t.exec(renewLease, t.now+ttl.Microseconds(), l.Value, l.Name, l.Token)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		if _, err := t.one(readLease, func(st *sqlite.Stmt) {
			renewed = append(renewed, scanLease(st))
		}, l.Name); err != nil {
			return nil, err
		}
	}
	return renewed, nil
}

// Beat renews what a node holds and lists what all hold. See contract.Leases.
func (s *leaseCalls) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	var b store.Beat
	err := s.write(ctx, func(t *tx) (err error) {
		b = store.Beat{Now: t.now}
		if b.Kept, err = t.leases().renew(held, ttl); err != nil {
			return err
		}
		for _, prefix := range slices.Sorted(slices.Values(prefixes)) {
			list, err := t.conn.leases().leasesOf(prefix)
			if err != nil {
				return err
			}
			b.Leases = append(b.Leases, list...)
		}
		return nil
	})
	if err != nil {
		return store.Beat{}, fmt.Errorf("renew %d leases and list %q: %w", len(held), prefixes, err)
	}
	return b, nil
}

const (
	endLease    = `UPDATE lease SET token = token + 1, until = 0 WHERE name = ? AND token = ?`
	removeLease = `DELETE FROM lease WHERE name = ? AND token = ?`
	noteToken   = `UPDATE store SET tokens = max(tokens, ?)`

	// outlive leaves what stands with a membership the time that this had.
	outlive = `UPDATE lease SET until = member.until FROM (SELECT holder, until FROM lease
WHERE name = ? AND token = ? AND until > 0) member
WHERE lease.until = ? AND lease.holder = member.holder`
)

// End ends a lease. See contract.Leases.
func (s *leaseCalls) End(ctx context.Context, name string, token int64, remove bool) error {
	err := s.write(ctx, func(t *tx) error { return t.leases().end(name, token, remove) })
	if err != nil {
		return fmt.Errorf("end lease %q: %w", name, err)
	}
	return nil
}

// EndAll ends leases. See contract.Leases.
func (s *leaseCalls) EndAll(ctx context.Context, leases []store.Lease, remove bool) error {
	err := s.write(ctx, func(t *tx) error {
		for _, l := range leases {
			if err := t.leases().end(l.Name, l.Token, remove); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("end %d leases: %w", len(leases), err)
	}
	return nil
}

func (t leaseWrites) end(name string, token int64, remove bool) error {
	if store.IsMembership(name) {
		if _, err := t.exec(outlive, name, token, int64(store.WhileMember)); err != nil {
			return err
		}
	}
	if !remove {
		_, err := t.exec(endLease, name, token)
		return err
	}
	n, err := t.exec(removeLease, name, token)
	if err == nil && n > 0 {
		_, err = t.exec(noteToken, token)
	}
	return err
}

// No text in UTF-8 has a byte FF: what begins with ?1 stands before ?1 with one behind it.
const leasesOf = `SELECT name, holder, token, until, value FROM lease
WHERE name >= ?1 AND name < ?1 || CAST(x'FF' AS TEXT) ORDER BY name`

// LeasesOf lists the leases whose name begins with prefix, by name.
func (s *leaseCalls) LeasesOf(ctx context.Context, prefix string) ([]store.Lease, error) {
	var list []store.Lease
	err := s.read(ctx, func(c *conn) (err error) {
		list, err = c.leases().leasesOf(prefix)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list leases %q: %w", prefix, err)
	}
	return list, nil
}

func (c leaseReads) leasesOf(prefix string) (list []store.Lease, err error) {
	err = c.each(leasesOf, func(st *sqlite.Stmt) bool {
		list = append(list, scanLease(st))
		return true
	}, prefix)
	return list, err
}
