package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// While the store is away a worker's beats are answered only where its tasks are held, and other
// calls nowhere. So a client that has left that node for one of no more use must not be waited for
// there: its worker would stop what it runs.
func TestBeatsFindWhoCanAnswerThem(t *testing.T) {
	var away atomic.Bool
	server := func(beats bool) (string, *atomic.Int64) {
		return fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			if away.Load() && (!beats || r.URL.Path != "/v1/workers/w/beat") {
				w.Header().Set("Retry-After", "60")
				refuse(w, 503, "this node can't reach its store")
				return
			}
			fmt.Fprint(w, `{"items":[],"next":"","tasks":[]}`)
		})
	}
	one, ofOne := server(false)
	home, ofHome := server(true)
	two, ofTwo := server(false)
	c := newClient(t, Config{Servers: []string{one, two, home}})
	beat := func() {
		t.Helper()
		if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); err != nil {
			t.Error(err)
		}
	}
	calls := func(want ...int64) {
		t.Helper()
		got := []int64{ofOne.Swap(0), ofTwo.Swap(0), ofHome.Swap(0)}
		if !slices.Equal(got, want) {
			t.Errorf("%d calls, want %d", got, want)
		}
	}
	beat()
	calls(1, 0, 0)
	away.Store(true)
	beat()
	calls(1, 1, 1)
	beat() // who was of help comes first
	calls(1, 0, 1)
	if used := c.servers.use(); used != one {
		t.Errorf("%s is in use, want %s as before", used, one)
	}
	away.Store(false)
	beat()
	calls(1, 0, 0)
}

// A process that is stopped keeps nobody from asking the next.
func TestBeatsDoNotWaitForAServerThatStandsStill(t *testing.T) {
	goOn := make(chan struct{})
	sick, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, 503, "away") })
	still, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) { <-goOn })
	well, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{}`) })
	t.Cleanup(func() { close(goOn) }) // before the servers end
	c := newClient(t, Config{Servers: []string{sick, still, well}, Timeout: time.Hour})
	if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); err != nil {
		t.Error(err)
	}
}

// Where nobody can, the call is made again as any other. Who asks too often asks nobody else.
func TestBeatsThatNobodyAnswersAreRefused(t *testing.T) {
	for status, want := range map[int]int64{503: 2, 429: 0} {
		refusing := func(w http.ResponseWriter, r *http.Request) { refuse(w, status, "not now") }
		sick, first := fakeServer(t, refusing)
		too, second := fakeServer(t, refusing)
		c := newClient(t, Config{Servers: []string{sick, too}, Attempts: 2})
		_, err := c.Beat(t.Context(), task.Beat{Worker: "w"})
		if !errors.Is(err, ErrUnavailable) || first.Load() != 2 || second.Load() != want {
			t.Errorf("%d: %v after %d and %d calls, want 2 and %d", status, err, first.Load(),
				second.Load(), want)
		}
	}
}

// In an outage of the store no server can answer the beats of idle workers. Asking others is a
// repeat as any other: a fleet must not ask each node many times as often as without the trouble.
func TestAskingOthersKeepsToTheBudgetOfRepeats(t *testing.T) {
	var calls atomic.Int64
	var servers []string
	for range 9 {
		server, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			refuse(w, 503, "this node can't reach its store")
		})
		servers = append(servers, server)
	}
	const beats = 50
	c := newClient(t, Config{Servers: servers, RetryFloor: 1e-9, RetryShare: 0.1})
	for range beats {
		if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a beat that nobody can answer: %v", err)
		}
	}
	// what was saved before, and a tenth of the calls
	if most := int64(beats + saved/10 + beats/10); calls.Load() > most {
		t.Errorf("%d calls for %d beats, at most %d", calls.Load(), beats, most)
	}
}
