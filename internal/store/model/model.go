package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// Model is the contract as a simple program: maps, one lock, and a linear scan for every question.
// It is what stores are compared with, and a store for tests of the rooms above; it keeps nothing
// beyond its process.
//
// It decides in code of its own, never by package rules, which both SQL stores share: a mistake
// there is to be a difference from here.
type Model struct {
	now func() time.Time

	mu     sync.Mutex
	closed bool
	behind bool // the last call of Prune reached its limit
	// the last number given to a span, a lease's token or a blob; numbers are never given twice
	last       int64
	batches    map[int64]*batch
	tasks      map[task.ID]*fact
	spans      map[int64]*store.Span
	running    map[hand]store.Running
	keys       map[key]keyed
	uniques    map[key]uniquely
	leases     map[string]store.Lease
	queues     map[string]task.Queue
	buckets    map[string]admission.Bucket // of the queues that have limits
	since      map[string]int64            // when the rate of each of their keys was set
	blobs      map[string][]byte
	logs       map[task.ID]*taskLog
	events     eventLog
	told       map[string]store.Notifier
	hooks      map[string]store.Hook
	jobs       jobTables
	sched      scheduleTables
	history    []happening
	keyBuckets map[key]admission.Bucket // what keys have left of their rates
	keyOwners  map[key]task.ID          // who began last of a key that goes in order
	keyRules   map[key]store.KeyRule
	waiting    waitTables
	family     childTables
	after      map[task.ID][]*depends // by who waits
	kept       int64                  // when Prune last deleted history that is kept no longer
}

var _ contract.Store = (*Model)(nil)

// batch is what the tasks of one batch share, and how its submission was answered.
type batch struct {
	store.Batch // without its tasks and spans
	answer      store.Submitted
}

// fact is a task with all its steps.
type fact struct {
	store.Task
	batch *batch
	steps map[int32]recorded
}

// recorded is a step with the token of the report that it came from (unasked for steps that were
// not reported).
type recorded struct {
	store.Step
	token int64
}

// unasked is the token of steps that no report has.
const unasked = -1

// hand is the place of one hand-out in a task's history.
type hand struct {
	id  task.ID
	seq int32
}

type key struct{ queue, key string }

type keyed struct {
	first task.ID
	until int64
}

// Reference is New for the suite and the walks, which compare stores of any kind.
func Reference(now func() time.Time) contract.Store { return New(now) }

// New makes an empty store on the clock now.
func New(now func() time.Time) *Model {
	return &Model{
		now: now, batches: map[int64]*batch{}, tasks: map[task.ID]*fact{},
		spans: map[int64]*store.Span{}, running: map[hand]store.Running{},
		keys: map[key]keyed{}, uniques: map[key]uniquely{}, leases: map[string]store.Lease{},
		queues:  map[string]task.Queue{},
		buckets: map[string]admission.Bucket{}, since: map[string]int64{},
		keyBuckets: map[key]admission.Bucket{},
		keyOwners:  map[key]task.ID{}, keyRules: map[key]store.KeyRule{},
		waiting: waitTables{
			waits: map[task.ID]*waiting{}, signals: map[signalKey]*sent{},
		},
		family: childTables{
			parents: map[int64]parentage{}, gone: map[store.Address]task.Children{},
			falls: map[string]fall{},
		},
		after: map[task.ID][]*depends{},
		blobs: map[string][]byte{}, logs: map[task.ID]*taskLog{},
		told: map[string]store.Notifier{}, hooks: map[string]store.Hook{}, jobs: jobTables{
			groups: map[string]*jobGroup{}, seats: map[string]*store.Seat{},
		},
		sched: scheduleTables{
			schedules: map[string]*schedule{}, calendars: map[string]*task.Calendar{},
			fires: map[store.FireKey]*store.Fire{},
		},
	}
}

// begin locks the model for one transaction and says what time it is in it.
func (m *Model) begin(ctx context.Context) (now int64, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return 0, store.ErrClosed
	}
	return m.now().UnixMicro(), nil
}

func (m *Model) number() int64 {
	m.last++
	return m.last
}

// Close ends the store; later calls answer store.ErrClosed.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Submit implements [contract.Spans].
func (m *Model) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Submitted{}, err
	}
	defer m.mu.Unlock()
	for _, b := range s.Batches {
		if old := m.batches[b.ID]; old != nil {
			if old.Origin != b.Origin {
				return store.Submitted{},
					fmt.Errorf("batch %d stands from %q: %w", b.ID, old.Origin, store.ErrConflict)
			}
			return cloneSubmitted(old.answer), nil
		}
	}
	if s.Under != nil && len(s.Batches) > 0 {
		f := m.tasks[s.Under.ID]
		if f == nil || !m.good(s.Under.ID, s.Under.Token) || f.steps[s.Under.Token.Seq].Kind != 0 {
			return store.Submitted{}, fmt.Errorf("task %s: %w", s.Under.ID, store.ErrStale)
		}
		m.bear(f, -1, s.Batches)
	}
	for _, name := range s.NewQueues {
		if _, ok := m.queues[name]; !ok {
			m.queues[name] = limits.DefaultQueue(name)
		}
	}
	answer := store.Submitted{Now: now}
	holds := m.lives(s.Holder, now)
	u := m.askUnique(s, now)
	for _, b := range s.Batches {
		if _, refused := u.refused[b.Call]; !refused {
			m.addBatch(b, s.Holder, holds, u.existing, &answer)
		}
	}
	for _, call := range slices.Sorted(maps.Keys(u.refused)) {
		answer.Refused = append(answer.Refused, u.refused[call])
	}
	answer.Look = m.depend(s, answer)
	for _, a := range u.edits {
		m.act(a, now)
	}
	for _, b := range s.Batches {
		if stands := m.batches[b.ID]; stands != nil {
			stands.answer = cloneSubmitted(answer)
		}
	}
	return answer, nil
}

// addBatch inserts a batch with its tasks and spans.
func (m *Model) addBatch(
	b store.Batch, h store.Holder, holds bool, existing map[task.ID]store.Existing,
	answer *store.Submitted,
) {
	shared := b
	shared.Tasks, shared.Spans = nil, nil
	m.batches[b.ID] = &batch{Batch: shared}
	for _, t := range b.Tasks {
		id := task.ID{Batch: b.ID, N: t.N}
		if e, ok := existing[id]; ok {
			answer.Existing = append(answer.Existing, e)
		} else if first, ok := m.addTask(m.batches[b.ID], t, answer.Now); !ok {
			answer.Existing = append(answer.Existing, store.Existing{
				ID: id, First: first, Action: task.SubmittedKept,
			})
		}
	}
	for _, n := range b.Spans {
		sp := store.Span{Batch: b.ID, Lo: n.Lo, Hi: n.Hi, Queue: b.Queue, Rank: b.Rank, Due: b.Due}
		if len(b.Tasks) > 0 && len(b.Tasks[0].After) > 0 {
			sp.Rank, sp.Due = store.Never, store.Never
		}
		if n.Hold && holds {
			sp.Holder, sp.Token = h, 1
		}
		answer.Spans = append(answer.Spans, *m.addSpan(sp))
	}
}

func cloneSubmitted(s store.Submitted) store.Submitted {
	s.Spans, s.Existing = slices.Clone(s.Spans), slices.Clone(s.Existing)
	s.Refused, s.Look = slices.Clone(s.Refused), slices.Clone(s.Look)
	return s
}

// addTask inserts a task unless its key exists; then it answers the task that has the key.
func (m *Model) addTask(b *batch, t store.Task, now int64) (first task.ID, ok bool) {
	id := task.ID{Batch: b.ID, N: t.N}
	if t.Key != "" {
		k := key{b.Queue, t.Key}
		if old, ok := m.keys[k]; ok && old.until > now {
			return old.first, false
		}
		m.keys[k] = keyed{id, t.KeyUntil}
	}
	t.Context = bytes.Clone(t.Context)
	m.tasks[id] = &fact{Task: t, batch: b, steps: map[int32]recorded{}}
	m.happened(b.Created, history.Series{Queue: b.Queue, Stage: t.Stage},
		func(h *history.Record) { h.Submitted++ })
	return id, true
}

// addSpan inserts a span under a number of its own.
func (m *Model) addSpan(s store.Span) *store.Span {
	s.ID = m.number()
	m.spans[s.ID] = &s
	return &s
}

// id of the task.
func (f *fact) id() task.ID { return task.ID{Batch: f.batch.ID, N: f.N} }

// newest is the task's newest step and its seq; without any step, one that says what was submitted,
// at seq -1.
func (f *fact) newest() (seq int32, s recorded) {
	seq = -1
	for at := range f.steps {
		seq = max(seq, at)
	}
	if seq < 0 {
		return seq, recorded{Step: store.Step{Stage: f.Stage, ContextSeq: -1}}
	}
	return seq, f.steps[seq]
}

// seqs are those of the task's steps, in order.
func (f *fact) seqs() []int32 {
	list := make([]int32, 0, len(f.steps))
	for seq := range f.steps {
		list = append(list, seq)
	}
	slices.Sort(list)
	return list
}

// context is what stands at a ContextSeq.
func (f *fact) context(seq int32) store.Value {
	if seq < 0 {
		return f.Context
	}
	return f.steps[seq].Context
}

// loaded is the task as its holder reads it.
func (m *Model) loaded(f *fact) store.Loaded {
	seq, s := f.newest()
	l := store.Loaded{
		N: f.N, Standing: progress.Standing{
			Stage: s.Stage, Seq: seq + 1, Attempt: s.Attempt, Base: s.Base,
		},
		Context: bytes.Clone(f.context(s.ContextSeq)), ContextSeq: s.ContextSeq,
		MaxAttempts: f.override().MaxAttempts, Timeout: f.Timeout, Meta: f.meta(), Due: s.Due,
		HeadStart: f.override().HeadStart, Expires: m.limit(f), Unique: m.hasUnique(f.id()),
		Woken: m.woken(f), Parent: m.family.parents[f.batch.ID].of, After: m.prior(f),
	}
	if s.ContextSeq >= 0 && f.steps[s.ContextSeq].Override == nil {
		l.ContextBy = f.steps[s.ContextSeq].Worker
	}
	if r, ok := m.running[hand{f.id(), seq + 1}]; ok {
		l.Running = &r
	}
	return l
}

// owner is the span that a task belongs to, nil when it is final.
func (m *Model) owner(f *fact) *store.Span {
	_, s := f.newest()
	for _, sp := range m.spans {
		if sp.Batch == f.batch.ID && sp.Lo <= f.N && f.N <= sp.Hi && sp.Seq0 == s.Base {
			return sp
		}
	}
	return nil
}

// load reads a span's tasks: those that belong to it.
func (m *Model) load(sp *store.Span) store.HeldSpan {
	h := store.HeldSpan{Span: *sp}
	for n := sp.Lo; n <= sp.Hi; n++ {
		f := m.tasks[task.ID{Batch: sp.Batch, N: n}]
		if f == nil {
			continue // a gap: its key existed
		}
		if _, s := f.newest(); s.Base == sp.Seq0 {
			h.Tasks = append(h.Tasks, m.loaded(f))
		}
	}
	return h
}

// sortedTasks lists all tasks, oldest first.
func (m *Model) sortedTasks() []*fact {
	return slices.SortedFunc(maps.Values(m.tasks), func(a, b *fact) int {
		return a.id().Compare(b.id())
	})
}

// sortedSpans lists all spans in the order in which they are taken.
func (m *Model) sortedSpans() []*store.Span {
	return slices.SortedFunc(maps.Values(m.spans), func(a, b *store.Span) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
}

// lives tells whether a holder has its lease: the rule LEASE.
func (m *Model) lives(h store.Holder, now int64) bool {
	l, ok := m.leases[store.MembershipPrefix+h.Node]
	return ok && l.Token == h.Token && l.Until > now
}
