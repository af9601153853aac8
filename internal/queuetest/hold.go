package queuetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func (s *suite) holdIsWoken() {
	s.alive(worker)
	type result struct {
		answer task.HoldAnswer
		err    error
	}
	came := make(chan result, 1)
	go func() {
		a, err := s.House.Hold(s.ctx, task.HoldRequest{
			Worker: worker, Queues: []string{queue}, Limit: 10, Wait: limits.MaxWait,
		})
		came <- result{a, err}
	}()
	id := s.submit("1")[0]
	select {
	case r := <-came:
		written(r.answer)
		if r.err != nil || len(r.answer.Tasks) != 1 || r.answer.Tasks[0].ID != id {
			s.Errorf("hold answered %+v, %v; want task %v", r.answer.Tasks, r.err, id)
		}
	case <-time.After(patience):
		s.Error("the hold slept through a submission")
	}
}

// waits returns when so many holds wait.
func (s *suite) waits(n int) {
	s.Helper()
	for end := time.Now().Add(patience); s.Waiting(queue) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%d holds wait, want %d", s.Waiting(queue), n)
		}
	}
}

func (s *suite) holdWithNothing() {
	s.alive(worker)
	a, err := s.House.Hold(s.ctx, task.HoldRequest{
		Worker: worker, Queues: []string{queue}, Limit: 1, Wait: 10 * time.Millisecond,
	})
	written(a)
	if err != nil || len(a.Tasks) != 0 {
		s.Errorf("hold answered %+v, %v", a.Tasks, err)
	}
}

func (s *suite) holdEndsWithContext() {
	s.alive(worker)
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		a, err := s.House.Hold(ctx, task.HoldRequest{
			Worker: worker, Queues: []string{queue}, Limit: 1, Wait: limits.MaxWait,
		})
		written(a)
		ended <- err
	}()
	s.waits(1)
	cancel()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("hold answered %v, want context.Canceled or nothing", err)
		}
	case <-time.After(patience):
		s.Fatal("the hold outlived its context")
	}
	// who is far away leaves a moment later; what it is given meanwhile is found by its beats
	s.waits(0)
	id := s.submit("1")[0]
	if h := s.hold(worker, 1)[0]; h.ID != id || h.Attempt != 1 {
		s.Errorf("got %v at attempt %d, want %v at 1", h.ID, h.Attempt, id)
	}
}

func (s *suite) holdKeepsLimit() {
	s.alive(worker)
	ids := s.submit("1", "2", "3")
	other, err := s.House.Hold(s.ctx, task.HoldRequest{
		Worker: worker, Queues: []string{queue + "-other"}, Limit: 10, Wait: 10 * time.Millisecond,
	})
	written(other)
	if err != nil || len(other.Tasks) != 0 {
		s.Errorf("another queue gave %+v, %v", other.Tasks, err)
	}
	a, err := s.House.Hold(s.ctx, task.HoldRequest{
		Worker: worker, Queues: []string{queue}, Limit: 2, Wait: patience,
	})
	written(a)
	if err != nil || len(a.Tasks) == 0 || len(a.Tasks) > 2 {
		s.Fatalf("limit 2 gave %d tasks, %v", len(a.Tasks), err)
	}
	got := append(a.Tasks, s.hold(worker, 3-len(a.Tasks))...)
	slices.SortFunc(got, func(a, b task.Handout) int { return a.ID.Compare(b.ID) })
	for i, h := range got {
		if h.ID != ids[i] {
			s.Errorf("task %d is %v, want %v: each is handed out once", i, h.ID, ids[i])
		}
	}
}

// nasty are values that a careless round trip changes.
var nasty = []string{
	"", `""`, `0`, `9007199254740993`, `1e400`, `-0.0`, `{"b":1, "a":2,"b":3}`,
	"\"\u2028\u2029<>&\"", `"\u2028\ud800\/"`, `[ ]`,
}

func (s *suite) byteForByte() {
	s.alive(worker)
	contexts := append(slices.Clone(nasty), `"`+strings.Repeat("x", 4095)+`"`,
		`"`+strings.Repeat("y", 1<<20)+`"`)
	ids := s.submit(contexts...)
	for _, h := range s.hold(worker, len(ids)) {
		i := slices.Index(ids, h.ID)
		if i < 0 || string(h.Context) != contexts[i] || h.Queue != queue || h.Stage != "first" ||
			h.Attempt != 1 || h.Token == "" {
			s.Errorf("task %d came as %.200v, want context %.60q", i, fmt.Sprintf("%+v", h),
				contexts[max(i, 0)])
			continue
		}
		if left := time.Until(h.Deadline); left < limits.DefaultTimeout-time.Minute ||
			left > limits.DefaultTimeout+time.Minute {
			s.Errorf("the deadline is in %v, want about %v", left, limits.DefaultTimeout)
		}
		s.want(task.Recorded, h, task.Outcome{Kind: task.KindDone, Result: h.Context})
		v := s.view(h.ID)
		if string(v.Context) != contexts[i] || string(v.Result) != contexts[i] ||
			v.State != task.Done {
			s.Errorf("task %d is kept as %s with context %.60q and result %.60q, want %.60q", i,
				v.State, v.Context, v.Result, contexts[i])
		}
	}
}

func (s *suite) metaComes() {
	s.alive(worker)
	metas := []map[string]string{
		{"customer": "7", "wörter": "„é\"\\", "empty": ""}, nil, {"customer": "8"}, nil,
	}
	tasks := make([]task.Submission, len(metas))
	for i := range tasks {
		tasks[i] = task.Submission{Queue: queue, Meta: metas[i]}
	}
	receipts, err := s.Submit(s.ctx, tasks)
	if err != nil {
		s.Fatal(err)
	}
	for _, h := range s.hold(worker, len(tasks)) {
		i := slices.IndexFunc(receipts, func(r task.Receipt) bool { return r.ID == h.ID })
		if i < 0 || !maps.Equal(h.Meta, metas[i]) {
			s.Errorf("task %d came with %q, want %q", i, h.Meta, metas[max(i, 0)])
		}
		s.want(task.Recorded, h, task.Finish(nil))
	}
}

func (s *suite) readySince() {
	s.alive(worker)
	const pause = 50 * time.Millisecond
	const apart = 5 * time.Millisecond // by how much clocks may differ
	earliest := time.Now()
	check := func(what string, o task.Outcome) {
		h := s.hold(worker, 1)[0]
		if h.Ready.Before(earliest.Add(-apart)) || h.Ready.After(time.Now().Add(apart)) {
			s.Errorf("%s was ready at %v, want %v at the earliest", what, h.Ready, earliest)
		}
		earliest = time.Now().Add(o.Delay)
		s.want(task.Recorded, h, o)
	}
	s.submit("1")
	check("the first attempt", task.Outcome{Kind: task.KindRetry, Delay: pause})
	check("the second one", task.Outcome{Kind: task.KindNext, Stage: "b", Delay: pause})
	check("the second stage", task.Outcome{Kind: task.KindSnooze, Delay: pause})
	check("after a snooze", task.Outcome{Kind: task.KindDone})
}
