package queuetest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

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
