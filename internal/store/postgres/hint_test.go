//go:build unix

package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// hear listens at a store until the test ends, from when it hears.
func hear(t *testing.T, s *Store) <-chan Hint {
	t.Helper()
	heard := make(chan Hint, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Listen(ctx, func(h Hint) { heard <- h }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	want(t, heard, Hint{})
	return heard
}

// want waits for a hint, and passes over others.
func want(t *testing.T, heard <-chan Hint, hint Hint) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case h := <-heard:
			queue := cmp.Or(h.Queue, h.Offer.Queue) // either says that it has free tasks
			if queue == hint.Queue && h.Node == hint.Node && slices.Equal(h.Tasks, hint.Tasks) &&
				h.Ended == hint.Ended && h.Group == hint.Group && h.Seats == hint.Seats &&
				h.Limits == hint.Limits {
				return
			}
		case <-timeout:
			t.Fatalf("nobody said %+v", hint)
		}
	}
}

func TestOtherNodesHearOfReadyTasksAndOfWhatBefellTheirs(t *testing.T) {
	dsn := contested.database(t)
	a := join(t, open(t, Config{DSN: dsn}))
	lease, err := a.Acquire(t.Context(), "node/b", "b", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &client{
		TB: t, Store: open(t, Config{DSN: dsn}), holder: store.Holder{
			Node: "b", Token: lease.Token,
		},
	}
	b.note(b.holder)
	heard, own := hear(t, b.Store), hear(t, a.Store)

	a.submit(a.batch(1, 1, false))
	want(t, heard, Hint{Queue: "q"})
	a.TellEnded([]string{"limited"})
	want(t, heard, Hint{Ended: "limited"})
	a.TellLimits()
	want(t, heard, Hint{Limits: true})

	sp := b.submit(b.batch(3, 3, true))[0]
	if _, err := a.Settle(t.Context(),
		store.Settlement{Reports: []store.Report{report(&sp, 1, 0, 1,
			task.Finish(nil))}}); err != nil {
		t.Fatal(err)
	}
	want(t, heard, Hint{Node: "b", Tasks: []task.ID{{Batch: sp.Batch, N: 1}}})

	if _, err := a.Act(
		t.Context(), []store.Action{{ID: task.ID{Batch: sp.Batch, N: 2}, Kind: task.KindCancelled}},
	); err != nil {
		t.Fatal(err)
	}
	want(t, heard, Hint{Node: "b", Tasks: []task.ID{{Batch: sp.Batch, N: 2}}})

	if err := b.Give(
		t.Context(), store.GiveRequest{Holder: b.holder, Spans: []store.Taking{sp.Taking()}},
	); err != nil {
		t.Fatal(err)
	}
	want(t, own, Hint{Queue: "q"})
	for len(own) > 0 {
		if h := <-own; h.Node != "" {
			t.Errorf("a node was told of what it did itself: %+v", h)
		}
	}
}

// Who was not connected for a while is told so.
func TestListenerComesBackByItself(t *testing.T) {
	dsn := contested.database(t)
	a, b := join(t, open(t, Config{DSN: dsn})), open(t, Config{DSN: dsn})
	heard := hear(t, b)
	runSQL(t, dsn,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")
	want(t, heard, Hint{})
	a.submit(a.batch(1, 1, false))
	want(t, heard, Hint{Queue: "q"})
}

func TestManyChangesAreToldOfTogether(t *testing.T) {
	dsn := contested.database(t)
	a, b := join(t, open(t, Config{DSN: dsn})), open(t, Config{DSN: dsn})
	heard := hear(t, b)
	const many = 2000
	for range many {
		a.hint(Hint{Queue: "q"})
	}
	a.hint(Hint{Queue: "last"})
	want(t, heard, Hint{Queue: "last"})
	if n := len(heard); n > many/10 {
		t.Errorf("%d hints were heard of %d changes", n, many)
	}
}

func TestWithoutNotificationsListenOnlyWaits(t *testing.T) {
	s := contested.fresh(t, Config{NoNotify: true}, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Listen(ctx, func(h Hint) { t.Errorf("heard %+v", h) }); err != nil {
		t.Error(err)
	}
	s.hint(Hint{Queue: "q"})
}

func TestLongHintsComeInPieces(t *testing.T) {
	h := Hint{Node: strings.Repeat("n", 128)}
	for n := range int32(2000) {
		h.Tasks = append(h.Tasks, task.ID{Batch: 1 << 60, N: 1<<30 + n})
	}
	var got []task.ID
	for _, p := range h.payload("origin12") {
		if len(p) >= 8000 { // PostgreSQL's limit
			t.Errorf("a payload has %d bytes", len(p))
		}
		origin, piece, err := parseHint(p)
		if err != nil || origin != "origin12" || piece.Node != h.Node || piece.Queue != "" {
			t.Fatalf("%q, %+v, %v", origin, piece, err)
		}
		got = append(got, piece.Tasks...)
	}
	if !slices.Equal(got, h.Tasks) {
		t.Errorf("%d tasks came back of %d", len(got), len(h.Tasks))
	}
}

// FuzzHint: what is read as a hint is written in the same words.
func FuzzHint(f *testing.F) {
	f.Add("o queue q")
	f.Add("o group g")
	f.Add("o seats")
	f.Add("o node n " + task.ID{Batch: 1 << 60, N: 7}.String() + " " +
		task.ID{Batch: 1, N: 0}.String())
	f.Add("o want n " + task.ID{Batch: 1, N: 0}.String())
	f.Add("o node n")
	f.Add("o queue ")
	f.Add(" queue q")
	f.Add("o node  x")
	f.Fuzz(func(t *testing.T, text string) {
		origin, h, err := parseHint(text)
		if err != nil {
			return
		}
		if got := strings.Join(h.payload(origin), "|"); got != text && len(text) < payloadLimit {
			t.Errorf("%q became %+v, and then %q", text, h, got)
		}
	})
}
