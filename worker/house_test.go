package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// house is a node that works alone on the reference model, with the group g, whose jobs are j0, j1,
// …, and workers that really run them.
type house struct {
	*nodetest.House[*nodetest.Jobs]

	mu   sync.Mutex
	live map[string][]string // workers that run a job
	// that may run one at a time: when it moves, its successor begins before it ends
	twins int
	calls int
	crew  []*hired
}

// inHouse runs a story in a bubble, in which so many jobs move at a time.
func inHouse(t *testing.T, jobs, moves int, story func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conf := nodetest.WithJobs(nil)
		conf.Alone = true
		h := &house{
			House: nodetest.New(t, conf), live: map[string][]string{}, twins: 1 + min(moves, 1),
		}
		h.Stand = func() string { return fmt.Sprintf("jobs run so: %v", h.spread()) }
		defer h.Close()
		group := limits.DefaultGroup("g")
		group.Policy.Moves = moves
		_, err := h.Store.ChangeGroup(t.Context(), group.Name, store.Whole(group))
		h.Must(err)
		h.jobs(jobs)
		h.StartOne("n")
		story(h)
	})
}

// Close ends all workers, and then the node.
func (h *house) Close() {
	for _, p := range h.crew {
		p.stop()
	}
	for _, p := range h.crew {
		<-p.ended
	}
	h.House.Close()
}

// tasks is the node's dispatcher.
func (h *house) tasks() *dispatch.Dispatcher { return h.Node("n").Tasks }

// jobs makes the group's jobs be j0, j1, …
func (h *house) jobs(n int) {
	list := make([]task.Job, n)
	for i := range list {
		list[i] = task.Job{Name: fmt.Sprint("j", i), Load: task.Unit}
	}
	_, err := h.Store.ChangeJobs(h.T.Context(), store.JobChange{Group: "g", Whole: true, Put: list})
	h.Must(err)
}

// line is a worker's way to the node, which may be cut.
type line struct {
	*dispatch.Dispatcher
	mu   sync.Mutex
	away bool
}

func (l *line) Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	if l.isAway() {
		<-ctx.Done()
		return task.BeatAnswer{}, context.Cause(ctx)
	}
	answer, err := l.Dispatcher.Beat(ctx, b)
	if l.isAway() { // the answer is lost
		<-ctx.Done()
		return task.BeatAnswer{}, context.Cause(ctx)
	}
	return answer, err
}

func (l *line) isAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away
}

// cut lets no beat through until restore.
func (l *line) cut() { l.set(true) }

func (l *line) restore() { l.set(false) }

func (l *line) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// hired is a worker of the house.
type hired struct {
	*worker.Worker
	line  *line
	stop  context.CancelFunc
	ended chan struct{} // closed when Run has answered err
	err   error
}

// end stops a worker, and fails the test unless it ends well.
func (p *hired) end(t *testing.T) {
	t.Helper()
	p.stop()
	if <-p.ended; p.err != nil {
		t.Error(p.err)
	}
}

// hire starts a worker, which ends with the story at latest. Besides the jobs it does what more
// says.
func (h *house) hire(name string, capacity int, more ...func(*worker.Worker)) *hired {
	h.T.Helper()
	l := &line{Dispatcher: h.tasks()}
	w, err := worker.New(worker.Config{Queue: l, Name: name, Capacity: capacity})
	h.Must(err)
	w.HandleJob("g", func(ctx context.Context, a task.Assignment) error {
		return h.play(ctx, a, name)
	})
	for _, f := range more {
		f(w)
	}
	ctx, stop := context.WithCancel(h.T.Context())
	p := &hired{Worker: w, line: l, stop: stop, ended: make(chan struct{})}
	h.crew = append(h.crew, p)
	go func() {
		defer close(p.ended)
		p.err = w.Run(ctx)
	}()
	return p
}

// play is a job. It must never run twice at the same time, but while it moves.
func (h *house) play(ctx context.Context, a task.Assignment, where string) error {
	h.mu.Lock()
	if others := h.live[a.Job]; len(others) >= h.twins || slices.Contains(others, where) {
		h.T.Errorf("%s begins on %s while it runs on %s", a.Job, where, others)
	}
	h.live[a.Job] = append(h.live[a.Job], where)
	h.calls++
	h.mu.Unlock()
	<-ctx.Done()
	time.Sleep(time.Duration(a.Token.Number%5) * 100 * time.Millisecond) // it takes a while to end
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[a.Job] = slices.DeleteFunc(h.live[a.Job], func(w string) bool { return w == where })
	return ctx.Err()
}

// spread is how many jobs each worker runs.
func (h *house) spread() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[string]int{}
	for _, workers := range h.live {
		for _, w := range workers {
			counts[w]++
		}
	}
	return counts
}

func TestWorkersOfANodeShareItsJobsAndTakeOverFromEachOther(t *testing.T) {
	inHouse(t, 8, 10, func(h *house) {
		a, b := h.hire("a", 8), h.hire("b", 8)
		even := func() bool { s := h.spread(); return s["a"] == 4 && s["b"] == 4 }
		h.Await(10*time.Second, "four each", even)
		calls := h.calls
		time.Sleep(time.Minute)
		if h.calls != calls {
			t.Errorf("%d calls in a quiet minute", h.calls-calls)
		}

		a.end(t)
		h.Await(3*time.Second, "b took over from a that stopped", func() bool {
			return h.spread()["b"] == 8
		})
		h.hire("a", 8)
		h.Await(time.Minute, "four each again", even)

		b.line.cut()
		h.Await(13*time.Second, "b has stopped by itself", func() bool {
			return h.spread()["b"] == 0
		})
		h.Await(7*time.Second, "a took over from b that is cut off", func() bool {
			return h.spread()["a"] == 8
		})
		b.line.restore()
		h.Await(time.Minute, "b has its share again", even)
	})
}

func TestJobsThatComeAndGoAreBegunAndEndedWithinABeat(t *testing.T) {
	inHouse(t, 0, 0, func(h *house) {
		h.hire("a", 8)
		time.Sleep(20 * time.Second) // the warm-up without a known worker
		for _, n := range []int{3, 4, 1, 0, 2} {
			h.jobs(n)
			h.Await(2500*time.Millisecond, fmt.Sprintf("%d jobs run", n), func() bool {
				return h.spread()["a"] == n
			})
		}
	})
}

func TestJobsAreGivenRoomByTasks(t *testing.T) {
	inHouse(t, 3, 0, func(h *house) {
		var mu sync.Mutex
		tasks := 0
		handle := func(context.Context, task.Handout) task.Outcome {
			mu.Lock()
			tasks++
			if n := tasks + h.spread()["a"]; n > 4 {
				t.Errorf("%d units at once", n)
			}
			mu.Unlock()
			time.Sleep(5 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			tasks--
			return task.Finish(nil)
		}
		list := make([]task.Submission, 40)
		for i := range list {
			list[i].Queue = "q"
		}
		receipts, err := h.tasks().Submit(h.T.Context(), list)
		h.Must(err)
		h.hire("a", 4, func(w *worker.Worker) { w.Handle("q", handle) })
		h.Await(30*time.Second, "all jobs run", func() bool { return h.spread()["a"] == 3 })
		h.Await(5*time.Minute, "the tasks are done one by one", func() bool {
			v, err := h.tasks().Task(h.T.Context(), receipts[39].ID, 0)
			return err == nil && v.State == task.Done
		})
	})
}

func TestStoppingWorkerHandsItsJobsOverWhileItsTasksStillRun(t *testing.T) {
	inHouse(t, 4, 0, func(h *house) {
		first := h.hire("a", 8, func(w *worker.Worker) {
			w.Handle("q", func(ctx context.Context, _ task.Handout) task.Outcome {
				<-ctx.Done()
				return task.Retry(ctx.Err())
			})
		})
		h.Await(30*time.Second, "all jobs run", func() bool { return h.spread()["a"] == 4 })
		_, err := h.tasks().Submit(h.T.Context(), []task.Submission{{Queue: "q"}})
		h.Must(err)
		h.hire("b", 8)
		time.Sleep(time.Second)
		first.stop()
		h.Await(5*time.Second, "b runs them", func() bool { return h.spread()["b"] == 4 })
		select {
		case <-first.ended:
			t.Error("its task has not had its grace")
		default:
		}
	})
}

func TestNewerWorkerOfTheSameNameEndsTheOlder(t *testing.T) {
	inHouse(t, 0, 0, func(h *house) {
		older := h.hire("a", 8)
		time.Sleep(10 * time.Second)
		newer := h.hire("a", 8)
		time.Sleep(5 * time.Second)
		select {
		case <-older.ended:
			if !errors.Is(older.err, worker.ErrSuperseded) {
				t.Errorf("it ended with %v", older.err)
			}
		default:
			t.Error("the older one goes on")
		}
		h.jobs(2)
		h.Await(20*time.Second, "the newer one runs the jobs", func() bool {
			return h.spread()["a"] == 2
		})
		newer.end(t)
	})
}

// Workers come, stop, and are cut off and found again, at random. At no moment a job may run twice;
// in the end all must run.
func TestJobNeverRunsTwiceWhateverHappensToItsWorkers(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inHouse(t, 12, 0, func(h *house) {
				luck := rand.New(rand.NewPCG(seed, 0))
				crew := []*hired{h.hire("w0", 12)}
				for i := range 60 {
					time.Sleep(time.Duration(luck.IntN(10_000)) * time.Millisecond)
					p := crew[luck.IntN(len(crew))]
					switch n := luck.IntN(10); {
					case n < 3 && len(crew) < 5:
						crew = append(crew, h.hire(fmt.Sprint("w", i+1), 4+luck.IntN(9)))
					case n < 5:
						p.line.cut()
					case n < 8:
						p.line.restore()
					case n < 9 && len(crew) > 1:
						p.stop()
					default:
						h.jobs(8 + luck.IntN(5))
					}
				}
				for _, p := range crew {
					p.line.restore()
				}
				h.jobs(12)
				h.hire("last", 12)
				h.Await(2*time.Minute, "all jobs run", func() bool {
					sum := 0
					for _, n := range h.spread() {
						sum += n
					}
					return sum == 12
				})
			})
		})
	}
}
