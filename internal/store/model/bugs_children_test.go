package model

import (
	"context"
	"maps"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// childBugs are wrong programs about tasks that submit others, and wait for them.
func childBugs() []bug {
	settled := func(change func(p *planted, r *store.Report, v task.Status)) func(*planted) {
		return func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				got, err := p.Model.Settle(ctx, s)
				for i, v := range got.Verdicts {
					change(p, &s.Reports[i], v)
				}
				return got, err
			}
		}
	}
	before := func(change func(p *planted, r *store.Report)) func(*planted) {
		return func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				for i := range s.Reports {
					change(p, &s.Reports[i])
				}
				return p.Model.Settle(ctx, s)
			}
		}
	}
	looks := func(change func(p *planted)) func(*planted) {
		return func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				change(p)
				return p.Model.Look(ctx, r)
			}
		}
	}
	adds := func(change func(p *planted, s *store.Submission)) func(*planted) {
		return func(p *planted) {
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				if s.Under != nil {
					change(p, &s)
				}
				return p.Model.Submit(ctx, s)
			}
		}
	}
	acts := func(change func(p *planted, a *store.Action)) func(*planted) {
		return func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				for i := range list {
					change(p, &list[i])
				}
				return p.Model.Act(ctx, list)
			}
		}
	}
	return []bug{
		{"a refused report has children all the same", "ChildrenStandWithTheOutcomeThatSpawnedThem",
			settled(func(p *planted, r *store.Report, v task.Status) {
				if f := p.fact(r.ID); v == task.Stale && f != nil && len(r.Spawn) > 0 &&
					p.batches[r.Spawn[0].ID] == nil {
					p.spawn(f, r, p.now().UnixMicro())
				}
			})},
		{"a repeated report has its children again", "ChildrenStandWithTheOutcomeThatSpawnedThem",
			settled(func(p *planted, r *store.Report, v task.Status) {
				if v == task.Repeated && len(r.Spawn) > 0 && p.batches[r.Spawn[0].ID] == nil {
					p.spawn(p.fact(r.ID), r, p.now().UnixMicro())
				}
			})},
		{"only the first batch of children stands", "ChildrenStandWithTheOutcomeThatSpawnedThem",
			before(func(_ *planted, r *store.Report) { r.Spawn = r.Spawn[:min(1, len(r.Spawn))] })},
		{"a done task has no children", "ChildrenStandWithTheOutcomeThatSpawnedThem",
			before(func(_ *planted, r *store.Report) {
				if r.Step.Kind == task.KindDone {
					r.Spawn = nil
				}
			})},
		{"nobody knows whose children they are", "ChildrenStandWithTheOutcomeThatSpawnedThem",
			settled(func(p *planted, r *store.Report, _ task.Status) {
				for _, b := range r.Spawn {
					delete(p.family.parents, b.ID)
				}
			})},
		{"what exists is counted", "WhatExistsIsNoChild",
			settled(func(p *planted, r *store.Report, v task.Status) {
				for _, b := range r.Spawn {
					for _, t := range b.Tasks {
						id := task.ID{Batch: b.ID, N: t.N}
						if v == task.Recorded && p.fact(id) == nil {
							a := store.ChildrenOf(r.ID, p.fact(r.ID).run())
							c := p.family.gone[a]
							c.Total, c.Done = c.Total+1, c.Done+1
							p.family.gone[a] = c
						}
					}
				}
			})},
		{"children are added by whatever token", "ChildrenAreAddedWhileTheirParentRuns",
			adds(func(p *planted, s *store.Submission) {
				for _, sp := range p.spans {
					if f := p.fact(s.Under.ID); f != nil && p.owner(f) == sp {
						s.Under.Token.Span, s.Under.Token.SpanToken = sp.ID, sp.Token
					}
				}
			})},
		{"children are added after the outcome", "ChildrenAreAddedWhileTheirParentRuns",
			adds(func(p *planted, s *store.Submission) {
				if f := p.fact(s.Under.ID); f != nil {
					for {
						if _, stands := f.steps[s.Under.Token.Seq]; !stands {
							return
						}
						s.Under.Token.Seq++
					}
				}
			})},
		{"what is added has no parent", "ChildrenAreAddedWhileTheirParentRuns",
			adds(func(p *planted, s *store.Submission) {
				if f := p.fact(s.Under.ID); f != nil && p.good(s.Under.ID, s.Under.Token) &&
					f.steps[s.Under.Token.Seq].Kind == 0 {
					s.Under = nil
				}
			})},
		{"a removed child was never there", "ChildrenAreCountedAsTheyEnd", func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				got, err := p.Model.Act(ctx, list)
				for _, a := range got {
					f := p.fact(a.ID)
					if par := p.family.parents[a.ID.Batch]; a.Changed && f != nil && f.removed() &&
						par.of != (task.ID{}) {
						at := store.ChildrenOf(par.of, par.run)
						c := p.family.gone[at]
						c.Total--
						switch p.ended(f) {
						case task.Done:
							c.Done--
						case task.Dead:
							c.Dead--
						case task.Expired:
							c.Expired--
						case task.Cancelled:
							c.Cancelled--
						}
						p.family.gone[at] = c
					}
				}
				return got, err
			}
		}},
		{"a replayed child stays counted", "AReplayedChildIsWaitedForAgain", func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				got, err := p.Model.Act(ctx, list)
				for i, a := range got {
					par := p.family.parents[a.ID.Batch]
					if list[i].Kind == task.KindReplayed && a.Changed && par.of != (task.ID{}) {
						at := store.ChildrenOf(par.of, par.run)
						c := p.family.gone[at]
						countEnded(&c, a.Was)
						p.family.gone[at] = c
					}
				}
				return got, err
			}
		}},
		{"a wait for children ends before the last", "WhoAwaitsChildrenIsWokenByTheLastOfThem",
			looks(func(p *planted) {
				for _, w := range p.waiting.waits {
					if c := p.children(w.Address); w.Address.Children() && c.Open() == 1 {
						w.Address.Run = 1 << 20 // where nobody has children
					}
				}
			})},
		{"a wait for children never ends", "WhoAwaitsChildrenIsWokenByTheLastOfThem",
			looks(func(p *planted) {
				for _, w := range p.waiting.waits {
					if w.Address.Children() {
						c := p.family.gone[w.Address]
						c.Total++
						p.family.gone[w.Address] = c
					}
				}
			})},
		{"the first that dies ends every wait", "WhoAwaitsChildrenIsWokenByTheLastOfThem",
			before(func(_ *planted, r *store.Report) {
				if r.Await != nil && r.Await.Address.Children() {
					a := *r.Await
					a.First, r.Await = true, &a
				}
			})},
		{"the first that dies ends no wait", "TheFirstChildThatDiesMayEndAWait",
			before(func(_ *planted, r *store.Report) {
				if r.Await != nil && r.Await.First {
					a := *r.Await
					a.First, r.Await = false, &a
				}
			})},
		{"children of a former run count", "ChildrenOfAFormerRunKeepNobodyWaiting",
			looks(func(p *planted) {
				for batch, par := range p.family.parents {
					if f := p.fact(par.of); f != nil {
						par.run = f.run()
						p.family.parents[batch] = par
					}
				}
			})},
		{"a child is deleted while its parent waits", "WhatIsDeletedCountsAsItEnded",
			func(p *planted) {
				p.prune = func(ctx context.Context, limit int) (int, error) {
					parents := maps.Clone(p.family.parents)
					clear(p.family.parents)
					n, err := p.Model.Prune(ctx, limit)
					p.family.parents = parents
					return n, err
				}
			}},
		{"whoever dies leaves its children", "WhoDiesTakesAlongWhatHasNotBegun",
			looks(func(p *planted) { clear(p.family.falls) })},
		{"orphans fall", "WhoDiesTakesAlongWhatHasNotBegun",
			before(func(_ *planted, r *store.Report) {
				for i := range r.Spawn {
					r.Spawn[i].Orphan = false
				}
			})},
		{"children stay as orphans", "WhoDiesTakesAlongWhatHasNotBegun",
			before(func(_ *planted, r *store.Report) {
				for i := range r.Spawn {
					r.Spawn[i].Orphan = true
				}
			})},
		{"what has begun falls, too", "WhoDiesTakesAlongWhatHasNotBegun",
			looks(func(p *planted) {
				for order, f := range p.family.falls {
					f.tree = true
					p.family.falls[order] = f
				}
			})},
		{"a fall ends with its first piece", "WhoDiesTakesAlongWhatHasNotBegun",
			looks(func(p *planted) {
				for order, f := range p.family.falls {
					if f.after != (task.ID{}) {
						delete(p.family.falls, order)
					}
				}
			})},
		{"a done parent takes its children along", "ADoneParentLeavesItsChildren",
			settled(func(p *planted, r *store.Report, v task.Status) {
				if v == task.Recorded && r.Step.Kind == task.KindDone {
					p.letFall(r.ID, false)
				}
			})},
		{"who is cancelled leaves its children", "WhatEndsAParentOtherwiseLetsChildrenFall",
			func(p *planted) {
				p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
					falls := maps.Clone(p.family.falls)
					got, err := p.Model.Act(ctx, list)
					p.family.falls = falls
					return got, err
				}
			}},
		{"a tree is cancelled as its first row", "ATreeFallsAsAWhole",
			acts(func(_ *planted, a *store.Action) { a.Tree = false })},
		{"a fall is of whatever run", "AFallIsOfTheRunThatEnded", func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				parents := maps.Clone(p.family.parents)
				for batch, par := range parents {
					for _, f := range p.family.falls {
						if f.below == par.of {
							par.run = -1
							p.family.parents[batch] = par
						}
					}
				}
				got, err := p.Model.Look(ctx, r)
				p.family.parents = parents
				return got, err
			}
		}},
		{"a replay has no tree", "AReplayMayCancelTheTreeOfBefore",
			acts(func(_ *planted, a *store.Action) {
				a.Tree = a.Tree && a.Kind != task.KindReplayed
			})},
	}
}
