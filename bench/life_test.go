package main

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeBooks are a server that calls a fixed number of tasks done.
type fakeBooks struct {
	finished int64
	err      error
}

func (f fakeBooks) submit(context.Context, int) error   { return nil }
func (f fakeBooks) done(context.Context) (int64, error) { return f.finished, f.err }
func (f fakeBooks) close() error                        { return nil }

func TestDrainAcceptsExactlyTheSubmittedTasks(t *testing.T) {
	failed := errors.New("one task failed")
	for _, c := range []struct {
		name               string
		submitted, handled int64
		books              fakeBooks
		want               string // in the error; "" = none
	}{
		{"all done", 10, 10, fakeBooks{finished: 10}, ""},
		{"some ran twice", 10, 12, fakeBooks{finished: 10}, ""},
		{"one is missing in the books", 10, 10, fakeBooks{finished: 9}, "nothing moved"},
		{"one never ran", 10, 9, fakeBooks{finished: 10}, "nothing moved"},
		{"one too many", 10, 10, fakeBooks{finished: 11}, "11 are counted done"},
		{"one failed", 10, 10, fakeBooks{err: failed}, failed.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stream{submitter: c.books}
				s.submitted.Store(c.submitted)
				s.handled.Store(c.handled)
				err := s.drain(t.Context())
				if (err == nil) != (c.want == "") || err != nil &&
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			})
		})
	}
}

func TestDrainEndsWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the worker ended")
		ctx, abort := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { abort(broken) })
		s := stream{submitter: fakeBooks{}}
		s.submitted.Store(1)
		if err := s.drain(ctx); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	})
}

// slowly answers each submission after a millisecond.
type slowly struct{ fakeBooks }

func (slowly) submit(context.Context, int) error {
	time.Sleep(time.Millisecond)
	return nil
}

func TestCallersPauseWhileTooMuchIsOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream{load: load{callers: 8, batch: 100}, submitter: slowly{}}
		if err := s.submitAll(t.Context(), time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if n := s.submitted.Load(); n <= outstanding || n > outstanding+8*100 {
			t.Errorf("%d tasks are outstanding, want few above %d", n, outstanding)
		}
		s.handled.Store(outstanding)
		before := s.submitted.Load()
		if err := s.submitAll(
			t.Context(), time.Now().Add(time.Second),
		); err != nil || s.submitted.Load() == before {
			t.Errorf("no more was submitted after the worker had caught up: %v", err)
		}
	})
}

func TestWorkerLinesAreHeardWhole(t *testing.T) {
	var s stream
	l := lines{hear: s.hear}
	for _, part := range []string{"1", "2\n3", "45\nnot a number\n67"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := s.handled.Load(); n != 345 {
		t.Errorf("heard %d, want 345", n)
	}
}

func TestPayloadsAre100BytesOfJSONThatDoNotCompress(t *testing.T) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	for i, p := range payloads {
		if len(p) != 100 || !json.Valid(p) {
			t.Fatalf("%d bytes: %s", len(p), p)
		}
		if i > 0 && bytes.Equal(p, payloads[i-1]) {
			t.Fatalf("payload %d is that before it", i)
		}
		w.Write(p)
	}
	w.Close()
	// 64 of the 100 bytes are random, 6 bits each
	if least := len(payloads) * 48; packed.Len() < least {
		t.Errorf("all of them fit in %d bytes, want at least %d", packed.Len(), least)
	}
}

func TestPayloadsGoRound(t *testing.T) {
	var next turn
	n := len(texts)
	for _, x := range []struct{ n, want int }{
		{100, 0}, {1, 100}, {n - 102, 101}, {5, n - 1}, {1, 4},
	} {
		if got := next.take(x.n); got != x.want {
			t.Errorf("%d begin at %d, want %d", x.n, got, x.want)
		}
	}
}
