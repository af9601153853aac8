package lease

import (
	"context"
	"sync"
	"time"
)

// Memory is a [Store] in one process, for tests and for keepers that share nothing else. The zero
// value is empty and ready.
type Memory struct {
	// Clock is the store's. Default time.Now.
	Clock func() time.Time

	mu     sync.Mutex
	token  int64 // the last one given
	leases map[string]memory
}

type memory struct {
	holder string
	token  int64
	until  time.Time // zero = ended
	value  []byte
}

var _ Store = (*Memory)(nil)

// begin locks the store for one transaction and says what time it is in it.
func (m *Memory) begin() time.Time {
	m.mu.Lock()
	if m.leases == nil {
		m.leases = map[string]memory{}
	}
	if m.Clock == nil {
		return time.Now()
	}
	return m.Clock()
}

// Acquire implements [Store].
func (m *Memory) Acquire(
	_ context.Context, holder string, wants []Grant, ttl time.Duration, judge time.Time,
) (Answer, error) {
	a := Answer{Now: m.begin()}
	defer m.mu.Unlock()
	for _, want := range wants {
		old := m.leases[want.Name]
		if old.until.IsZero() || !a.Now.After(judge) &&
			(!a.Now.Before(old.until) || old.holder == holder) {
			m.token++
			m.leases[want.Name] = memory{holder, m.token, a.Now.Add(ttl), want.Value}
			a.Grants = append(a.Grants, Grant{want.Name, m.token, want.Value})
		}
	}
	return a, nil
}

// Renew implements [Store].
func (m *Memory) Renew(_ context.Context, held []Grant, ttl time.Duration) (Answer, error) {
	a := Answer{Now: m.begin(), Grants: make([]Grant, 0, len(held))}
	defer m.mu.Unlock()
	for _, g := range held {
		l := m.leases[g.Name]
		if l.token != g.Token || g.Token == 0 {
			continue
		}
		l.until = a.Now.Add(ttl)
		if g.Value != nil {
			l.value = g.Value
		}
		m.leases[g.Name] = l
		a.Grants = append(a.Grants, Grant{g.Name, g.Token, l.value})
	}
	return a, nil
}

// End implements [Store].
func (m *Memory) End(_ context.Context, held []Grant, remove bool) error {
	m.begin()
	defer m.mu.Unlock()
	for _, g := range held {
		l := m.leases[g.Name]
		switch {
		case l.token != g.Token:
		case remove:
			delete(m.leases, g.Name)
		default:
			m.token++
			l.token, l.until = m.token, time.Time{}
			m.leases[g.Name] = l
		}
	}
	return nil
}
