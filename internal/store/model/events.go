package model

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// eventLog is the log of events, and what stays of it when all of them are pruned.
type eventLog struct {
	list []store.Event // by seq
	last int64         // seq of the newest that ever was
	time int64         // its time
}

// Append implements [contract.Events].
func (m *Model) Append(ctx context.Context, events []store.Event) (appended int, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	l := &m.events
	for _, e := range events {
		if slices.ContainsFunc(l.list, func(old store.Event) bool { return old.Key == e.Key }) {
			continue
		}
		l.last++
		l.time = max(l.time, now)
		e.Seq, e.Time, e.Fields = l.last, l.time, maps.Clone(e.Fields)
		l.list = append(l.list, e)
		appended++
	}
	return appended, nil
}

// Events implements [contract.Events].
func (m *Model) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	if _, err := m.begin(ctx); err != nil {
		return store.EventPage{}, err
	}
	defer m.mu.Unlock()
	page, full := store.EventPage{Next: q.After}, false
	for _, e := range m.events.list {
		if e.Seq <= q.After {
			continue
		}
		if full = len(page.Events) == q.Limit; full {
			break
		}
		page.Next = e.Seq
		if e.Time >= q.Since && store.Matches(q.Kinds, e.Kind) {
			e.Fields = maps.Clone(e.Fields)
			page.Events = append(page.Events, e)
		}
	}
	if !full { // the newest that ever was may be gone
		page.Next = max(page.Next, m.events.last)
	}
	return page, nil
}

// pruneEvents drops events from the front of the log.
func (m *Model) pruneEvents(now int64, limit int) (pruned int) {
	l := &m.events
	for pruned < min(limit, len(l.list)) &&
		l.list[pruned].Time+store.EventsKept.Microseconds() <= now {
		pruned++
	}
	l.list = slices.Clone(l.list[pruned:])
	return pruned
}

// ChangeNotifier implements [contract.Notifiers].
func (m *Model) ChangeNotifier(
	ctx context.Context, name string, change store.Change[store.Notifier],
) (store.Changed[store.Notifier], error) {
	if _, err := m.begin(ctx); err != nil {
		return store.Changed[store.Notifier]{}, err
	}
	defer m.mu.Unlock()
	n, stands := m.told[name]
	if !stands {
		n = store.Notifier{Name: name, Served: store.Progress{Delivered: m.events.last}}
	}
	n = cloneNotifier(n)
	served := n.Served
	if err := change(&n, stands); err != nil {
		return store.Changed[store.Notifier]{}, fmt.Errorf("change notifier %q: %w", name, err)
	}
	n.Name, n.Served = name, served
	m.told[name] = cloneNotifier(n)
	return store.Changed[store.Notifier]{Is: n, Created: !stands}, nil
}

func cloneNotifier(n store.Notifier) store.Notifier {
	n.On, n.Subjects, n.To = slices.Clone(n.On), slices.Clone(n.Subjects), slices.Clone(n.To)
	return n
}

// Notifiers implements [contract.Notifiers].
func (m *Model) Notifiers(ctx context.Context) ([]store.Notifier, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var list []store.Notifier
	for _, name := range slices.Sorted(maps.Keys(m.told)) {
		list = append(list, cloneNotifier(m.told[name]))
	}
	return list, nil
}

// DeleteNotifier implements [contract.Notifiers].
func (m *Model) DeleteNotifier(ctx context.Context, name string) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, stands := m.told[name]; !stands {
		return fmt.Errorf("notifier %q: %w", name, store.ErrNotFound)
	}
	delete(m.told, name)
	return nil
}

// Advance implements [contract.Notifiers].
func (m *Model) Advance(
	ctx context.Context, name string, from int64, to store.Progress,
) (ok bool, err error) {
	if _, err := m.begin(ctx); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	n, stands := m.told[name]
	if !stands || n.Served.Delivered != from {
		return false, nil
	}
	n.Served = to
	m.told[name] = n
	return true, nil
}
