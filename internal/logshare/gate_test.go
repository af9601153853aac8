package logshare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// flood is a body of n lines, each of size bytes.
func flood(n, size int) string {
	line := fmt.Sprintf(`{"text":"%s"}`+"\n", strings.Repeat("x", size))
	return strings.Repeat(line, n)
}

func TestOnlySoManyLogsAreKnown(t *testing.T) {
	g, now := New(Config{}), time.Now()
	g.node.Left, g.node.Burst = 1<<40, 1<<40
	for i := range maxLogShares + 500 {
		g.enter(strconv.Itoa(i), []byte(flood(1, 1000)), now)
	}
	if len(g.logs) > maxLogShares {
		t.Errorf("%d are known", len(g.logs))
	}
	g.enter("new", nil, now.Add(time.Minute))
	if len(g.logs) != 1 {
		t.Errorf("%d are known when all but one have been quiet", len(g.logs))
	}
}

func TestNothingIsLostBelowTheShare(t *testing.T) {
	g, now := New(Config{}), time.Now()
	for range 300 { // calls at once: each takes its part before the next looks
		body := []byte(flood(10, 100))
		s, wait, end, gone := g.enter("a", body, now)
		if s == nil || wait != 0 || len(end) != len(body) || gone != (lost{}) {
			t.Fatalf("wait %v, %d of %d bytes, lost %+v", wait, len(end), len(body), gone)
		}
	}
	large := []byte(flood(1000, 1000))
	if _, wait, _, gone := g.enter("a", large, now); wait != 0 || gone.lines == 0 {
		t.Errorf("what is left of a share is to be taken: wait %v, lost %+v", wait, gone)
	}
	s, wait, _, _ := g.enter("a", large, now)
	if wait == 0 {
		t.Fatal("there is no share left, and nobody waits")
	}
	if other, _, _, gone := g.enter("a", []byte(flood(3, 10)), now); other != nil ||
		gone.lines != 3 {
		t.Errorf("beside the one that waits: %+v", gone)
	}
	if end, gone := g.leave(s, large, now.Add(wait)); len(end) == 0 ||
		gone.lines+sizeOf(end).lines != 1003 {
		t.Errorf("after %v: %d bytes, lost %+v", wait, len(end), gone)
	}
	if s, wait, _, _ := g.enter(
		"a", []byte(flood(3, 10)), now.Add(wait+Wait),
	); s == nil || wait != 0 {
		t.Error("the next call waits")
	}
}

func TestLinesOfThisProcessHaveTheSameShareAsBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{LogRate: 1 << 10, LogBurst: 8 << 10})
		var log []task.LogLine
		write := func(_ context.Context, lines []task.LogLine) error {
			log = append(log, lines...)
			return nil
		}
		at := time.Now().Add(-time.Hour)
		lines := make([]task.LogLine, 100)
		for i := range lines {
			lines[i] = task.LogLine{
				Time: at, Stream: "out", Text: strconv.Itoa(i) + strings.Repeat("\n", 100),
			}
		}
		if err := g.WriteLines(t.Context(), "a", lines, write); err != nil {
			t.Fatal(err)
		}
		n := len(log)
		if n < 2 || n > 80 || log[0].Stream != "rota" ||
			!strings.HasPrefix(log[0].Text, strconv.Itoa(100-n+1)+" lines dropped, ") {
			t.Fatalf("%d lines, the first is %+v", n, log[0])
		}
		if !slices.Equal(log[1:], lines[100-n+1:]) {
			t.Error("what is kept are not the newest lines, as they were")
		}
		if g.Dropped() != int64(100-n+1) {
			t.Errorf("%d dropped, want %d", g.Dropped(), 100-n+1)
		}
		parse := func(end []byte) ([]task.LogLine, error) {
			return make([]task.LogLine, sizeOf(end).lines), nil
		}
		kept, dropped, err := g.Write(t.Context(), Call{
			Log: "a", Body: []byte(flood(100, 100)), Parse: parse, Write: write,
		})
		if err != nil || kept > 20 || kept+dropped != 100 {
			// what a second brings: the share is spent
			t.Errorf("a body on the same log: kept %d, dropped %d, %v", kept, dropped, err)
		}
		kept, dropped, err = g.Write(t.Context(), Call{
			Log: "b", Body: []byte(flood(10, 100)), Parse: parse, Write: write,
		})
		if err != nil || kept != 10 || dropped != 0 {
			t.Errorf("a body on another log: kept %d, dropped %d, %v", kept, dropped, err)
		}
	})
}

func TestWriteSaysWhatFailed(t *testing.T) {
	g, fault := New(Config{}), errors.New("no")
	fails := func(context.Context, []task.LogLine) error { return fault }
	for _, lines := range [][]task.LogLine{nil, {{Text: "x"}}} {
		if err := g.WriteLines(t.Context(), "a", lines, fails); !errors.Is(err, fault) {
			t.Errorf("%d lines: %v", len(lines), err)
		}
	}
}

func TestOnlyOnePieceIsWrittenAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{})
		under, most, largest := 0, 0, 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				lines := slices.Repeat([]task.LogLine{{Text: strings.Repeat("x", 500)}}, 300)
				err := g.WriteLines(t.Context(), strconv.Itoa(i), lines,
					func(_ context.Context, lines []task.LogLine) error {
						mu.Lock()
						under++
						most, largest = max(most, under), max(largest, len(lines)*500)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						under--
						mu.Unlock()
						return nil
					})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most != 1 || largest > Piece+600 {
			t.Errorf("up to %d bytes are written at once, by %d at a time", largest, most)
		}
	})
}
