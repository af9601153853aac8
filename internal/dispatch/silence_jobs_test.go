package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// noJobs orders nothing, and notes who fell silent.
type noJobs struct {
	mu      sync.Mutex
	away    []string
	silence time.Duration // 0 = the default
}

func (j *noJobs) Patience(string) (silence, beat time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	silence = cmp.Or(j.silence, limits.DefaultSilence)
	return silence, silence / 3
}

func (j *noJobs) setSilence(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.silence = d
}

func (j *noJobs) silent() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.away)
}

func (*noJobs) Hear(*task.Beat) {}

func (*noJobs) Orders(context.Context, *task.Beat) (task.Orders, error) {
	return task.Orders{}, nil
}

func (j *noJobs) Away(worker string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.away = append(j.away, worker)
}

func TestWorkerIsSilentAsItsGroupsSay(t *testing.T) {
	for _, limit := range []time.Duration{6 * time.Second, 40 * time.Second} {
		jobs := &noJobs{silence: limit}
		bubble(t, func(t *testing.T, h *house) {
			answer, err := h.d.Beat(h.ctx,
				task.Beat{Worker: "a", Incarnation: "1", Capacity: 1, Groups: []string{"g"}})
			if want := min(limit/3, 5*time.Second); err != nil || answer.Beat != want {
				t.Errorf("limit %v: next beat within %v, want %v; %v", limit, answer.Beat, want, err)
			}
			time.Sleep(limit - time.Second)
			if len(jobs.silent()) != 0 {
				t.Errorf("limit %v: away a second early", limit)
			}
			time.Sleep(3 * time.Second)
			if len(jobs.silent()) != 1 {
				t.Errorf("limit %v: away %v", limit, jobs.silent())
			}
		}, func(c *Config) { c.Jobs = jobs })
	}
}

func TestSilentWorkerRunsNoJobs(t *testing.T) {
	jobs := &noJobs{}
	bubble(t, func(t *testing.T, h *house) {
		runs := []task.Run{{Group: "g", Job: "j", State: task.JobRunning}}
		if _, err := h.d.Beat(h.ctx,
			task.Beat{Worker: "a", Incarnation: "1", Capacity: 1, Groups: []string{"g"},
				Jobs: runs}); err != nil {
			t.Fatal(err)
		}
		running := func() int {
			list, err := h.d.Workers(h.ctx)
			if err != nil || len(list) != 1 {
				t.Fatalf("workers %+v, %v", list, err)
			}
			return list[0].Jobs
		}
		if n := running(); n != 1 {
			t.Errorf("%d jobs run at a worker that says 1", n)
		}
		time.Sleep(limits.DefaultSilence + 2*time.Second)
		if n := running(); n != 0 || len(jobs.silent()) != 1 {
			t.Errorf("%d jobs run at a worker that stopped them itself; away: %v", n, jobs.silent())
		}
	}, func(c *Config) { c.Jobs = jobs })
}
