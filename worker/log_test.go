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
		_, stop := begin(t, q, Config{}, one(func(ctx context.Context, _ task.Handout) task.Outcome {
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
		if log := q.log(id); !slices.Equal(log, []string{"log: one 1", "log: level=INFO msg=two n=2", "stdout: three", "stdout: four"}) {
			t.Errorf("log %q", log)
		}
		stop()
	})
}

func TestFloodIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		const flood = 100_000
		_, stop := begin(t, q, Config{}, one(func(ctx context.Context, _ task.Handout) task.Outcome {
			for range flood {
				Logf(ctx, "0123456789")
			}
			return task.Finish(nil)
		}))
		id := q.submit("q", "", "")
		synctest.Wait()
		log := q.log(id)
		var dropped int
		if _, err := fmt.Sscanf(log[len(log)-1], "rota: %d lines dropped", &dropped); err != nil {
			t.Fatalf("last line %q: %v", log[len(log)-1], err)
		}
		if len(log)-1+dropped != flood || dropped == 0 {
			t.Errorf("%d lines and %d dropped of %d", len(log)-1, dropped, flood)
		}
		if weight := (len(log) - 1) * (10 + lineWeight); weight > maxPending+100 {
			t.Errorf("%d bytes waited", weight)
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
	s := &splitter{hand: h}
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
		if len(b) > maxPending/100 {
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
