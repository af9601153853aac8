package model

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// Take implements [contract.Spans].
func (m *Model) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Taken{}, err
	}
	defer m.mu.Unlock()
	t := store.Taken{Now: now, LeaseGone: !m.lives(r.Holder, now)}
	if t.LeaseGone || m.queues[r.Queue].Paused {
		return t, nil
	}
	if r.Keys != nil {
		return m.takeByKey(r, now), nil
	}
	return m.takeByRank(r, now), nil
}

// takeByRank is Take without Keys.
func (m *Model) takeByRank(r store.TakeRequest, now int64) store.Taken {
	t, left := store.Taken{Now: now}, r.Limit
	for _, sp := range m.sortedSpans() {
		switch {
		case sp.Queue != r.Queue || sp.Holder != (store.Holder{}) || sp.Due == store.Never:
		case sp.Due > now:
			if t.NextDue == 0 || sp.Due < t.NextDue {
				t.NextDue = sp.Due
			}
		case sp.Rank <= now && left > 0:
			if width := int(sp.Hi-sp.Lo) + 1; width > left {
				sp = m.split(sp, int32(left))
			}
			left -= int(sp.Hi-sp.Lo) + 1
			sp.Holder = r.Holder
			sp.Token++
			t.Spans = append(t.Spans, m.load(sp))
		}
	}
	if sp := m.firstReady(r.Queue, now); sp != nil {
		t.More, t.NextRank = true, sp.Rank
	}
	return t
}

// Ready implements [contract.Spans].
func (m *Model) Ready(ctx context.Context, queues []string) (list []store.Ready, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, queue := range queues {
		if m.queues[queue].Paused {
			continue
		}
		if sp := m.firstReady(queue, now); sp != nil {
			list = append(list, store.Ready{Queue: queue, Rank: sp.Rank})
		}
	}
	return list, nil
}

// firstReady is the free span of a queue that is to be taken next, nil when none is ready.
func (m *Model) firstReady(queue string, now int64) (first *store.Span) {
	for _, sp := range m.spans {
		if sp.Queue == queue && sp.Holder == (store.Holder{}) && sp.Due <= now && sp.Rank <= now &&
			(first == nil || sp.Rank < first.Rank || sp.Rank == first.Rank && sp.ID < first.ID) {
			first = sp
		}
	}
	return first
}

// split cuts the first k tasks off a span into one of their own. The rest keeps its row.
func (m *Model) split(sp *store.Span, k int32) *store.Span {
	first := *sp
	first.Hi = sp.Lo + k - 1
	sp.Lo += k
	return m.addSpan(first)
}

// Give implements [contract.Spans].
func (m *Model) Give(ctx context.Context, g store.GiveRequest) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if !m.lives(g.Holder, now) {
		return nil
	}
	m.writeDown(g.Holder, g.Running)
	for i, t := range g.Spans {
		if sp := m.spans[t.Span]; sp != nil && sp.Token == t.Token && sp.Holder == g.Holder {
			sp.Holder = store.Holder{}
			if len(g.Orders) > 0 {
				sp.Rank, sp.Due = g.Orders[i].Rank, g.Orders[i].Due
			}
		}
	}
	return nil
}

// GiveRest implements [contract.Spans].
func (m *Model) GiveRest(ctx context.Context, r store.RestRequest) ([]bool, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	given := make([]bool, len(r.Rests))
	if !m.lives(r.Holder, now) {
		return given, nil
	}
	for i, x := range r.Rests {
		sp := m.spans[x.Span]
		if sp == nil || sp.Token != x.Token || sp.Holder != r.Holder || sp.Lo >= x.From ||
			sp.Hi < x.From-1 {
			continue
		}
		if given[i] = true; sp.Hi >= x.From {
			rest := *sp
			rest.Holder, rest.Lo, rest.Rank, rest.Due = store.Holder{}, x.From, x.Rank, x.Due
			sp.Hi = x.From - 1
			m.addSpan(rest)
		}
	}
	return given, nil
}

// writeDown inserts the running rows of a holder's hand-outs that are neither settled nor written
// down.
func (m *Model) writeDown(h store.Holder, list []store.Running) {
	for _, r := range list {
		sp := m.spans[r.Span]
		if sp == nil || sp.Holder != h || sp.Token != r.Token || sp.Batch != r.ID.Batch ||
			r.ID.N < sp.Lo || r.ID.N > sp.Hi {
			continue
		}
		f := m.tasks[r.ID]
		if f == nil {
			continue
		}
		at := hand{r.ID, r.Seq}
		_, settled := f.steps[r.Seq]
		if _, written := m.running[at]; !settled && !written {
			m.running[at] = r
		}
	}
}

// Held implements [contract.Spans].
func (m *Model) Held(ctx context.Context, h store.Holder, known []int64) ([]store.HeldSpan, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var list []store.HeldSpan
	for _, sp := range m.sortedSpans() {
		if sp.Holder == h && !slices.Contains(known, sp.ID) {
			list = append(list, m.load(sp))
		}
	}
	return list, nil
}
