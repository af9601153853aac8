package storetest

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// queueClaims is what holds for configurations.
func queueClaims() []claim {
	return []claim{
		{"EveryFieldOfAQueueComesBack", func(s *scene) {
			q := task.Queue{
				Name: "mine", Timeout: 1, Silence: 2 * time.Second, MaxAttempts: 3,
				Retry: task.Backoff{
					Initial: 4 * time.Millisecond, Max: 5 * time.Hour, Factor: 1.1, Jitter: 0.3,
				},
				HoldLimit: 6, PollInterval: 7, ContextLimit: 8, Retention: 9,
				DeadKept: limits.MaxDuration, Paused: true, FinalQueue: "dead",
				Title: "订单邮件 \"☃\"", Owner: "ana@example.com",
			}
			for i, want := range []bool{true, false} {
				changed, err := s.ChangeQueue(s.ctx, q.Name, store.Whole(q))
				s.ok(err)
				s.want(fmt.Sprintf("created by change %d", i+1), changed.Created, want)
				got, err := s.Queues(s.ctx)
				s.ok(err)
				s.want("queues", got, []task.Queue{q})
				q = task.Queue{Name: "mine"} // every field replaced
			}
		}},
		{"QueuesAreListedByName", func(s *scene) {
			for _, name := range []string{"b", "a.b", "a-b", "a", "10", "9"} {
				_, err := s.ChangeQueue(s.ctx, name, store.Whole(limits.DefaultQueue(name)))
				s.ok(err)
			}
			got, err := s.Queues(s.ctx)
			s.ok(err)
			var names []string
			for _, q := range got {
				names = append(names, q.Name)
			}
			s.want("names", names, []string{"10", "9", "a", "a-b", "a.b", "b"})
		}},
		{"QueueWithUnfinishedTasksIsDeletedByForceOnly", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 3)
			b.Tasks[0].Key, b.Tasks[0].KeyUntil = "k", b.Due+1e9
			s.submit(h, b, s.batch("r", 1))
			o := s.takeOne(h)
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			s.wantErr("delete of a queue with unfinished tasks", s.DeleteQueue(s.ctx, "q", false),
				store.ErrConflict)
			s.want("counts", s.counts(), task.Counts{Ready: 2, Done: 1})
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			got, err := s.Queues(s.ctx)
			s.ok(err)
			s.want("queues", got, []task.Queue{limits.DefaultQueue("r")})
			page, _, err := s.Tasks(s.ctx, store.Filter{}, task.ID{}, 10)
			s.ok(err)
			s.want("tasks left", len(page), 1)
			s.want("late report", s.settle(o.Report(s.clock, task.Finish(nil))),
				[]task.Status{task.Unknown})
			held, err := s.Held(s.ctx, h, nil)
			s.ok(err)
			s.want("spans held", len(held), 0)
			again := s.batch("q", 1)
			again.Tasks[0].Key, again.Tasks[0].KeyUntil = "k", b.Due+1e9
			s.want("existing keys", len(s.submit(h, again).Existing), 0)
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			s.changed(task.KindCancelled, task.ID{Batch: again.ID})
			s.ok(s.DeleteQueue(s.ctx, "q", false))
			s.wantErr("delete of no queue", s.DeleteQueue(s.ctx, "q", false), store.ErrNotFound)
		}},
	}
}
