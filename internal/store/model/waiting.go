package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// waitTables is what blocked tasks wait for, and what was sent. A look of the model looks at
// everything, so it needs no changes to tell it where.
type waitTables struct {
	waits   map[task.ID]*waiting
	signals map[signalKey]*sent
}

// waiting is what a blocked task waits for, until a step stands at seq.
type waiting struct {
	store.Await
	seq   int32
	since int64
}

type signalKey struct {
	to  store.Address
	key string
}

// sent is a signal that stands.
type sent struct {
	store.Signal
	at, until int64
	used      bool
}

// stands tells whether the signal is still there.
func (s *sent) stands(now int64) bool { return s.until == 0 || s.until > now }

// await notes what a task waits for behind its step at seq.
func (m *Model) await(id task.ID, seq int32, a store.Await, now int64) {
	m.waiting.waits[id] = &waiting{a, seq + 1, now}
}

// awaits is what a task waits for as it stands; nil = nothing.
func (m *Model) awaits(f *fact) *waiting {
	w := m.waiting.waits[f.id()]
	if seq, s := f.newest(); w == nil || w.seq != seq+1 || s.Base == store.Final {
		return nil
	}
	return w
}

// Signal implements [contract.Waits].
func (m *Model) Signal(ctx context.Context, s store.Signal) (store.Signalled, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Signalled{}, err
	}
	defer m.mu.Unlock()
	answer := store.Signalled{Now: now}
	id := s.To.Task
	f := m.tasks[id]
	if id != (task.ID{}) && (f == nil || f.removed()) {
		return answer, nil
	}
	answer.Found = true
	at := signalKey{s.To, s.Key}
	if old := m.waiting.signals[at]; old != nil && old.stands(now) {
		answer.Repeated, answer.Delivered = true, old.used
		return answer, nil
	}
	if f != nil {
		if _, newest := f.newest(); newest.Base == store.Final {
			answer.Final = true
			return answer, nil
		}
		open := 0
		for at, other := range m.waiting.signals {
			if at.to.Task == id && !other.used {
				open++
			}
		}
		if answer.Full = open >= store.MaxOpenSignals; answer.Full {
			return answer, nil
		}
	}
	s.Payload = bytes.Clone(s.Payload)
	row := &sent{Signal: s, at: now}
	if s.Keep > 0 {
		row.until = now + s.Keep
	}
	m.waiting.signals[at] = row
	var l store.Looked
	m.lookAt(s.To, now, 1, &l)
	answer.Ready, answer.Delivered = l.Ready, row.used
	return answer, nil
}

// Look implements [contract.Waits].
func (m *Model) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Looked{}, err
	}
	defer m.mu.Unlock()
	l := store.Looked{Now: now}
	if len(r.Addresses) > 0 {
		for _, a := range r.Addresses {
			if !a.End {
				m.lookAt(a, now, r.Limit, &l)
			}
		}
		m.lookAtEnds(r.Addresses, now, r.Limit, &l)
	} else {
		ends := m.ends()
		m.lookAround(now, r.Limit, &l)
		m.lookAtEnds(ends, now, r.Limit, &l)
		m.fall(now, r.Limit, &l)
		l.More = l.More || len(m.ends()) > 0
	}
	for _, w := range m.waiting.waits {
		if w.Until != 0 && (l.NextUntil == 0 || w.Until < l.NextUntil) {
			l.NextUntil = w.Until
		}
	}
	return l, nil
}

// lookAround looks at all addresses, then for waits whose time is over.
func (m *Model) lookAround(now int64, limit int, l *store.Looked) {
	addresses := map[store.Address]bool{}
	for _, w := range m.waiting.waits {
		if w.Address != (store.Address{}) {
			addresses[w.Address] = true
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(addresses), func(a, b store.Address) int {
		return cmp.Compare(a.String(), b.String())
	}) {
		m.lookAt(a, now, limit, l)
	}
	over := slices.SortedFunc(maps.Keys(m.waiting.waits), func(a, b task.ID) int {
		return cmp.Or(cmp.Compare(m.waiting.waits[a].Until, m.waiting.waits[b].Until), a.Compare(b))
	})
	for _, id := range over {
		w := m.waiting.waits[id]
		switch {
		case w.Until == 0 || w.Until > now:
		case l.Ended == limit:
			l.More = true
		default:
			m.wake(id, store.Woken{Signal: w.Address.Name, TimedOut: true}, now, l)
		}
	}
}

// ripe are the addresses at which children have ended the wait for them.
func (m *Model) ripe() (list []store.Address) {
	for _, w := range m.waiting.waits {
		if !w.Address.Children() {
			continue
		}
		if _, enough := m.enough(w); enough {
			list = append(list, w.Address)
		}
	}
	return list
}

// lookAt ends waits at an address, oldest first, by the signals that are there, oldest first.
func (m *Model) lookAt(a store.Address, now int64, limit int, l *store.Looked) {
	if a.Children() {
		for id, w := range m.waiting.waits {
			if w.Address != a {
				continue
			}
			if c, enough := m.enough(w); enough && l.Ended == limit {
				l.More = true
			} else if enough {
				m.wake(id, store.Woken{Children: &c}, now, l)
			}
			return
		}
		return
	}
	for {
		var by *sent
		for at, other := range m.waiting.signals {
			if at.to == a && !other.used && other.stands(now) && (by == nil ||
				other.at < by.at || other.at == by.at && other.Key < by.Key) {
				by = other
			}
		}
		if by == nil {
			return // before who waits is sought among all
		}
		var first task.ID
		var w *waiting
		for id, other := range m.waiting.waits {
			if other.Address == a && (w == nil || other.since < w.since ||
				other.since == w.since && id.Compare(first) < 0) {
				first, w = id, other
			}
		}
		if w == nil {
			return
		}
		if l.Ended == limit {
			l.More = true
			return
		}
		by.used = m.wake(first, store.Woken{
			Signal: a.Name, Payload: by.Payload, By: by.By, At: by.at,
		}, now, l)
	}
}

// wake ends the wait of a task, and tells whether it was still that of the task.
func (m *Model) wake(id task.ID, by store.Woken, now int64, l *store.Looked) bool {
	w := m.waiting.waits[id]
	f := m.tasks[id]
	if f == nil || m.awaits(f) == nil {
		delete(m.waiting.waits, id)
		return false
	}
	delete(m.waiting.waits, id)
	_, s := f.newest()
	step := store.Step{
		Kind: task.KindWoken, Stage: s.Stage, ContextSeq: s.ContextSeq, Base: w.seq + 1,
		Worker: by.By, Finished: now,
	}
	if by.TimedOut && w.Else != "" {
		step.Stage = w.Else
	}
	due, linked := s.Due, store.LinkWoken
	if by.Others { // it begins as it would have, had it not waited
		due, linked = cmp.Or(s.Due, f.batch.Due), 0
	}
	if due > now {
		step.Due = due
	}
	step.Result, _ = json.Marshal(by)
	if sp := m.owner(f); sp != nil && sp.Lo == sp.Hi { // a wrong program may have lost it
		delete(m.spans, sp.ID)
	}
	m.addStep(f, w.seq, unasked, step)
	m.happened(now, history.Series{Queue: f.batch.Queue, Stage: step.Stage},
		func(h *history.Record) { h.Woken++ })
	if !by.Others {
		due = max(now, due)
	}
	rank := due - f.override().HeadStart
	m.moveOut(f, w.seq, f.batch.Queue, store.Move{Rank: rank, Due: max(now, due), Linked: linked})
	l.Ended++
	at := slices.IndexFunc(l.Ready, func(r store.Ready) bool { return r.Queue == f.batch.Queue })
	if at < 0 {
		l.Ready = append(l.Ready, store.Ready{Queue: f.batch.Queue, Rank: rank})
		slices.SortFunc(l.Ready, func(a, b store.Ready) int {
			return cmp.Compare(a.Queue, b.Queue)
		})
	} else {
		l.Ready[at].Rank = min(l.Ready[at].Rank, rank)
	}
	return true
}

// woken is what ended the wait before the present stage of a task, in a span that says that
// something did.
func (m *Model) woken(f *fact) *store.Woken {
	if sp := m.owner(f); sp == nil || sp.Linked&store.LinkWoken == 0 {
		return nil
	}
	for _, seq := range slices.Backward(f.seqs()) {
		switch s := f.steps[seq]; s.Kind {
		case task.KindNext, task.KindReplayed:
			return nil
		case task.KindWoken:
			var by store.Woken
			if json.Unmarshal(s.Result, &by) != nil {
				return nil
			}
			return &by
		}
	}
	return nil
}

// forgetWaiting deletes what a deleted task waited for, and what was sent to it.
func (m *Model) forgetWaiting(id task.ID) {
	delete(m.waiting.waits, id)
	delete(m.after, id)
	maps.DeleteFunc(m.waiting.signals, func(at signalKey, _ *sent) bool { return at.to.Task == id })
}

// pruneSignals deletes signals whose time is over.
func (m *Model) pruneSignals(now int64, limit int) (pruned int) {
	for at, s := range m.waiting.signals {
		if pruned < limit && !s.stands(now) {
			delete(m.waiting.signals, at)
			pruned++
		}
	}
	return pruned
}
