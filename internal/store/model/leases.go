package model

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Acquire implements [contract.Leases].
func (m *Model) Acquire(
	ctx context.Context, name, holder string, ttl time.Duration, value []byte,
) (store.Lease, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Lease{}, err
	}
	defer m.mu.Unlock()
	if old, ok := m.leases[name]; ok && old.Holder != holder && old.Until > now {
		return store.Lease{},
			fmt.Errorf("lease %q is held by %q: %w", name, old.Holder, store.ErrConflict)
	}
	return m.grant(name, holder, now+ttl.Microseconds(), value), nil
}

func (m *Model) grant(name, holder string, until int64, value []byte) store.Lease {
	l := store.Lease{
		Name: name, Holder: holder, Token: m.number(), Until: until, Value: bytes.Clone(value),
	}
	m.leases[name] = l
	return cloneLease(l)
}

// AcquireAll implements [contract.Leases].
func (m *Model) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Granted{}, err
	}
	defer m.mu.Unlock()
	granted := store.Granted{Now: now}
	member := m.membership(holder) > now
	for _, want := range wants {
		until := now + ttl.Microseconds()
		if want.Until == store.WhileMember {
			until = store.WhileMember
		}
		old := m.leases[want.Name]
		free := old.Until == 0 || now <= judge && (m.until(old) <= now || old.Holder == holder)
		if free && (member || until != store.WhileMember) {
			granted.Leases = append(granted.Leases, m.grant(want.Name, holder, until, want.Value))
		}
	}
	return granted, nil
}

// until is when a lease expires, by its own row or by its holder's membership.
func (m *Model) until(l store.Lease) int64 {
	if l.Until == store.WhileMember {
		return m.membership(l.Holder)
	}
	return l.Until
}

// membership is when a holder's membership expires; 0 = it is none.
func (m *Model) membership(holder string) int64 {
	if l := m.leases[store.MembershipOf(holder)]; l.Holder == holder {
		return l.Until
	}
	return 0
}

func cloneLease(l store.Lease) store.Lease {
	l.Value = bytes.Clone(l.Value)
	return l
}

// Renew implements [contract.Leases].
func (m *Model) Renew(
	ctx context.Context, leases []store.Lease, ttl time.Duration,
) ([]store.Lease, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.renew(leases, now+ttl.Microseconds()), nil
}

func (m *Model) renew(leases []store.Lease, until int64) []store.Lease {
	var renewed []store.Lease
	for _, want := range leases {
		l, ok := m.leases[want.Name]
		if !ok || l.Token != want.Token {
			continue
		}
		l.Until = until
		if want.Value != nil {
			l.Value = bytes.Clone(want.Value)
		}
		m.leases[l.Name] = l
		renewed = append(renewed, cloneLease(l))
	}
	return renewed
}

// Beat implements [contract.Leases].
func (m *Model) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Beat{}, err
	}
	defer m.mu.Unlock()
	return store.Beat{Now: now, Kept: m.renew(held, now+ttl.Microseconds()),
		Leases: m.leasesOf(prefixes...)}, nil
}

// End implements [contract.Leases].
func (m *Model) End(ctx context.Context, name string, token int64, remove bool) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.end(name, token, remove)
	return nil
}

func (m *Model) end(name string, token int64, remove bool) {
	l, ok := m.leases[name]
	if ok && l.Token == token && l.Until != 0 && name == store.MembershipOf(l.Holder) {
		m.outlive(l)
	}
	switch {
	case !ok || l.Token != token:
	case remove:
		delete(m.leases, name)
	default:
		l.Token, l.Until = m.number(), 0
		m.leases[name] = l
	}
}

// outlive leaves what stands with a membership the time that this had.
func (m *Model) outlive(member store.Lease) {
	for name, l := range m.leases {
		if l.Holder == member.Holder && l.Until == store.WhileMember {
			l.Until = member.Until
			m.leases[name] = l
		}
	}
}

// EndAll implements [contract.Leases].
func (m *Model) EndAll(ctx context.Context, leases []store.Lease, remove bool) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, l := range leases {
		m.end(l.Name, l.Token, remove)
	}
	return nil
}

// LeasesOf implements [contract.Leases].
func (m *Model) LeasesOf(ctx context.Context, prefix string) ([]store.Lease, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.leasesOf(prefix), nil
}

func (m *Model) leasesOf(prefixes ...string) []store.Lease {
	var list []store.Lease
	for _, name := range slices.Sorted(maps.Keys(m.leases)) {
		if slices.ContainsFunc(prefixes, func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		}) {
			list = append(list, cloneLease(m.leases[name]))
		}
	}
	return list
}

// ChangeQueue implements [contract.Queues].
func (m *Model) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Changed[task.Queue]{}, err
	}
	defer m.mu.Unlock()
	q, stands := m.queues[name]
	if !stands {
		q = limits.DefaultQueue(name)
	}
	if err := change(&q, stands); err != nil {
		return store.Changed[task.Queue]{}, fmt.Errorf("change queue %q: %w", name, err)
	}
	q.Name, q.KeyRules = name, m.queues[name].KeyRules
	m.changeBucket(&q, now)
	m.queues[name] = q
	return store.Changed[task.Queue]{Is: q, Created: !stands}, nil
}

// Queues implements [contract.Queues].
func (m *Model) Queues(ctx context.Context) ([]task.Queue, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var list []task.Queue
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		list = append(list, m.queues[name])
	}
	return list, nil
}

// DeleteQueue implements [contract.Queues].
func (m *Model) DeleteQueue(ctx context.Context, name string, force bool) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, ok := m.queues[name]; !ok {
		return fmt.Errorf("queue %q: %w", name, store.ErrNotFound)
	}
	for _, f := range m.tasks {
		if f.batch.Queue == name && !m.state(f, nil, now).Final() && !force {
			return fmt.Errorf("queue %q has unfinished tasks: %w", name, store.ErrConflict)
		}
	}
	for _, f := range m.tasks {
		if f.batch.Queue == name {
			m.drop(f)
		}
	}
	maps.DeleteFunc(m.spans, func(_ int64, sp *store.Span) bool { return sp.Queue == name })
	maps.DeleteFunc(m.batches, func(_ int64, b *batch) bool { return b.Queue == name })
	maps.DeleteFunc(m.keys, func(k key, _ keyed) bool { return k.queue == name })
	maps.DeleteFunc(m.uniques, func(k key, _ uniquely) bool { return k.queue == name })
	delete(m.queues, name)
	delete(m.buckets, name)
	maps.DeleteFunc(m.keyRules, func(at key, _ store.KeyRule) bool { return at.queue == name })
	return nil
}
