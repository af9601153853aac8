package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
)

// stall keeps the writer busy until release is called, so that what is asked meanwhile shares the
// next transaction.
func stall(t *testing.T, s *Store) (release func()) {
	t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.write(context.Background(), func(*tx) error {
			close(began)
			<-end
			return nil
		})
		if err != nil {
			t.Errorf("stalled write: %v", err)
		}
	})
	<-began
	return func() {
		close(end)
		wg.Wait()
	}
}

// waiting returns when n calls wait for the writer.
func waiting(t *testing.T, s *Store, n int) {
	t.Helper()
	for len(s.ops) < n {
		if t.Context().Err() != nil {
			t.Fatal("they never came")
		}
		// SQLite's goroutine is not in a bubble; this only waits for a fact
		time.Sleep(time.Millisecond)
	}
}

func TestConcurrentWritesShareACommit(t *testing.T) {
	s := open(t, Config{})
	before := s.Commits()
	release := stall(t, s)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if _, err := s.ChangeQueue(
				t.Context(), fmt.Sprint("q", i),
				store.Whole(limits.DefaultQueue(fmt.Sprint("q", i))),
			); err != nil {
				t.Error(err)
			}
		})
	}
	waiting(t, s, 10)
	release()
	wg.Wait()
	if got := s.Commits() - before; got != 1 {
		t.Errorf("10 concurrent writes took %d commits, want 1", got)
	}
}

func TestBadWriteSpoilsOnlyItself(t *testing.T) {
	s := open(t, Config{})
	bad := errors.New("bad")
	release := stall(t, s)
	errs := make([]error, 5)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.write(t.Context(), func(t *tx) error {
				if _, err := t.queues().putQueue(
					insertQueue, limits.DefaultQueue(fmt.Sprint("q", i)),
				); err != nil {
					return err
				}
				if i == 2 {
					return bad
				}
				return nil
			})
		})
	}
	waiting(t, s, len(errs))
	release()
	wg.Wait()
	for i, err := range errs {
		if want := map[bool]error{true: bad}[i == 2]; !errors.Is(err, want) {
			t.Errorf("write %d: got %v, want %v", i, err, want)
		}
	}
	got, err := s.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names string
	for _, q := range got {
		names += q.Name + " "
	}
	if names != "q0 q1 q3 q4 " {
		t.Errorf("queues: got %s, want q0 q1 q3 q4", names)
	}
}

func TestCallerMayLeaveUntilItsTurn(t *testing.T) {
	s := open(t, Config{})
	release := stall(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ran := false
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = s.write(ctx, func(*tx) error { ran = true; return nil }) })
	waiting(t, s, 1)
	cancel()
	wg.Wait()
	release()
	if _, e := s.ChangeQueue(t.Context(), "q", store.Whole(limits.DefaultQueue("q"))); e != nil {
		// the writer has passed the abandoned call
		t.Fatal(e)
	}
	if ran || !errors.Is(err, context.Canceled) {
		t.Errorf("got ran %v and %v, want false and %v", ran, err, context.Canceled)
	}
}

func TestBegunWriteRunsToItsEnd(t *testing.T) {
	s := open(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	err := s.write(ctx, func(t *tx) error {
		cancel()
		_, err := t.queues().putQueue(insertQueue, limits.DefaultQueue("q"))
		return err
	})
	if err != nil {
		t.Errorf("got %v, want success: the transaction had begun", err)
	}
	if got, err := s.Queues(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v, want the queue", got, err)
	}
}

func TestTooManyWaitingAreBusy(t *testing.T) {
	s := open(t, Config{Waiting: 1})
	release := stall(t, s)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.ChangeQueue(
			t.Context(), "first", store.Whole(limits.DefaultQueue("first")),
		); err != nil {
			t.Error(err)
		}
	})
	waiting(t, s, 1)
	if _, err := s.ChangeQueue(
		t.Context(), "second", store.Whole(limits.DefaultQueue("second")),
	); !errors.Is(err, store.ErrBusy) {
		t.Errorf("got %v, want %v", err, store.ErrBusy)
	}
	release()
	wg.Wait()
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	s := open(t, Config{})
	release := stall(t, s)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.ChangeQueue(
			context.Background(), "q", store.Whole(limits.DefaultQueue("q")),
		); err != nil {
			t.Errorf("write before close: %v", err)
		}
	})
	waiting(t, s, 1)
	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	<-s.closing
	release()
	wg.Wait()
	for name, call := range map[string]func() error{
		"write": func() error {
			_, err := s.ChangeQueue(context.Background(), "q", store.Whole(limits.DefaultQueue("q")))
			return err
		},
		"read": func() error { _, err := s.Queues(context.Background()); return err },
		"keep": func() error {
			_, err := s.Keep(context.Background(), make([]byte, 5000))
			return err
		},
		"check": func() error { return s.Check(context.Background()) },
	} {
		if err := call(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after close: got %v, want %v", name, err, store.ErrClosed)
		}
	}
}

func TestErrorsOfSQLiteGetTheirMeaning(t *testing.T) {
	for _, c := range []struct {
		code   sqlite.ResultCode
		want   error
		sticky bool
	}{
		{sqlite.ResultFull, store.ErrFull, false},
		{sqlite.ResultIOErr, store.ErrBroken, true},
		{sqlite.ResultIOErrFsync, store.ErrBroken, true},
		{sqlite.ResultIOErrWrite, store.ErrBroken, true},
		{sqlite.ResultCorrupt, store.ErrBroken, true},
		{sqlite.ResultNotADB, store.ErrBroken, true},
	} {
		s := open(t, Config{})
		if err := s.write(t.Context(), func(*tx) error {
			return c.code.ToError()
		}); !errors.Is(err, c.want) {
			t.Errorf("%v: got %v, want %v", c.code, err, c.want)
		}
		_, err := s.ChangeQueue(t.Context(), "q", store.Whole(limits.DefaultQueue("q")))
		if broken := errors.Is(err, store.ErrBroken); broken != c.sticky {
			t.Errorf("write after %v: got %v, want it to fail: %v", c.code, err, c.sticky)
		}
	}
}

func TestFullDiskChangesNothingAndHeals(t *testing.T) {
	s := open(t, Config{maxPages: 150})
	c := join(t, s)
	var kept int64
	for {
		b := c.batch(100, 100, false)
		_, err := s.Submit(t.Context(), store.Submission{
			Holder: c.holder, Batches: []store.Batch{b},
		})
		if err == nil {
			kept += 100
			continue
		}
		if !errors.Is(err, store.ErrFull) {
			t.Fatalf("submit into a full store: got %v, want %v", err, store.ErrFull)
		}
		break
	}
	count := func(want int64) {
		t.Helper()
		got, err := s.Counts(t.Context(), "q")
		if err != nil || got[0].Counts.Ready != want {
			t.Fatalf("got %+v, %v, want %d ready tasks", got, err, want)
		}
	}
	count(kept)
	if err := s.write(t.Context(), func(t *tx) error {
		return t.run("PRAGMA max_page_count = 100000")
	}); err != nil {
		t.Fatal(err)
	}
	c.submit(c.batch(100, 100, false))
	count(kept + 100)
}

func TestReserveRefusesOnlySubmissions(t *testing.T) {
	s := open(t, Config{})
	c := join(t, s)
	spans := c.submit(c.batch(10, 10, true))
	s.reserve = math.MaxInt64
	_, err := s.Submit(t.Context(), store.Submission{
		Holder: c.holder, Batches: []store.Batch{c.batch(1, 1, false)},
	})
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("submit: got %v, want %v", err, store.ErrFull)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("check: got %v, want %v", err, store.ErrFull)
	}
	c.settle(spans) // what runs can end
	s.reserve = 1
	c.submit(c.batch(1, 1, false))
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("check with room: %v", err)
	}
}

// Whoever does the chores looks in every beat whether tasks have expired. While no limit is over
// that is a read: it neither waits for the writer nor keeps it from others.
func TestALookForWhatExpiredLeavesTheWriterAlone(t *testing.T) {
	s := open(t, Config{})
	c := join(t, s)
	for _, within := range []time.Duration{0, time.Hour} {
		b := c.batch(1, 1, false)
		b.Tasks[0].StartWithin = within.Microseconds()
		c.submit(b)
		release := stall(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		got, err := s.TakeExpired(ctx, c.holder, 10)
		if err != nil || got.LeaseGone || got.NextDue != b.Tasks[0].Expires(b.Due) {
			t.Errorf("%+v, %v; want to look next at %d", got, err, b.Tasks[0].Expires(b.Due))
		}
		gone := store.Holder{Node: "a", Token: c.holder.Token + 1}
		if got, err := s.TakeExpired(ctx, gone, 10); err != nil || !got.LeaseGone {
			t.Errorf("without its lease: %+v, %v", got, err)
		}
		cancel()
		release()
	}
}

// A value that is left out would be NULL, and the statement would do nothing or too much.
func TestAStatementGetsAsManyValuesAsItHasPlaces(t *testing.T) {
	s := open(t, Config{})
	for _, values := range [][]any{{int64(1)}, {int64(1), int64(2), int64(3)}} {
		err := s.write(t.Context(), func(t *tx) error {
			_, err := t.exec(deleteSpan, values...)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "for the 2 places") {
			t.Errorf("%d values: %v", len(values), err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("the store afterwards: %v", err)
	}
}
