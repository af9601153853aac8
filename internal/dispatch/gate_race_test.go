package dispatch

import (
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// What a hold reads while it does not have the lock is not what a change of its queue writes, nor
// what becomes of a task that was held back. The race detector looks for it.
func TestAQueueIsChangedWhileItsHandOutsBegin(t *testing.T) {
	const tasks = 200
	h := open(t, model.New(time.Now))
	defer h.close()
	h.limit(4, task.Rate{}, 0)
	h.many(tasks)
	over := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			_, err := h.d.ChangeQueue(h.ctx, "q", func(q *task.Queue, _ bool) error {
				q.MaxRunning = 4 + n%2
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for done := 0; done < tasks; {
		got := h.holdFor("w", 4, time.Second)
		h.done("w", got...)
		done += len(got)
	}
	close(over)
	changing.Wait()
}
