package queuetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// JobHouse is a queue that gives jobs, too.
type JobHouse interface {
	Beat(context.Context, task.Beat) (task.BeatAnswer, error)
	// SetJobs makes a group with one replica of each job, whose supervisor waits for no worker,
	// have exactly these jobs.
	SetJobs(ctx context.Context, group string, jobs []task.Job) error
}

// RunJobs tests the houses that open makes, as Run does.
func RunJobs(t *testing.T, open func(*testing.T) JobHouse) {
	for _, c := range []struct {
		claim string
		test  func(*jobSuite)
	}{
		{"OrdersComeWhileABeatWaits", (*jobSuite).ordersCome},
		{"AssignmentCarriesItsSpecByteForByteAndItsLoad", (*jobSuite).byteForByte},
		{"WhatIsNotSaidToRunIsOrderedAgain", (*jobSuite).repeated},
		{"RunningJobIsLeftAlone", (*jobSuite).leftAlone},
		{"RemovedJobIsToEndUntilItHas", (*jobSuite).removed},
		{"RunThatWasNeverGivenIsToEnd", (*jobSuite).neverGiven},
		{"NewIncarnationIsToldEverything", (*jobSuite).restarted},
		{"OlderIncarnationIsSuperseded", (*jobSuite).superseded},
		{"LeavingMovesJobsAtOnce", (*jobSuite).leaving},
		{"WorkerWithoutTheGroupGetsNothing", (*jobSuite).otherGroup},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel() // each in a house of its own; most of it is waiting
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			c.test(&jobSuite{T: t, JobHouse: open(t), ctx: ctx})
		})
	}
}

// jobSuite is one test in one house.
type jobSuite struct {
	*testing.T
	JobHouse
	ctx context.Context
}

const group = "jobtest"

// set makes the group have jobs of these names.
func (s *jobSuite) set(names ...string) {
	s.Helper()
	jobs := make([]task.Job, len(names))
	for i, name := range names {
		jobs[i] = task.Job{Name: name, Load: task.Unit}
	}
	if err := s.SetJobs(s.ctx, group, jobs); err != nil {
		s.Fatalf("set jobs: %v", err)
	}
}

// seat is a worker at the house, and what it runs.
type seat struct {
	suite       *jobSuite
	name        string
	incarnation string
	groups      []string
	version     string
	runs        []task.Run
}

func (s *jobSuite) seat(name string) *seat {
	return &seat{suite: s, name: name, incarnation: "1", groups: []string{group}}
}

func (w *seat) say(wait time.Duration) (task.BeatAnswer, error) {
	answer, err := w.suite.Beat(w.suite.ctx, task.Beat{
		Worker: w.name, Incarnation: w.incarnation, Capacity: 100, Groups: w.groups,
		Tasks: []task.Held{}, Jobs: slices.Clone(w.runs),
		Wait: wait, Version: w.version,
	})
	w.version = answer.Version
	return answer, err
}

// glance is how long a beat waits for news: so long that most of what is to come comes meanwhile.
const glance = 200 * time.Millisecond

// beat says how things stand, and waits a while for news.
func (w *seat) beat() task.Orders {
	w.suite.Helper()
	answer, err := w.say(glance)
	if err != nil {
		w.suite.Fatalf("beat of %q: %v", w.name, err)
	}
	return answer.Jobs
}

// until beats until the orders are as wanted.
func (w *seat) until(what string, good func(task.Orders) bool) task.Orders {
	w.suite.Helper()
	for end := time.Now().Add(patience); ; {
		o := w.beat()
		if good(o) {
			return o
		}
		if time.Now().After(end) {
			w.suite.Fatalf("%s: never; the last orders are %+v", what, o)
		}
	}
}

// run does what the orders say at once.
func (w *seat) run(o task.Orders) {
	if o.Reset {
		w.runs = nil
	}
	for _, a := range o.Add {
		w.runs = append(w.runs, task.Run{
			Group: a.Group, Job: a.Job, Replica: a.Replica, Token: a.Token.String(),
			State: task.JobRunning,
		})
	}
	w.end(o.End)
}

func (w *seat) end(list []task.Run) {
	for _, e := range list {
		w.runs = slices.DeleteFunc(w.runs, func(r task.Run) bool {
			return r.Job == e.Job && r.Token == e.Token
		})
	}
}

// work beats, and does what it is told, until it runs exactly these jobs.
func (w *seat) work(names ...string) {
	w.suite.Helper()
	for end := time.Now().Add(patience); ; {
		w.run(w.beat())
		var have []string
		for _, r := range w.runs {
			have = append(have, r.Job)
		}
		if slices.Sort(have); slices.Equal(have, names) {
			w.beat() // it says so
			return
		}
		if time.Now().After(end) {
			w.suite.Fatalf("%s runs %q, want %q", w.name, have, names)
		}
	}
}

func added(name string) func(task.Orders) bool {
	return func(o task.Orders) bool { return len(o.Add) == 1 && o.Add[0].Job == name }
}

func quiet(o task.Orders) bool { return !o.Reset && len(o.Add)+len(o.End) == 0 }

func (s *jobSuite) ordersCome() {
	s.set()
	w := s.seat(worker)
	w.until("nothing to do", quiet)
	go func() {
		if err := s.SetJobs(s.ctx, group, []task.Job{{Name: "a", Load: task.Unit}}); err != nil {
			s.Errorf("set jobs: %v", err)
		}
	}()
	answer, err := w.say(limits.MaxWait)
	for ; err == nil && quiet(answer.Jobs); answer, err = w.say(limits.MaxWait) {
		// a change that brings no orders may answer, too
	}
	if err != nil || !added("a")(answer.Jobs) {
		s.Errorf("the beat was answered %+v, %v", answer.Jobs, err)
	}
}

func (s *jobSuite) byteForByte() {
	spec := json.RawMessage("{\"a\" : 1e400, \"a\":\"\u2028<>\"}")
	if err := s.SetJobs(s.ctx, group, []task.Job{{Name: "a", Load: 1500, Spec: spec}}); err != nil {
		s.Fatal(err)
	}
	a := s.seat(worker).until("a is added", added("a")).Add[0]
	if string(a.Spec) != string(spec) || a.Load != 1500 || a.Group != group || a.Replica != 0 ||
		a.Token.Number <= 0 {
		s.Errorf("it was given %+v with spec %s", a, a.Spec)
	}
}

func (s *jobSuite) repeated() {
	s.set("a")
	w := s.seat(worker)
	first := w.until("a is added", added("a")).Add[0]
	again := w.until("a is added again", added("a")).Add[0]
	if first.Token != again.Token {
		s.Errorf("the same assignment has the tokens %v and %v", first.Token, again.Token)
	}
}

func (s *jobSuite) leftAlone() {
	s.set("a", "b")
	w := s.seat(worker)
	w.work("a", "b")
	for range 3 {
		if o := w.beat(); !quiet(o) {
			s.Errorf("orders %+v while all is well", o)
		}
	}
}

func (s *jobSuite) removed() {
	s.set("a", "b")
	w := s.seat(worker)
	w.work("a", "b")
	s.set("b")
	ends := func(o task.Orders) bool { return len(o.End) == 1 && o.End[0].Job == "a" }
	w.until("a is to end", ends)
	w.end(w.until("a is to end while it runs", ends).End)
	w.work("b")
}

func (s *jobSuite) neverGiven() {
	s.set("a")
	w := s.seat(worker)
	w.work("a")
	good := w.runs[0]
	forged := []task.Run{
		{Group: group, Job: "b", Token: task.JobToken{Number: 1, Seal: 2}.String(),
			State: task.JobRunning},
		{Group: group, Job: "c", Token: good.Token, State: task.JobRunning},
		{Group: group, Job: "d", Token: "rubbish", State: task.JobFailed, Error: "not one of ours"},
	}
	w.runs = append(w.runs, forged...)
	o := w.until("what is forged is to end", func(o task.Orders) bool {
		return len(o.End) == len(forged)
	})
	for i, e := range o.End {
		if e.Job != forged[i].Job || e.Token != forged[i].Token {
			s.Errorf("end %+v, want %+v", e, forged[i])
		}
	}
	w.end(o.End)
	w.work("a")
}

func (s *jobSuite) restarted() {
	s.set("a")
	w := s.seat(worker)
	w.work("a")
	w.incarnation, w.runs, w.version = "2", nil, ""
	w.until("a is added anew", added("a"))
}

func (s *jobSuite) superseded() {
	s.set("a")
	older := s.seat(worker)
	older.work("a")
	newer := s.seat(worker)
	newer.incarnation = "2"
	newer.work("a")
	for end := time.Now().Add(patience); ; {
		_, err := older.say(glance)
		var refusal interface{ Superseded() bool }
		if errors.As(err, &refusal) && refusal.Superseded() {
			break
		}
		if time.Now().After(end) {
			s.Fatalf("the older one is answered %v", err)
		}
	}
	newer.work("a")
}

func (s *jobSuite) leaving() {
	s.set("a")
	w, other := s.seat(worker), s.seat("other")
	w.work("a")
	other.until("nothing to do", quiet)
	if _, err := s.Beat(s.ctx,
		task.Beat{Worker: w.name, Incarnation: w.incarnation, Capacity: 100, Groups: w.groups,
			Leaving: true}); err != nil {
		s.Fatal(err)
	}
	left := time.Now()
	other.work("a")
	if took := time.Since(left); took > limits.DefaultSilence {
		s.Errorf("the job moved after %v: that is when a silent worker's would", took)
	}
}

func (s *jobSuite) otherGroup() {
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("j", i))
	}
	s.set(names...)
	stranger, w := s.seat("stranger"), s.seat(worker)
	stranger.groups = []string{group + "-other"}
	if o := stranger.beat(); len(o.Add) != 0 {
		s.Errorf("it was given %+v", o.Add)
	}
	w.work(names...)
	if o := stranger.beat(); len(o.Add) != 0 {
		s.Errorf("it was given %+v", o.Add)
	}
}
