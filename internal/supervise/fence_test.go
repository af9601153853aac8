package supervise_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

func TestSupervisorThatLostItsClaimChangesNothing(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 6)
		old := d.supervisor("g", "n1")
		d.addWorkers(2, 60)
		d.decide(old)
		d.jobs("g", 9)
		d.round()
		heir := d.supervisor("g", "n2")
		before := d.stand("g")
		if err := old.Round(d.T.Context(), time.Now()); err == nil {
			t.Error("the old supervisor did not notice")
		}
		if after := d.stand("g"); len(after) != len(before) {
			t.Errorf("the old supervisor assigned %d", len(after)-len(before))
		}
		d.decide(heir)
		if n := len(d.stand("g")); n != 9 {
			t.Errorf("%d of 9 jobs are assigned", n)
		}
	})
}

// The node and all that it knew begin anew, workers and rows stay.
func TestRestartMovesNoneOfTenThousand(t *testing.T) {
	inSteps(t, func(d *stepped) {
		const workers = 100
		jobs := story.Often(5000, 1000)
		d.group("g", jobs, replicas(2), func(g *task.Group) { g.Policy.New = 1000 })
		s := d.supervisor("g", "n1")
		d.addWorkers(workers, 120)
		d.decide(s)
		before := d.stand("g")
		for i := range workers {
			d.runs(fmt.Sprintf("w%04d", i), 120, before)
		}
		if len(before) != 2*jobs {
			t.Fatalf("%d of %d are assigned", len(before), 2*jobs)
		}

		d.sit("n1")
		_, err := d.Store.Free(d.T.Context(), d.holder, math.MaxInt64)
		d.Must(err)
		s = d.supervisor("g", "n1")
		d.round()
		d.Must(s.Round(d.T.Context(), time.Now()))
		for i := range workers {
			o := d.runs(fmt.Sprintf("w%04d", i), 120, before)
			if !o.Reset || len(o.Add) != 2*jobs/workers || len(o.End) > 0 {
				t.Fatalf("worker %d: reset %v, %d to run, %d to end", i, o.Reset, len(o.Add),
					len(o.End))
			}
			if i%20 == 0 {
				d.Must(s.Round(d.T.Context(), time.Now()))
			}
		}
		for range 40 {
			time.Sleep(beat)
			d.round()
			d.Must(s.Round(d.T.Context(), time.Now()))
		}
		for i, a := range d.stand("g") {
			if b := before[i]; a.Job != b.Job || a.Worker != b.Worker || a.Token != b.Token {
				t.Fatalf("%s/%d went from %s to %s", a.Job, a.Replica, b.Worker, a.Worker)
			}
		}
	})
}

// The node at which a worker beat before may have answered it until it read that it has gone.
func TestWhoComesFromAnotherNodeIsAwayOnlyWhenThatCanNotAnswer(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		d.addWorkers(1, 60)
		d.sit("n2")
		d.addWorkers(1, 60)
		time.Sleep(limits.DefaultSilence + maxAge - 3*beat - time.Millisecond)
		d.sessions.Away("w0000")
		d.round()
		if seat := d.seat("w0000"); seat.State != store.SeatTaken {
			t.Errorf("as long as it may run something its seat is %s", seat.State)
		}
		time.Sleep(2 * time.Millisecond)
		d.round()
		if seat := d.seat("w0000"); seat.State != store.SeatSilent {
			t.Errorf("after that its seat is %s", seat.State)
		}
	})
}

// A worker may come back between the look and the write of a supervisor that takes it for dead, and
// go on with what it runs.
func TestWhatAWorkerRunsThatCameBackIsNotDropped(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 2)
		s := d.supervisor("g", "n1")
		d.addWorkers(1, 60)
		d.decide(s)
		before := d.stand("g")
		told := len(d.events)
		time.Sleep(limits.DefaultSilence)
		d.sessions.Away("w0000")
		d.round()
		if seat := d.seat("w0000"); seat.State != store.SeatSilent {
			t.Fatalf("its seat is %s", seat.State)
		}
		d.sit("n2")
		if o := d.obey("w0000", 60); len(o.Add) != 2 || len(o.End) > 0 {
			t.Errorf("when it comes back its orders are %+v", o)
		}
		d.Must(s.Round(d.T.Context(), time.Now())) // it has not read that
		same := func(a, b store.Assignment) bool { return a.Job == b.Job && a.Token == b.Token }
		if after := d.stand("g"); !slices.EqualFunc(after, before, same) {
			t.Errorf("%+v became %+v", before, after)
		}
		if len(d.events) > told {
			t.Errorf("told %v", d.events)
		}
	})
}

// An answer may be on its way when its assignment ends: only a beat that was sent after it tells
// that nothing runs.
func TestWhatWasJustGivenHasNotEnded(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		s := d.supervisor("g", "n1")
		d.addWorkers(1, 60)
		waiting := task.Beat{
			Worker: "w0000", Incarnation: "i", Version: "1", Capacity: 60, Groups: []string{"g"},
		}
		d.decide(s)
		d.sessions.Hear(&waiting) // it waits for news
		o, err := d.sessions.Orders(d.T.Context(), &waiting)
		d.Must(err)
		if len(o.Add) != 1 {
			t.Fatalf("orders %+v", o)
		}
		d.jobs("g", 0)
		d.cache.Look(d.T.Context())
		d.Must(s.Round(d.T.Context(), time.Now()))
		d.round()
		if a := d.stand("g"); len(a) != 1 || a[0].State != task.JobEnding {
			t.Fatalf("%+v, want it to be ending: its worker may have begun it", a)
		}
		running := waiting
		running.Jobs = []task.Run{
			{Group: "g", Job: "j0000", Token: o.Add[0].Token.String(), State: task.JobRunning},
		}
		d.sessions.Hear(&running)
		d.round()
		if a := d.stand("g"); len(a) != 1 {
			t.Fatalf("%+v, want it to be ending: its worker says that it runs", a)
		}
		if o, err := d.sessions.Orders(d.T.Context(), &running); err != nil || len(o.End) != 1 {
			t.Errorf("orders %+v, %v, want its end", o, err)
		}
		d.sessions.Hear(&waiting) // it does not run it
		d.round()
		if a := d.stand("g"); len(a) != 0 {
			t.Errorf("%+v, want it to be over", a)
		}
	})
}

// A beat that a node could not write down in time says nothing any more: its worker may be at
// another node by now.
func TestLateRoundTakesNobodyBack(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		b := task.Beat{Worker: "w", Incarnation: "i", Capacity: 1, Groups: []string{"g"}}
		first := d.sessions
		first.Hear(&b)
		time.Sleep(2 * beat)
		d.sit("n2")
		d.sessions.Hear(&b)
		d.round()
		time.Sleep(2 * beat)
		d.Must(first.Round(d.T.Context(), time.Now()))
		if seat := d.seat("w"); seat.Node.Node != "n2" {
			t.Errorf("it sits at %q, want n2, where it beat last", seat.Node.Node)
		}
	})
}

// A late round takes a worker back for a beat from before it went to another node: what that gave
// it, the beat could not name.
func TestLateRoundEndsNothingThatAnotherNodeGave(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 0)
		d.addWorkers(1, 60)
		b := task.Beat{
			Worker: "w0000", Incarnation: "i", Version: "1", Capacity: 60, Groups: []string{"g"},
		}
		first := d.sessions
		first.Hear(&b)
		d.sit("n2")
		d.obey("w0000", 60)
		d.jobs("g", 1)
		s := d.supervisor("g", "n2")
		d.Must(s.Round(d.T.Context(), time.Now()))
		time.Sleep(beat)
		for range 3 {
			d.Must(d.cache.Look(d.T.Context()))
			d.Must(s.Round(d.T.Context(), time.Now()))
		}
		if o := d.obey("w0000", 60); len(d.stand("g")) != 1 || len(o.End) > 0 {
			t.Fatalf("%+v are assigned, orders %+v", d.stand("g"), o)
		}
		d.jobs("g", 0)
		d.Must(d.cache.Look(d.T.Context()))
		d.Must(s.Round(d.T.Context(), time.Now()))
		if a := d.stand("g"); len(a) != 1 || a[0].State != task.JobEnding {
			t.Fatalf("%+v, want it to be ending", a)
		}
		d.Must(first.Round(d.T.Context(), time.Now()))
		if seat := d.seat("w0000"); seat.Node.Node != "n1" {
			t.Fatalf("it sits at %q, want n1, whose round was late", seat.Node.Node)
		}
		if a := d.stand("g"); len(a) != 1 {
			t.Error("what another node gave it has ended by a beat from before that")
		}
	})
}

// What a worker was told at another node it may not have begun yet.
func TestOnlyWhoSatHereHasLostWhatItsBeatLacks(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		s := d.supervisor("g", "n1")
		d.addWorkers(1, 60)
		d.decide(s)
		d.obey("w0000", 60)
		b := task.Beat{Worker: "w0000", Incarnation: "i", Capacity: 60, Groups: []string{"g"}}
		for version, state := range map[string]task.JobState{"": task.JobRunning,
			"7": task.JobStarting} {
			d.obey("w0000", 60)
			b.Version = version
			d.sessions.Hear(&b)
			d.round()
			if a := d.stand("g"); len(a) != 1 || a[0].State != state {
				t.Errorf("its beat lacks it, and goes on from version %q: %+v, want it %s", version,
					a, state)
			}
		}
	})
}

func TestWhoWentOnWithWhatItHadIsNotTakenToHaveBegunAnew(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		s := d.supervisor("g", "n1")
		d.addWorkers(1, 60)
		d.decide(s)
		d.obey("w0000", 60)
		before := d.stand("g")[0]
		time.Sleep(beat)
		token := seal.NewSealer(nodetest.Secret()).SealJob(
			task.JobToken{Number: before.Token}, "g", before.Job,
			0, "w0000")
		b := task.Beat{Worker: "w0000", Incarnation: "next", Capacity: 60, Groups: []string{"g"}}
		b.Jobs = []task.Run{
			{Group: "g", Job: before.Job, Token: token.String(), State: task.JobRunning},
		}
		d.sessions.Hear(&b)
		d.round()
		b.Jobs = nil // a beat that may be from before it was told
		d.sessions.Hear(&b)
		d.round()
		if a := d.stand("g"); len(a) != 1 || a[0] != before {
			t.Errorf("%+v became %+v", before, a)
		}
	})
}

// midway lets something happen in the middle of a round.
type midway struct {
	*model.Model
	then func()
}

func (m *midway) Seat(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
	m.then()
	return m.Model.Seat(ctx, r)
}

func TestWhoComesBackWhileItIsSentAwayStays(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		d.addWorkers(1, 60)
		b := task.Beat{Worker: "w0000", Incarnation: "i", Capacity: 60, Groups: []string{"g"}}
		db := &midway{Model: d.Store, then: func() {}}
		var err error
		d.sessions, err = supervise.NewSessions(supervise.SessionsConfig{
			Cache: d.cache, Store: db, Holder: d.holder, Secret: nodetest.Secret(), Beat: beat,
		})
		d.Must(err)
		d.sessions.Hear(&b)
		d.round()
		time.Sleep(limits.DefaultSilence) // else it may not have stopped its jobs
		db.then = func() { d.sessions.Hear(&b) }
		d.sessions.Away("w0000")
		d.round()
		db.then = func() {}
		d.round()
		if o, err := d.sessions.Orders(d.T.Context(), &b); err != nil || !o.Reset {
			t.Errorf("orders %+v, %v, want all that it is to run", o, err)
		}
		if seat := d.seat("w0000"); seat.State != store.SeatTaken {
			t.Errorf("its seat is %s", seat.State)
		}
	})
}

// Whoever judged a worker may not have known yet how long it may go: the seat does.
func TestWorkerIsAwayOnlyWhenItHasStoppedItsJobs(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 1)
		d.addWorkers(1, 60)
		time.Sleep(5 * time.Second)
		d.sessions.Away("w0000")
		d.round()
		if seat := d.seat("w0000"); seat.State != store.SeatTaken {
			t.Errorf("after 5 s its seat is %s", seat.State)
		}
		time.Sleep(11 * time.Second)
		d.round()
		if seat := d.seat("w0000"); seat.State != store.SeatSilent {
			t.Errorf("after 16 s its seat is %s", seat.State)
		}
	})
}
