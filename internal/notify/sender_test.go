package notify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
)

// post is where the tests' messages arrive.
type post struct {
	mu   sync.Mutex
	got  map[string][]int64     // seqs, by notifier
	at   map[string][]time.Time // of each try
	away map[string]error       // those that can't be reached, and why
	slow map[string]time.Duration
}

func newPost() *post {
	return &post{
		got: map[string][]int64{}, at: map[string][]time.Time{}, away: map[string]error{},
		slow: map[string]time.Duration{},
	}
}

func (p *post) send(ctx context.Context, n *store.Notifier, m message) error {
	p.mu.Lock()
	p.at[n.Name] = append(p.at[n.Name], time.Now())
	err, slow := p.away[n.Name], p.slow[n.Name]
	p.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.got[n.Name] = append(p.got[n.Name], m.event.Seq)
	}
	return err
}

func (p *post) seqs(name string) []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got[name])
}

// tries are the times at which a message for a notifier was on its way.
func (p *post) tries(name string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.at[name])
}

func (p *post) set(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away[name] = err
}

// start runs a sender until the function that it returns is called.
func (p *post) start(t *testing.T, conf Config) (h *Sender, stop func()) {
	t.Helper()
	h, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	h.send = p.send
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return h, sync.OnceFunc(func() { cancel(); group.Wait() })
}

func put(t *testing.T, s Store, name string, on ...string) {
	t.Helper()
	n := store.Notifier{
		Name: name, Kind: kindWebhook, Format: "generic", On: on, Secrets: store.Secrets{
			URL: "https://example.com/",
		},
	}
	if _, err := s.ChangeNotifier(t.Context(), name, store.Whole(n)); err != nil {
		t.Fatal(err)
	}
}

func happen(t *testing.T, s Store, kinds ...string) {
	t.Helper()
	page, err := s.Events(t.Context(), store.EventQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range kinds {
		e := store.Event{
			Key: fmt.Sprint(kind, page.Next+int64(i)), Kind: kind, Subject: "n" + fmt.Sprint(i),
		}
		if _, err := s.Append(t.Context(), []store.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
}

func eventsOf(t *testing.T, s Store, kind string) []store.Event {
	t.Helper()
	page, err := s.Events(t.Context(), store.EventQuery{Kinds: []string{kind}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Events
}

func served(t *testing.T, s Store, name string) store.Progress {
	t.Helper()
	list, err := s.Notifiers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(n store.Notifier) bool { return n.Name == name })
	if i < 0 {
		t.Fatalf("no notifier %q", name)
	}
	return list[i].Served
}

func wantSeqs(t *testing.T, p *post, name string, want ...int64) {
	t.Helper()
	if got := p.seqs(name); !slices.Equal(got, want) {
		t.Errorf("%s got events %v, want %v", name, got, want)
	}
}

func TestEachNotifierGetsItsEventsOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		happen(t, s, "node.online")
		put(t, s, "all", "*")
		put(t, s, "nodes", "node.*")
		some := store.Notifier{
			Name: "some", Kind: kindWebhook, Format: "generic", On: []string{"*"},
			Subjects: []string{"n1", "n2*"},
		}
		if _, err := s.ChangeNotifier(t.Context(), "some", store.Whole(some)); err != nil {
			t.Fatal(err)
		}
		_, stop := p.start(t, Config{Store: s, Batch: 2})
		defer stop()
		happen(t, s, "node.offline", "store.full", "node.online", "store.ok", "node.offline")
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		wantSeqs(t, p, "all", 2, 3, 4, 5, 6)
		wantSeqs(t, p, "nodes", 2, 4, 6)
		wantSeqs(t, p, "some", 3, 4)
		for _, name := range []string{"all", "nodes", "some"} {
			if got := served(t, s, name); got != (store.Progress{Delivered: 6}) {
				t.Errorf("%s was served up to %+v", name, got)
			}
		}
		time.Sleep(time.Hour)
		wantSeqs(t, p, "all", 2, 3, 4, 5, 6)
	})
}

func TestNotifierThatAnotherServesIsLeftToIt(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *model.Model){
		"it is gone": func(t *testing.T, s *model.Model) {
			if err := s.DeleteNotifier(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
		},
		"it has moved": func(t *testing.T, s *model.Model) {
			if ok, err := s.Advance(
				t.Context(), "x", 0, store.Progress{Delivered: 3},
			); !ok || err != nil {
				t.Fatal(ok, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := model.New(time.Now), newPost()
				put(t, s, "x", "test")
				p.slow["x"] = time.Second
				happen(t, s, "test", "test", "test")
				_, stop := p.start(t, Config{Store: s})
				defer stop()
				time.Sleep(500 * time.Millisecond)
				change(t, s)
				time.Sleep(time.Minute)
				wantSeqs(t, p, "x", 1)
			})
		})
	}
}

func TestNewsThatComesDuringATurnIsDeliveredAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "x", "test")
		p.slow["x"] = time.Second
		happen(t, s, "test")
		h, stop := p.start(t, Config{Store: s})
		defer stop()
		time.Sleep(500 * time.Millisecond)
		happen(t, s, "test")
		h.Look()
		time.Sleep(1500*time.Millisecond + time.Millisecond)
		wantSeqs(t, p, "x", 1, 2)
	})
}

func TestRoundsAtTheSameTimeServeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "x", "test")
		p.slow["x"] = time.Second
		happen(t, s, "test", "test")
		h, stop := p.start(t, Config{Store: s})
		defer stop()
		for range 50 {
			go func() {
				if err := h.Round(t.Context(), time.Now()); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		wantSeqs(t, p, "x", 1, 2)
	})
}

func TestOneOfManyNodesServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "x", "test")
		stops := map[string]func(){}
		for _, node := range []string{"a", "b", "c"} {
			_, stop := p.start(t, Config{Store: s, Leases: s, Node: node})
			defer stop()
			stops[node] = stop
		}
		synctest.Wait()
		holder := func() string {
			leases, err := s.LeasesOf(t.Context(), turnLease)
			if err != nil || len(leases) != 1 {
				t.Fatalf("leases %+v, %v", leases, err)
			}
			return leases[0].Holder
		}
		var want []int64
		for i := range 3 {
			happen(t, s, "test", "test")
			want = append(want, int64(2*i+1), int64(2*i+2))
			before := holder()
			time.Sleep(5*time.Second + time.Millisecond)
			wantSeqs(t, p, "x", want...)
			if before != holder() {
				t.Errorf("%s took the turn from %s, which lives", holder(), before)
			}
		}
		stops[holder()]()
		happen(t, s, "test")
		time.Sleep(10*time.Second + time.Millisecond)
		want = append(want, 7)
		wantSeqs(t, p, "x", want...)
		// The lease of one that dies ends by itself, and the next one asks.
		dead := holder()
		got, err := s.AcquireAll(t.Context(), dead, []store.Lease{{Name: turnLease}},
			20*time.Second, math.MaxInt64)
		if err != nil || len(got.Leases) != 1 {
			t.Fatal(got, err)
		}
		stops[dead]() // its token is no longer good: it ends nothing
		happen(t, s, "test")
		time.Sleep(30*time.Second + time.Millisecond)
		wantSeqs(t, p, "x", append(want, 8)...)
	})
}

func TestChangedNotifierIsTriedAtOnceAndADeletedOneNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := model.New(time.Now), newPost()
		put(t, s, "x", "test")
		p.set("x", errors.New("wrong place"))
		h, stop := p.start(t, Config{Store: s})
		defer stop()
		happen(t, s, "test")
		time.Sleep(20 * time.Minute)
		tries := len(p.tries("x"))
		n := store.Notifier{
			Name: "x", Kind: kindWebhook, On: []string{"test"}, Secrets: store.Secrets{
				URL: "https://example.com/right",
			},
		}
		p.set("x", nil)
		if changed, err := h.PutNotifier(t.Context(), n); err != nil || changed.Created {
			t.Fatalf("%+v, %v", changed, err)
		}
		synctest.Wait()
		wantSeqs(t, p, "x", 1)
		if n := len(p.tries("x")); n != tries+1 {
			t.Errorf("%d tries", n-tries)
		}
		if err := h.DeleteNotifier(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		happen(t, s, "test")
		time.Sleep(time.Minute)
		wantSeqs(t, p, "x", 1)
	})
}

// counting counts what is asked of a store.
type counting struct {
	*model.Model
	calls int
}

func (c *counting) Notifiers(ctx context.Context) ([]store.Notifier, error) {
	c.calls++
	return c.Model.Notifiers(ctx)
}

func (c *counting) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	c.calls++
	return c.Model.Events(ctx, q)
}

func (c *counting) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	c.calls++
	return c.Model.AcquireAll(ctx, holder, wants, ttl, judge)
}

func TestIdleRoundsAskTheStoreLittle(t *testing.T) {
	s := &counting{Model: model.New(time.Now)}
	for i := range 5 {
		put(t, s.Model, fmt.Sprint("n", i), "*")
	}
	for _, c := range []struct {
		conf         Config
		first, again int
	}{
		{Config{Store: s}, 2, 2},
		{Config{Store: s, Leases: s, Node: "a"}, 3, 2},
		{Config{Store: s, Leases: s, Node: "b"}, 1, 0},
	} {
		h, err := New(c.conf)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		for i, want := range []int{c.first, c.again} {
			s.calls = 0
			if err := h.Round(
				t.Context(), now.Add(time.Duration(i)*9*time.Second),
			); err != nil || s.calls != want {
				t.Errorf("node %q asked %d times in round %d, want %d; %v", c.conf.Node, s.calls, i,
					want, err)
			}
		}
	}
}

// A store whose writes fail in both ways delays and doubles messages, and loses none.
func TestConfigurationSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{Leases: model.New(time.Now), Every: -1, Batch: -1})
	want := "configure notifications: no store\nleases, but no node to hold them\nevery -1ns is below 0\nbatch -1 is below 0"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
