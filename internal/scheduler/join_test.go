package scheduler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

// lock is what the processes of a node at one place have one after the other.
type lock struct {
	place string

	mu sync.Mutex
	of string // who has it; "" = nobody
}

// pass makes another process have it.
func (l *lock) pass(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = to
}

// guard is a process's side of a lock.
type guard struct {
	*lock
	self string
}

func (g guard) Hold() (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of != "" && g.of != g.self {
		return "", errors.New("another process has it")
	}
	g.of = g.self
	return g.place, nil
}

// start is a process of node a at a place.
func start(t *testing.T, db contract.Store, at *lock, process string) (*Scheduler, *fault.Door) {
	t.Helper()
	d := fault.NewDoor(db)
	conf := Config{Name: "a", Start: process, Address: process, Leases: d, Chores: d}
	if at != nil {
		conf.Guard = guard{at, process}
	}
	s, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Claim(Kind{
		Name: "key", Keys: func(context.Context) ([]string, error) { return []string{"k"}, nil },
		Look: func(ctx context.Context, c Claim) { <-c.Held().Done() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, d
}

// predecessor is a process that has its guard, a key and a task, and is cut off from the store from
// then on.
func predecessor(t *testing.T, db contract.Store, at *lock) (*Scheduler, *fault.Door) {
	t.Helper()
	s, d := start(t, db, at, "old")
	h, err := s.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Submit(t.Context(),
		store.Submission{Holder: h, NewQueues: []string{"q"}, Batches: []store.Batch{{
			ID: store.BatchID(time.Now().UnixMicro(), 1), Queue: "q", Tasks: []store.Task{{}},
			Spans: []store.NewSpan{{Hold: true}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Round(t.Context(), time.Now()); err != nil || len(s.posts) != 1 {
		t.Fatal(len(s.posts), err)
	}
	d.Cut()
	return s, d
}

func TestSuccessorOfAProcessThatIsCertainlyDeadWaitsForNothingOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		db, at := model.New(time.Now), &lock{place: "here"}
		old, wire := predecessor(t, db, at)
		at.pass("") // the kernel takes it back
		s, _ := start(t, db, at, "new")
		began := time.Now()
		h, err := s.Join(t.Context())
		if err != nil || !time.Now().Equal(began) || h.Token <= old.node.Token() {
			t.Fatalf("joined after %v with token %d, its predecessor's was %d; %v",
				time.Since(began), h.Token, old.node.Token(), err)
		}
		if err := s.Round(t.Context(), time.Now()); err != nil || len(s.posts) != 1 {
			t.Errorf("it looks after %d keys, %v", len(s.posts), err)
		}
		got, err := db.Take(t.Context(), store.TakeRequest{Holder: h, Queue: "q", Limit: 2})
		if err != nil || len(got.Spans) != 1 || got.Spans[0].Deaths != 1 {
			t.Errorf("it takes %+v, %v", got, err)
		}

		wire.Restore() // what the dead one said arrives late
		if err := old.Round(t.Context(), time.Now()); !errors.Is(err, ErrOusted) {
			t.Errorf("a late renewal: %v", err)
		}
		if _, err := db.Take(t.Context(),
			store.TakeRequest{Holder: store.Holder{Node: "a", Token: old.node.Token()}, Queue: "q",
				Limit: 1}); err != nil {
			t.Error(err)
		}
		if list, err := db.Held(t.Context(), h, nil); err != nil || len(list) != 1 ||
			list[0].ID != got.Spans[0].ID {
			t.Errorf("its successor holds %+v, %v", list, err)
		}
		old.keeper.Close(t.Context())
		s.keeper.Close(t.Context())
	})
}

func TestSuccessorThatIsNotCertainWaitsForTheLease(t *testing.T) {
	for name, story := range map[string]struct {
		old, new *lock
		now      string // who has the guard of the old one by now
		because  string
	}{
		"the predecessor is only stopped": {old: &lock{place: "here"}, now: "old",
			because: "another process has it"},
		"it ran at another place": {old: &lock{place: "there"},
			new: &lock{place: "here"}, because: "another machine"},
		"it is an older program, without a guard": {new: &lock{place: "here"},
			because: "it had no guard"},
		"this process has no guard": {old: &lock{place: "here"},
			because: "this process has no guard"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(24 * time.Hour)
				db := model.New(time.Now)
				old, _ := predecessor(t, db, story.old)
				defer old.keeper.Close(t.Context())
				if story.old != nil {
					story.old.pass(story.now)
				}
				at := story.new
				if story.now != "" {
					at = story.old
				}
				s, _ := start(t, db, at, "new")
				defer func() { s.keeper.Close(t.Context()) }()
				began := time.Now()
				if _, err := s.Join(t.Context()); err != nil || time.Since(began) < 9*time.Second {
					t.Errorf("joined after %v, %v", time.Since(began), err)
				}
				if !strings.Contains(s.unresolved, story.because) {
					t.Errorf("it waited because %s", s.unresolved)
				}
				place := ""
				if at != nil && story.now == "" {
					place = at.place
				}
				if m := memberOf(store.Lease{Value: s.self().value()}); m.Guard != place {
					t.Errorf("it says that its guard is at %q, want %q", m.Guard, place)
				}
				if story.now != "" { // the old one dies after all
					at.pass("")
					if m := memberOf(store.Lease{Value: s.self().value()}); m.Guard != at.place {
						t.Errorf("after the old one's death its guard is at %q", m.Guard)
					}
				}
			})
		})
	}
}

func TestWaitingSuccessorGoesOnAsSoonAsItIsCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		db, at := model.New(time.Now), &lock{place: "here"}
		old, _ := predecessor(t, db, at)
		defer old.keeper.Close(t.Context())
		s, _ := start(t, db, at, "new")
		began := time.Now()
		time.AfterFunc(2500*time.Millisecond, func() { at.pass("") })
		if _, err := s.Join(t.Context()); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("joined after %v, %v", time.Since(began), err)
		}
		s.keeper.Close(t.Context())
	})
}

// Two processes that both know that the old one is dead can't both be here; one at another place
// may be as quick.
func TestNameOfADeadProcessGoesToOneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		db, at := model.New(time.Now), &lock{place: "here"}
		old, _ := predecessor(t, db, at)
		defer old.keeper.Close(t.Context())
		at.pass("")
		elsewhere, _ := start(t, db, &lock{place: "there"}, "elsewhere")
		defer elsewhere.keeper.Close(t.Context())
		s, d := start(t, db, at, "new")
		defer s.keeper.Close(t.Context())
		if _, err := elsewhere.TryJoin(t.Context(), time.Now()); !errors.Is(err, ErrPredecessor) {
			t.Fatal(err)
		}
		d.AfterNext("EndAll", func(err error) error {
			if _, err := elsewhere.TryJoin(t.Context(), time.Now()); err != nil {
				t.Errorf("the name is free, and who asks gets: %v", err)
			}
			return err
		})
		if _, err := s.TryJoin(t.Context(), time.Now()); !errors.Is(err, ErrPredecessor) {
			t.Errorf("it joined beside another: %v", err)
		}
		if elsewhere.Held() != nil {
			t.Error("who was quicker does not hold the name")
		}
	})
}
