package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// In some worlds with a queue that has limits it gets them while its tasks run. From the answer on
// that says that every node goes by them, nothing of the queue leaves a node without a row, and
// what left one before has its row, so that it counts.

// late tells whether the queue with limits gets them late.
func (w *world) late() bool { return w.gates() && w.luckOf("late").IntN(3) == 0 }

// lateLimits are what the queue gets. Its keys don't go in order: who began before has no place in
// that.
func (w *world) lateLimits() (q task.Queue) {
	luck := w.luckOf("gate")
	q.MaxRunning = 1 + luck.IntN(3)
	if luck.IntN(2) == 0 {
		q.Rate = task.Rate{Count: 2 + luck.Int64N(3), Per: time.Second}
	}
	q.Fair = luck.IntN(2) == 0
	if w.luckOf("late keys").IntN(2) == 1 {
		q.PerKey.MaxRunning = 2
	}
	return q
}

// limitLate gives the queue its limits, and goes on until every node goes by them.
func (s *person) limitLate() {
	const tries = 20
	conf := s.world.lateLimits()
	if !s.rest(20*time.Second, func() {}) {
		return
	}
	for range tries {
		all := false
		through(s.door.from.ctx, s.door, 0, call[store.Changed[task.Queue]]{
			text: "limit " + gated, patience: 15 * time.Second,
			told: func(got store.Changed[task.Queue]) string {
				return fmt.Sprint(got.Is.MaxRunning, got.Unheard)
			},
			came: func(got store.Changed[task.Queue]) {
				if len(got.Unheard) > 0 {
					s.world.sometimes("a node did not follow a limit in time")
					return
				}
				all = true
				s.world.ledger.followed(conf)
			},
		}, func(ctx context.Context, n *peer) (store.Changed[task.Queue], error) {
			return n.ChangeQueue(ctx, gated, func(q *task.Queue, _ bool) error {
				q.MaxRunning, q.Rate, q.Fair = conf.MaxRunning, conf.Rate, conf.Fair
				q.PerKey = conf.PerKey
				return nil
			})
		})
		if all || !s.rest(5*time.Second, func() {}) {
			return
		}
	}
}

// followed learns that every node goes by the limits of the queue. What has left a node that lives,
// and is not over, is written down.
func (l *ledger) followed(conf task.Queue) {
	l.gate, l.earlier = conf, l.rows()
	for _, t := range l.order {
		if t.final != "" || len(t.gave) == 0 || t.wish == nil || t.wish.sub.Queue != gated {
			continue
		}
		g := t.gave[len(t.gave)-1]
		s := l.stood(t.id)
		if !s.Found || s.Final || s.Seq != g.token.Seq || s.Owner.ID != g.token.Span ||
			s.Owner.Token != g.token.SpanToken || !l.lives(s.Owner.Holder) || g.node.dead() {
			continue
		}
		l.world.sometimes("a limit was set while a task ran")
		if s.Running == nil {
			l.world.breach("gate: %v runs since %v gave it to %v, and is not written down", t.id,
				g.node, g.worker)
		}
	}
}
