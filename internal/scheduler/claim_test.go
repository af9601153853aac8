package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/lease"
)

// What holds when nodes die, are cut off, come and go.

func TestKeysOfADeadNodeAreOwnedAgainWithinALeaseAndABeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(100)
		h.start("a", "b", "c", "d", "e")
		time.Sleep(20 * time.Second)
		h.kill("c")
		time.Sleep(12 * time.Second)
		h.wantNothingUnowned("12 s after a death")
		if h.spread() > 1 {
			t.Errorf("after a death: %v", h.owned())
		}
	})
}

func TestTenThousandKeysOfTenNodesSurviveADeathInTwoBeatsAndTenStatements(t *testing.T) {
	keys := story.Often(10_000, 2_000)
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		for _, name := range names { // their beats fall together, as badly as can be
			h.startOne(name)
		}
		time.Sleep(15 * time.Second)
		h.add(keys)
		time.Sleep(10 * time.Second)
		h.wantNothingUnowned("at first")
		if h.spread() > 1 {
			t.Errorf("at first: %v", h.owned())
		}
		h.kill("d")
		expired := time.Now().Add(10 * time.Second)
		time.Sleep(9500 * time.Millisecond)
		for _, name := range names {
			h.nodes[name].door.Forget()
		}
		for n, _ := h.unowned(); n > 0; n, _ = h.unowned() {
			if time.Since(expired) > 10*time.Second {
				t.Fatalf("%d keys are still unowned", n)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(expired); took > 2*time.Second {
			t.Errorf("owned again %v after the lease ended", took)
		}
		for _, name := range names {
			if n, told := h.nodes[name].door.Calls(), h.nodes[name].door.Forget(); n > 10 {
				t.Errorf("%v needed %d statements: %v", name, n, told)
			}
		}
		if h.spread() > 1 {
			t.Errorf("in the end: %v", h.owned())
		}
	})
}

// renewing counts the rows that the last beat renewed.
type renewing struct {
	Leases
	rows atomic.Int64
}

func (r *renewing) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	r.rows.Store(int64(len(held)))
	return r.Leases.Beat(ctx, held, ttl, prefixes...)
}

func TestBeatRenewsOneRowHoweverManyKeysANodeHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(1000)
		beats := map[string]*renewing{}
		for _, name := range []string{"a", "b"} {
			h.startOne(name, func(c *Config) {
				beats[name] = &renewing{Leases: c.Leases}
				c.Leases = beats[name]
			})
			time.Sleep(h.beat() * 137 / 1000)
		}
		time.Sleep(2 * time.Minute)
		h.want("in the end", map[string]int{"a": 500, "b": 500})
		for name, n := range beats {
			if rows := n.rows.Load(); rows != 1 {
				t.Errorf("%s renews %d rows", name, rows)
			}
		}
	})
}

func TestNodeThatRenewsAfterAllHoldsWhatNobodyTookMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(3)
		n := h.startOne("a")
		time.Sleep(5 * time.Second)
		h.want("at first", map[string]int{"a": 3})
		n.door.Cut()
		time.Sleep(11 * time.Second)
		h.want("when its membership has expired", map[string]int{"a": 0})
		if _, err := h.store.AcquireAll(
			t.Context(), "b@1", []store.Lease{{Name: "node/b"}}, time.Hour, 0,
		); err != nil {
			t.Fatal(err)
		}
		want := []store.Lease{{Name: "claim/key/k00001", Until: store.WhileMember}}
		if got, err := h.store.AcquireAll(
			t.Context(), "b@1", want, time.Hour, math.MaxInt64,
		); err != nil || len(got.Leases) != 1 {
			t.Fatal(got, err)
		}
		n.door.Restore()
		time.Sleep(3 * time.Second)
		h.want("when it was renewed", map[string]int{"a": 2})
	})
}

func TestCutOffNodeStopsItsClaimsBeforeAnybodyElseGetsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(30)
		h.start("a", "b", "c")
		time.Sleep(20 * time.Second)
		h.nodes["b"].door.Cut() // from the store alone; the ledger sees whether two have a key
		cut := time.Now()
		for h.owned()["b"] > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(cut); took > 7500*time.Millisecond {
			t.Errorf("it went on for %v", took)
		}
		for n, _ := h.unowned(); n > 0; n, _ = h.unowned() {
			if time.Since(cut) > 13*time.Second {
				t.Fatalf("%d keys are unowned %v after the cut", n, time.Since(cut))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(cut); took < 9*time.Second {
			t.Errorf("others had its keys after %v", took)
		}
		h.nodes["b"].door.Restore()
		if err := <-h.nodes["b"].done; !errors.Is(err, store.ErrBroken) {
			t.Errorf("it came back to a cluster that took it for dead: %v", err)
		}
		h.startOne("b")
		time.Sleep(2 * time.Minute)
		if h.spread() > 1 {
			t.Errorf("after its restart: %v", h.owned())
		}
	})
}

func TestOwnerFinishesWhatItIsAtBeforeAnotherHasTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.work = 20 * time.Second
		h.add(10)
		h.startOne("a")
		time.Sleep(2 * time.Minute)
		h.startOne("b")
		time.Sleep(15 * time.Second)
		h.want("while a finishes", map[string]int{"a": 10, "b": 0})
		time.Sleep(2 * time.Minute) // the ledger sees whether two have a key
		h.want("in the end", map[string]int{"a": 5, "b": 5})
	})
}

func TestStoppingNodeWaitsForItsOwnersAndThenTheirKeysAreFreeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(10)
		h.start("a", "b")
		time.Sleep(15 * time.Second)
		h.mu.Lock()
		h.work = 5 * time.Second
		clear(h.moves)
		h.mu.Unlock()
		begun := time.Now()
		go func() { // what comes meanwhile is not left to the one that stops
			time.Sleep(2 * time.Second)
			h.add(4)
			time.Sleep(1500 * time.Millisecond)
			h.want("while it stops", map[string]int{"a": 5, "b": 9})
		}()
		h.end(h.nodes["a"])
		if took := time.Since(begun); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("stopped in %v", took)
		}
		time.Sleep(2 * time.Second)
		h.want("after it left", map[string]int{"b": 14})
		if moved := len(h.moves); moved != 0 {
			t.Errorf("%d keys count as moved by choice", moved)
		}
	})
}

func TestOwnerThatDoesNotHeedItsContextLosesTheKeyAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{StopGrace: 4 * time.Second})
		h.add(1)
		h.startOne("a")
		time.Sleep(2 * time.Second)
		h.mu.Lock()
		h.work = time.Hour
		h.mu.Unlock()
		begun := time.Now()
		h.end(h.nodes["a"])
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("stopped in %v", took)
		}
	})
}

func TestKeyThatIsGoneIsLetGoOfAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(4)
		h.start("a", "b")
		time.Sleep(15 * time.Second)
		h.kill("b")
		h.mu.Lock()
		h.keys = nil
		h.mu.Unlock()
		time.Sleep(15 * time.Second)
		h.want("without keys", map[string]int{"a": 0})
		if leases, err := h.store.LeasesOf(t.Context(), claimPrefix); err != nil ||
			len(leases) != 0 {
			t.Errorf("%v is left; %v", leases, err)
		}
	})
}

func TestSourceThatFailsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		var mu sync.Mutex
		var trouble error
		causes := []error{}
		h.kinds = func(string) []Kind {
			return []Kind{{Name: "far", Keys: func(context.Context) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				return []string{"x", "y"}, trouble
			}, Look: func(ctx context.Context, _ Claim) {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				causes = append(causes, context.Cause(ctx))
			}}}
		}
		n := h.startOne("a")
		time.Sleep(3 * time.Second)
		mu.Lock()
		trouble = errors.New("it is away")
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		if len(causes) != 0 {
			t.Errorf("contexts ended: %v", causes)
		}
		mu.Unlock()
		h.end(n)
		if !slices.Equal(causes, []error{ErrStopping, ErrStopping}) {
			t.Errorf("causes: %v", causes)
		}
	})
}

func TestRestartedLoneNodeHasItsKeysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{Alone: true})
		alone := func(c *Config) { c.Start = "" }
		h.add(5)
		h.startOne("a", alone)
		time.Sleep(5 * time.Second)
		h.kill("a")
		<-h.nodes["a"].done
		h.startOne("a", alone)
		time.Sleep(1500 * time.Millisecond)
		h.want("a second after kill -9", map[string]int{"a": 5})
	})
}

func TestLostAnswerOfAClaimIsFoundAndHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.start("a", "b")
		time.Sleep(15 * time.Second)
		a := h.nodes["a"]
		h.add(1)
		// The store gave it to a, which never heard of it.
		holder := holderOf("a", a.conf.Start)
		got, err := h.store.AcquireAll(t.Context(), holder,
			rowsOf([]lease.Grant{{Name: "claim/key/k00001"}}), 10*time.Second, 0)
		if err != nil || len(got.Leases) != 1 {
			t.Fatal(got, err)
		}
		time.Sleep(2500 * time.Millisecond)
		h.want("soon", map[string]int{"a": 1, "b": 0})
	})
}

func TestKeysOfAKindThatOnlySomeNodesClaimAreSharedAmongThose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(12)
		var mu sync.Mutex
		count := map[string]int{}
		h.kinds = func(name string) []Kind {
			if name == "a" {
				return nil
			}
			return []Kind{{Name: "own", Keys: func(context.Context) ([]string, error) {
				return []string{"1", "2", "3", "4", "5", "6"}, nil
			},
				Look: func(ctx context.Context, _ Claim) {
					mu.Lock()
					count[name]++
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					count[name]--
					mu.Unlock()
				}}}
		}
		h.start("a", "b", "c")
		time.Sleep(90 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if count["b"] != 3 || count["c"] != 3 {
			t.Errorf("own keys: %v", count)
		}
		h.want("common keys", map[string]int{"a": 4, "b": 4, "c": 4})
	})
}

func TestKindSaysWhatIsWrong(t *testing.T) {
	s := newParts(&core{})
	ok := Kind{Name: "x", Keys: func(context.Context) ([]string, error) {
		return nil, nil
	}, Look: func(context.Context, Claim) {}}
	if err := s.Claim(ok); err != nil {
		t.Error(err)
	}
	for _, k := range []Kind{ok, {}, {Name: "a/b", Keys: ok.Keys, Look: ok.Look},
		{Name: "y", Keys: ok.Keys}} {
		if err := s.Claim(k); err == nil {
			t.Errorf("accepted %q", k.Name)
		}
	}
}

func BenchmarkRoundWith10000KeysOfTenNodes(b *testing.B) {
	db := model.New(time.Now)
	var keys []string
	for i := range 10_000 {
		keys = append(keys, fmt.Sprintf("k%05d", i))
	}
	var nodes []*Scheduler
	for i := range 10 {
		s, err := New(Config{
			Leases: db, Chores: db, Name: fmt.Sprint("n", i), Start: "1", TTL: time.Hour,
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Claim(Kind{Name: "key", Keys: func(context.Context) ([]string, error) {
			return keys, nil
		}, Look: func(ctx context.Context, _ Claim) { <-ctx.Done() }}); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Join(b.Context()); err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, s)
	}
	round := func() {
		for _, s := range nodes {
			if err := s.Round(b.Context(), time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	}
	round()
	round()
	b.ReportAllocs()
	for b.Loop() {
		if err := nodes[0].Round(b.Context(), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	for _, s := range nodes {
		s.part(0)
	}
}
