package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// fakeBoss is the fake queue's part about jobs: what the worker is to run, said as differences to
// what its beat says that it runs.
type fakeBoss struct {
	assigned []task.Assignment
	version  int
	met      string        // the incarnation that was told everything once
	deaf     bool          // orders are lost on their way
	impolite bool          // it answers polls at once
	newer    error         // answers beats
	silence  time.Duration // of its groups, as answers tell it; 0 = they don't
	signs    bool          // it wants beats to tell of signs
	// it takes lines only of jobs that the last beat names, and after a while
	strict  bool
	jobLogs map[string][]task.LogLine
}

// assign says what the worker is to run from now on.
func (q *fakeQueue) assign(list ...task.Assignment) {
	q.set(func() { q.assigned, q.version = list, q.version+1 })
}

// orders is what the answer to a beat says about jobs. mu is held.
func (q *fakeQueue) orders(b task.Beat) (o task.Orders) {
	defer func() { o.Silence, o.Signs = q.silence, q.signs }()
	if len(b.Groups) == 0 || q.deaf {
		return o
	}
	named := func(a task.Assignment) bool {
		return slices.ContainsFunc(b.Jobs, func(r task.Run) bool {
			return r.Group == a.Group && r.Job == a.Job && r.Token == a.Token.String()
		})
	}
	if q.met != b.Incarnation {
		q.met = b.Incarnation
		return task.Orders{Reset: true, Add: q.assigned}
	}
	for _, a := range q.assigned {
		if !named(a) {
			o.Add = append(o.Add, a)
		}
	}
	for _, r := range b.Jobs {
		if !slices.ContainsFunc(q.assigned, func(a task.Assignment) bool {
			return a.Job == r.Job && a.Token.String() == r.Token
		}) {
			o.End = append(o.End, r)
		}
	}
	return o
}

// linger waits as a poll does.
func (q *fakeQueue) linger(ctx context.Context, b task.Beat) {
	end := time.NewTimer(b.Wait)
	defer end.Stop()
	for {
		q.mu.Lock()
		woken, same := q.woken, strconv.Itoa(q.version) == b.Version
		if q.impolite {
			same = false
		}
		q.mu.Unlock()
		if !same {
			return
		}
		select {
		case <-woken:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (q *fakeQueue) AppendJobLog(_ context.Context, group, job string, lines []task.LogLine) error {
	if q.strict {
		time.Sleep(50 * time.Millisecond)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.logDown != nil {
		return q.logDown
	}
	if q.strict && !slices.ContainsFunc(q.beats[len(q.beats)-1].Jobs, func(r task.Run) bool {
		return r.Group == group && r.Job == job
	}) {
		return errDown
	}
	if q.jobLogs == nil {
		q.jobLogs = map[string][]task.LogLine{}
	}
	q.jobLogs[group+"/"+job] = append(q.jobLogs[group+"/"+job], lines...)
	return nil
}

func (q *fakeQueue) jobLog(group, job string) (texts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.jobLogs[group+"/"+job] {
		texts = append(texts, l.Stream+": "+l.Text)
	}
	return texts
}

// runs is what the last beat says of jobs, as JOB#NUMBER STATE.
func (q *fakeQueue) runs() (list []string) {
	for _, r := range q.lastBeat().Jobs {
		token, _ := task.ParseJobToken(r.Token)
		list = append(list, fmt.Sprintf("%s#%d %s", r.Job, token.Number, r.State))
	}
	return list
}

// post is an assignment of group g with load 1.
func post(job string, number int64) task.Assignment { return heavy(job, number, task.Unit) }

func heavy(job string, number int64, load task.Units) task.Assignment {
	return task.Assignment{
		Group: "g", Job: job, Token: task.JobToken{Number: number, Seal: 7}, Load: load,
	}
}

// stage is where jobs play: it records who comes and goes, and that what must never happen did not.
type stage struct {
	t        *testing.T
	capacity task.Units

	mu     sync.Mutex
	events []string
	live   map[string]int
	load   task.Units
}

func newStage(t *testing.T, capacity int) *stage {
	return &stage{t: t, capacity: task.Units(capacity) * task.Unit, live: map[string]int{}}
}

func (s *stage) enter(name string, load task.Units) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[name]++
	s.load += load
	if s.live[name] > 1 && name != "task" {
		s.t.Errorf("%s runs %d times at once", name, s.live[name])
	}
	if s.load > s.capacity {
		s.t.Errorf("with %s the load is %v of %v", name, s.load.Float(), s.capacity.Float())
	}
	s.events = append(s.events, "+"+name)
}

func (s *stage) leave(name string, load task.Units, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[name]--
	s.load -= load
	s.events = append(s.events, fmt.Sprintf("-%s: %v", name, why))
}

// play is a job that runs until its context ends.
func (s *stage) play(ctx context.Context, a task.Assignment) error {
	s.enter(a.Job, a.Load)
	<-ctx.Done()
	s.leave(a.Job, a.Load, context.Cause(ctx))
	return ctx.Err()
}

// slow is a job that takes d to end.
func (s *stage) slow(d time.Duration) JobHandler {
	return func(ctx context.Context, a task.Assignment) error {
		s.enter(a.Job, a.Load)
		<-ctx.Done()
		time.Sleep(d)
		s.leave(a.Job, a.Load, context.Cause(ctx))
		return nil
	}
}

// new are the events since the last time.
func (s *stage) new() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.events
	s.events = nil
	return e
}

// sorted is new, for what happens at the same moment.
func (s *stage) sorted() []string {
	e := s.new()
	slices.Sort(e)
	return e
}

func jobs(h JobHandler) func(*Worker) { return func(w *Worker) { w.HandleJob("g", h) } }

// same fails the test unless got is want.
func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
