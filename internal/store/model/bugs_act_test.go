package model

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// actBugs are wrong programs about what people do to tasks: cancel, remove and replay.
func actBugs() []bug {
	return []bug{
		{"cancel stands after the running hand-out",
			"CancelOfARunningTaskMakesItsLateReportStale",
			func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
					error) {
					got, err := p.Model.Act(ctx, actions)
					for i, a := range got {
						if f := p.fact(a.ID); a.Changed &&
							actions[i].Kind == task.KindCancelled {
							seq, s := f.newest()
							delete(f.steps, seq)
							f.steps[seq+1] = s
						}
					}
					return got, err
				}
			}},
		{"a repeated action is a new one",
			"RepeatedActionIsAnsweredAsTheFirstTimeAndDoesNothing",
			func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
					error) {
					actions = slices.Clone(actions)
					for i := range actions {
						actions[i].Mark = 0
					}
					return p.Model.Act(ctx, actions)
				}
			}},
		{"removal leaves nothing", "RemovalLeavesATombstone", func(p *planted) {
			p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
				got, err := p.Model.Act(ctx, actions)
				for i, a := range got {
					if a.Changed && actions[i].Kind == task.KindRemoved {
						p.drop(p.Model.tasks[a.ID])
					}
				}
				return got, err
			}
		}},
		{"what goes on is replayed", "OnlyFinalTasksAreReplayed", func(p *planted) {
			p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
				actions = slices.Clone(actions)
				for i, a := range actions {
					if f := p.fact(a.ID); f != nil && a.Kind == task.KindReplayed {
						if _, s := f.newest(); s.Base != store.Final {
							actions[i].Kind = task.KindMoved
						}
					}
				}
				return p.Model.Act(ctx, actions)
			}
		}},
		{"a done task goes on where it ended", "ReplayOfADoneTaskBeginsAsItWasSubmitted",
			func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
					error) {
					actions = slices.Clone(actions)
					for i, a := range actions {
						f := p.fact(a.ID)
						if f == nil || a.Kind != task.KindReplayed || a.Replay.Whole ||
							a.Replay.Stage != nil {
							continue
						}
						if _, s := f.newest(); s.Kind == task.KindDone {
							actions[i].Replay.Stage = &s.Stage
						}
					}
					return p.Model.Act(ctx, actions)
				}
			}},
		{"a replay happens whatever state was meant", "ActionOfAStateIsDoneInNoOther",
			func(p *planted) {
				p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted,
					error) {
					actions = slices.Clone(actions)
					for i := range actions {
						actions[i].When = ""
					}
					return p.Model.Act(ctx, actions)
				}
			}},
		{"counts drift with every replay", "CountsAreExactAfterEveryAct", func(p *planted) {
			drift := int64(0)
			p.act = func(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
				got, err := p.Model.Act(ctx, actions)
				for i, a := range got {
					if a.Changed && actions[i].Kind == task.KindReplayed {
						drift++
					}
				}
				return got, err
			}
			p.counts = func(ctx context.Context, queues ...string) ([]store.QueueCounts,
				error) {
				got, err := p.Model.Counts(ctx, queues...)
				if len(got) > 0 {
					got[0].Counts.Dead += drift
				}
				return got, err
			}
		}},
		{"a task that was retried counts at its first rank",
			"AheadCountsReadyTasksOfEarlierRank", func(p *planted) {
				p.ahead = func(
					ctx context.Context, id task.ID, limit int,
				) (store.Ahead, error) {
					p.Model.mu.Lock()
					kept := map[*fact]map[int32]recorded{}
					for _, f := range p.Model.tasks {
						if seq, s := f.newest(); seq >= 0 && s.Base != store.Final {
							kept[f] = f.steps
							f.steps = nil
						}
					}
					p.Model.mu.Unlock()
					got, err := p.Model.Ahead(ctx, id, limit)
					for f, steps := range kept {
						f.steps = steps
					}
					return got, err
				}
			}},
	}
}
