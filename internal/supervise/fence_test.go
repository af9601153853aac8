package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
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

// scale notes how much each write has in it; one of them fails.
type scale struct {
	*model.Model
	writes []int
	fails  int
}

func (s *scale) Assign(ctx context.Context, a store.Assign) (store.Assigned, error) {
	s.writes = append(s.writes, len(a.Drop)+len(a.End)+len(a.Move)+len(a.Start))
	if len(s.writes) == s.fails {
		return store.Assigned{}, fault.ErrFault
	}
	return s.Model.Assign(ctx, a)
}

func TestGreatDecisionsAreWrittenInPieces(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 6000, func(g *task.Group) { g.Policy.New = 2000 })
		db := &scale{Model: d.Store, fails: 2}
		s := d.supervisorOn("g", "n1", db)
		d.addWorkers(3, 3000)
		for err := error(nil); err == nil; time.Sleep(beat) {
			err = s.Round(d.T.Context(), time.Now())
		}
		if n := len(d.stand("g")); n != 5000 || !slices.Equal(db.writes, []int{5000, 1000}) {
			t.Errorf("%d are assigned by writes of %d", n, db.writes)
		}
		d.decide(s)
		if n := len(d.stand("g")); n != 6000 || !slices.Equal(db.writes, []int{5000, 1000, 1000}) {
			t.Errorf("%d are assigned by writes of %d", n, db.writes)
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

// What may have worked is read before anything is decided again.
func TestAfterAnUnknownOutcomeTheSupervisorReadsOn(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 3)
		door := fault.NewDoor(d.Store)
		door.Fail(fault.Nth(0, fault.After, "Assign"))
		s := d.supervisorOn("g", "n1", door)
		d.addWorkers(1, 60)
		if err := s.Round(d.T.Context(), time.Now()); !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("first round: %v", err)
		}
		time.Sleep(beat)
		d.Must(s.Round(d.T.Context(), time.Now()))
		if writes(door) != 1 || len(d.stand("g")) != 3 {
			t.Errorf("%d writes, %d of 3 assigned", writes(door), len(d.stand("g")))
		}
	})
}

func TestWorkerGetsSoManyNewOnesAPass(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("g", 9)
		s := d.supervisor("g", "n1")
		d.addWorkers(1, 60)
		for _, want := range []int{4, 4, 8, 8, 9, 9} {
			for range 3 { // however often something is new
				d.Must(s.Round(d.T.Context(), time.Now()))
			}
			if n := len(d.stand("g")); n != want {
				t.Errorf("%d are assigned, want %d", n, want)
			}
			time.Sleep(beat / 8)
		}
	})
}

// Another group takes a worker's room between a supervisor's look and its write, and leaves it
// later: of neither anybody is told.
func TestRefusedStartsAreTriedAgain(t *testing.T) {
	inSteps(t, func(d *stepped) {
		d.group("a", 5)
		d.group("g", 5)
		claim := d.lease("claim/group/a", "n1")
		others := store.Assign{
			Group: "a", Claim: store.Lease{Name: claim.Name, Holder: "n1", Token: claim.Token},
		}
		for i := range 5 {
			others.Start = append(others.Start, store.Place{
				Job: fmt.Sprintf("j%04d", i), Worker: "w0000", Load: task.Unit,
			})
		}
		door := fault.NewDoor(d.Store)
		door.Fail(func(verb string) fault.Fault {
			if verb == "Assign" && writes(door) == 1 {
				_, err := d.Store.Assign(d.T.Context(), others)
				d.Must(err)
			}
			return fault.None
		})
		s := d.supervisorOn("g", "n1", door)
		d.addWorkers(1, 5)
		for range 4 {
			d.Must(s.Round(d.T.Context(), time.Now()))
			time.Sleep(beat)
		}
		if n := len(d.stand("g")); n != 0 || writes(door) != 1 {
			t.Errorf("%d are assigned, with %d writes, where there is no room", n, writes(door))
		}
		if d.house.told(supervise.GroupShort) != 1 {
			t.Errorf("told %q, want that there is no room", d.events)
		}
		ended := store.Observed{Holder: d.holder}
		for _, a := range d.stand("a") {
			ended.States = append(ended.States, store.Observation{
				Group: "a", Job: a.Job, Worker: a.Worker, Token: a.Token, State: store.Ended,
			})
		}
		_, err := d.Store.Observe(d.T.Context(), ended)
		d.Must(err)
		for range 15 {
			d.round()
			d.Must(s.Round(d.T.Context(), time.Now()))
			time.Sleep(beat)
		}
		if n := len(d.stand("g")); n != 5 {
			t.Errorf("%d of 5 are assigned after the room was left", n)
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
