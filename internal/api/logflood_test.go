package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// logBook takes the lines of logs, and knows how they were written.
type logBook struct {
	*fake
	mu      sync.Mutex
	lines   map[task.ID][]task.LogLine
	bytes   int
	largest int // bytes of one write
	under   atomic.Int32
	most    int32 // writes at a time
}

func newLogBook() *logBook { return &logBook{fake: newFake(), lines: map[task.ID][]task.LogLine{}} }

func (b *logBook) Log(_ context.Context, id task.ID, lines []task.LogLine) error {
	now := b.under.Add(1)
	defer b.under.Add(-1)
	time.Sleep(time.Millisecond) // in a bubble
	b.mu.Lock()
	defer b.mu.Unlock()
	size := 0
	for _, l := range lines {
		size += len(l.Text)
	}
	b.most, b.largest, b.bytes = max(b.most, now), max(b.largest, size), b.bytes+size
	b.lines[id] = append(b.lines[id], lines...)
	return nil
}

var droppedText = regexp.MustCompile(`^(\d+) lines dropped, (\d+) bytes: `)

// told is how many lines a log says it lacks, and how many it has.
func (b *logBook) told(t *testing.T, id task.ID) (gone, there int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines[id] {
		if l.Stream != "rota" {
			there++
			continue
		}
		m := droppedText.FindStringSubmatch(l.Text)
		if m == nil {
			t.Fatalf("the log says %q", l.Text)
		}
		n, _ := strconv.Atoi(m[1])
		gone += n
	}
	return gone, there
}

// api makes an API that takes large bodies.
func (b *logBook) api(t *testing.T) *API {
	return newAPI(t, b, func(c *Config) { c.MaxBody, c.MaxBodies = 8<<20, 256<<20 })
}

// postLines adds to the log of task i, beside others.
func postLines(a *API, i int32, body string) (status int, out logOut) {
	r := httptest.NewRequest("POST", "/v1/tasks/"+idOf(i).String()+"/logs", strings.NewReader(body))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	json.Unmarshal(w.Body.Bytes(), &out)
	return w.Code, out
}

// flood is a body of n lines, each of size bytes.
func flood(n, size int) string {
	line := fmt.Sprintf(`{"text":"%s"}`+"\n", strings.Repeat("x", size))
	return strings.Repeat(line, n)
}

func TestFloodOfOneLogIsBoundedAndSaysWhatItDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLogBook()
		a := b.api(t)
		began, sent, dropped := time.Now(), 0, 0
		for range 40 {
			status, out := postLines(a, 0, flood(9000, 500))
			if status != 200 {
				t.Fatal(status)
			}
			sent, dropped = sent+9000, dropped+out.Dropped
		}
		passed := time.Since(began).Seconds()
		if most := logBurst + logRate*passed; float64(b.bytes) > most || float64(b.bytes) < most/2 {
			t.Errorf("%d bytes were taken within %.1fs, want about %.0f and no more", b.bytes, passed, most)
		}
		gone, there := b.told(t, idOf(0))
		if gone != dropped || gone+there != sent {
			t.Errorf("%d lines were sent, %d answered as dropped; the log has %d and says that %d are missing", sent, dropped, there, gone)
		}
		if b.largest > logPiece+600 || b.most != 1 {
			t.Errorf("up to %d bytes are written at once, by %d at a time", b.largest, b.most)
		}
		if last := b.lines[idOf(0)]; last[len(last)-1].Stream == "rota" {
			t.Error("the newest lines are missing")
		}
	})
}

func TestCallsOnALogThatIsOverItsShareAreCountedByTheOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLogBook()
		a := b.api(t)
		postLines(a, 0, flood(5000, 500)) // its share is spent
		var others sync.WaitGroup
		for range 20 {
			others.Go(func() { postLines(a, 0, flood(1000, 500)) })
		}
		began := time.Now()
		postLines(a, 1, flood(100, 500))
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("another log waited for %v", took)
		}
		others.Wait()
		if took := time.Since(began); took > 2*logWait {
			t.Errorf("callers waited for %v", took)
		}
		if gone, there := b.told(t, idOf(0)); gone+there != 25_000 {
			t.Errorf("of 25000 lines the log has %d and says that %d are missing", there, gone)
		}
		if gone, there := b.told(t, idOf(1)); gone != 0 || there != 100 {
			t.Errorf("the other log has %d, lacks %d", there, gone)
		}
		_, text := ask(t, a, "GET /metrics", "")
		gone, _ := b.told(t, idOf(0))
		if want := fmt.Sprintf("rota_log_lines_dropped_total %d\n", gone); !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	})
}

func TestAllLogsTogetherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLogBook()
		a := b.api(t)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				for range 3 {
					postLines(a, int32(i), flood(1000, 900))
				}
			})
		}
		all.Wait()
		passed := time.Since(began).Seconds()
		if most := nodeBurst + nodeRate*passed; float64(b.bytes) > most {
			t.Errorf("%d bytes were taken within %.1fs, want at most %.0f", b.bytes, passed, most)
		}
	})
}

func TestOnlySoManyLogsAreKnown(t *testing.T) {
	g, now := newLogGate(), time.Now()
	g.node.left, g.node.burst = 1<<40, 1<<40
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
	g, now := newLogGate(), time.Now()
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
	if other, _, _, gone := g.enter("a", []byte(flood(3, 10)), now); other != nil || gone.lines != 3 {
		t.Errorf("beside the one that waits: %+v", gone)
	}
	if end, gone := g.leave(s, large, now.Add(wait)); len(end) == 0 || gone.lines+sizeOf(end).lines != 1003 {
		t.Errorf("after %v: %d bytes, lost %+v", wait, len(end), gone)
	}
	if s, wait, _, _ := g.enter("a", []byte(flood(3, 10)), now.Add(wait+logWait)); s == nil || wait != 0 {
		t.Error("the next call waits")
	}
}
