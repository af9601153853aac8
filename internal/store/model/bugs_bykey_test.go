package model

import (
	"context"
	"maps"
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
				p.take = func(
					ctx context.Context, r store.TakeRequest,
				) (got store.Taken, err error) {
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
				p.take = func(
					ctx context.Context, r store.TakeRequest,
				) (got store.Taken, err error) {
					p.withLimits(unlimited, func() { got, err = p.Model.Take(ctx, r) })
					return got, err
				}
			}},
		{"what does not fit is taken as it is, too", "WhatFitsIsTakenAsItIs",
			takeAs(func(k *store.ByKey) { k.Whole *= 2 })},
		{"nothing is taken as it is", "WhatFitsIsTakenAsItIs",
			takeAs(func(k *store.ByKey) { k.Whole = 0 })},
		{"of what does not fit nothing is taken as it is", "TheFirstAreTakenAsTheyAre",
			takeAs(func(k *store.ByKey) { k.First = 0 })},
		{"of what does not fit more is taken as it is", "TheFirstAreTakenAsTheyAre",
			takeAs(func(k *store.ByKey) { k.First *= 2 })},
		{"what is left by takes by keys is not told", "TheFirstAreTakenAsTheyAre",
			func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					got.Left = false
					return got, err
				}
			}},
		{"what is taken as it is has the keys that were submitted",
			"WhatIsTakenAsItIsSaysTheKeysOfItsTasks", func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					for _, sp := range got.Spans {
						for i := range sp.Keys {
							f := p.Model.tasks[task.ID{Batch: sp.Batch, N: sp.Tasks[i].N}]
							sp.Keys[i] = f.GroupKey
						}
					}
					return got, err
				}
			}},
		{"what is taken as it is has the keys of all numbers",
			"WhatIsTakenAsItIsSaysTheKeysOfItsTasks", func(p *planted) {
				p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
					got, err := p.Model.Take(ctx, r)
					for i := range got.Spans {
						sp := &got.Spans[i]
						for k := range sp.Keys {
							id := task.ID{Batch: sp.Batch, N: sp.Lo + int32(k)}
							if f := p.Model.tasks[id]; f != nil {
								sp.Keys[k] = f.override().GroupKey
							}
						}
					}
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
				p.take = func(
					ctx context.Context, r store.TakeRequest,
				) (got store.Taken, err error) {
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

// orderBugs are wrong programs about keys that go in order.
func orderBugs() []bug {
	with := func(p *planted, change func() (undo func())) {
		p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
			defer change()()
			return p.Model.Begin(ctx, r)
		}
		p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
			defer change()()
			return p.Model.Take(ctx, r)
		}
	}
	// forgetting lets owners go that are so.
	forgetting := func(p *planted, which func(f *fact) bool) func() {
		before := map[key]task.ID{}
		for k, id := range p.keyOwners {
			if f := p.Model.tasks[id]; f != nil && which(f) {
				before[k] = id
				delete(p.keyOwners, k)
			}
		}
		return func() {
			for k, id := range before {
				if _, other := p.keyOwners[k]; !other {
					p.keyOwners[k] = id
				}
			}
		}
	}
	return []bug{
		{"who backs off leaves its key", "AKeyInOrderWaitsForATaskThatRetries", func(p *planted) {
			with(p, func() func() {
				return forgetting(p, func(f *fact) bool {
					_, s := f.newest()
					return s.Kind == task.KindRetry
				})
			})
		}},
		{"who goes to its next stage leaves its key", "AKeyInOrderWaitsForATaskThatRetries",
			func(p *planted) {
				with(p, func() func() {
					return forgetting(p, func(f *fact) bool {
						_, s := f.newest()
						return s.Kind == task.KindNext
					})
				})
			}},
		{"takes do not know who owns a key", "OfAKeyInOrderItsOwnerIsTaken", func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				defer forgetting(p, func(*fact) bool { return true })()
				return p.Model.Take(ctx, r)
			}
		}},
		{"takes do not say for whom", "OfAKeyInOrderItsOwnerIsTaken", func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				got.Owners = nil
				return got, err
			}
		}},
		{"nobody looks what comes first of a key", "WhatComesFirstOfAKeyBeginsFirst",
			func(p *planted) {
				p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
					asked := map[int64]bool{}
					for i := range r.Rows {
						asked[r.Rows[i].Span] = true
					}
					var hidden []*store.Span
					for _, sp := range p.spans {
						if sp.Sorted && !asked[sp.ID] {
							sp.Sorted = false
							hidden = append(hidden, sp)
						}
					}
					got, err := p.Model.Begin(ctx, r)
					for _, sp := range hidden {
						sp.Sorted = true
					}
					return got, err
				}
			}},
		{"dead tasks stop no key", "ADeadTaskStopsItsKeyIfItIsTo", func(p *planted) {
			with(p, func() func() {
				return forgetting(p, func(f *fact) bool {
					_, s := f.newest()
					return s.Base == store.Final
				})
			})
		}},
		{"who has another key keeps the one before", "WhoEndsOrLeavesItsKeyFreesIt",
			func(p *planted) {
				p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
					before := maps.Clone(p.keyOwners)
					got, err := p.Model.Act(ctx, list)
					for k, id := range before {
						if p.Model.tasks[id] != nil {
							p.keyOwners[k] = id
						}
					}
					return got, err
				}
			}},
		{"who did not begin owns its key", "WhoDidNotBeginOwnsNoKey", func(p *planted) {
			p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				got, err := p.Model.Begin(ctx, r)
				for i, is := range got.Rows {
					u := &r.Rows[i]
					if q := p.queues[u.Queue]; is == store.Void && u.Key != "" &&
						q.PerKey.InOrder() {
						p.keyOwners[key{u.Queue, u.Key}] = u.ID
					}
				}
				return got, err
			}
		}},
		{"every key with a limit goes in order", "KeysThatMayRunSeveralHaveNoOwner",
			func(p *planted) {
				p.letBegin = func(ctx context.Context, r store.BeginRequest) (
					got store.Begun, err error,
				) {
					p.withLimits(func(q *task.Queue) {
						q.PerKey.MaxRunning = min(q.PerKey.MaxRunning, 1)
					}, func() { got, err = p.Model.Begin(ctx, r) })
					return got, err
				}
			}},
	}
}
