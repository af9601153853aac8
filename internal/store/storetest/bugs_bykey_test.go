package storetest

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// withLimits calls do while the limits of each key are others.
func (p *planted) withLimits(change func(*task.Queue), do func()) {
	before := map[string]task.Queue{}
	for name, q := range p.queues {
		before[name] = q
		change(&q)
		p.queues[name] = q
	}
	do()
	for name, q := range before {
		p.queues[name] = q
	}
}

// keyBugs are wrong programs about queues that go by keys.
func keyBugs() []bug {
	unlimited := func(q *task.Queue) { q.PerKey = task.KeyLimits{} }
	beginAs := func(key func(string) string) func(*planted) {
		return func(p *planted) {
			p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				r.Rows = slices.Clone(r.Rows)
				for i := range r.Rows {
					r.Rows[i].Key = key(r.Rows[i].Key)
				}
				return p.Model.Begin(ctx, r)
			}
		}
	}
	takeAs := func(change func(*store.ByKey)) func(*planted) {
		return func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				if r.Keys != nil {
					keys := *r.Keys
					change(&keys)
					r.Keys = &keys
				}
				return p.Model.Take(ctx, r)
			}
		}
	}
	return []bug{
		{"nobody looks at keys as hand-outs begin", "OfEachKeyAsManyBeginAsItsLimitSays",
			beginAs(func(string) string { return "" })},
		{"all keys are one", "OfEachKeyAsManyBeginAsItsLimitSays",
			beginAs(func(key string) string { return key[:min(len(key), 0)] + "all" })},
		{"tasks without a key have one", "OfEachKeyAsManyBeginAsItsLimitSays",
			beginAs(func(key string) string { return "-" + key })},
		{"each node has the limit of a key for itself", "OfEachKeyAsManyBeginAsItsLimitSays",
			func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (got store.Taken, err error) {
					p.hiding(func(_ hand, u store.Running) bool {
						sp := p.spans[u.Span]
						return sp != nil && sp.Holder != r.Holder
					}, func() { got, err = p.Model.Take(ctx, r) })
					return got, err
				}
			}},
		{"a key that is held back takes a place of its queue", "TheQueueAndTheKeyMustHaveRoom",
			func(p *planted) {
				p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
					got, err := p.Model.Begin(ctx, r)
					late := false
					for i, is := range got.Rows {
						if late && is == store.Begins {
							got.Rows[i] = store.HeldBack
						}
						late = late || is == store.HeldBack
					}
					return got, err
				}
			}},
		{"the rate of a key begins full", "ARateOfEachKeyHoldsAndBeginsEmpty", func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				p.since[r.Queue] = 0
				return p.Model.Take(ctx, r)
			}
		}},
		{"any change of limits empties the buckets of keys", "ARateOfEachKeyHoldsAndBeginsEmpty",
			func(p *planted) {
				p.changeQ = func(
					ctx context.Context, name string, change store.Change[task.Queue],
				) (store.Changed[task.Queue], error) {
					got, err := p.Model.ChangeQueue(ctx, name, change)
					p.since[name] = p.now().UnixMicro()
					return got, err
				}
			}},
		{"spans are taken with all their keys", "ATakeByKeysMakesSpansOfOneKey",
			func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					for _, sp := range p.spans {
						sp.Sorted = true
					}
					return p.Model.Take(ctx, r)
				}
			}},
		{"keys without room are taken", "AKeyWithoutRoomKeepsNoOtherOneWaiting",
			func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (got store.Taken, err error) {
					p.withLimits(unlimited, func() { got, err = p.Model.Take(ctx, r) })
					return got, err
				}
			}},
		{"nothing is skipped", "AKeyWithoutRoomKeepsNoOtherOneWaiting",
			takeAs(func(k *store.ByKey) { k.Skip = nil })},
		{"rank decides where keys take turns", "KeysTakeTurns",
			takeAs(func(k *store.ByKey) { k.Fair = false })},
		{"each take begins with the first key", "KeysTakeTurns",
			takeAs(func(k *store.ByKey) { k.After = nil })},
		{"nobody finds what has a key by rank", "WhatHasAKeyIsFoundByRankToo",
			func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (got store.Taken, err error) {
					if r.Keys != nil {
						return p.Model.Take(ctx, r)
					}
					hidden := map[int64]*store.Span{}
					for id, sp := range p.spans {
						if sp.Sorted {
							hidden[id] = sp
							delete(p.spans, id)
						}
					}
					got, err = p.Model.Take(ctx, r)
					for id, sp := range hidden {
						p.spans[id] = sp
					}
					return got, err
				}
			}},
		{"an edit leaves the key", "AnEditedKeyCounts", func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				for i := range list {
					if e := list[i].Edit; e != nil {
						e.GroupKey = nil
						e.Priority = new(int64(1))
					}
				}
				return p.Model.Act(ctx, list)
			}
		}},
		{"nobody counts full keys", "GatesOfKeysAreShown", func(p *planted) {
			p.gates = func(ctx context.Context, queues ...string) (int64, []store.Gate, error) {
				now, got, err := p.Model.Gates(ctx, queues...)
				for i := range got {
					got[i].FullKeys = 0
				}
				return now, got, err
			}
		}},
	}
}
