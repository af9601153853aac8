package model

import (
	"context"
	"maps"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// waitBugs are wrong programs about tasks that wait for signals.
func waitBugs() []bug {
	// afterwards does something behind every call that may end a wait.
	afterwards := func(do func(p *planted)) func(*planted) {
		return func(p *planted) {
			p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
				got, err := p.Model.Signal(ctx, s)
				do(p)
				return got, err
			}
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				got, err := p.Model.Look(ctx, r)
				do(p)
				return got, err
			}
		}
	}
	// woken calls change with the step that woke a task last, and its span.
	woken := func(change func(s *recorded, sp *store.Span)) func(*planted) {
		return afterwards(func(p *planted) {
			for _, f := range p.Model.tasks {
				seq, s := f.newest()
				if sp := p.owner(f); s.Kind == task.KindWoken && sp != nil && sp.Token == 0 {
					change(&s, sp)
					f.steps[seq] = s
				}
			}
		})
	}
	settled := func(change func(p *planted, r *store.Report)) func(*planted) {
		return func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				got, err := p.Model.Settle(ctx, s)
				for i := range s.Reports {
					if err == nil && s.Reports[i].Await != nil {
						change(p, &s.Reports[i])
					}
				}
				return got, err
			}
		}
	}
	acted := func(kind task.Kind, change func(p *planted, id task.ID)) func(*planted) {
		return func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				was := maps.Clone(p.waiting.waits)
				got, err := p.Model.Act(ctx, list)
				for _, a := range list {
					if was[a.ID] != nil && a.Kind == kind {
						change(p, a.ID)
					}
				}
				return got, err
			}
		}
	}
	return []bug{
		{"a blocked task is due", "NobodyIsHandedABlockedTask",
			settled(func(p *planted, r *store.Report) {
				for _, sp := range p.spans {
					if sp.Batch == r.ID.Batch && sp.Lo == r.ID.N && sp.Due == store.Never {
						sp.Rank, sp.Due = 1, 1
					}
				}
			})},
		{"a repeated report waits again", "ARepeatedReportWaitsOnce",
			settled(func(p *planted, r *store.Report) {
				if w := p.waiting.waits[r.ID]; w == nil {
					p.await(r.ID, r.Token.Seq, *r.Await, p.now().UnixMicro())
					p.waiting.waits[r.ID].seq = p.fact(r.ID).last() + 1
				}
			})},
		{"a signal ends two waits", "ASignalWakesItsTaskOnce", afterwards(func(p *planted) {
			for _, s := range p.waiting.signals {
				s.used = false
			}
		})},
		{"the same signal twice counts twice", "ASignalWakesItsTaskOnce", func(p *planted) {
			n := int64(0)
			p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
				if n++; s.To.Task != (task.ID{}) {
					s.Key += " " + string(rune('a'+n%26))
				}
				return p.Model.Signal(ctx, s)
			}
		}},
		{"any name will do", "ASignalWakesItsTaskOnce", func(p *planted) {
			p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
				for _, w := range p.waiting.waits {
					if w.Address.Task == s.To.Task {
						s.To = w.Address
					}
				}
				return p.Model.Signal(ctx, s)
			}
		}},
		{"a signal for which nobody waits is dropped", "ASignalIsKeptUntilItsTaskWaits",
			afterwards(func(p *planted) {
				maps.DeleteFunc(p.waiting.signals, func(_ signalKey, s *sent) bool {
					return !s.used
				})
			})},
		{"the newest signal comes first", "ASignalIsKeptUntilItsTaskWaits",
			func(p *planted) {
				p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
					got, err := p.Model.Signal(ctx, s)
					for _, other := range p.waiting.signals {
						if other.Signal.Key == s.Key && other.To == s.To && !got.Repeated {
							other.at = -other.at
						}
					}
					return got, err
				}
			}},
		{"a wait has no end", "ATimeThatIsOverEndsAWait",
			settled(func(p *planted, r *store.Report) {
				if w := p.waiting.waits[r.ID]; w != nil {
					w.Until = 0
				}
			})},
		{"the stage that follows is forgotten", "ATimeThatIsOverEndsAWait",
			settled(func(p *planted, r *store.Report) {
				if w := p.waiting.waits[r.ID]; w != nil {
					w.Else = ""
				}
			})},
		{"a time ends a wait before it is over", "ATimeThatIsOverEndsAWait",
			func(p *planted) {
				p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
					for _, w := range p.waiting.waits {
						if w.Until != 0 {
							w.Until--
						}
					}
					return p.Model.Look(ctx, r)
				}
			}},
		{"a time that is over comes before a signal",
			"ASignalThatCameInTimeEndsTheWaitHoweverLateOneLooks", func(p *planted) {
				p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
					for at, s := range p.waiting.signals {
						w := p.waiting.waits[at.to.Task]
						s.used = s.used || w != nil && w.Until != 0 && len(r.Addresses) == 0
					}
					return p.Model.Look(ctx, r)
				}
			}},
		{"a signal by key is kept for ever", "ASignalByKeyFindsWhoWaitsForIt", afterwards(
			func(p *planted) {
				for _, s := range p.waiting.signals {
					s.until = 0
				}
			})},
		{"a signal by key goes to the newest wait", "ASignalByKeyFindsWhoWaitsForIt",
			settled(func(p *planted, r *store.Report) {
				if w := p.waiting.waits[r.ID]; w != nil {
					w.since = -w.since
				}
			})},
		{"keys are all one", "ASignalByKeyFindsWhoWaitsForIt", func(p *planted) {
			p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
				for _, w := range p.waiting.waits {
					if w.Address.Key != "" && s.To.Key != "" {
						s.To = w.Address
					}
				}
				return p.Model.Signal(ctx, s)
			}
		}},
		{"who is replayed waits as before", "WhatEndsABlockedTaskEndsItsWait", func(p *planted) {
			before := map[task.ID]*waiting{}
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				for _, a := range list {
					if w := p.waiting.waits[a.ID]; w != nil {
						before[a.ID] = w
					}
				}
				got, err := p.Model.Act(ctx, list)
				for _, a := range list {
					if w := before[a.ID]; w != nil && a.Kind == task.KindReplayed {
						p.await(a.ID, p.fact(a.ID).last(), w.Await, w.since)
					}
				}
				return got, err
			}
		}},
		{"run now wakes a blocked task", "WhatEndsABlockedTaskEndsItsWait", func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				for _, a := range list {
					if a.Kind == task.KindMoved {
						delete(p.waiting.waits, a.ID)
					}
				}
				return p.Model.Act(ctx, list)
			}
		}},
		{"who is over gets signals", "WhatEndsABlockedTaskEndsItsWait", func(p *planted) {
			p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
				got, err := p.Model.Signal(ctx, s)
				got.Final = false
				return got, err
			}
		}},
		{"an edit ends a wait", "AnEditLeavesATaskWaiting",
			acted(task.KindEdited, func(p *planted, id task.ID) {
				delete(p.waiting.waits, id)
			})},
		{"an edit leaves the wait where it was", "AnEditLeavesATaskWaiting",
			acted(task.KindEdited, func(p *planted, id task.ID) {
				if w := p.waiting.waits[id]; w != nil {
					w.seq--
				}
			})},
		{"a woken task has no head start", "AnEditLeavesATaskWaiting",
			woken(func(_ *recorded, sp *store.Span) { sp.Rank = sp.Due })},
		{"a woken task is due at once", "AnEditLeavesATaskWaiting",
			woken(func(s *recorded, sp *store.Span) { s.Due, sp.Due = 0, 1 })},
		{"nobody is told what woke a task", "ASignalWakesItsTaskOnce",
			woken(func(_ *recorded, sp *store.Span) { sp.Linked = 0 })},
		{"waking is charged", "ASignalWakesItsTaskOnce",
			woken(func(s *recorded, _ *store.Span) { s.Attempt = 1 })},
		{"who moves forgets what woke it", "WhatWokeATaskIsToldUntilItGoesOn", func(p *planted) {
			p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
				got, err := p.Model.Act(ctx, list)
				for _, a := range list {
					if f := p.fact(a.ID); f != nil && p.owner(f) != nil {
						p.owner(f).Linked = 0
					}
				}
				return got, err
			}
		}},
		{"a look ends more than it may", "LooksAreBounded", func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				r.Limit *= 2
				return p.Model.Look(ctx, r)
			}
		}},
		{"a look says nothing of what is left", "LooksAreBounded", func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				got, err := p.Model.Look(ctx, r)
				got.More = false
				return got, err
			}
		}},
	}
}

// last is the seq of the task's newest step.
func (f *fact) last() int32 {
	seq, _ := f.newest()
	return seq
}
