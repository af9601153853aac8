package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

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
