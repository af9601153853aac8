package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

func TestLogArrivesInOrderBeforeTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.answer = func(r task.Report) *task.Answer { // mu is held
			if len(q.logs[r.ID]) != 4 {
				t.Errorf("%d lines when the outcome came, want all 4", len(q.logs[r.ID]))
			}
			return nil
		}
		_, stop := begin(t, q, Config{},
			one(func(ctx context.Context, _ task.Handout) task.Outcome {
				Logf(ctx, "one %d", 1)
				time.Sleep(time.Second)
				Logger(ctx).Info("two", "n", 2)
				w := Lines(ctx, "stdout")
				fmt.Fprint(w, "three\nfour")
				w.Close()
				return task.Finish(nil)
			}))
		id := q.submit("q", "", "")
		rest(900 * time.Millisecond)
		if log := q.log(id); !slices.Equal(log, []string{"log: one 1"}) {
			t.Errorf("while it runs the log is %q", log)
		}
		rest(time.Second)
		if log := q.log(id); !slices.Equal(log,
			[]string{
				"log: one 1", "log: level=INFO msg=two n=2", "stdout: three", "stdout: four",
			}) {
			t.Errorf("log %q", log)
		}
		stop()
	})
}

func TestFloodIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		const flood = 100_000
		_, stop := begin(t, q, Config{},
			one(func(ctx context.Context, _ task.Handout) task.Outcome {
				for i := range flood {
					Logf(ctx, "line %d", i)
				}
				return task.Finish(nil)
			}))
		id := q.submit("q", "", "")
		synctest.Wait()
		log := q.log(id)
		kept, dropped := keptAndDropped(t, log)
		if kept+dropped != flood || dropped == 0 {
			t.Errorf("%d lines and %d dropped of %d", kept, dropped, flood)
		}
		if first, last := log[0], log[len(log)-1]; first != "log: line 0" ||
			last != fmt.Sprintf("log: line %d", flood-1) {
			t.Errorf("the log is from %q to %q: what is dropped belongs to the middle", first, last)
		}
		weight := 0
		for _, line := range log {
			weight += len(strings.TrimPrefix(line, "log: ")) + lineWeight
		}
		if weight > maxWaiting+1000 {
			t.Errorf("%d bytes waited", weight)
		}
		stop()
	})
}

// keptAndDropped counts a log's lines, and those that it says were dropped.
func keptAndDropped(t *testing.T, log []string) (kept, dropped int) {
	t.Helper()
	for _, line := range log {
		text, marker := strings.CutPrefix(line, "rota: ")
		if !marker {
			kept++
			continue
		}
		n := 0
		if _, err := fmt.Sscanf(text, "%d lines dropped", &n); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		dropped += n
	}
	return kept, dropped
}

// ticking logs a line a second for so many seconds.
func ticking(seconds int) Handler {
	return func(ctx context.Context, _ task.Handout) task.Outcome {
		for i := range seconds {
			Logf(ctx, "%d", i)
			time.Sleep(time.Second)
		}
		return task.Finish(nil)
	}
}

// counted is what ticking logs.
func counted(seconds int) (want []string) {
	for i := range seconds {
		want = append(want, fmt.Sprintf("log: %d", i))
	}
	return want
}

func TestLogLinesOutliveAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{SelfStop: time.Minute}, one(ticking(20)))
		id := q.submit("q", "", "")
		rest(2500 * time.Millisecond)
		q.set(func() { q.down = errDown })
		rest(8 * time.Second)
		if n := len(q.log(id)); n != 3 {
			t.Errorf("%d lines before the server went away, want 3", n)
		}
		q.set(func() { q.down = nil })
		rest(20 * time.Second)
		if log := q.log(id); !slices.Equal(log, counted(20)) {
			t.Errorf("log %q", log)
		}
		stop()
	})
}

// The handler ends while the server is away, for longer than its lane waits: the outcome is
// recorded, and the lines follow.
func TestLastLinesOutliveTheirHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{SendGrace: time.Second, SelfStop: time.Minute},
			one(ticking(3)))
		id := q.submit("q", "", "")
		rest(1500 * time.Millisecond)
		q.set(func() { q.down = errDown })
		rest(30 * time.Second)
		q.set(func() { q.down = nil })
		rest(20 * time.Second)
		if state := q.task(id).state; state != task.Done {
			t.Errorf("the task is %s", state)
		}
		if log := q.log(id); !slices.Equal(log, counted(3)) {
			t.Errorf("log %q", log)
		}
		stop()
	})
}

func TestWorkerThatStopsWaitsForItsLogNoLongerThanSendGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q,
			Config{StopGrace: time.Second, SendGrace: 2 * time.Second, SelfStop: time.Minute},
			one(ticking(2)))
		q.submit("q", "", "")
		rest(500 * time.Millisecond)
		q.set(func() { q.logDown = errDown })
		began := time.Now()
		stop()
		const handler = 1500 * time.Millisecond // until it ends
		if took := time.Since(began); took < handler+2*time.Second || took > handler+3*time.Second {
			t.Errorf("it stopped after %v", took)
		}
	})
}

func TestLinesThatAreRefusedForEverAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.logDown = errDown
		w, stop := begin(t, q, Config{SendGrace: time.Second}, one(ticking(1)))
		id := q.submit("q", "", "")
		rest(3 * time.Minute)
		q.set(func() { q.logDown = nil })
		rest(time.Minute)
		if log := q.log(id); len(log) != 0 {
			t.Errorf("log %q after minutes of refusals", log)
		}
		if state := q.task(id).state; state != task.Done {
			t.Errorf("the task is %s: its log held it up", state)
		}
		if len(w.logged) != 0 {
			t.Error("it still tries")
		}
		stop()
	})
}

func TestLogOutsideAHandlerDoesNothing(t *testing.T) {
	Logf(context.Background(), "nobody")
	Logger(context.Background()).Info("nobody")
	Progress(context.Background(), 0.5, "nobody")
	if n, err := fmt.Fprintln(Lines(context.Background(), "x"), "nobody"); n != 7 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
}

// split writes the pieces to a task's log and answers its lines.
func split(pieces ...[]byte) []string {
	w := &Worker{logged: make(chan struct{}, 1)}
	h := &hand{worker: w}
	h.log.owner = h
	s := &splitter{log: &h.log}
	for _, p := range pieces {
		s.Write(p)
	}
	s.Close()
	var texts []string
	for _, l := range h.log.takeAll() {
		texts = append(texts, l.Text)
	}
	return texts
}

func TestLinesAreCutAtTheirEnds(t *testing.T) {
	long := strings.Repeat("x", maxLine-1)
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"a\nb", []string{"a", "b"}},
		{"a\r\n\nb\n", []string{"a", "", "b"}},
		{"a\xffb\n", []string{"a\uFFFDb"}},
		{long + "é\n", []string{long, "é"}},
		{long + "yz", []string{long + "y", "z"}},
		{long + "y\nz\n", []string{long + "y", "z"}},
		{long + "y\r\nz\n", []string{long + "y", "z"}},
		{long + "y\n\nz\n", []string{long + "y", "", "z"}},
		{long + "y" + long + "y\n", []string{long + "y", long + "y"}},
	} {
		if got := split([]byte(c.in)); !slices.Equal(got, c.want) {
			t.Errorf("split(%.20q): %d lines %.60q, want %.60q", c.in, len(got), got, c.want)
		}
	}
}

func FuzzLinesDoNotDependOnThePieces(f *testing.F) {
	f.Add([]byte("a\nbc\r\n\xff\xf0\x9f\x98\x80"), 3)
	f.Add([]byte(strings.Repeat("é", maxLine)), 1)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		if len(b) > maxWaiting/100 {
			return
		}
		whole := split(b)
		if at < 0 || at > len(b) {
			at = len(b) / 2
		}
		if parts := split(b[:at], b[at:]); !slices.Equal(whole, parts) {
			t.Errorf("in one piece %q, in two %q", whole, parts)
		}
		for _, l := range whole {
			if !utf8.ValidString(l) || strings.Contains(l, "\n") || len(l) > 3*maxLine {
				t.Errorf("line %q", l)
			}
		}
	})
}
