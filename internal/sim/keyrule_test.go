package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// In worlds with limits people pause group keys for some seconds, resume them and weigh them, and
// some reports hold the keys of their tasks, whatever their queue. The ledger watches that nothing
// of a paused key of the queue with limits begins, whichever node is asked.

// ruleKey says something of a key.
func (s *person) ruleKey() {
	c := store.KeyChange{
		Queue: queues[s.keys.IntN(len(queues))], Key: groupKeys[1+s.keys.IntN(2)],
	}
	switch s.keys.IntN(4) {
	case 0, 1:
		c.Pause = time.Duration(1+s.keys.IntN(12)) * time.Second
	case 2:
		c.Resume = true
	default:
		c.Weight = new(s.keys.IntN(3))
	}
	through(s.door.from.ctx, s.door, 0, call[store.Changed[store.KeyRule]]{
		text: fmt.Sprintf("rule of key %s of %s: pause %v, resume %v", c.Key, c.Queue, c.Pause,
			c.Resume),
		patience: 5 * time.Second,
		told: func(got store.Changed[store.KeyRule]) string {
			return fmt.Sprint(got.Is.Paused, got.Is.Weight, got.Unheard)
		},
		came: func(store.Changed[store.KeyRule]) {},
	}, func(ctx context.Context, n *peer) (store.Changed[store.KeyRule], error) {
		return n.ChangeKey(ctx, c)
	})
}

// holdsKey lets some retries hold the keys of their tasks, by a number that hangs on the hand-out.
func (w *world) holdsKey(s *script, number uint64) {
	if w.gates() && s.outcome.Kind == task.KindRetry && number%2 == 0 {
		s.outcome.HoldKey = time.Duration(1+number/2%8) * time.Second
	}
}

func (d *storeDoor) ChangeKey(ctx context.Context, c store.KeyChange) (store.KeyRule, error) {
	return ask(ctx, d, fmt.Sprintf("change key %s of %s", c.Key, c.Queue), false, nil,
		func(ctx context.Context) (store.KeyRule, error) {
			rule, err := d.Store.ChangeKey(ctx, c)
			if err == nil {
				d.world.ledger.paused[c.Queue+"/"+c.Key] = rule.Paused
			}
			return rule, err
		}, func(r store.KeyRule) string { return fmt.Sprint(r.Paused, r.Weight) })
}

func (d *storeDoor) Keys(ctx context.Context, queue string) (store.KeyUses, error) {
	return ask(ctx, d, "keys of "+queue, false, nil,
		func(ctx context.Context) (store.KeyUses, error) { return d.Store.Keys(ctx, queue) }, nil)
}

// holding notes which keys the recorded reports of a settlement hold.
func (l *ledger) holding(s store.Settlement, got store.Settled) {
	for i, v := range got.Verdicts {
		r := &s.Reports[i]
		if v != task.Recorded || r.HoldKey == 0 {
			continue
		}
		if key := l.keyOf(r.ID); key != "" {
			at := r.Queue + "/" + key
			l.paused[at] = max(l.paused[at], got.Now+r.HoldKey.Microseconds())
			l.world.sometimes("a report held the key of its task")
		}
	}
}

// beganUnpaused looks whether a task that has just begun was of a paused key. In a queue that goes
// by keys for the sake of the pause alone, it holds when each node has heard of that.
func (l *ledger) beganUnpaused(id task.ID, now int64) {
	if !l.gate.ByKeys() {
		return
	}
	key := l.keyOf(id)
	if until := l.paused[gated+"/"+key]; key != "" && until > now {
		l.world.breach("gate: %v began, its key %q is paused for %dµs", id, key, until-now)
	}
}

// keyRuleBugs are wrong programs about what is said of single keys.
func keyRuleBugs() []bug {
	return []bug{
		{name: "hand-outs of paused keys begin", mode: safety, store: func(p *planted) {
			p.begin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				for i := range r.Rows {
					if r.Rows[i].Key == "" {
						continue
					}
					if _, err := p.Model.ChangeKey(ctx, store.KeyChange{
						Queue: r.Rows[i].Queue, Key: r.Rows[i].Key, Resume: true,
					}); err != nil {
						return store.Begun{}, err
					}
				}
				return p.Model.Begin(ctx, r)
			}
		}},
		{name: "what a report holds goes on", mode: safety, store: func(p *planted) {
			p.settle = func(
				ctx context.Context, s store.Settlement,
			) (store.Settled, error) {
				before := s.Reports
				s.Reports = append([]store.Report(nil), before...)
				for i := range s.Reports {
					s.Reports[i].HoldKey = 0
				}
				return p.Model.Settle(ctx, s)
			}
		}},
	}
}
