package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func newLedger(t *testing.T, path string) *ledger {
	t.Helper()
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	return l
}

func TestPieceCountsOnceAndOnlyWhereTheLastOneEnded(t *testing.T) {
	l := newLedger(t, filepath.Join(t.TempDir(), "ledger"))
	for _, c := range []struct {
		name              string
		replica           int
		fence, from, to   int64
		want              error
		counted, furthest int64
	}{
		{"a gap at the beginning", 0, 5, 10, 20, errCounted, 0, 0},
		{"the beginning", 0, 5, 0, 10, nil, 1, 10},
		{"the same by the other replica", 1, 5, 0, 10, errCounted, 1, 10},
		{"more by the other replica", 1, 5, 10, 30, nil, 2, 30},
		{"an overlap", 0, 5, 20, 40, errCounted, 2, 30},
		{"a gap", 0, 5, 40, 50, errCounted, 2, 30},
		{"a newer assignment of replica 0 that is late", 0, 6, 10, 30, errCounted, 2, 30},
		{"the older one of replica 0", 0, 5, 30, 40, errReplaced, 2, 30},
		{"the newer one", 0, 6, 30, 40, nil, 3, 40},
		{"replica 1 is still the same", 1, 5, 40, 50, nil, 4, 50},
	} {
		err := l.take(piece{
			File: "a", Replica: c.replica, Fence: c.fence, Worker: "w", From: c.from, To: c.to,
			Lines: 1,
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		at, err := l.at("a")
		counts, wrong := l.counts(linesByFile)
		if err := errors.Join(err, wrong); err != nil || at != c.furthest ||
			counts["a"] != c.counted {
			t.Errorf("%s: %d lines up to %d, %v; want %d up to %d", c.name, counts["a"], at, err,
				c.counted, c.furthest)
		}
	}
}

func TestWritersAtTheSameTimeCountEachPieceOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	const pieces, writers = 50, 4
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			l, err := openLedger(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.close()
			for n := range int64(pieces) {
				p := piece{
					File: "a", Replica: i, Fence: 1, Worker: fmt.Sprint("w", i), From: n, To: n + 1,
					Lines: 1,
				}
				if err := l.take(p); err != nil && !errors.Is(err, errCounted) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	l := newLedger(t, path)
	files, err := l.counts(linesByFile)
	shares, wrong := l.counts(linesByWorker)
	sum := int64(0)
	for _, n := range shares {
		sum += n
	}
	if err != nil || wrong != nil || files["a"] != pieces || sum != pieces {
		t.Errorf("%d lines, %d by worker, of %d; %v %v", files["a"], sum, pieces, err, wrong)
	}
}

func TestOnlyWholeLinesAreRead(t *testing.T) {
	for _, c := range []struct {
		text string
		from int64
		want string
		bad  bool
	}{
		{"", 0, "", false},
		{"one", 0, "", false},
		{"one\n", 0, "one\n", false},
		{"one\ntwo", 0, "one\n", false},
		{"one\ntwo\n", 4, "two\n", false},
		{"one\n", 4, "", false},
		{"one\n", 9, "", false},
		{strings.Repeat("x", 20), 0, "", true},
		{strings.Repeat("x", 14) + "\nyyy\n", 0, strings.Repeat("x", 14) + "\n", false},
	} {
		got, err := wholeLines(strings.NewReader(c.text), c.from, make([]byte, 16))
		if !bytes.Equal(got, []byte(c.want)) || err != nil != c.bad {
			t.Errorf("%q from %d: %q, %v; want %q", c.text, c.from, got, err, c.want)
		}
	}
}
