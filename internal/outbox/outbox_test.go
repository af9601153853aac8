package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

// written are the texts of a store's events.
func written(t *testing.T, s *model.Model) (texts []string) {
	t.Helper()
	page, err := s.Events(t.Context(), store.EventQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		texts = append(texts, e.Kind+": "+e.Text)
	}
	return texts
}

func wantWritten(t *testing.T, s *model.Model, want ...string) {
	t.Helper()
	if got := written(t, s); !slices.Equal(got, want) {
		t.Errorf("written down:\n%q\nwant\n%q", got, want)
	}
}

func TestEventsWaitForAStoreThatFailsAndStandOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := model.New(time.Now)
		faulty := fault.New(s,
			fault.Script(fault.Before, fault.After, fault.Before))
		looks := 0
		o := New(Config{Node: "n1", Append: faulty.Append, Written: func() { looks++ }})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if err := o.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		o.AddMember(store.NodeOnline, "came", 7)
		o.Add(store.Event{Kind: "test", Text: "one"})
		time.Sleep(time.Minute)
		o.Add(store.Event{Kind: "test", Text: "one"}) // happened again
		synctest.Wait()
		wantWritten(t, s, "node.online: node n1 came", "test: one", "test: one")
		cancel()
		group.Wait()
		o.AddMember(store.NodeOffline, "left", 7)
		o.AddMember(store.NodeOffline, "left", 7)
		if err := o.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantWritten(t, s, "node.online: node n1 came", "test: one", "test: one",
			"node.offline: node n1 left")
		if looks != 3 {
			t.Errorf("told of news %d times", looks)
		}
	})
}

func TestWhatWaitsForAStoreThatIsAwayIsBounded(t *testing.T) {
	away := errors.New("away")
	o := New(Config{Node: "n1", Append: func(context.Context, []store.Event) (int, error) {
		return 0, away
	}})
	for range 2 * maxWaiting {
		o.Add(store.Event{Kind: "test"})
	}
	if len(o.waiting) != maxWaiting {
		t.Errorf("%d events wait", len(o.waiting))
	}
	if err := o.Round(t.Context()); !errors.Is(err, away) || len(o.waiting) != maxWaiting {
		t.Errorf("%v, %d events wait", err, len(o.waiting))
	}
}

func TestAFullStoreIsToldOfOnceAndItsRoomToo(t *testing.T) {
	s := model.New(time.Now)
	o := New(Config{Node: "n1", Append: s.Append})
	full := fmt.Errorf("check: %w", store.ErrFull)
	for _, err := range []error{nil, full, full, errors.New("away"), full, nil, nil, full, nil} {
		o.Checked(err)
	}
	if err := o.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	const refuses, takes = "store.full: node n1 refuses submissions: check: store is full",
		"store.ok: node n1 takes submissions again: the store has room"
	wantWritten(t, s, refuses, takes, refuses, takes)
}

// A node that is closed writes what waits while its Run may be doing so.
func TestRoundsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := model.New(time.Now)
		o := New(Config{Node: "n1", Append: func(
			ctx context.Context, list []store.Event,
		) (int, error) {
			time.Sleep(time.Second)
			return s.Append(ctx, list)
		}})
		o.Add(store.Event{Kind: "first", Text: "a"})
		o.Add(store.Event{Kind: "second", Text: "b"})
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if err := o.Round(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		wantWritten(t, s, "first: a", "second: b")
	})
}
