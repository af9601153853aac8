package supervise_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

func TestNodeThatMayBeNoMemberAnswersNoBeat(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		b := task.Beat{Worker: "w", Incarnation: "i", Capacity: 1, Groups: []string{"g"}}
		d.sessions.Hear(&b)
		d.round()
		if _, err := d.sessions.Orders(d.T.Context(), &b); err != nil {
			t.Errorf("a member answers %v", err)
		}
		d.held = fault.ErrAway
		if _, err := d.sessions.Orders(d.T.Context(), &b); !errors.Is(err, fault.ErrAway) {
			t.Errorf("no member answers %v", err)
		}
		task := task.Beat{Worker: "tasks only", Incarnation: "i"}
		if _, err := d.sessions.Orders(d.T.Context(), &task); err != nil {
			t.Errorf("a worker of tasks is answered %v", err)
		}
	})
}

// Whose reads fail while its lease is renewed does not hear that a worker has gone elsewhere.
func TestNoBeatIsAnsweredByWhatWasReadTooLongAgo(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		b := task.Beat{Worker: "w", Incarnation: "i", Capacity: 1, Groups: []string{"g"}}
		d.sessions.Hear(&b)
		d.round()
		time.Sleep(maxAge)
		if _, err := d.sessions.Orders(d.T.Context(), &b); err != nil {
			t.Errorf("after %v it answers %v", maxAge, err)
		}
		time.Sleep(time.Microsecond)
		if _, err := d.sessions.Orders(d.T.Context(), &b); !errors.Is(err, store.ErrBusy) {
			t.Errorf("after more than %v it answers %v", maxAge, err)
		}
		d.round()
		if _, err := d.sessions.Orders(d.T.Context(), &b); err != nil {
			t.Errorf("when it has read again it answers %v", err)
		}
	})
}

// runsUnknown is the beat of a worker that runs what no row speaks of, and the token of that.
func runsUnknown() (task.Beat, task.JobToken) {
	token := seal.NewSealer(nodetest.Secret()).SealJob(task.JobToken{Number: 7}, "g", "j0000", 0, "w")
	return task.Beat{
		Worker: "w", Incarnation: "i", Capacity: 1, Groups: []string{"g"},
		Jobs: []task.Run{{Group: "g", Job: "j0000", Token: token.String()}},
	}, token
}

// A worker that comes with runs is not answered before it is known whether they are to go on; one
// without is not kept waiting for long.
func TestNothingEndsByIgnorance(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		b, token := runsUnknown()
		d.sessions.Hear(&b)
		if o, err := d.sessions.Orders(d.T.Context(), &b); err == nil {
			t.Errorf("it was answered %+v before anything was known", o)
		}
		none := b
		none.Jobs = nil
		d.sessions.Hear(&none)
		o, err := d.sessions.Orders(d.T.Context(), &none)
		if err != nil || o.Reset || len(o.Add)+len(o.End) > 0 {
			t.Errorf("one that runs nothing was answered %+v, %v", o, err)
		}
		d.sessions.Hear(&b)
		d.round()
		o, err = d.sessions.Orders(d.T.Context(), &b)
		if err != nil || !o.Reset || len(o.Add) != 1 || o.Add[0].Token != token {
			t.Errorf("it was answered %+v, %v, want its run to go on", o, err)
		}
	})
}

// A worker in this process waits for its answer here: it must stop its jobs when its time is over,
// whatever becomes of the answer.
func TestNoBeatWaitsForLongerThanItsWorker(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		b, _ := runsUnknown()
		d.sessions.Hear(&b)
		ctx, cancel := context.WithTimeout(d.T.Context(), beat)
		defer cancel()
		sent := time.Now()
		_, err := d.sessions.Orders(ctx, &b)
		if waited := time.Since(sent); waited != beat || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it waited for %v and got %v", waited, err)
		}
	})
}

// Two beats of one start of a worker may be under way with different groups: each caller is told of
// those that it named, which its access token was held against, and of no others.
func TestBeatIsAnsweredWithJobsOfItsOwnGroupsOnly(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		d.group("other", 0)
		s := d.supervisor("g", "n1")
		d.addWorkers(1, 60)
		d.decide(s)
		b := task.Beat{
			Worker: "w0000", Incarnation: "i", Capacity: 60, Groups: []string{"other", "g"},
		}
		early := b
		early.Groups = []string{"other"}
		d.sessions.Hear(&early)
		d.sessions.Hear(&b)
		d.round()
		for _, c := range []struct {
			beat *task.Beat
			want int
		}{{&early, 0}, {&b, 1}} {
			o, err := d.sessions.Orders(d.T.Context(), c.beat)
			d.Must(err)
			if len(o.Add) != c.want {
				t.Errorf("a beat with groups %q is to run %+v", c.beat.Groups, o.Add)
			}
		}
	})
}

// Who may have been at another node since its last beat here is answered when the store has said
// that it is here.
func TestWhoReturnsWaitsForARound(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		s := d.supervisor("g", "n1")
		d.addWorkers(1, 60)
		d.decide(s)
		b := task.Beat{
			Worker: "w0000", Incarnation: "i", Capacity: 60, Groups: []string{"g"}, Version: "7",
		}
		d.sessions.Hear(&b)
		o, err := d.sessions.Orders(d.T.Context(), &b)
		d.Must(err)
		b.Jobs = []task.Run{
			{Group: "g", Job: "j0000", Token: o.Add[0].Token.String(), State: task.JobRunning},
		}
		d.sessions.Hear(&b)
		if _, err := d.sessions.Orders(d.T.Context(), &b); err != nil {
			t.Errorf("one that goes on from its last answer: %v", err)
		}
		b.Version = ""
		d.sessions.Hear(&b)
		if o, err := d.sessions.Orders(d.T.Context(), &b); err == nil {
			t.Errorf("one that comes from elsewhere was answered %+v before a round", o)
		}
		d.sessions.Hear(&b)
		d.round()
		if _, err := d.sessions.Orders(d.T.Context(), &b); err != nil {
			t.Errorf("after a round: %v", err)
		}
	})
}

func TestEarlierIncarnationDoesNotSpeakForTheNewer(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		older := task.Beat{Worker: "w", Incarnation: "1", Capacity: 1, Groups: []string{"g"}}
		newer := older
		newer.Incarnation = "2"
		for _, b := range []*task.Beat{&older, &newer, &older} {
			d.sessions.Hear(b)
			d.round()
		}
		if _, err := d.sessions.Orders(d.T.Context(), &newer); err != nil {
			t.Errorf("the newer is answered %v", err)
		}
		_, err := d.sessions.Orders(d.T.Context(), &older)
		if !errors.Is(err, supervise.ErrSuperseded) {
			t.Errorf("the older is answered %v", err)
		}
	})
}

func TestRunThatWasRefusedIsNotAskedAboutAgain(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		d.addWorkers(1, 60)
		door := fault.NewDoor(d.Store)
		var err error
		d.sessions, err = supervise.NewSessions(supervise.SessionsConfig{
			Cache: d.cache, Store: door, Holder: d.holder, Secret: nodetest.Secret(), Beat: beat,
		})
		d.Must(err)
		unknown := []store.Assignment{{Job: "none", Worker: "w0000", Token: 99}}
		for i := range 4 {
			if o := d.runs("w0000", 60, unknown); len(o.End) != 1 && !o.Reset {
				t.Errorf("beat %d: orders %+v, want its end", i, o)
			}
		}
		if writes(door) != 1 {
			t.Errorf("the store was asked %d times about a run that nobody wants", writes(door))
		}
	})
}

func TestQuietWorkersCostNoWrite(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 6)
		s := d.supervisor("g", "n1")
		d.addWorkers(2, 60)
		d.decide(s)
		d.obey("w0000", 60)
		d.obey("w0001", 60)
		d.decide(s)
		door := fault.NewDoor(d.Store)
		quiet, err := supervise.NewSessions(supervise.SessionsConfig{
			Cache: d.cache, Store: door, Holder: d.holder, Secret: nodetest.Secret(), Beat: beat,
		})
		d.Must(err)
		d.sessions = quiet
		for range 5 {
			for _, w := range []string{"w0000", "w0001"} {
				if o := d.obey(w, 60); len(o.Add) > 0 && !o.Reset || len(o.End) > 0 {
					t.Errorf("orders %+v", o)
				}
			}
			d.Must(s.Round(d.T.Context(), time.Now()))
			time.Sleep(beat)
		}
		if writes(door) > 0 {
			t.Errorf("%d writes while nothing changed", writes(door))
		}
	})
}
