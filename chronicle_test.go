package rota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/storetest"
)

// written are the texts of a store's events.
func written(t *testing.T, s *storetest.Model) (texts []string) {
	t.Helper()
	page, err := s.Events(t.Context(), rows.EventQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		texts = append(texts, e.Kind+": "+e.Text)
	}
	return texts
}

func wantWritten(t *testing.T, s *storetest.Model, want ...string) {
	t.Helper()
	if got := written(t, s); !slices.Equal(got, want) {
		t.Errorf("written down:\n%q\nwant\n%q", got, want)
	}
}

func TestEventsWaitForAStoreThatFailsAndStandOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel(time.Now)
		faulty := storetest.NewFaulty(s, storetest.Script(storetest.Before, storetest.After, storetest.Before))
		looks := 0
		c := newChronicle("n1", slog.New(slog.DiscardHandler), faulty.Append, func() { looks++ })
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		c.member(rows.NodeOnline, "came", 7)
		c.tell(rows.Event{Kind: "test", Text: "one"})
		time.Sleep(time.Minute)
		c.tell(rows.Event{Kind: "test", Text: "one"}) // happened again
		synctest.Wait()
		wantWritten(t, s, "node.online: node n1 came", "test: one", "test: one")
		cancel()
		group.Wait()
		c.member(rows.NodeOffline, "left", 7)
		c.member(rows.NodeOffline, "left", 7)
		if err := c.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantWritten(t, s, "node.online: node n1 came", "test: one", "test: one", "node.offline: node n1 left")
		if looks != 3 {
			t.Errorf("told of news %d times", looks)
		}
	})
}

func TestChronicleOfAStoreThatIsAwayIsBounded(t *testing.T) {
	away := errors.New("away")
	c := newChronicle("n1", slog.New(slog.DiscardHandler), func(context.Context, []rows.Event) (int, error) { return 0, away }, func() {})
	for range 2 * maxWaiting {
		c.tell(rows.Event{Kind: "test"})
	}
	if len(c.waiting) != maxWaiting {
		t.Errorf("%d events wait", len(c.waiting))
	}
	if err := c.Round(t.Context()); !errors.Is(err, away) || len(c.waiting) != maxWaiting {
		t.Errorf("%v, %d events wait", err, len(c.waiting))
	}
}

func TestAFullStoreIsToldOfOnceAndItsRoomToo(t *testing.T) {
	s := storetest.NewModel(time.Now)
	c := newChronicle("n1", slog.New(slog.DiscardHandler), s.Append, func() {})
	full := fmt.Errorf("check: %w", rows.ErrFull)
	for _, err := range []error{nil, full, full, errors.New("away"), full, nil, nil, full, nil} {
		c.checked(err)
	}
	if err := c.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	const refuses, takes = "store.full: node n1 refuses submissions: check: store is full", "store.ok: node n1 takes submissions again: the store has room"
	wantWritten(t, s, refuses, takes, refuses, takes)
}

func TestWhatTheSchedulerTellsIsWrittenDown(t *testing.T) {
	s := storetest.NewModel(time.Now)
	c := newChronicle("n1", slog.New(slog.DiscardHandler), s.Append, func() {})
	for _, e := range []scheduler.Event{
		{Kind: scheduler.NodeJoined, Node: "n2"}, {Kind: scheduler.NodeLeft, Node: "n2"}, // it says so itself
		{Kind: scheduler.NodeOffline, Node: "n2", Detail: "it was working, it is offline"},
		{Kind: scheduler.BudgetBroken, Detail: "fewer nodes may die"},
		{Kind: scheduler.AlarmRaised, Node: "n3", Detail: "it owns 9 keys"},
	} {
		c.noted(e)
	}
	if err := c.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantWritten(t, s, "node.offline: node n2: it was working, it is offline", "budget.broken: the cluster: fewer nodes may die", "alarm.raised: node n3: it owns 9 keys")
	page, err := s.Events(t.Context(), rows.EventQuery{Limit: 10})
	if err != nil || page.Events[0].Subject != "n2" || page.Events[1].Subject != "" {
		t.Errorf("%+v, %v", page.Events, err)
	}
}

// A node of a file says when it comes and when it goes, and tells whoever is to be told.
func TestNodeTellsThatItCameAndLeft(t *testing.T) {
	conf := Config{Store: "sqlite:" + t.TempDir() + "/rota.db", Name: "n1"}
	var got []string
	for range 2 {
		n, err := Open(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	page, err := n.store.Events(t.Context(), rows.EventQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		got = append(got, fmt.Sprint(e.Seq, " ", e.Kind))
	}
	if want := []string{"1 node.online", "2 node.offline", "3 node.online", "4 node.offline"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
