package model

import (
	"context"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// hiding calls do while some running rows are not there.
func (p *planted) hiding(hide func(hand, store.Running) bool, do func()) {
	hidden := map[hand]store.Running{}
	for at, u := range p.running {
		if hide(at, u) {
			hidden[at] = u
			delete(p.running, at)
		}
	}
	do()
	maps.Copy(p.running, hidden)
}

// beginHiding is a Begin that does not see some running rows.
func (p *planted) beginHiding(hide func(r *store.BeginRequest, at hand, u store.Running) bool) {
	p.letBegin = func(ctx context.Context, r store.BeginRequest) (got store.Begun, err error) {
		p.hiding(func(at hand, u store.Running) bool {
			its := func(b store.Begin) bool { return b.ID == at.id && b.Seq == at.seq }
			return !slices.ContainsFunc(r.Rows, its) && hide(&r, at, u)
		}, func() { got, err = p.Model.Begin(ctx, r) })
		return got, err
	}
}

// beginBugs are wrong programs about queues that have limits.
func beginBugs() []bug {
	return []bug{
		{"each node has the limit for itself", "AsManyBeginAsTheLimitSays", func(p *planted) {
			p.beginHiding(func(r *store.BeginRequest, _ hand, u store.Running) bool {
				sp := p.spans[u.Span]
				return sp != nil && sp.Holder != r.Holder && sp.Holder != (store.Holder{})
			})
		}},
		{"what runs is not counted in the same call", "AsManyBeginAsTheLimitSays",
			func(p *planted) {
				p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
					var all store.Begun
					for _, row := range r.Rows {
						one := store.BeginRequest{Holder: r.Holder, Rows: []store.Begin{row}}
						var got store.Begun
						var err error
						p.hiding(func(at hand, _ store.Running) bool {
							return slices.ContainsFunc(r.Rows, func(b store.Begin) bool {
								return b.ID == at.id && b.ID != row.ID
							})
						}, func() { got, err = p.Model.Begin(ctx, one) })
						if err != nil || got.LeaseGone {
							return got, err
						}
						all.Now, all.Gates = got.Now, got.Gates
						all.Rows = append(all.Rows, got.Rows...)
					}
					return all, nil
				}
			}},
		{"the row of a lost hand-out stays", "EachOutcomeMakesRoom", func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				before := maps.Clone(p.running)
				got, err := p.Model.Settle(ctx, s)
				for _, r := range s.Reports {
					at := hand{r.ID, r.Token.Seq}
					if u, ok := before[at]; ok && r.Step.Kind == task.KindLost {
						p.running[at] = u
					}
				}
				return got, err
			}
		}},
		{"what dead nodes handed out does not count", "WhatTheDeadAndTheUnheardHaveCounts",
			func(p *planted) {
				p.beginHiding(func(_ *store.BeginRequest, _ hand, u store.Running) bool {
					sp := p.spans[u.Span]
					return sp == nil || sp.Holder == (store.Holder{}) || sp.Token != u.Token
				})
			}},
		{"a node begins hand-outs whose lease is gone", "WhatTheDeadAndTheUnheardHaveCounts",
			func(p *planted) {
				p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
					got, err := p.Model.Begin(ctx, r)
					if got.LeaseGone {
						got.LeaseGone, got.Rows = false, make([]store.Beginning, len(r.Rows))
					}
					return got, err
				}
			}},
		{"spans of the living are taken for what runs",
			"WhatRunsAndNobodyHoldsIsTakenThoughNothingMayBegin", func(p *planted) {
				p.takeRuns = func(ctx context.Context, h store.Holder, n int) (store.Taken, error) {
					for _, sp := range p.spans {
						if _, limited := p.limited(sp.Queue); limited && sp.Holder != h {
							sp.Holder = store.Holder{}
						}
					}
					return p.Model.TakeRunning(ctx, h, n)
				}
			}},
		{"nobody takes what runs", "WhatRunsAndNobodyHoldsIsTakenThoughNothingMayBegin",
			func(p *planted) {
				p.takeRuns = func(ctx context.Context, h store.Holder, n int) (store.Taken, error) {
					got, err := p.Model.TakeRunning(ctx, h, 0)
					got.More = false
					return got, err
				}
			}},
		{"only what began under a limit counts", "WhatRanBeforeThereWasALimitCounts",
			func(p *planted) {
				begun := map[hand]bool{}
				p.beginHiding(func(r *store.BeginRequest, at hand, _ store.Running) bool {
					for _, b := range r.Rows {
						begun[hand{b.ID, b.Seq}] = true
					}
					return !begun[at]
				})
			}},
		{"a repeated hand-out costs the rate again", "AHandOutBeginsOnce", func(p *planted) {
			p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				before := maps.Clone(p.running)
				got, err := p.Model.Begin(ctx, r)
				for _, b := range r.Rows {
					g := p.gate(b.Queue)
					if _, stood := before[hand{b.ID, b.Seq}]; stood && g.Limits.Rate.Count > 0 {
						g.Admit(1, got.Now)
						p.buckets[b.Queue] = g.Bucket
					}
				}
				return got, err
			}
		}},
		{"a repeated hand-out keeps its first worker", "AHandOutBeginsOnce", func(p *planted) {
			p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				before := maps.Clone(p.running)
				got, err := p.Model.Begin(ctx, r)
				for _, b := range r.Rows {
					if u, stood := before[hand{b.ID, b.Seq}]; stood {
						p.running[hand{b.ID, b.Seq}] = u
					}
				}
				return got, err
			}
		}},
		{"what is no hand-out takes a place", "WhatIsNoHandOutDoesNotBegin", func(p *planted) {
			p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				got, err := p.Model.Begin(ctx, r)
				for i := range got.Gates {
					for _, is := range got.Rows {
						if is == store.Void {
							got.Gates[i].Running++
						}
					}
				}
				for i, b := range r.Rows {
					if i < len(got.Rows) && got.Rows[i] == store.Void && p.fact(b.ID) != nil {
						p.running[hand{task.ID{Batch: b.ID.Batch, N: b.ID.N}, 99}] = b.Running
					}
				}
				return got, err
			}
		}},
		{"a row is anybody's", "WhatIsNoHandOutDoesNotBegin", func(p *planted) {
			p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				stood := maps.Clone(p.running)
				got, err := p.Model.Begin(ctx, r)
				for i := range got.Rows {
					if _, ok := stood[hand{r.Rows[i].ID, r.Rows[i].Seq}]; ok {
						got.Rows[i] = store.Begins
					}
				}
				return got, err
			}
		}},
		{"each node has the rate for itself", "ARateHoldsOverAllNodes", func(p *planted) {
			buckets := map[string]map[string]admission.Bucket{}
			p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				own := buckets[r.Holder.Node]
				if own == nil {
					own = map[string]admission.Bucket{}
					buckets[r.Holder.Node] = own
				}
				for queue := range p.buckets {
					p.buckets[queue] = own[queue]
				}
				got, err := p.Model.Begin(ctx, r)
				maps.Copy(own, p.buckets)
				return got, err
			}
		}},
		{"an end gives back to the rate", "ARateHoldsOverAllNodes", func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				for _, r := range s.Reports {
					if b, ok := p.buckets[r.Queue]; ok {
						b.Level += 1e6
						p.buckets[r.Queue] = b
					}
				}
				return p.Model.Settle(ctx, s)
			}
		}},
		{"a rate that changes begins full", "ARateThatChangesBeginsEmpty", func(p *planted) {
			p.changeBucketTo(func(before, after task.Queue, old admission.Bucket) admission.Bucket {
				if admission.LimitsOf(&before) == admission.LimitsOf(&after) {
					return old
				}
				return admission.Bucket{}
			})
		}},
		{"a rate that changes goes on with its bucket", "ARateThatChangesBeginsEmpty",
			func(p *planted) {
				p.changeBucketTo(
					func(_, _ task.Queue, old admission.Bucket) admission.Bucket { return old })
			}},
		{"any change of limits empties the bucket", "ARateThatChangesBeginsEmpty",
			func(p *planted) {
				p.changeBucketTo(func(before, _ task.Queue, _ admission.Bucket) admission.Bucket {
					return admission.Bucket{At: p.now().UnixMicro()}
				})
			}},
		{"gates are shown of queues without limits", "GatesShowQueuesWithLimitsOnly",
			func(p *planted) {
				p.gates = func(ctx context.Context, queues ...string) (int64, []store.Gate, error) {
					now, got, err := p.Model.Gates(ctx, queues...)
					for _, name := range slices.Sorted(maps.Keys(p.queues)) {
						if _, limited := p.limited(name); !limited {
							got = append(got, store.Gate{Queue: name})
						}
					}
					return now, got, err
				}
			}},
		{"what is asked of one gate is told of all", "GatesShowQueuesWithLimitsOnly",
			func(p *planted) {
				p.gates = func(ctx context.Context, _ ...string) (int64, []store.Gate, error) {
					return p.Model.Gates(ctx)
				}
			}},
		{"a deleted queue leaves its bucket", "ANewQueueOfADeletedOnesNameBeginsAnew",
			func(p *planted) {
				left := map[string]admission.Bucket{}
				p.changeQ = func(ctx context.Context, name string, c store.Change[task.Queue]) (
					store.Changed[task.Queue], error) {
					got, err := p.Model.ChangeQueue(ctx, name, c)
					if old, ok := left[name]; ok && got.Created {
						old.Level = 1 << 40
						p.buckets[name] = old
					}
					left[name] = p.buckets[name]
					return got, err
				}
			}},
		{"a limit holds from the next call on", "AChangedLimitHoldsWhenTheChangeIsAnswered",
			func(p *planted) {
				old := map[string]int{}
				p.changeQ = func(ctx context.Context, name string, c store.Change[task.Queue]) (
					store.Changed[task.Queue], error) {
					before := p.queues[name].MaxRunning
					got, err := p.Model.ChangeQueue(ctx, name, c)
					if before > got.Is.MaxRunning {
						old[name] = before
					}
					return got, err
				}
				p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
					is := maps.Clone(p.queues)
					for name, before := range old {
						q := p.queues[name]
						q.MaxRunning = before
						p.queues[name] = q
					}
					got, err := p.Model.Begin(ctx, r)
					p.queues = is
					clear(old)
					return got, err
				}
			}},
	}
}

// changeBucketTo lets a change of a queue with limits leave the bucket that to says.
func (p *planted) changeBucketTo(
	to func(before, after task.Queue, old admission.Bucket) admission.Bucket,
) {
	p.changeQ = func(ctx context.Context, name string, c store.Change[task.Queue]) (
		store.Changed[task.Queue], error) {
		before, old := p.queues[name], p.buckets[name]
		got, err := p.Model.ChangeQueue(ctx, name, c)
		if _, limited := p.limited(name); limited {
			p.buckets[name] = to(before, got.Is, old)
		}
		return got, err
	}
}
