// Package queuetest is what every queue of a worker must do, as one suite: the dispatcher inside a
// node and a client of a remote server pass the same tests. It knows no store and no clock but the
// real one; it waits for answers, never for time.
package queuetest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

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
