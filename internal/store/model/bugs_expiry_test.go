package model

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// expiryBugs are wrong programs about tasks that are to be begun within a time.
func expiryBugs() []bug {
	return []bug{
		{"a task that was begun expires", "WhatWasHandedOutNeverExpires", func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				s.Reports = slices.Clone(s.Reports)
				kinds := map[hand]store.Step{}
				for i := range s.Reports {
					r := &s.Reports[i]
					if f := p.fact(r.ID); f == nil || r.Step.Kind != task.KindExpired ||
						f.Task.StartWithin == 0 {
						continue
					}
					kinds[hand{r.ID, r.Token.Seq}] = r.Step
					r.Step.Kind = task.KindFail
				}
				got, err := p.Model.Settle(ctx, s)
				for at, step := range kinds {
					if f := p.fact(at.id); f.steps[at.seq].Hash == step.Hash {
						is := f.steps[at.seq]
						is.Step = step
						f.steps[at.seq] = is
					}
				}
				return got, err
			}
		}},
		{"what is expired is taken from whoever holds it", "SpansOfOthersAreTheirsUntilTheyDie",
			func(p *planted) {
				p.expire = func(ctx context.Context, h store.Holder, limit int) (store.Taken,
					error) {
					if p.lives(h, p.now().UnixMicro()) {
						for _, f := range p.Model.tasks {
							if sp, at := p.owner(f), p.limit(f); at != 0 && sp != nil &&
								at <= p.now().UnixMicro() {
								sp.Holder = store.Holder{}
							}
						}
					}
					return p.Model.TakeExpired(ctx, h, limit)
				}
			}},
		{"limits are lost when retention takes others out of the pack",
			"LimitsComeBackInAnyCompany", func(p *planted) {
				p.prune = func(ctx context.Context, limit int) (int, error) {
					n, err := p.Model.Prune(ctx, limit)
					if n > 0 {
						for _, f := range p.Model.tasks {
							f.StartWithin = 0
						}
					}
					return n, err
				}
			}},
		{"an edited time leaves the limit where it was", "EditedTimeMovesTheLimitAlong",
			func(p *planted) {
				p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
					before := map[task.ID]int64{}
					for _, a := range list {
						if f := p.fact(a.ID); f != nil && a.Edit != nil && a.Edit.Due != nil &&
							a.Edit.StartWithin == nil {
							before[a.ID] = f.expires()
						}
					}
					got, err := p.Model.Act(ctx, list)
					for id, at := range before {
						f := p.fact(id)
						if seq, s := f.newest(); s.Override != nil {
							s.Override.Expires = at
							f.steps[seq] = s
						}
					}
					return got, err
				}
			}},
		{"a replayed task has its limit again", "ExpiredTasksBeginAgainWithoutALimit",
			func(p *planted) {
				p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
					got, err := p.Model.Act(ctx, list)
					for i, a := range list {
						f := p.fact(a.ID)
						if f == nil || a.Kind != task.KindReplayed || !got[i].Changed ||
							f.begun() {
							continue
						}
						seq, s := f.newest()
						o := f.override()
						o.Expires = f.Task.Expires(f.batch.Due)
						s.Override = &o
						f.steps[seq] = s
					}
					return got, err
				}
			}},
		{"expired tasks are kept as long as done ones", "RetentionKeepsExpiredTasksAsDeadOnes",
			func(p *planted) {
				p.prune = func(ctx context.Context, limit int) (int, error) {
					now := p.now().UnixMicro()
					for id, f := range p.Model.tasks {
						_, s := f.newest()
						if s.Kind == task.KindExpired && s.Base == store.Final &&
							s.Finished+p.queues[f.batch.Queue].Retention.Microseconds() <= now {
							p.drop(p.Model.tasks[id])
						}
					}
					return p.Model.Prune(ctx, limit)
				}
			}},
	}
}
