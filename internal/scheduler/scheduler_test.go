package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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

// joined is a node on a store, whose rounds the test does.
func joined(t *testing.T, db contract.Store, conf Config) (*Scheduler, store.Holder) {
	t.Helper()
	conf.Leases, conf.Chores = db, db
	s, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, h
}

func TestMembershipOutlivesItsTermWhileRoundsRenewIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		n := h.startOne("a")
		time.Sleep(time.Minute)
		leases, err := h.store.LeasesOf(t.Context(), "node/")
		if err != nil || len(leases) != 1 ||
			leases[0].Until < time.Now().Add(8*time.Second).UnixMicro() {
			t.Errorf("leases %+v, %v", leases, err)
		}
		h.end(n)
		if leases, err := h.store.LeasesOf(t.Context(), "node/"); err != nil || len(leases) != 0 {
			t.Errorf("after it left: %+v, %v", leases, err)
		}
	})
}

func TestRoundFreesWhatADeadNodeHeld(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := model.New(time.Now)
			_, dead := joined(t, db, Config{Name: "dead", Start: "1"})
			s, _ := joined(t, db, Config{Name: "a", Start: "1", Alone: alone})
			sub := store.Submission{Holder: dead, NewQueues: []string{"q"}, Batches: []store.Batch{{
				ID: store.BatchID(time.Now().UnixMicro(), 1), Queue: "q", Tasks: []store.Task{{}},
				Spans: []store.NewSpan{{Hold: true}},
			}}}
			if _, err := db.Submit(t.Context(), sub); err != nil {
				t.Fatal(err)
			}
			held := func() int {
				spans, err := db.Held(t.Context(), sub.Holder, nil)
				if err != nil {
					t.Fatal(err)
				}
				return len(spans)
			}
			round := func() error {
				return errors.Join(s.Round(t.Context(), time.Now()), s.Chores(t.Context()))
			}
			for range 10 {
				if err := round(); err != nil || held() != 1 {
					t.Fatalf("freed while its lease lives; %v", err)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(time.Second)
			if err := round(); err != nil || held() != 0 {
				t.Errorf("not freed a beat after its lease ended; %v", err)
			}
		})
	}
}

func TestNodeJoinsAStoreThatWasSlowAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := fault.NewDoor(model.New(time.Now))
		late := []time.Duration{11 * time.Second, 30 * time.Second}
		db.After("AcquireAll", func(err error) error {
			if len(late) > 0 {
				time.Sleep(late[0])
				late = late[1:]
			}
			return err
		})
		s, h := joined(t, db, Config{Name: "a", Start: "1"})
		if err := s.Round(t.Context(), time.Now()); err != nil || h.Token == 0 || s.Held() != nil {
			t.Errorf("holder %+v, round %v, membership %v", h, err, s.Held())
		}
	})
}

func TestNodeWhoseNameWasTakenStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		s, _ := joined(t, db, Config{Name: "a", Alone: true})
		// the same name again: a restart, or a mistake
		joined(t, db, Config{Name: "a", Alone: true})
		if err := s.Run(t.Context()); !errors.Is(err, store.ErrBroken) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestNameOfALivingNodeIsRefusedAndThatOfADeadOneWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.startOne("a")
		time.Sleep(time.Minute)
		twin, err := New(Config{Leases: h.store, Chores: h.store, Name: "a", Start: "twin"})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := twin.Join(t.Context()); !errors.Is(err, store.ErrConflict) ||
			!strings.Contains(err.Error(), "a is a node of that name") {
			t.Errorf("a second node of the name: %v", err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("refused after %v", took)
		}
		h.kill("a")
		begun = time.Now()
		h.startOne("a")
		if took := time.Since(begun); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("joined %v after the death of its predecessor", took)
		}
	})
}

func TestStoreOutageJudgesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(9)
		h.start("a", "b", "c")
		time.Sleep(90 * time.Second)
		h.want("before", map[string]int{"a": 3, "b": 3, "c": 3})
		tokens := func() map[string]int64 {
			leases, err := h.store.LeasesOf(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			list := map[string]int64{}
			for _, l := range leases {
				if !strings.HasPrefix(l.Name, chorePrefix) {
					list[l.Name] = l.Token
				}
			}
			return list
		}
		before := tokens()
		for _, n := range h.nodes {
			n.door.Cut()
		}
		time.Sleep(time.Minute)
		h.want("during", map[string]int{"a": 0, "b": 0, "c": 0})
		for _, n := range h.nodes {
			n.door.Restore()
		}
		time.Sleep(3 * time.Second)
		h.want("after", map[string]int{"a": 3, "b": 3, "c": 3})
		if after := tokens(); !maps.Equal(before, after) {
			t.Errorf("leases changed hands: %v, before %v", after, before)
		}
		if told := h.told(); slices.ContainsFunc(told, func(e string) bool {
			return strings.HasPrefix(e, NodeOffline)
		}) {
			t.Errorf("told: %q", told)
		}
	})
}

func TestJumpOfTheStoresClockMovesNothing(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, Config{})
			h.add(30)
			h.start("a", "b", "c")
			time.Sleep(90 * time.Second)
			h.mu.Lock()
			before := maps.Clone(h.owners)
			h.ahead = jump
			h.mu.Unlock()
			for range 40 {
				time.Sleep(500 * time.Millisecond)
				h.mu.Lock()
				same := maps.Equal(h.owners, before)
				h.mu.Unlock()
				if !same {
					t.Fatalf("jump by %v: the owners are %v", jump, h.owned())
				}
			}
		})
	}
}

func TestFullDiskStopsNoChore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fault.NewDoor(model.New(time.Now))
		d.Answer("Check", store.ErrFull)
		s, _ := joined(t, d, Config{Name: "a", Alone: true})
		err := errors.Join(s.Round(t.Context(), time.Now()), s.Chores(t.Context()))
		if err == nil {
			err = s.Prune(t.Context(), <-s.pruner.turns)
		}
		if err != nil || d.Calls("Free") != 1 || d.Calls("Prune") != 1 {
			t.Errorf("%v, %v", d.Forget(), err)
		}
	})
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{})
	for _, want := range []string{"Leases", "Name", "Start"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %s in: %v", want, err)
		}
	}
	db := model.New(time.Now)
	if _, err := New(
		Config{Leases: db, Chores: db, Name: "a", Alone: true, TTL: time.Second, Beat: time.Second},
	); err == nil {
		t.Error("a lease as short as a beat was accepted")
	}
}

func TestRescanLooksAtOnceAndChecksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.start("a", "b", "c")
		time.Sleep(15 * time.Second)
		h.mu.Lock()
		for _, from := range []string{"a", "b"} { // they can't reach c
			h.cut[[2]string{from, "c"}] = true
		}
		h.mu.Unlock()
		begin := time.Now()
		for range 10 {
			h.add(1)
			for _, name := range []string{"a", "b", "c"} {
				if err := h.nodes[name].Rescan(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		h.wantNothingUnowned("after rescans")
		if took := time.Since(begin); took != 0 {
			t.Errorf("30 rescans took %v", took)
		}
		if c := h.nodes["a"].Cluster(); c.Nodes[2].State != Working || len(c.Nodes[2].Strikes) > 0 {
			t.Errorf("a rescan found that c is %s after %v", c.Nodes[2].State, c.Nodes[2].Strikes)
		}
	})
}

func TestRescanSaysWhenNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := joined(t, model.New(time.Now), Config{Name: "a", Start: "1"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Rescan(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without Run: %v", err)
		}
		h := newHouse(t, Config{})
		n := h.startOne("a")
		n.door.Cut()
		if err := n.Rescan(t.Context()); !errors.Is(err, fault.ErrAway) {
			t.Errorf("without a store: %v", err)
		}
	})
}

// Each renewal is told, and how much of the lease was left: that lasts 10 s, of which 7.5 s count.
func TestRenewalsAreToldWithWhatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		var (
			mu   sync.Mutex
			told []Renewal
		)
		renewed := func(c *Config) {
			c.Renewed = func(r Renewal) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, r)
			}
		}
		n := h.startOne("a", renewed)
		take := func(d time.Duration) []Renewal {
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			taken := told
			told = nil
			return taken
		}
		time.Sleep(500 * time.Millisecond) // between beats
		take(0)
		for _, r := range take(3 * time.Second) {
			if r != (Renewal{Left: 6500 * time.Millisecond}) {
				t.Errorf("in peace: %+v", r)
			}
		}
		n.door.Cut()
		outage := take(9 * time.Second)
		n.door.Restore()
		if last := outage[len(outage)-1]; len(outage) < 3 || last.Err == nil || last.Left > 0 {
			t.Errorf("in an outage: %+v", outage)
		}
		again := take(2 * time.Second)
		if again[0].Left > 0 || again[0].Err != nil || again[0].Lost ||
			again[1] != (Renewal{Left: 6500 * time.Millisecond}) {
			t.Errorf("after it: %+v", again)
		}
		if err := h.store.EndAll(t.Context(), []store.Lease{
			{Name: nodePrefix + "a", Token: n.node.Token()},
		}, false); err != nil {
			t.Fatal(err)
		}
		if over := take(2 * time.Second); len(over) == 0 || !over[len(over)-1].Lost {
			t.Errorf("when others ended it: %+v", over)
		}
	})
}

func TestBeatsReadAlongWhatOthersWantToSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{Along: []string{"word/"}})
		if _, err := h.store.Acquire(t.Context(), "word/x", "me", time.Hour, nil); err != nil {
			t.Fatal(err)
		}
		heard := 0
		h.startOne("a", func(c *Config) {
			c.Heard = func(asked, answered time.Time, beat store.Beat) {
				if heard++; beat.Now != time.Now().UnixMicro() || asked != answered ||
					!slices.ContainsFunc(beat.Leases, func(l store.Lease) bool {
						return l.Name == "word/x"
					}) {
					t.Errorf("heard %+v", beat)
				}
			}
		})
		time.Sleep(9500 * time.Millisecond)
		h.end(h.nodes["a"])
		if heard != 10 {
			t.Errorf("heard %d times in ten beats", heard)
		}
	})
}

func TestEndedLeasesThatPassAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{Passing: []string{"alive/"}})
		for name, ttl := range map[string]time.Duration{"alive/gone": time.Minute,
			"alive/here": time.Hour, "other/gone": time.Minute} {
			if _, err := h.store.Acquire(t.Context(), name, "me", ttl, nil); err != nil {
				t.Fatal(err)
			}
		}
		h.startOne("a")
		time.Sleep(2*sweepEvery + time.Minute)
		var names []string
		for _, prefix := range []string{"alive/", "other/"} {
			leases, err := h.store.LeasesOf(t.Context(), prefix)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range leases {
				names = append(names, l.Name)
			}
		}
		if want := []string{"alive/here", "other/gone"}; !slices.Equal(names, want) {
			t.Errorf("left are %v, want %v", names, want)
		}
	})
}

func TestOutageIsKnownWithinThirdOfALeaseAndToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHouse(t, Config{})
		n := h.startOne("a", func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		time.Sleep(2500 * time.Millisecond)
		cause := func(err error) { n.door.Answer("Beat", err) }
		cause(errors.New("deadlock detected")) // an answer of the store's: it is there
		time.Sleep(3 * time.Second)
		if err := n.Reach(); err != nil {
			t.Errorf("it answers: %v", err)
		}
		cause(fmt.Errorf("%w: dial: %w", store.ErrUnknown, store.ErrOutOfReach))
		time.Sleep(time.Second)
		if err := n.Reach(); !errors.Is(err, store.ErrOutOfReach) ||
			errors.Is(err, store.ErrUnknown) {
			t.Errorf("no connection: %v", err)
		}
		time.Sleep(20 * time.Second)
		cause(nil)
		time.Sleep(time.Second)
		if err := n.Reach(); err != nil {
			t.Errorf("it answers again: %v", err)
		}
		n.door.Fail(fault.Each(fault.Hang, "Beat"))
		time.Sleep(3 * time.Second) // as slow as it may be
		if err := n.Reach(); err != nil {
			t.Errorf("after 3 s without an answer: %v", err)
		}
		time.Sleep(1500 * time.Millisecond)
		if err := n.Reach(); !errors.Is(err, store.ErrOutOfReach) {
			t.Errorf("no answer: %v", err)
		}
		n.door.Fail(nil)
		time.Sleep(5 * time.Second)
		h.end(n)
		if text := log.String(); strings.Count(text, "calls are refused") != 2 ||
			strings.Count(text, "answers again") != 2 || strings.Count(text, "deadlock") != 3 {
			t.Errorf("the log says:\n%s", text)
		}
	})
}
