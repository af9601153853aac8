// Package queuetest is what every queue of a worker must do, as one suite: the dispatcher inside a
// node and a client of a remote server pass the same tests. It knows no store and no clock but the
// real one; it waits for answers, never for time.
package queuetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// House is a queue with its other doors: where tasks come in and can be looked at.
type House interface {
	Hold(context.Context, task.HoldRequest) (task.HoldAnswer, error)
	Report(ctx context.Context, worker string, reports []task.Report) ([]task.Answer, error)
	Beat(context.Context, task.Beat) (task.BeatAnswer, error)
	Log(ctx context.Context, id task.ID, lines []task.LogLine) error

	Submit(context.Context, []task.Submission) ([]task.Receipt, error)
	Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error)
	Cancel(ctx context.Context, id task.ID) error
	Lines(ctx context.Context, id task.ID) ([]task.LogLine, error)
	// DeleteWorker gives the worker's tasks back at once.
	DeleteWorker(ctx context.Context, name string) error
	// Waiting counts the holds that wait for a queue's tasks, where those are handed out.
	Waiting(queue string) int
}

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

// Run tests the houses that open makes. Each test has its own; open arranges its end with
// t.Cleanup.
func Run(t *testing.T, open func(*testing.T) House) {
	for _, c := range []struct {
		claim string
		test  func(*suite)
	}{
		{"HoldIsWokenByASubmission", (*suite).holdIsWoken},
		{"HoldWithNothingToGiveIsNoError", (*suite).holdWithNothing},
		{"HoldEndsWithItsContextAndLosesNothing", (*suite).holdEndsWithContext},
		{"HoldKeepsItsLimitAndItsQueues", (*suite).holdKeepsLimit},
		{"HandOutCarriesTheTaskByteForByte", (*suite).byteForByte},
		{"HandOutCarriesTheMetaOfItsTask", (*suite).metaComes},
		{"HandOutTellsSinceWhenItsTaskMightRun", (*suite).readySince},
		{"ReportIsRecordedRepeatedStaleOrUnknown", (*suite).statuses},
		{"WhatNoTransactionHasCommittedIsTriedAgain", (*suite).uncommitted},
		{"OneBadReportSpoilsNoOther", (*suite).badReport},
		{"NextHandsOutTheFollowingStage", (*suite).stages},
		{"RetryIsChargedSnoozeAndReleaseAreNot", (*suite).attempts},
		{"FailIsDeadAndKeepsItsError", (*suite).fails},
		{"CancelIsSeenAtTheBeatAndMakesTheReportStale", (*suite).cancel},
		{"LostHandOutIsStaleAndGoesOutWithANewToken", (*suite).lost},
		{"LeavingGivesTasksBackAtOnce", (*suite).leaving},
		{"LogKeepsItsLinesInOrder", (*suite).log},
	} {
		t.Run(c.claim, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			c.test(&suite{T: t, House: open(t), ctx: ctx})
		})
	}
}

// suite is one test in one house.
type suite struct {
	*testing.T
	House
	ctx context.Context
}

const (
	queue  = "queuetest"
	worker = "w1"
)

// submit submits a task for each context and returns their ids.
func (s *suite) submit(contexts ...string) []task.ID {
	s.Helper()
	tasks := make([]task.Submission, len(contexts))
	for i, c := range contexts {
		tasks[i] = task.Submission{Queue: queue, Stage: "first"}
		if c != "" {
			tasks[i].Context = json.RawMessage(c)
		}
	}
	receipts, err := s.Submit(s.ctx, tasks)
	if err != nil || len(receipts) != len(tasks) {
		s.Fatalf("submit: %d receipts, %v", len(receipts), err)
	}
	ids := make([]task.ID, len(receipts))
	for i, r := range receipts {
		ids[i] = r.ID
	}
	return ids
}

// alive tells the house about a worker with room for everything here.
func (s *suite) alive(name string, held ...task.Handout) task.BeatAnswer {
	s.Helper()
	b := task.Beat{Worker: name, Incarnation: "1", Capacity: 100, Tasks: []task.Held{}}
	for _, h := range held {
		b.Tasks = append(b.Tasks, task.Held{ID: h.ID, Token: h.Token})
	}
	answer, err := s.Beat(s.ctx, b)
	if err != nil {
		s.Fatalf("beat of %q: %v", name, err)
	}
	return answer
}

// hold takes exactly n tasks for a worker.
func (s *suite) hold(name string, n int) []task.Handout {
	s.Helper()
	var all []task.Handout
	for end := time.Now().Add(patience); len(all) < n && time.Now().Before(end); {
		answer, err := s.House.Hold(s.ctx, task.HoldRequest{
			Worker: name, Queues: []string{queue}, Limit: n - len(all), Wait: 5 * time.Second,
		})
		if err != nil {
			s.Fatalf("hold for %q: %v", name, err)
		}
		written(answer)
		all = append(all, answer.Tasks...)
	}
	if len(all) != n {
		s.Fatalf("hold for %q: got %d tasks, want %d", name, len(all), n)
	}
	return all
}

func written(a task.HoldAnswer) {
	if a.Written != nil {
		a.Written()
	}
}

// report reports one outcome and returns its status.
func (s *suite) report(name string, h task.Handout, o task.Outcome) task.Status {
	s.Helper()
	answers, err := s.Report(s.ctx, name, []task.Report{{ID: h.ID, Token: h.Token, Outcome: o}})
	if err != nil || len(answers) != 1 || answers[0].ID != h.ID {
		s.Fatalf("report %v of %v: %v, %v", o.Kind, h.ID, answers, err)
	}
	return answers[0].Status
}

// want reports one outcome and checks its status.
func (s *suite) want(status task.Status, h task.Handout, o task.Outcome) {
	s.Helper()
	if got := s.report(worker, h, o); got != status {
		s.Errorf("report %v of attempt %d: %s, want %s", o.Kind, h.Attempt, got, status)
	}
}

func (s *suite) view(id task.ID) task.View {
	s.Helper()
	v, err := s.Task(s.ctx, id, 0)
	if err != nil {
		s.Fatalf("read task %v: %v", id, err)
	}
	return v
}

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

func (s *suite) statuses() {
	s.alive(worker)
	s.submit("1")
	h := s.hold(worker, 1)[0]
	done := task.Outcome{Kind: task.KindDone, Result: json.RawMessage(`1`)}
	s.want(task.Recorded, h, done)
	s.want(task.Repeated, h, done)
	s.want(task.Stale, h, task.Outcome{Kind: task.KindDone, Result: json.RawMessage(`2`)})
	s.want(task.Stale, h, task.Outcome{Kind: task.KindFail})
	if v := s.view(h.ID); v.State != task.Done || string(v.Result) != "1" || len(v.Steps) != 1 {
		s.Errorf("the task became %+v", v)
	}
	never := h
	never.ID.Batch--
	s.want(task.Unknown, never, done)
}

func (s *suite) uncommitted() {
	s.alive(worker)
	s.submit("1")
	h := s.hold(worker, 1)[0]
	report := task.Report{
		ID: h.ID, Token: h.Token, Outcome: task.Outcome{Kind: task.KindDone}, Committed: true,
	}
	said := func(r task.Report) task.Answer {
		answers, err := s.Report(s.ctx, worker, []task.Report{r})
		if err != nil || len(answers) != 1 {
			s.Fatalf("answers %+v, %v", answers, err)
		}
		return answers[0]
	}
	if a := said(report); a.Status != task.Stale || !strings.Contains(a.Detail, "not committed") {
		s.Errorf("the answer is %+v", a)
	}
	again := s.hold(worker, 1)[0]
	if again.ID != h.ID || again.Attempt != 2 {
		s.Errorf("then came %+v, want the second attempt", again)
	}
	if a := said(report); a.Status != task.Stale {
		s.Errorf("said again it is %+v", a)
	}
	v := s.view(h.ID)
	if len(v.Steps) != 1 || v.Steps[0].Kind != task.KindRetry ||
		!strings.Contains(v.Steps[0].Error, "not committed") {
		s.Errorf("the steps are %+v", v.Steps)
	}
	report.Kind = task.KindRetry
	report.Token = again.Token
	if a := said(report); a.Status != task.Invalid || !strings.Contains(a.Detail, "committed:") {
		s.Errorf("a retry that is committed: %+v", a)
	}
	s.want(task.Recorded, again, task.Outcome{Kind: task.KindDone})
}

func (s *suite) badReport() {
	s.alive(worker)
	s.submit("1", "2")
	h := s.hold(worker, 2)
	reports := []task.Report{
		// without a stage
		{ID: h[0].ID, Token: h[0].Token, Outcome: task.Outcome{Kind: task.KindNext}},
		{ID: h[1].ID, Token: h[1].Token, Outcome: task.Outcome{Kind: task.KindDone}},
		{ID: h[0].ID, Token: "no token", Outcome: task.Outcome{Kind: task.KindDone}},
	}
	answers, err := s.Report(s.ctx, worker, reports)
	if err != nil || len(answers) != 3 || answers[0].Status != task.Invalid ||
		answers[1].Status != task.Recorded || answers[2].Status != task.Invalid {
		s.Fatalf("answers %+v, %v; want invalid, recorded, invalid", answers, err)
	}
	if answers[0].Detail == "" || answers[2].Detail == "" {
		s.Errorf("invalid without a reason: %+v", answers)
	}
	s.want(task.Recorded, h[0], task.Outcome{Kind: task.KindDone})
}

func (s *suite) stages() {
	s.alive(worker)
	id := s.submit(`"a"`)[0]
	h := s.hold(worker, 1)[0]
	s.want(task.Recorded, h, task.Outcome{
		Kind: task.KindNext, Stage: "second", Context: json.RawMessage(`{"b" : 1}`),
	})
	second := s.hold(worker, 1)[0]
	if second.ID != id || second.Stage != "second" || string(second.Context) != `{"b" : 1}` ||
		second.Attempt != 1 || second.Token == h.Token {
		s.Errorf("second stage came as %+v", second)
	}
	s.want(task.Recorded, second, task.Outcome{
		Kind: task.KindNext, Stage: "third", Delay: time.Millisecond,
	})
	third := s.hold(worker, 1)[0]
	if third.Stage != "third" || string(third.Context) != `{"b" : 1}` {
		s.Errorf("third stage came as %+v, want the context kept", third)
	}
	s.want(task.Repeated, h, task.Outcome{
		Kind: task.KindNext, Stage: "second", Context: json.RawMessage(`{"b" : 1}`),
	})
	s.want(task.Recorded, third, task.Outcome{Kind: task.KindDone})
	v := s.view(id)
	var kinds []task.Kind
	for _, step := range v.Steps {
		kinds = append(kinds, step.Kind)
	}
	if v.State != task.Done ||
		!slices.Equal(kinds, []task.Kind{task.KindNext, task.KindNext, task.KindDone}) {
		s.Errorf("state %s after steps %v", v.State, kinds)
	}
}

func (s *suite) attempts() {
	s.alive(worker)
	s.submit("1")
	attempt := 1
	for _, o := range []task.Outcome{
		{Kind: task.KindRelease}, {Kind: task.KindSnooze, Delay: time.Millisecond},
		{Kind: task.KindRetry, Delay: time.Millisecond},
		{Kind: task.KindRelease},
		{Kind: task.KindRetry, Delay: time.Millisecond, Context: json.RawMessage(`2`)},
		{Kind: task.KindDone},
	} {
		h := s.hold(worker, 1)[0]
		if h.Attempt != attempt {
			s.Errorf("before %v: attempt %d, want %d", o.Kind, h.Attempt, attempt)
		}
		if o.Kind == task.KindDone && string(h.Context) != "2" {
			s.Errorf("a retry's context was lost: %s", h.Context)
		}
		s.want(task.Recorded, h, o)
		if o.Kind == task.KindRetry {
			attempt++
		}
	}
}

func (s *suite) fails() {
	s.alive(worker)
	id := s.submit("1")[0]
	s.want(task.Recorded, s.hold(worker, 1)[0], task.Outcome{
		Kind: task.KindFail, Error: "no such address", Result: json.RawMessage(`{"code":5}`),
	})
	v := s.view(id)
	if v.State != task.Dead || string(v.Result) != `{"code":5}` || len(v.Steps) != 1 ||
		v.Steps[0].Error != "no such address" || v.Steps[0].Worker != worker {
		s.Errorf("the task became %+v", v)
	}
}

func (s *suite) cancel() {
	s.alive(worker)
	s.submit("1", "2")
	h := s.hold(worker, 2)
	if err := s.Cancel(s.ctx, h[0].ID); err != nil {
		s.Fatal(err)
	}
	told := false
	for end := time.Now().Add(patience); !told && time.Now().Before(end); {
		for _, a := range s.alive(worker, h...).Tasks {
			if a.ID == h[1].ID && a.Action != task.ActionContinue {
				s.Fatalf("the other task is told to %s", a.Action)
			}
			told = told || a.ID == h[0].ID && a.Action != task.ActionContinue
		}
	}
	if !told {
		s.Error("no beat said that the task was cancelled")
	}
	s.want(task.Stale, h[0], task.Outcome{Kind: task.KindDone})
	s.want(task.Recorded, h[1], task.Outcome{Kind: task.KindDone})
	if v := s.view(h[0].ID); v.State != task.Cancelled {
		s.Errorf("state %s, want cancelled", v.State)
	}
}

func (s *suite) lost() {
	s.alive(worker)
	id := s.submit("1")[0]
	old := s.hold(worker, 1)[0]
	if err := s.DeleteWorker(s.ctx, worker); err != nil {
		s.Fatal(err)
	}
	s.alive("w2")
	h := s.hold("w2", 1)[0]
	if h.ID != id || h.Token == old.Token {
		s.Errorf("came again as %+v after %+v", h, old)
	}
	s.want(task.Stale, old, task.Outcome{Kind: task.KindDone})
	if got := s.report("w2", h, task.Outcome{Kind: task.KindDone}); got != task.Recorded {
		s.Errorf("the new holder's report: %s", got)
	}
}

func (s *suite) leaving() {
	s.alive(worker)
	id := s.submit("1")[0]
	h := s.hold(worker, 1)[0]
	if _, err := s.Beat(s.ctx,
		task.Beat{Worker: worker, Incarnation: "1", Capacity: 100,
			Tasks: []task.Held{{ID: h.ID, Token: h.Token}}, Leaving: true}); err != nil {
		s.Fatal(err)
	}
	s.alive("w2")
	if again := s.hold("w2", 1)[0]; again.ID != id {
		s.Errorf("got %v, want %v", again.ID, id)
	}
}

func (s *suite) log() {
	s.alive(worker)
	id := s.submit("1")[0]
	h := s.hold(worker, 1)[0]
	texts := []string{"one", "", "drei \u2028 \U0001F600", "four"}
	for _, part := range [][]string{texts[:1], texts[1:]} {
		var lines []task.LogLine
		for _, text := range part {
			lines = append(lines, task.LogLine{Time: time.Now(), Stream: "stdout", Text: text})
		}
		if err := s.Log(s.ctx, id, lines); err != nil {
			s.Fatal(err)
		}
	}
	s.want(task.Recorded, h, task.Outcome{Kind: task.KindDone})
	lines, err := s.Lines(s.ctx, id)
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, l.Text)
	}
	if !slices.Equal(got, texts) {
		s.Errorf("log %q, want %q", got, texts)
	}
}
