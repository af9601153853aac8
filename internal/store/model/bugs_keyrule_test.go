package model

import (
	"context"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// withRules calls do while other things are said of keys.
func (p *planted) withRules(change func(map[key]store.KeyRule), do func()) {
	before := maps.Clone(p.keyRules)
	change(p.keyRules)
	do()
	p.keyRules = before
}

// unpaused takes all pauses back.
func unpaused(rules map[key]store.KeyRule) {
	for at, r := range rules {
		r.Paused = 0
		rules[at] = r
	}
}

// settled tells whether an outcome stands at a seq.
func (p *planted) settled(f *fact, seq int32) bool {
	_, over := f.steps[seq]
	return over
}

func (p *planted) micros() int64 { return p.Model.now().UnixMicro() }

// keyRuleBugs are wrong programs about what is said of single keys.
func keyRuleBugs() []bug {
	ruleAs := func(change func(*store.KeyChange)) func(*planted) {
		return func(p *planted) {
			p.changeKey = func(ctx context.Context, c store.KeyChange) (store.KeyRule, error) {
				change(&c)
				return p.Model.ChangeKey(ctx, c)
			}
		}
	}
	holdAs := func(change func(*planted, *store.Report)) func(*planted) {
		return func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				s.Reports = slices.Clone(s.Reports)
				for i := range s.Reports {
					if s.Reports[i].HoldKey > 0 {
						change(p, &s.Reports[i])
					}
				}
				return p.Model.Settle(ctx, s)
			}
		}
	}
	return []bug{
		{"hand-outs of paused keys begin", "NothingOfAPausedKeyBegins", func(p *planted) {
			p.letBegin = func(
				ctx context.Context, r store.BeginRequest,
			) (answer store.Begun, err error) {
				p.withRules(unpaused, func() { answer, err = p.Model.Begin(ctx, r) })
				return answer, err
			}
		}},
		{"takes do not know of pauses", "TakesPassPausedKeysOver", func(p *planted) {
			p.take = func(
				ctx context.Context, r store.TakeRequest,
			) (answer store.Taken, err error) {
				p.withRules(unpaused, func() { answer, err = p.Model.Take(ctx, r) })
				return answer, err
			}
		}},
		{"a pause is for good", "NothingOfAPausedKeyBegins", ruleAs(func(c *store.KeyChange) {
			if c.Pause > 0 {
				c.Pause = store.Forever
			}
		})},
		{"nobody resumes a key", "APausedKeyIsResumed", ruleAs(func(c *store.KeyChange) {
			c.Resume = false
		})},
		{"a pause never becomes shorter", "APausedKeyIsResumed", ruleAs(func(c *store.KeyChange) {
			if c.Pause > 0 && c.Pause < store.Forever {
				c.Hold, c.Pause = c.Pause, 0
			}
		})},
		{"turns weigh the same", "AKeyHasATurnOfItsWeight", func(p *planted) {
			p.take = func(
				ctx context.Context, r store.TakeRequest,
			) (answer store.Taken, err error) {
				p.withRules(func(rules map[key]store.KeyRule) {
					for at, r := range rules {
						r.Weight = 0
						rules[at] = r
					}
				}, func() { answer, err = p.Model.Take(ctx, r) })
				return answer, err
			}
		}},
		{"reports hold nothing", "AReportHoldsItsKey",
			holdAs(func(_ *planted, r *store.Report) { r.HoldKey = 0 })},
		{"stale reports hold their keys", "AReportHoldsItsKey",
			holdAs(func(p *planted, r *store.Report) {
				f := p.fact(r.ID)
				if f == nil {
					return
				}
				if _, over := f.steps[r.Token.Seq]; !over && !p.good(r.ID, r.Token) {
					p.holdKey(f, r.HoldKey, p.micros())
				}
			})},
		{"repeated reports hold their keys again", "AReportHoldsItsKey",
			holdAs(func(p *planted, r *store.Report) {
				f := p.fact(r.ID)
				if f == nil {
					return
				}
				if old, over := f.steps[r.Token.Seq]; over && old.token == r.Token.SpanToken {
					p.holdKey(f, r.HoldKey, p.micros())
				}
			})},
		{"a report holds the key of before", "AHeldKeyIsTheOneThatWasEdited",
			holdAs(func(p *planted, r *store.Report) {
				f := p.fact(r.ID)
				if f == nil || !p.good(r.ID, r.Token) || p.settled(f, r.Token.Seq) {
					return
				}
				name := f.Task.GroupKey
				if _, ok := p.queues[f.batch.Queue]; ok && name != f.override().GroupKey {
					rule := p.keyRules[key{f.batch.Queue, name}]
					rule.Queue, rule.Key = f.batch.Queue, name
					rule.Paused = max(rule.Paused, p.micros()+r.HoldKey.Microseconds())
					p.setKeyRule(rule, p.micros())
					r.HoldKey = 0
				}
			})},
		{"rules outlive their queue", "RulesGoWithTheirQueue", func(p *planted) {
			p.deleteQ = func(ctx context.Context, name string, force bool) error {
				before := maps.Clone(p.keyRules)
				err := p.Model.DeleteQueue(ctx, name, force)
				p.keyRules = before
				return err
			}
		}},
		{"a queue is not told that its keys have rules", "AQueueWithoutLimitsMayHavePausedKeys",
			func(p *planted) {
				p.changeKey = func(
					ctx context.Context, c store.KeyChange,
				) (store.KeyRule, error) {
					before, stood := p.queues[c.Queue]
					rule, err := p.Model.ChangeKey(ctx, c)
					if q := p.queues[c.Queue]; stood && q.KeyRules && !before.KeyRules {
						q.KeyRules = false
						p.queues[c.Queue] = q
					}
					return rule, err
				}
			}},
		{"running tasks count as ready", "KeysTellOfTheirWork", func(p *planted) {
			p.keysOf = func(ctx context.Context, queue string) (store.KeyUses, error) {
				uses, err := p.Model.Keys(ctx, queue)
				for i := range uses.Keys {
					u := &uses.Keys[i]
					u.Ready, u.Running = u.Ready+u.Running, 0
				}
				return uses, err
			}
		}},
	}
}
