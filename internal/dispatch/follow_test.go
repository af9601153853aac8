package dispatch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// runs counts the running rows of queue q.
func (h *house) runs() int {
	h.t.Helper()
	page, _, err := h.store.Tasks(h.ctx, store.Filter{Queue: "q", State: task.Running}, task.ID{},
		100)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(page)
}

// A limit that is set for the first time holds when it is answered, at every node: what runs
// counts, however young, and nothing begins beyond the limit.
func TestAFirstLimitHoldsOnceItIsAnswered(t *testing.T) {
	for name, told := range map[string]bool{
		"of nodes that tell each other": true, "of nodes that hear nothing": false,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := neighbours(t, model.New(time.Now), told)
				defer time.Sleep(10 * time.Millisecond) // hints that are on their way
				defer a.close()
				defer b.close()
				b.many(40)
				time.Sleep(2500 * time.Millisecond)
				running := b.holdFor("v", 7, time.Second)
				if len(running) != 7 || b.runs() != 0 {
					t.Fatalf("%d tasks run, of which %d are written down", len(running), b.runs())
				}
				set := time.Now()
				a.limit(5, task.Rate{}, 0)
				if took := time.Since(set); told && took > 100*time.Millisecond ||
					took > 3*time.Second {
					t.Errorf("a limit took %v to hold", took)
				}
				if n := b.runs(); n != 7 {
					t.Errorf("%d tasks are written down, want 7", n)
				}
				if got := b.holdFor("u", 5, 0); len(got) != 0 {
					t.Fatalf("%d tasks began beyond the limit", len(got))
				}
				b.done("v", running[:3]...)
				if got := b.holdFor("u", 5, 2*time.Second); len(got) != 1 {
					t.Fatalf("%d tasks began where one had room", len(got))
				}
				b.done("v", running[3:]...)
			})
		})
	}
}

// Limits of each key hold as well, and what ran before counts for its key.
func TestFirstLimitsOfKeysHoldOnceTheyAreAnswered(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *house) {
		for i := range 12 {
			b.submit(task.Submission{Queue: "q", GroupKey: fmt.Sprint("k", i%3)})
		}
		time.Sleep(2500 * time.Millisecond)
		running := b.holdFor("v", 2, time.Second)
		if _, err := a.d.ChangeQueue(a.ctx, "q", func(q *task.Queue, _ bool) error {
			q.PerKey.MaxRunning = 1
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		got := b.holdFor("u", 12, time.Second)
		if len(running) != 2 || len(got) != 1 {
			t.Errorf("beside %d tasks %d of three keys began", len(running), len(got))
		}
		keys := map[string]int{}
		for _, h := range slices.Concat(running, got) {
			v, err := a.store.Task(a.ctx, h.ID)
			if err != nil {
				t.Fatal(err)
			}
			if keys[v.GroupKey]++; keys[v.GroupKey] > 1 {
				t.Errorf("%d tasks of key %s run", keys[v.GroupKey], v.GroupKey)
			}
		}
		b.done("v", running...)
		b.done("u", got...)
	})
}

// A key is paused for the first time in a queue, and nothing of it begins after the answer.
func TestAFirstPauseHoldsOnceItIsAnswered(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *house) {
		for range 4 {
			b.submit(task.Submission{Queue: "q", GroupKey: "k"})
		}
		time.Sleep(2500 * time.Millisecond)
		changed, err := a.d.ChangeKey(a.ctx, store.KeyChange{
			Queue: "q", Key: "k", Pause: store.Forever,
		})
		if err != nil || len(changed.Unheard) > 0 {
			t.Fatalf("%+v, %v", changed, err)
		}
		if got := b.holdFor("u", 4, 0); len(got) != 0 {
			t.Errorf("%d tasks of a paused key began", len(got))
		}
	})
}

// unlimit takes the limits of queue q away again.
func (h *house) unlimit() { h.limit(0, task.Rate{}, 0) }

// A node that does not answer is named, and waited for no longer than it is a member.
func TestANodeThatDoesNotFollowIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		a, b := neighbours(t, db, true)
		defer time.Sleep(10 * time.Millisecond)
		defer a.close()
		defer b.close()
		join := func(ttl time.Duration) {
			if _, err := db.Acquire(t.Context(), "node/hung", "hung", ttl, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, test := range []struct {
			member, within time.Duration
			want           []string
		}{
			{time.Minute, followWithin, []string{"hung"}},
			{4 * time.Second, 5*time.Second + followRest, nil},
		} {
			join(test.member)
			time.AfterFunc(5*time.Second, func() { // as chores end what has expired
				db.Free(context.Background(), a.d.conf.Holder, math.MaxInt64)
			})
			set := time.Now()
			changed, err := a.d.ChangeQueue(a.ctx, "q", func(q *task.Queue, _ bool) error {
				q.MaxRunning = 5
				return nil
			})
			if took := time.Since(set); err != nil || took > test.within ||
				!slices.Equal(changed.Unheard, test.want) {
				t.Errorf("a member for %v: %v are unheard after %v, %v", test.member,
					changed.Unheard, took, err)
			}
			a.unlimit()
		}
		join(time.Minute)
		set := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		changed, err := a.d.ChangeQueue(ctx, "q", func(q *task.Queue, _ bool) error {
			q.MaxRunning = 5
			return nil
		})
		if took := time.Since(set); err != nil || took > 2*time.Second ||
			!slices.Equal(changed.Unheard, []string{"hung"}) {
			t.Errorf("given up: %v are unheard after %v, %v", changed.Unheard, took, err)
		}
	})
}

// What is handed out while the limit is set, and then reaches nobody, does not count for ever.
func TestWhatIsTakenBackCountsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, model.New(time.Now))
		h.door.Slow("Value", 500*time.Millisecond)
		defer h.close()
		large := fmt.Appendf(nil, `"%0*d"`, store.InlineLimit, 0)
		for range 3 {
			h.submit(task.Submission{Queue: "q", Context: large})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		given := make(chan []task.Handout)
		go func() { // it has room for the first context only
			room := int64(1)
			got, err := h.d.Hold(ctx, task.HoldRequest{
				Worker: "w", Queues: []string{"q"}, Limit: 3, Wait: time.Second,
				Room: func(int64) bool { room--; return room >= 0 },
			})
			if err != nil {
				t.Error(err)
			}
			given <- got.Tasks
		}()
		time.Sleep(100 * time.Millisecond)
		h.limit(1, task.Rate{}, 0)
		got := <-given
		if n := h.runs(); len(got) != 1 || n < 1 {
			t.Fatalf("%d tasks were handed out, %d are written down", len(got), n)
		}
		time.Sleep(time.Second)
		if n := h.runs(); n != 1 {
			t.Errorf("%d tasks are written down, of which one runs", n)
		}
		h.done("w", got...)
		if got = h.holdFor("w", 3, 5*time.Second); len(got) != 1 {
			t.Errorf("%d tasks began, want 1", len(got))
		}
	})
}

func TestMembersThatHaveNotToldAreUnheard(t *testing.T) {
	const now, word = 100, 7
	member := func(name string, token, until int64) store.Lease {
		return store.Lease{Name: store.MembershipPrefix + name, Token: token, Until: until}
	}
	told := func(name string, f followed) store.Lease {
		return store.Lease{Name: FollowPrefix + name, Value: f.text(), Until: 50}
	}
	b := member("b", 1, 200)
	for name, c := range map[string]struct {
		leases []store.Lease
		want   string
	}{
		"nobody":                  {nil, ""},
		"oneself":                 {[]store.Lease{member("a", 1, 200)}, ""},
		"who said nothing":        {[]store.Lease{b, member("c", 2, 101)}, "b c"},
		"who said enough":         {[]store.Lease{b, told("b", followed{1, 7})}, ""},
		"who said more":           {[]store.Lease{b, told("b", followed{1, 8})}, ""},
		"who said less":           {[]store.Lease{b, told("b", followed{1, 6})}, "b"},
		"whose former start said": {[]store.Lease{b, told("b", followed{2, 9})}, "b"},
		"whose word is none":      {[]store.Lease{b, {Name: FollowPrefix + "b"}}, "b"},
		"who has expired":         {[]store.Lease{member("b", 1, now), told("b", followed{1, 6})}, "b"},
		"who is a member no more": {[]store.Lease{member("b", 2, 0), told("b", followed{1, 6})}, ""},
		"who was none":            {[]store.Lease{told("b", followed{1, 6})}, ""},
	} {
		got := unheardMembers(store.Beat{Now: now, Leases: c.leases}, word, "a")
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v are unheard, want %s", name, got, c.want)
		}
	}
}

// Nodes that set limits at the same moment follow each other while they wait.
func TestNodesThatSetLimitsAtATimeDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := neighbours(t, model.New(time.Now), false)
		defer a.close()
		defer b.close()
		a.halt() // no rounds: who waits has to do it
		b.halt()
		set := time.Now()
		done := make(chan store.Changed[task.Queue], 2)
		for i, h := range []*house{a, b} {
			go func() {
				changed, err := h.d.ChangeQueue(h.ctx, fmt.Sprint("q", i),
					func(q *task.Queue, _ bool) error {
						q.MaxRunning = 1
						return nil
					})
				if err != nil {
					t.Error(err)
				}
				done <- changed
			}()
		}
		for range 2 {
			if c := <-done; len(c.Unheard) > 0 || time.Since(set) > time.Second {
				t.Errorf("%v are unheard after %v", c.Unheard, time.Since(set))
			}
		}
	})
}
