package notify

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/storetest"
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
	return &post{got: map[string][]int64{}, at: map[string][]time.Time{}, away: map[string]error{}, slow: map[string]time.Duration{}}
}

func (p *post) send(ctx context.Context, n *rows.Notifier, m message) error {
	p.mu.Lock()
	p.at[n.Name] = append(p.at[n.Name], time.Now())
	err, slow := p.away[n.Name], p.slow[n.Name]
	p.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return ctx.Err()
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

// start runs a herald until the function that it returns is called.
func (p *post) start(t *testing.T, conf Config) (h *Herald, stop func()) {
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
	n := rows.Notifier{Name: name, Kind: kindWebhook, Format: "generic", On: on, Secrets: rows.Secrets{URL: "https://example.com/"}}
	if _, err := s.PutNotifier(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func happen(t *testing.T, s Store, kinds ...string) {
	t.Helper()
	page, err := s.Events(t.Context(), rows.EventQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range kinds {
		e := rows.Event{Key: fmt.Sprint(kind, page.Next+int64(i)), Kind: kind, Subject: "n" + fmt.Sprint(i)}
		if _, err := s.Append(t.Context(), []rows.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
}

func eventsOf(t *testing.T, s Store, kind string) []rows.Event {
	t.Helper()
	page, err := s.Events(t.Context(), rows.EventQuery{Kinds: []string{kind}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Events
}

func served(t *testing.T, s Store, name string) rows.Progress {
	t.Helper()
	list, err := s.Notifiers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(n rows.Notifier) bool { return n.Name == name })
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
		s, p := storetest.NewModel(time.Now), newPost()
		happen(t, s, "node.online")
		put(t, s, "all", "*")
		put(t, s, "nodes", "node.*")
		some := rows.Notifier{Name: "some", Kind: kindWebhook, Format: "generic", On: []string{"*"}, Subjects: []string{"n1", "n2*"}}
		if _, err := s.PutNotifier(t.Context(), some); err != nil {
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
			if got := served(t, s, name); got != (rows.Progress{Delivered: 6}) {
				t.Errorf("%s was served up to %+v", name, got)
			}
		}
		time.Sleep(time.Hour)
		wantSeqs(t, p, "all", 2, 3, 4, 5, 6)
	})
}

func TestFailingNotifierBacksOffAndHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := storetest.NewModel(time.Now), newPost()
		put(t, s, "away", "test")
		put(t, s, "slow", "test")
		put(t, s, "well", "test")
		p.set("away", errors.New("no route"))
		p.slow["slow"] = 9 * time.Second
		h, stop := p.start(t, Config{Store: s})
		defer stop()
		start := time.Now()
		for range 3 {
			happen(t, s, "test")
		}
		h.Look()
		synctest.Wait()
		wantSeqs(t, p, "well", 1, 2, 3)
		happen(t, s, "test")
		h.Look()
		synctest.Wait()
		wantSeqs(t, p, "well", 1, 2, 3, 4)
		time.Sleep(30 * time.Minute)
		wantSeqs(t, p, "slow", 1, 2, 3, 4)
		var tries []time.Duration
		for _, at := range p.tries("away") {
			tries = append(tries, at.Sub(start))
		}
		want, at := []time.Duration{0}, time.Duration(0)
		for pause := time.Second; at+min(pause, 5*time.Minute) <= 30*time.Minute; pause *= 2 {
			at += min(pause, 5*time.Minute)
			want = append(want, at)
		}
		if !slices.Equal(tries, want) {
			t.Errorf("tries after %v\nwant %v", tries, want)
		}
		if got := served(t, s, "away"); got != (rows.Progress{Failing: start.UnixMicro(), Trouble: "no route"}) {
			t.Errorf("progress %+v", got)
		}
		p.set("away", nil)
		time.Sleep(5 * time.Minute)
		wantSeqs(t, p, "away", 1, 2, 3, 4)
		if got := served(t, s, "away"); got != (rows.Progress{Delivered: 4}) {
			t.Errorf("progress %+v", got)
		}
	})
}

func TestReceiverThatAsksToWaitIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := storetest.NewModel(time.Now), newPost()
		put(t, s, "busy", "test")
		p.set("busy", &refusedError{text: "it answered 429", after: time.Minute})
		_, stop := p.start(t, Config{Store: s})
		defer stop()
		happen(t, s, "test")
		time.Sleep(59 * time.Second)
		if n := len(p.tries("busy")); n != 1 {
			t.Errorf("%d tries", n)
		}
	})
}

func TestDeadNotifierIsToldOfOnceAndItsReturnToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := storetest.NewModel(time.Now), newPost()
		put(t, s, "away", "test")
		put(t, s, "well", "notifier.*")
		p.set("away", errors.New("no route"))
		_, stop := p.start(t, Config{Store: s})
		happen(t, s, "test", "test")
		time.Sleep(time.Hour - time.Second)
		if got := eventsOf(t, s, "notifier.*"); len(got) != 0 {
			t.Fatalf("told of %+v", got)
		}
		time.Sleep(6 * time.Minute)
		stop() // another node goes on, which remembers nothing
		_, stop = p.start(t, Config{Store: s})
		time.Sleep(3 * time.Hour)
		failed := eventsOf(t, s, "notifier.*")
		if len(failed) != 1 || failed[0].Kind != rows.NotifierFailed || failed[0].Subject != "away" ||
			failed[0].Text != "notifier away has delivered nothing for 1h0m0s: no route" {
			t.Fatalf("told of %+v", failed)
		}
		wantSeqs(t, p, "well", failed[0].Seq)
		stop()
		_, stop = p.start(t, Config{Store: s})
		defer stop()
		p.set("away", nil)
		time.Sleep(5*time.Minute + 6*time.Second)
		wantSeqs(t, p, "away", 1, 2)
		well := eventsOf(t, s, rows.NotifierOK)
		if len(well) != 1 || well[0].Subject != "away" {
			t.Fatalf("told of %+v", well)
		}
		wantSeqs(t, p, "well", failed[0].Seq, well[0].Seq)
		if got := served(t, s, "away"); got.Told || got.Failing != 0 || got.Trouble != "" {
			t.Errorf("progress %+v", got)
		}
	})
}

func TestOneOfManyNodesServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := storetest.NewModel(time.Now), newPost()
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
		time.Sleep(26 * time.Second)
		wantSeqs(t, p, "x", append(want, 7)...)
	})
}

func TestChangedNotifierIsTriedAtOnceAndADeletedOneNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := storetest.NewModel(time.Now), newPost()
		put(t, s, "x", "test")
		p.set("x", errors.New("wrong place"))
		h, stop := p.start(t, Config{Store: s})
		defer stop()
		happen(t, s, "test")
		time.Sleep(20 * time.Minute)
		tries := len(p.tries("x"))
		n := rows.Notifier{Name: "x", Kind: kindWebhook, On: []string{"test"}, Secrets: rows.Secrets{URL: "https://example.com/right"}}
		p.set("x", nil)
		if _, created, err := h.PutNotifier(t.Context(), n); err != nil || created {
			t.Fatalf("created %v, %v", created, err)
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
	*storetest.Model
	calls int
}

func (c *counting) Notifiers(ctx context.Context) ([]rows.Notifier, error) {
	c.calls++
	return c.Model.Notifiers(ctx)
}

func (c *counting) Events(ctx context.Context, q rows.EventQuery) (rows.EventPage, error) {
	c.calls++
	return c.Model.Events(ctx, q)
}

func (c *counting) AcquireAll(ctx context.Context, holder string, wants []rows.Lease, ttl time.Duration, judge int64) (rows.Granted, error) {
	c.calls++
	return c.Model.AcquireAll(ctx, holder, wants, ttl, judge)
}

func TestIdleRoundAsksTheStoreTwice(t *testing.T) {
	s := &counting{Model: storetest.NewModel(time.Now)}
	for i := range 5 {
		put(t, s.Model, fmt.Sprint("n", i), "*")
	}
	for _, c := range []struct {
		conf Config
		want int
	}{
		{Config{Store: s}, 2},
		{Config{Store: s, Leases: s, Node: "a"}, 3},
		{Config{Store: s, Leases: s, Node: "b"}, 1},
	} {
		h, err := New(c.conf)
		if err != nil {
			t.Fatal(err)
		}
		s.calls = 0
		if err := h.Round(t.Context(), time.Now()); err != nil || s.calls != c.want {
			t.Errorf("node %q asked %d times, want %d; %v", c.conf.Node, s.calls, c.want, err)
		}
	}
}

// A store whose writes fail in both ways delays and doubles messages, and loses none.
func TestFailingStoreLosesNoMessage(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			s, p := storetest.NewModel(time.Now), newPost()
			put(t, s, "x", "test")
			faulty := storetest.NewFaulty(s, storetest.Seeded(seed, 2))
			for _, node := range []string{"a", "b"} {
				_, stop := p.start(t, Config{Store: faulty, Leases: faulty, Node: node, Batch: 3})
				defer stop()
			}
			for range 10 {
				happen(t, s, "test")
				time.Sleep(3 * time.Second)
			}
			time.Sleep(time.Hour)
			got := p.seqs("x")
			if want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(slices.Compact(slices.Sorted(slices.Values(got))), want) {
				t.Errorf("seed %d: got %v", seed, got)
			}
			if at := served(t, s, "x").Delivered; at != 10 {
				t.Errorf("seed %d: served up to %d", seed, at)
			}
		})
	}
}

func TestFailingIsToldOfOnceAfterAnHour(t *testing.T) {
	hour := time.Hour.Microseconds()
	for _, c := range []struct {
		before rows.Progress
		now    int64
		after  rows.Progress
		tell   bool
	}{
		{rows.Progress{Delivered: 3}, 10, rows.Progress{Delivered: 3, Failing: 10, Trouble: "no"}, false},
		{rows.Progress{Delivered: 3, Failing: 10, Trouble: "other"}, 9 + hour, rows.Progress{Delivered: 3, Failing: 10, Trouble: "no"}, false},
		{rows.Progress{Delivered: 3, Failing: 10}, 10 + hour, rows.Progress{Delivered: 3, Failing: 10, Trouble: "no"}, true},
		{rows.Progress{Delivered: 3, Failing: 10, Told: true}, 10 + 2*hour, rows.Progress{Delivered: 3, Failing: 10, Told: true, Trouble: "no"}, false},
	} {
		if after, tell := failing(c.before, c.now, time.Hour, "no"); !reflect.DeepEqual(after, c.after) || tell != c.tell {
			t.Errorf("failing(%+v, %d) = %+v, %v, want %+v, %v", c.before, c.now, after, tell, c.after, c.tell)
		}
	}
}

func TestConfigurationSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{Leases: storetest.NewModel(time.Now), Every: -1, Batch: -1})
	want := "configure notifications: no store\nleases, but no node to hold them\nevery -1ns is below 0\nbatch -1 is below 0"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
