package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/overview"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// overviewFake is a fake whose workers say how they stand.
func overviewFake() *fake {
	f := newFake()
	f.workers[0].State, f.workers[1].State = task.WorkerActive, task.WorkerDraining
	return f
}

// overviewOf reads the overview of a caller.
func overviewOf(t *testing.T, a *API, header ...string) (o view.Overview) {
	t.Helper()
	r, text := ask(t, a, "GET /v1/overview", "", header...)
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, text)
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOverviewTellsHowEverythingStands(t *testing.T) {
	a := newAPI(t, overviewFake(), nil)
	defer a.Close()
	o := overviewOf(t, a)
	if o.Node != "n1" || o.Version != "1.2.3" || time.Since(o.At.Time) > time.Minute || o.Age != 0 {
		t.Errorf("from %q %q at %v, %v old", o.Node, o.Version, o.At, time.Duration(o.Age))
	}
	if o.OldestReady == nil || o.OldestReady.Queue != "mail" || o.Ready != 11+21 ||
		o.Waiting != 10+20 || o.Running != 12+22 || o.Capacity != 8 || o.DeadHour != 2+4 {
		t.Errorf("tasks: %+v", o)
	}
	since := o.Totals.Since
	if want := (view.Totals{
		Since: since, Submitted: 210, Started: 180, Done: 150, Retried: 15, Dead: 6, Cancelled: 3,
		Lost: 9,
	}); o.Totals != want || since.IsZero() {
		t.Errorf("totals %+v, want %+v", o.Totals, want)
	}
	if o.Workers != (view.WorkerStates{Active: 1, Draining: 1}) || len(o.Fleet) != 2 ||
		len(o.Nodes) == 0 || o.Budget == nil {
		t.Errorf("workers: %+v", o)
	}
	if o.Schedules != (view.ScheduleStates{Total: 7, Late: 2, Paused: 1}) ||
		o.Jobs.Pending == 0 || o.BudgetWorkers == nil {
		t.Errorf("schedules and jobs: %+v", o)
	}
	if len(o.Queues) != 2 || o.Queues[0].Queue != "mail" || !o.Queues[1].Paused ||
		o.Queues[0].OldestReady == nil || o.Queues[1].OldestReady != nil ||
		o.Queues[0].Done != 50 {
		t.Errorf("queues: %+v", o.Queues)
	}
}

func TestOverviewShowsATokenWithAScopeOnlyWhatIsInIt(t *testing.T) {
	tokens, err := ParseTokens(strings.NewReader(
		"eve viewer eve-token queues=scan groups=crawl\nbob worker bob-token\nann viewer ann-token"))
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, overviewFake(), func(c *Config) { c.Tokens = tokens })
	defer a.Close()
	all := overviewOf(t, a, "Authorization: Bearer ann-token")
	o := overviewOf(t, a, "Authorization: Bearer eve-token")
	if len(o.Queues) != 1 || o.Queues[0].Queue != "scan" || o.Ready != 21 || o.DeadHour != 4 ||
		o.Totals.Submitted != 140 || o.OldestReady != nil {
		t.Errorf("queues: %+v", o)
	}
	if o.Schedules.Total != 4 || all.Jobs.Wanted == 0 || o.Jobs != (view.ReplicaStates{}) {
		t.Errorf("schedules and jobs: %+v, of all: %+v", o, all.Jobs)
	}
	if len(o.Fleet) != 0 || o.Workers != (view.WorkerStates{}) || o.Capacity != 0 ||
		o.Budget != nil || o.BudgetWorkers != nil {
		t.Errorf("it sees workers: %+v", o)
	}
	for _, call := range []string{"GET /v1/overview", "GET /v1/overview/stream"} {
		if r, _ := ask(t, a, call, "", "Authorization: Bearer bob-token"); r.StatusCode !=
			http.StatusForbidden {
			t.Errorf("%s by a worker: %d", call, r.StatusCode)
		}
	}
}

func TestOverviewIsMadeOnceASecondHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := overviewFake()
		a := newAPI(t, f, nil)
		defer a.Close()
		for range 5 {
			var callers sync.WaitGroup
			for range 50 {
				callers.Go(func() { overviewOf(t, a) })
			}
			callers.Wait()
			time.Sleep(overviewEvery)
		}
		if f.asked != 5 {
			t.Errorf("counted %d times in 5 seconds", f.asked)
		}
	})
}

func TestOverviewDoesNotWaitForASilentStoreAndSaysHowOldItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &silentEngine{fake: overviewFake()}
		a := newAPI(t, h.fake, func(c *Config) {
			c.Engine = h
			c.Reach = func() error {
				if h.silent {
					return store.ErrOutOfReach
				}
				return nil
			}
		})
		defer a.Close()
		known := overviewOf(t, a)
		time.Sleep(time.Minute)
		h.silent = true
		waited := time.Duration(0)
		for range 20 {
			began := time.Now()
			o := overviewOf(t, a)
			waited += time.Since(began)
			if o.At != known.At || o.Ready != known.Ready ||
				time.Duration(o.Age) != time.Since(known.At.Time).Truncate(time.Second) {
				t.Fatalf("%v old, of %v; known %v", time.Duration(o.Age), o.At, known.At)
			}
			time.Sleep(250 * time.Millisecond)
		}
		if waited > 3*time.Second { // a second for each question, which is given up after five
			t.Errorf("waited %v", waited)
		}
	})
}

// tape is an answer that is read while it is written.
type tape struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (w *tape) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ResponseRecorder.Write(b)
}

func (w *tape) Flush() {}

// take is what was written since.
func (w *tape) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.Body.Reset()
	return w.Body.String()
}

func TestOverviewStreamTellsAllAndThenWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := overviewFake()
		a := newAPI(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &tape{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("GET", "/v1/overview/stream", nil).WithContext(ctx)
		r.Host = "localhost:7700"
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.Handler().ServeHTTP(w, r)
		}()
		time.Sleep(100 * time.Millisecond)
		first := w.take()
		if !strings.HasPrefix(first, "event: snapshot\ndata: {\"at\":") ||
			strings.Count(first, "\n") != 3 || !strings.Contains(first, `"queue":"scan"`) {
			t.Fatalf("it began with %q", first)
		}
		time.Sleep(4 * time.Second)
		if got := w.take(); got != "" {
			t.Errorf("nothing changed: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := w.take(); !strings.HasPrefix(got, "event: patch\ndata: {\"at\":") ||
			strings.Contains(got, ",") {
			t.Errorf("only the time moved: %q", got)
		}
		f.mu.Lock()
		f.workers = f.workers[:1]
		f.mu.Unlock()
		time.Sleep(2 * time.Second)
		got := w.take()
		if !strings.HasPrefix(got, "event: patch\ndata: {\"at\":") ||
			!strings.Contains(got, `"workers":{"active":1,"draining":0,"silent":0},"fleet":[{`) ||
			strings.Contains(got, "queues") {
			t.Errorf("a worker went: %q", got)
		}
		a.Close()
		<-ended
		if n := a.follows.open(); n != 0 {
			t.Errorf("%d streams are open at the end", n)
		}
	})
}

// slowEngine is an engine whose store takes a while for counts.
type slowEngine struct{ *fake }

func (h slowEngine) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	time.Sleep(2 * time.Second)
	return h.fake.Counts(ctx, queues...)
}

// A token that is taken away while the first overview is made opens no stream that stays.
func TestOverviewStreamEndsWithATokenThatWentWhileItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := func(lines string) Tokens {
			parsed, err := ParseTokens(strings.NewReader(lines))
			if err != nil {
				t.Fatal(err)
			}
			return parsed
		}
		f := overviewFake()
		a := newAPI(t, f, func(c *Config) {
			c.Engine, c.Tokens = slowEngine{f}, tokens("ann viewer aaaa\nroot admin rrrr\n")
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &tape{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("GET", "/v1/overview/stream", nil).WithContext(ctx)
		r.Header.Set("Authorization", "Bearer aaaa")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.Handler().ServeHTTP(w, r)
		}()
		time.Sleep(time.Second)
		if err := a.SetTokens(tokens("root admin rrrr\n")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("it goes on: %d %.40q", w.Code, w.take())
		}
		a.Close()
		<-ended
	})
}

// justJoined is a node that has not seen the others yet.
type justJoined struct{ *fake }

func (justJoined) Cluster(context.Context) (store.Cluster, error) {
	return store.Cluster{}, store.ErrNotYet
}

func TestNodeThatHasJustJoinedTellsWhatItKnows(t *testing.T) {
	f := overviewFake()
	a := newAPI(t, f, func(c *Config) { c.Cluster = justJoined{f} })
	defer a.Close()
	if o := overviewOf(t, a); o.Ready != 32 || len(o.Nodes) != 0 || o.Budget != nil {
		t.Errorf("%d ready, nodes %v, budget %v", o.Ready, o.Nodes, o.Budget)
	}
}

// To make the overview of a scope takes as long as that of everything: of 10,000 queues 20 ms, for
// which all others wait. A caller with many streams, or who asks all the time, must not keep a node
// at it.
func TestOverviewOfAScopeIsMadeOnceASecondToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := overviewFake()
		a := newAPI(t, f, nil)
		defer a.Close()
		var of *overviews
		for _, noun := range a.nouns {
			if c, is := noun.(*overviewCalls); is {
				of = c.overviews
			}
		}
		get := func(s *scope) overview.Told {
			t.Helper()
			told, _, err := of.get(t.Context(), principal{Role: roleViewer, scope: s})
			if err != nil {
				t.Fatal(err)
			}
			return told
		}
		mail, scan := &scope{queues: patterns{"mail"}}, &scope{queues: patterns{"scan"}}
		for _, s := range []*scope{nil, mail, scan} {
			first := get(s)
			for _, other := range []*scope{scan, nil, mail} {
				told := get(other)
				if (&told[0] == &first[0]) != (s == other) {
					t.Errorf("that of %v is that of %v: %v", other, s, s != other)
				}
			}
			time.Sleep(overviewEvery)
			if told := get(s); &told[0] == &first[0] {
				t.Errorf("that of %v is a second old", s)
			}
		}
		for range 2 * maxOverviews {
			get(&scope{queues: patterns{"mail"}})
		}
		if n := len(of.made.told); n > maxOverviews {
			t.Errorf("%d are kept", n)
		}
	})
}
