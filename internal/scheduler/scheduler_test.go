package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/storetest"
	"github.com/rotahq/rota/task"
)

// joined is a node on the reference model.
func joined(t *testing.T, store storetest.Store, node string) *Scheduler {
	t.Helper()
	lease, err := Join(t.Context(), store, node, 10*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Members: store, Chores: store, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMembershipOutlivesItsTermWhileRoundsRenewIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		s := joined(t, store, "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Minute)
		leases, err := store.LeasesOf(t.Context(), "node/")
		if err != nil || len(leases) != 1 || leases[0].Until < time.Now().Add(8*time.Second).UnixMicro() {
			t.Errorf("leases %+v, %v", leases, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRoundFreesWhatADeadNodeHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		dead := joined(t, store, "dead")
		s := joined(t, store, "a")
		sub := rows.Submission{Holder: rows.Holder{Node: "dead", Token: dead.conf.Lease.Token}, NewQueues: []string{"q"}, Batches: []rows.Batch{{
			ID: task.BatchID(time.Now().UnixMicro(), 1), Queue: "q", Tasks: []rows.Task{{}}, Spans: []rows.NewSpan{{Hold: true}},
		}}}
		if _, err := store.Submit(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
		held := func() int {
			spans, err := store.Held(t.Context(), sub.Holder, nil)
			if err != nil {
				t.Fatal(err)
			}
			return len(spans)
		}
		for range 9 {
			if err := s.Round(t.Context()); err != nil || held() != 1 {
				t.Fatalf("freed while its lease lives; %v", err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		if err := s.Round(t.Context()); err != nil || held() != 0 {
			t.Errorf("not freed a beat after its lease ended; %v", err)
		}
	})
}

func TestNodeWhoseNameWasTakenStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewModel(time.Now)
		s := joined(t, store, "a")
		joined(t, store, "a") // the same name again: a restart, or a mistake
		if err := s.Run(t.Context()); !errors.Is(err, rows.ErrBroken) {
			t.Errorf("error: %v", err)
		}
	})
}

// full is a store without room.
type full struct{ storetest.Store }

func (full) Check(context.Context) error { return rows.ErrFull }

func TestFullDiskStopsNoChore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := joined(t, full{storetest.NewModel(time.Now)}, "a").Round(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	if _, err := New(Config{TTL: time.Second, Beat: time.Second}); err == nil {
		t.Error("accepted")
	}
}
