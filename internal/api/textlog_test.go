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

	"github.com/rotahq/rota/internal/logshare"
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
		if most := 1<<20 + 256<<10*passed; float64(b.bytes) > most || float64(b.bytes) < most/2 {
			t.Errorf("%d bytes were taken within %.1fs, want about %.0f and no more", b.bytes,
				passed, most)
		}
		gone, there := b.told(t, idOf(0))
		if gone != dropped || gone+there != sent {
			t.Errorf(
				"%d lines were sent, %d answered as dropped; the log has %d and says that %d are missing",
				sent, dropped, there, gone,
			)
		}
		if b.largest > logshare.Piece+600 || b.most != 1 {
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
		if took := time.Since(began); took > 2*logshare.Wait {
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
		if want := fmt.Sprintf(
			"rota_log_lines_dropped_total %d\n", gone,
		); !strings.Contains(text, want) {
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
		if most := 8<<20 + 4<<20*passed; float64(b.bytes) > most {
			t.Errorf("%d bytes were taken within %.1fs, want at most %.0f", b.bytes, passed, most)
		}
	})
}
