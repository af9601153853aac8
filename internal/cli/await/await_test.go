package await

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/task"
)

// endServer knows tasks by their numbers: every third is dead, every seventh is gone, the others
// are done. Questions are answered once as many are asked as may be at a time.
type endServer struct {
	mu    sync.Mutex
	asked int
	most  int // questions at a time
	now   int
	full  chan struct{} // closed when atATime questions wait
}

func (s *endServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := task.ParseID(path.Base(r.URL.Path))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.asked, s.now = s.asked+1, s.now+1
	s.most = max(s.most, s.now)
	if s.now == atATime && s.asked == atATime {
		close(s.full)
	}
	s.mu.Unlock()
	<-s.full
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	state := task.Done
	switch {
	case id.N%7 == 0:
		http.Error(w, "gone", http.StatusNotFound)
	case id.N%3 == 0:
		state = task.Dead
		fallthrough
	default:
		fmt.Fprintf(w, `{"id":%q,"state":%q}`, id, state)
	}
}

func TestManyTasksAreWaitedForSomeAtATime(t *testing.T) {
	s := &endServer{full: make(chan struct{})}
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := client.New(client.Config{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 100
	ids := make([]task.ID, n)
	for i := range ids {
		ids[i] = task.ID{Batch: 1 << 40, N: int32(i + 1)}
	}
	w := Tasks{Client: c, Say: func(text string) { t.Errorf("it said %q", text) }}
	var done, dead, gone int
	var seen []int32
	w.All(t.Context(), ids, func(e Ended) {
		seen = append(seen, e.ID.N)
		switch {
		case errors.Is(e.Err, client.ErrNotFound):
			gone++
		case e.Err != nil:
			t.Errorf("task %d: %v", e.ID.N, e.Err)
		case Verdict(e.View) == nil:
			done++
		default:
			dead++
		}
	})
	slices.Sort(seen)
	if seen = slices.Compact(seen); len(seen) != n || gone != 14 || dead != 29 || done != 57 {
		t.Errorf("%d tasks ended: %d done, %d dead, %d gone", len(seen), done, dead, gone)
	}
	if s.most != atATime {
		t.Errorf("%d questions at a time, want %d", s.most, atATime)
	}
}

// A proxy may answer with a page of its own, for ever: whoever waits has to learn of it.
func TestWhyTheServerIsAwayIsSaid(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html>maintenance</html>")
	}))
	defer server.Close()
	c, err := client.New(client.Config{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said []string
	w := Tasks{Client: c, Say: func(text string) {
		said = append(said, text)
		cancel()
	}}
	w.All(ctx, make([]task.ID, 1), func(Ended) {})
	if len(said) != 1 || !strings.Contains(said[0], "the server is away; waiting for it (") ||
		!strings.Contains(said[0], "invalid character '<'") {
		t.Errorf("it said %q", said)
	}
}

// Between a command and its node may be what does not let it wait, and answers at once each time.
func TestWhatIsAnsweredAtOnceIsNotAskedAgainAtOnce(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"id":"1jwrrkvpcj00712","state":"running"}`)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Servers: []string{server.URL}, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*app.Poll)
	defer cancel()
	w := Tasks{Client: c, Say: func(text string) { t.Error(text) }}
	w.All(ctx, make([]task.ID, 1), func(Ended) {})
	if n := asked.Load(); n < 1 || n > 3 {
		t.Errorf("asked %d times", n)
	}
}

func TestWaitForManyEndsWithItsContext(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	defer server.Close()
	c, err := client.New(client.Config{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := Tasks{Client: c, Say: func(text string) { t.Errorf("it said %q", text) }}
	w.All(ctx, make([]task.ID, 1000), func(e Ended) {
		if !errors.Is(e.Err, context.Canceled) {
			t.Errorf("a wait ended with %v", e.Err)
		}
	})
}

func TestVerdictIsAnErrorUnlessDone(t *testing.T) {
	id := task.ID{Batch: 1 << 40, N: 7}
	for _, c := range []struct {
		view task.View
		want string
	}{
		{task.View{ID: id, State: task.Done}, ""},
		{task.View{ID: id, State: task.Cancelled}, "was cancelled"},
		{task.View{ID: id, State: task.Dead, Attempt: 5,
			Steps: []task.Step{{Kind: task.KindRetry, Error: "no\nroute"}}},
			"is dead after attempt 5: no route"},
		{task.View{ID: id, State: task.Dead, Attempt: 5, Steps: []task.Step{{Kind: task.KindLost}}},
			"is dead after attempt 5: lost"},
	} {
		err := Verdict(c.view)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("verdict(%v) = %v, want %q", c.view.State, err, c.want)
		}
	}
}
