package model

import (
	"context"
	"maps"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// dependBugs are wrong programs about tasks that wait for other tasks.
func dependBugs() []bug {
	// submitted calls change with what each task of a submission waits for.
	submitted := func(change func(p *planted, who task.ID, list []*depends)) func(*planted) {
		return func(p *planted) {
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				was := maps.Clone(p.after)
				got, err := p.Model.Submit(ctx, s)
				for who, list := range p.after {
					if was[who] == nil {
						change(p, who, list)
					}
				}
				return got, err
			}
		}
	}
	looks := func(before, behind func(p *planted)) func(*planted) {
		return func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				before(p)
				got, err := p.Model.Look(ctx, r)
				behind(p)
				return got, err
			}
		}
	}
	nothing := func(*planted) {}
	each := func(do func(p *planted, who task.ID, d *depends)) func(p *planted) {
		return func(p *planted) {
			for who, list := range p.after {
				for _, d := range list {
					do(p, who, d)
				}
			}
		}
	}
	return []bug{
		{"who waits for others is ready at once", "WhoWaitsForOthersIsBlocked",
			submitted(func(p *planted, who task.ID, _ []*depends) {
				f := p.fact(who)
				delete(p.waiting.waits, who)
				for _, sp := range p.spans {
					if sp.Batch == who.Batch {
						sp.Rank, sp.Due = f.batch.Rank, f.batch.Due
					}
				}
			})},
		{"only the first that it waits for is kept", "TheLastOfThemWakesIt",
			submitted(func(p *planted, who task.ID, list []*depends) { p.after[who] = list[:1] })},
		{"refs are forgotten", "WhoWaitsForOthersIsBlocked",
			submitted(func(_ *planted, _ task.ID, list []*depends) {
				for _, d := range list {
					d.Ref = ""
				}
			})},
		{"any end fits", "OneThatEndsOtherwiseCancelsIt",
			submitted(func(_ *planted, _ task.ID, list []*depends) {
				for _, d := range list {
					d.Ended = true
				}
			})},
		{"only done fits", "OneThatEndsOtherwiseCancelsIt",
			submitted(func(_ *planted, _ task.ID, list []*depends) {
				for _, d := range list {
					d.Ended = false
				}
			})},
		{"who has the key does not take its place", "WhoHasTheKeyTakesItsPlace",
			func(p *planted) {
				p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
					got, err := p.Model.Submit(ctx, s)
					for _, b := range s.Batches {
						for _, t := range b.Tasks {
							list := p.after[task.ID{Batch: b.ID, N: t.N}]
							for i := range list {
								list[i].On = t.After[i].On
							}
						}
					}
					return got, err
				}
			}},
		{"where to look is not told", "WhatStandsMayBeWaitedFor", func(p *planted) {
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				got, err := p.Model.Submit(ctx, s)
				got.Look = nil
				return got, err
			}
		}},
		{"a task that is begun with others awake wakes with one open", "TheLastOfThemWakesIt",
			looks(each(func(p *planted, who task.ID, d *depends) {
				if _, _, over := p.endOf(d.On); over && d.state == "" {
					for _, other := range p.after[who] {
						if other.state == "" && other != d {
							other.state = task.Done
						}
					}
				}
			}), nothing)},
		{"one that is gone never ends", "WhatStandsMayBeWaitedFor",
			func(p *planted) {
				p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
					got, err := p.Model.Submit(ctx, s)
					for who, list := range p.after {
						for _, d := range list {
							if p.fact(d.On) == nil {
								delete(p.after, who)
							}
						}
					}
					return got, err
				}
			}},
		{"what it has waited for is forgotten when it is woken", "TheLastOfThemWakesIt",
			looks(nothing, func(p *planted) {
				for who := range p.after {
					if f := p.fact(who); f != nil && len(f.steps) > 0 && p.ended(f) == "" {
						delete(p.after, who)
					}
				}
			})},
		{"results are those of another step", "TheLastOfThemWakesIt",
			looks(nothing, each(func(p *planted, _ task.ID, d *depends) {
				if f := p.fact(d.On); f != nil && d.seq > 0 && d.state == task.Done {
					d.seq--
				}
			}))},
		{"a woken one is charged", "TheLastOfThemWakesIt",
			looks(nothing, func(p *planted) {
				for who := range p.after {
					if f := p.fact(who); f != nil {
						if seq, s := f.newest(); s.Kind == task.KindWoken {
							s.Attempt = 1
							f.steps[seq] = s
						}
					}
				}
			})},
		{"a woken one is due at once", "ItBeginsWhenItIsDue",
			looks(nothing, func(p *planted) {
				now := p.now().UnixMicro()
				for who := range p.after {
					f := p.fact(who)
					if f == nil {
						continue
					}
					if _, s := f.newest(); s.Kind == task.KindWoken && s.Due > now {
						if sp := p.owner(f); sp != nil {
							sp.Due = now
							seq, s := f.newest()
							s.Due = 0
							f.steps[seq] = s
						}
					}
				}
			})},
		{"a woken one has lost its place", "LateOnesKeepTheirPlace",
			looks(nothing, func(p *planted) {
				for who := range p.after {
					f := p.fact(who)
					if f == nil {
						continue
					}
					_, s := f.newest()
					if s.Kind == task.KindWoken && s.Finished == p.now().UnixMicro() {
						if sp := p.owner(f); sp != nil && sp.Token == 0 {
							sp.Rank = max(sp.Rank, sp.Due)
						}
					}
				}
			})},
		{"a look at ends has no bound", "LooksAtEndsHaveABound", func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				got, err := p.Model.Look(ctx, r)
				for got.More && err == nil {
					more, bad := p.Model.Look(ctx, store.LookRequest{Limit: r.Limit})
					got.Ended += more.Ended
					got.Cancelled = append(got.Cancelled, more.Cancelled...)
					got.More, err = more.More, bad
				}
				return got, err
			}
		}},
		{"a replay waits for nothing", "AReplayWaitsAgainForWhatDidNotEndAsItShould",
			func(p *planted) {
				p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
					kept := maps.Clone(p.after)
					for i := range list {
						if list[i].Kind == task.KindReplayed {
							delete(p.after, list[i].ID)
						}
					}
					got, err := p.Model.Act(ctx, list)
					maps.Copy(p.after, kept)
					return got, err
				}
			}},
		{"a replay waits for all again", "AReplayWaitsAgainForWhatDidNotEndAsItShould",
			func(p *planted) {
				p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
					for i := range list {
						f := p.fact(list[i].ID)
						if list[i].Kind != task.KindReplayed || f == nil || p.ended(f) == "" {
							continue
						}
						for _, d := range p.after[list[i].ID] {
							d.state = ""
						}
					}
					return p.Model.Act(ctx, list)
				}
			}},
		{"an edit limits who waits", "WhoWaitsMayBeEditedCancelledAndRemoved",
			func(p *planted) {
				p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
					for i := range list {
						a := &list[i]
						f := p.fact(a.ID)
						if a.Edit != nil && a.Edit.StartWithin != nil && f != nil &&
							p.awaits(f) != nil {
							e := *a.Edit
							e.StartWithin = nil
							a.Edit = &e
						}
					}
					return p.Model.Act(ctx, list)
				}
			}},
		{"what is waited for is deleted", "WhatIsWaitedForStaysUntilThatIsOver",
			func(p *planted) {
				p.prune = func(ctx context.Context, limit int) (int, error) {
					kept := p.after
					p.after = map[task.ID][]*depends{}
					n, err := p.Model.Prune(ctx, limit)
					for who, list := range kept {
						if p.Model.tasks[who] != nil {
							p.after[who] = list
						}
					}
					return n, err
				}
			}},
		{"children never wait", "ChildrenWaitForEachOther", func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				for i := range s.Reports {
					for k := range s.Reports[i].Spawn {
						tasks := s.Reports[i].Spawn[k].Tasks
						for n := range tasks {
							tasks[n].After = nil
						}
					}
				}
				return p.Model.Settle(ctx, s)
			}
		}},
		{"too much is read of what they left", "WhatIsTooLargeIsLeftOut", func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				for i := range got.Spans {
					for k := range got.Spans[i].Tasks {
						after := got.Spans[i].Tasks[k].After
						for n := range after {
							after[n].LeftOut = false
						}
					}
				}
				return got, err
			}
		}},
	}
}
