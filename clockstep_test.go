package rota

import (
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// beats lets a store's clock be read once a second, by trips of up to a time, and adds up the steps
// that are found.
func beats(c *clockSteps, n int, ahead, trip time.Duration) (found []time.Duration) {
	for range n {
		asked := time.Now()
		there := time.Duration(rand.Int64N(int64(trip) + 1))
		time.Sleep(there)
		theirs := time.Now().Add(ahead).UnixMicro()
		time.Sleep(trip - there)
		if step := c.hear(asked, time.Now(), theirs); step != 0 {
			found = append(found, step)
		}
		time.Sleep(time.Second)
	}
	return found
}

func TestStepsOfTheStoresClockAreFoundOnceAndNothingElseIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clockSteps
		ahead := 17 * time.Minute
		if found := beats(&c, 100, ahead, 900*time.Millisecond); found != nil || c.recent() != "" {
			t.Errorf("without a step: %v, %s", found, c.recent())
		}
		for i := range 1000 { // it is set right slowly
			if found := beats(
				&c, 1, ahead+time.Duration(i)*time.Millisecond, 10*time.Millisecond,
			); found != nil {
				t.Fatalf("of a drift: %v", found)
			}
		}
		ahead += 999 * time.Millisecond
		for _, by := range []time.Duration{time.Hour, -time.Hour, 3 * time.Second,
			-10 * time.Minute} {
			ahead += by
			beats(&c, 1, ahead, 20*time.Second) // an answer that was so long on its way may hide it
			found := beats(&c, 10, ahead, 10*time.Millisecond)
			sum, _ := c.stepped()
			if len(found) > 1 || len(found) == 1 && (found[0]-by).Abs() > 20*time.Second {
				t.Errorf("of %v: %v, in all %v", by, found, sum)
			}
		}
		ahead -= 10 * time.Minute
		if found := beats(
			&c, 5, ahead, 10*time.Millisecond,
		); len(found) != 1 || (found[0]+10*time.Minute).Abs() > 20*time.Millisecond {
			t.Errorf("back: %v", found)
		}
		if text := c.recent(); !strings.Contains(text, "went back by 10m0") ||
			!strings.Contains(text, "schedules wait") {
			t.Error(text)
		}
		time.Sleep(time.Hour)
		if text := c.recent(); text != "" {
			t.Errorf("an hour later: %s", text)
		}
	})
}

func TestSumOfStepsThereAndBackIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clockSteps
		beats(&c, 5, 0, time.Millisecond)
		beats(&c, 5, time.Hour, time.Millisecond)
		if sum, n := c.stepped(); (sum-time.Hour).Abs() > 5*time.Millisecond || n != 1 {
			t.Errorf("there: %v in %d steps", sum, n)
		}
		beats(&c, 5, 0, time.Millisecond)
		if sum, n := c.stepped(); sum.Abs() > 5*time.Millisecond || n != 2 {
			t.Errorf("there and back: %v in %d steps", sum, n)
		}
	})
}

// A beat says that the store's clock is an hour ahead; the next one, that it is not.
func TestStepOfTheStoresClockIsToldLoggedAndShown(t *testing.T) {
	var log syncedLog
	conf := quick("a", "sqlite:"+filepath.Join(t.TempDir(), "rota.theirs"))
	conf.Log = slog.New(slog.NewTextHandler(&log, nil))
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	running(t, n)
	settled(t, "a beat was answered", func() bool { return n.answered.Load() != nil })
	now := time.Now()
	n.heard(now, now, store.Beat{Now: now.Add(time.Hour).UnixMicro()})
	var told []string
	settled(t, "both steps stand in the log of events", func() bool {
		page, err := n.store.Events(t.Context(), store.EventQuery{
			Kinds: []string{"clock.*"}, Limit: 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		told = nil
		for _, e := range page.Events {
			told = append(told, e.Text)
		}
		return len(told) == 2
	})
	if !strings.Contains(told[0], "went forward by 1h0m0s") ||
		!strings.Contains(told[1], "went back by 1h0m0s") {
		t.Errorf("told: %q", told)
	}
	settled(t, "metrics count both", func() bool {
		_, text := probe(t, n, "/metrics")
		return strings.Contains(text, "rota_clock_steps_total 2")
	})
	if r, _ := ready(t, n); !strings.Contains(r.Detail, "schedules wait until then") || !r.Ready {
		t.Errorf("%+v", r)
	}
	if text := log.String(); strings.Count(text, "the store's clock has stepped") != 2 {
		t.Error(text)
	}
}

// The node's clock is the one that it began with: nobody sets that.
func TestOffsetOfAFilesClockIsWhatItWasSetBy(t *testing.T) {
	n := &Node{store: &embedded{}}
	now := time.Now()
	n.steps.hear(now, now, now.UnixMicro())
	n.steps.hear(now, now, now.Add(time.Hour).UnixMicro())
	if offset := n.clockOffset(); offset != -time.Hour {
		t.Errorf("an hour ahead: %v", offset)
	}
}

// syncedLog is a log that may be read while it is written.
type syncedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *syncedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(line)
}

func (l *syncedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
