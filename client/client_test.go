package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer answers with f and counts the calls.
func fakeServer(t *testing.T, f http.HandlerFunc) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		f(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// newClient makes a client whose pauses are short, and that makes each call over HTTP.
func newClient(t *testing.T, c Config) *Client {
	t.Helper()
	c.Fixed, c.HTTPOnly = true, true
	if c.Backoff == (task.Backoff{}) {
		c.Backoff = task.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Factor: 1}
	}
	cl, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w,
		`{"status":%d,"title":%q,"detail":%q,"errors":[{"location":"body.tasks[0].queue","message":"odd"}]}`,
		status, http.StatusText(status), detail)
}

// accept answers submissions: the id's number is the task's place in its request. Queue "bad" is
// refused.
func accept(t *testing.T, w http.ResponseWriter, r *http.Request) []task.Submission {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	tasks, err := wire.ParseSubmissions(body)
	if err != nil {
		t.Errorf("parse %.100q: %v", body, err)
		refuse(w, 400, err.Error())
		return nil
	}
	receipts := make([]task.Receipt, len(tasks))
	for i, s := range tasks {
		if s.Queue == "bad" {
			refuse(w, 422, "bad queue")
			return tasks
		}
		fmt.Sscanf(string(s.Context), "%d", &receipts[i].ID.N)
		receipts[i].ID.Batch = 1
	}
	w.WriteHeader(201)
	w.Write(wire.AppendReceipts(nil, receipts))
	return tasks
}

func TestConcurrentSubmissionsGatherAndEachGetsItsOwnReceipts(t *testing.T) {
	var inFlight, most atomic.Int64
	first := make(chan struct{})
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), inFlight.Add(1)))
		defer inFlight.Add(-1)
		<-first
		accept(t, w, r)
	})
	c := newClient(t, Config{Servers: []string{url}})
	const callers = 100
	var wg sync.WaitGroup
	wg.Go(func() {
		c.Submit(t.Context(), task.Submission{Queue: "q", Context: json.RawMessage(`0`)})
	})
	for calls.Load() == 0 { // it flies alone; all others will wait behind it
		time.Sleep(time.Millisecond)
	}
	for i := range callers {
		wg.Go(func() {
			receipts, err := c.Submit(t.Context(),
				task.Submission{Queue: "q", Context: json.RawMessage(fmt.Sprint(2 * i))},
				task.Submission{Queue: "q", Context: json.RawMessage(fmt.Sprint(2*i + 1))})
			if err != nil || len(receipts) != 2 || receipts[0].ID.N != int32(2*i) ||
				receipts[1].ID.N != int32(2*i+1) {
				t.Errorf("caller %d: %v, %v", i, receipts, err)
			}
		})
	}
	for waiting := 0; waiting < callers; time.Sleep(time.Millisecond) {
		c.submissions.mu.Lock()
		waiting = len(c.submissions.waiting)
		c.submissions.mu.Unlock()
	}
	close(first)
	wg.Wait()
	if most.Load() != 1 || calls.Load() != 2 {
		t.Errorf(
			"%d requests, %d at a time, for %d callers; want 2, the second with all that waited",
			calls.Load(), most.Load(), callers+1,
		)
	}
}

func TestOneCallersBadTaskFailsOnlyThatCaller(t *testing.T) {
	first := make(chan struct{})
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		<-first
		accept(t, w, r)
	})
	c := newClient(t, Config{Servers: []string{url}})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			queue := "q"
			if i == 13 {
				queue = "bad"
			}
			receipts, err := c.Submit(t.Context(),
				task.Submission{Queue: queue, Context: json.RawMessage(fmt.Sprint(i))})
			switch {
			case i == 13:
				var refused *Error
				if !errors.As(err, &refused) || !errors.Is(err, ErrInvalid) ||
					refused.Errors[0].Location != "body.tasks[0].queue" {
					t.Errorf("the bad one got %v", err)
				}
			case err != nil || receipts[0].ID.N != int32(i):
				t.Errorf("caller %d: %v, %v", i, receipts, err)
			}
		})
	}
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	close(first)
	wg.Wait()
}

func TestCallerWhoLeavesBeforeTheFlightSendsNothing(t *testing.T) {
	first := make(chan struct{})
	var got atomic.Int64
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		<-first
		got.Add(int64(len(accept(t, w, r))))
	})
	c := newClient(t, Config{Servers: []string{url}})
	var wg sync.WaitGroup
	wg.Go(func() { c.Submit(t.Context(), task.Submission{Queue: "q"}) })
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		_, err := c.Submit(ctx, task.Submission{Queue: "q"})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("left early: %v", err)
		}
		close(first)
	})
	for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
		c.submissions.mu.Lock()
		waiting = len(c.submissions.waiting)
		c.submissions.mu.Unlock()
	}
	cancel()
	wg.Wait()
	c.Close()
	if got.Load() != 1 {
		t.Errorf("%d tasks arrived, want 1", got.Load())
	}
}

func TestOnlySafeCallsAreRepeatedAfterABrokenConnection(t *testing.T) {
	keyed := []task.Submission{{Queue: "q", Key: "a"}}
	mixed := []task.Submission{{Queue: "q", Key: "a"}, {Queue: "q"}}
	for name, c := range map[string]struct {
		call  func(context.Context, *Client) error
		tries int64
	}{
		"keyed submission": {func(ctx context.Context, c *Client) error {
			_, err := c.Submit(ctx, keyed...)
			return err
		}, 3},
		"unkeyed submission": {func(ctx context.Context, c *Client) error {
			_, err := c.Submit(ctx, mixed...)
			return err
		}, 1},
		"report": {func(ctx context.Context, c *Client) error {
			_, err := c.Report(ctx, "w", []task.Report{{}})
			return err
		}, 3},
		"read": {func(ctx context.Context, c *Client) error {
			_, err := c.Queues(ctx)
			return err
		}, 3},
		"cancel": {func(ctx context.Context, c *Client) error {
			return c.Cancel(ctx, task.ID{Batch: 1})
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler) // it may have worked
			})
			cl := newClient(t, Config{Servers: []string{url}, Attempts: 3})
			err := c.call(t.Context(), cl)
			if calls.Load() != c.tries || err == nil ||
				errors.Is(err, ErrOutcomeUnknown) != (c.tries == 1) {
				t.Errorf("%d tries, want %d: %v", calls.Load(), c.tries, err)
			}
		})
	}
}

func TestKeyedCallersGoAgainWhenAGatheredOutcomeIsUnknown(t *testing.T) {
	first := make(chan struct{})
	var n atomic.Int64
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 2 { // the gathered one
			io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		}
		<-first
		accept(t, w, r)
	})
	c := newClient(t, Config{Servers: []string{url}})
	var wg sync.WaitGroup
	wg.Go(func() { c.Submit(t.Context(), task.Submission{Queue: "q"}) })
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, key := range []string{"", "a"} {
		wg.Go(func() {
			_, err := c.Submit(t.Context(), task.Submission{Queue: "q", Key: key})
			if errors.Is(err, ErrOutcomeUnknown) != (key == "") || key != "" && err != nil {
				t.Errorf("key %q: %v", key, err)
			}
		})
	}
	for waiting := 0; waiting < 2; time.Sleep(time.Millisecond) {
		c.submissions.mu.Lock()
		waiting = len(c.submissions.waiting)
		c.submissions.mu.Unlock()
	}
	close(first)
	wg.Wait()
}

func TestNextServerIsUsedWhenOneCannotBeReached(t *testing.T) {
	const gone = "http://127.0.0.1:1"
	url, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) { accept(t, w, r) })
	c := newClient(t, Config{Servers: []string{gone, url}, Attempts: 1})
	for range 2 {
		if _, err := c.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
			// unkeyed: nothing was sent to the first
			t.Fatal(err)
		}
	}
	if calls.Load() != 2 {
		t.Errorf("%d calls", calls.Load())
	}
	alone := newClient(t, Config{Servers: []string{gone}, Attempts: 2})
	if _, err := alone.Submit(
		t.Context(), task.Submission{Queue: "q"},
	); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("no server: %v", err)
	}
}

func TestStatusDecidesWhetherACallIsRepeated(t *testing.T) {
	for _, c := range []struct {
		status      int
		is          error
		safe, other int64 // tries of a read, of an unkeyed submission
		unknown     bool  // of the submission
	}{
		{400, ErrInvalid, 1, 1, false}, {401, ErrUnauthorized, 1, 1, false},
		{403, ErrForbidden, 1, 1, false},
		{404, ErrNotFound, 1, 1, false}, {409, ErrConflict, 1, 1, false},
		{413, ErrTooLarge, 1, 1, false},
		{422, ErrInvalid, 1, 1, false}, {429, ErrUnavailable, 3, 3, false},
		{503, ErrUnavailable, 3, 1, true},
		{504, ErrUnavailable, 3, 1, true}, {507, ErrFull, 3, 3, false}, {500, nil, 1, 1, true},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			url, calls := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, c.status, "because")
			})
			cl := newClient(t, Config{Servers: []string{url}, Attempts: 3})
			_, err := cl.Queue(t.Context(), "q")
			var refused *Error
			if !errors.As(err, &refused) || refused.Status != c.status ||
				refused.Detail != "because" || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v", err)
			}
			if n := calls.Swap(0); n != c.safe {
				t.Errorf("a read: %d tries, want %d", n, c.safe)
			}
			_, err = cl.Submit(t.Context(), task.Submission{Queue: "q"})
			if n := calls.Load(); n != c.other || errors.Is(err, ErrOutcomeUnknown) != c.unknown {
				t.Errorf("a submission: %d tries, want %d: %v", n, c.other, err)
			}
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	url, calls := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		refuse(w, 503, "busy")
	})
	c := newClient(t, Config{Servers: []string{url}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Queues(ctx) // an hour is beyond the deadline: answered at once
	var refused *Error
	if !errors.As(err, &refused) || refused.RetryAfter != time.Hour || calls.Load() != 1 {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
	for value, want := range map[string]time.Duration{
		"": 0, "-5": 0, "7": 7 * time.Second, "x": 0, "99999999": 24 * time.Hour,
		"Wed, 21 Oct 2015 07:28:30 GMT": 30 * time.Second, "Wed, 21 Oct 2015 07:27:00 GMT": 0,
	} {
		if got := retryAfter(value, "Wed, 21 Oct 2015 07:28:00 GMT"); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestBudgetBoundsRepeats(t *testing.T) {
	now := time.Unix(0, 0)
	b := budget{share: 0.1, floor: 10}
	spent := 0
	for range 10_000 {
		b.earn(now)
		if b.spend(now) {
			spent++
		}
	}
	if spent < 1000 || spent > 1000+20 {
		t.Errorf("%d repeats for 10,000 calls at once, want a tenth and what was saved", spent)
	}
	for now, spent = now.Add(time.Second), 0; b.spend(now); spent++ {
	}
	if spent < 9 || spent > 11 {
		t.Errorf("%d repeats after a second without calls, want the floor", spent)
	}
}

func TestTaskIsReadByteForByte(t *testing.T) {
	id := task.ID{Batch: 7 << 10, N: 3}
	raw := "{ \"n\":9007199254740993 ,\"n\": 1e400, \"s\":\"\u2028<&\\ud800\"}"
	var asked string
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization")
		fmt.Fprintf(w, `{"id":%q,"queue":"q","state":"done","stage":"s","context":%s,"result":null,"attempt":2,"priority":"1m30s",
			"due":"2026-01-02T03:04:05.678Z","created":"2026-01-02T03:04:05Z","worker":"w","new_field":{},
			"steps":[{"seq":0,"outcome":"retry","stage":"s","worker":"w","error":"no"},{"seq":1,"outcome":"teleported"}]}`, id, raw)
	})
	c := newClient(t, Config{Servers: []string{url + "/"}, Token: "secret"})
	v, err := c.Task(t.Context(), id, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if want := "GET /v1/tasks/" + id.String() + "?wait=30s Bearer secret"; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if v.ID != id || string(v.Context) != raw || v.Result != nil || v.Priority != 90*time.Second ||
		v.State != task.Done ||
		!v.Due.Equal(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)) ||
		v.Steps[0].Kind != task.KindRetry || len(v.Steps) != 2 {
		t.Errorf("read %+v", v)
	}
}

func TestQueueChangeSendsOnlyWhatIsSet(t *testing.T) {
	timeout, none, factor := time.Minute, time.Duration(0), 1.5
	var body string
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = r.Method + " " + r.URL.Path + " " + string(b)
		io.WriteString(w,
			`{"name":"q","timeout":"1m0s","retry":{"initial":"1s","factor":1.5},"paused":true,"counts":{"ready":3},"oldest_ready":null,"later":1}`)
	})
	c := newClient(t, Config{Servers: []string{url}})
	q, err := c.PutQueue(t.Context(), "q", QueueChange{
		Timeout: &timeout, Retention: &none, Retry: &RetryChange{Factor: &factor},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `PUT /v1/queues/q {"timeout":"1m0s","retry":{"factor":1.5},"retention":"0s"}`; body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
	if q.Name != "q" || q.Timeout != time.Minute || q.Retry.Initial != time.Second ||
		q.Retry.Factor != 1.5 || !q.Paused || q.Counts.Ready != 3 || !q.OldestReady.IsZero() {
		t.Errorf("read %+v", q)
	}
	text, err := json.Marshal(q)
	var again Queue
	if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, q) {
		t.Errorf("%s is read as %+v, want %+v", text, again, q)
	}
}

func TestLimitsOfAQueueAreSentAndRead(t *testing.T) {
	var body string
	answer := `{"name":"q","max_running":20,"rate":"100/1s","burst":30,` +
		`"limits":{"running":20,"waiting_for":{"max_running":true,"rate":false}}}`
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		io.WriteString(w, answer)
	})
	c := newClient(t, Config{Servers: []string{url}})
	rate := task.Rate{Count: 100, Per: time.Second}
	q, err := c.PutQueue(t.Context(), "q",
		QueueChange{MaxRunning: new(20), Rate: &rate, Burst: new(30)})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"max_running":20,"rate":"100/1s","burst":30}`; body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
	if q.MaxRunning != 20 || q.Rate != rate || q.Burst != 30 || q.Limits == nil ||
		*q.Limits != (view.QueueLimits{
			Running: 20, WaitingFor: view.WaitingFor{MaxRunning: true},
		}) {
		t.Errorf("read %+v, %+v", q, q.Limits)
	}
	text, err := json.Marshal(q)
	again := Queue{Limits: &view.QueueLimits{}}
	if err != nil || json.Unmarshal(text, &again) != nil || again.Limits == nil ||
		*again.Limits != *q.Limits || again.Queue != q.Queue {
		t.Errorf("%s is read as %+v", text, again)
	}
	_, err = c.PutQueue(t.Context(), "q",
		QueueChange{MaxRunning: new(0), Rate: &task.Rate{}, Burst: new(0)})
	if want := `{"max_running":0,"rate":"","burst":0}`; err != nil || body != want {
		t.Errorf("sent %s, want %s; %v", body, want, err)
	}
	answer = `{"name":"q","max_running":0,"rate":"","burst":0}` // nothing is left of them
	if err := json.Unmarshal([]byte(answer), &again); err != nil || again.Limits != nil ||
		again.MaxRunning != 0 || again.Rate != (task.Rate{}) {
		t.Errorf("%s is read as %+v, %v", answer, again, err)
	}
}

func TestLimitsOfEachKeyAreSentAndRead(t *testing.T) {
	var body string
	answer := `{"name":"q","per_key":{"max_running":2,"rate":"5/1s","burst":7},"fair":true,` +
		`"limits":{"running":0,"full_keys":3,"waiting_for":{"keys_at_limit":3}}}`
	url, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		io.WriteString(w, answer)
	})
	c := newClient(t, Config{Servers: []string{url}})
	rate := task.Rate{Count: 5, Per: time.Second}
	var q Queue
	for want, change := range map[string]QueueChange{
		`{"per_key":{"max_running":2,"rate":"5/1s","burst":7},"fair":true}`: {
			PerKey: &KeyLimitsChange{MaxRunning: new(2), Rate: &rate, Burst: new(7)},
			Fair:   new(true),
		},
		`{"per_key":{"max_running":0,"rate":"","burst":0}}`: {
			PerKey: &KeyLimitsChange{MaxRunning: new(0), Rate: &task.Rate{}, Burst: new(0)},
		},
		`{"per_key":{"burst":1}}`: {PerKey: &KeyLimitsChange{Burst: new(1)}},
		`{"per_key":{}}`:          {PerKey: &KeyLimitsChange{}},
		`{"fair":false}`:          {Fair: new(false)},
		`{}`:                      {},
	} {
		var err error
		if q, err = c.PutQueue(t.Context(), "q", change); err != nil || body != want {
			t.Errorf("sent %s, want %s; %v", body, want, err)
		}
	}
	limits := task.KeyLimits{MaxRunning: 2, Rate: rate, Burst: 7}
	stands := view.QueueLimits{FullKeys: 3, WaitingFor: view.WaitingFor{KeysAtLimit: 3}}
	if q.PerKey != limits || !q.Fair || q.Limits == nil || *q.Limits != stands {
		t.Errorf("read %+v, %+v", q, q.Limits)
	}
	text, err := json.Marshal(q)
	again := Queue{}
	if err != nil || json.Unmarshal(text, &again) != nil || again.PerKey != limits ||
		again.Queue != q.Queue || *again.Limits != stands {
		t.Errorf("%s is read as %+v", text, again)
	}
	answer = `{"per_key":{"max_running":0,"rate":"","burst":0},"fair":false}` // nothing is left
	if err := json.Unmarshal([]byte(answer), &again); err != nil || again.Fair ||
		again.PerKey != (task.KeyLimits{}) {
		t.Errorf("%s is read as %+v, %v", answer, again, err)
	}
}

func TestDeadlinesAreMovedToOurClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		server := time.Now().Add(ahead)
		url, _ := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", server.UTC().Format(http.TimeFormat))
			w.Write(wire.AppendHandouts(nil,
				task.HoldAnswer{
					Tasks: []task.Handout{
						{ID: task.ID{Batch: 1}, Token: "1.1.0.0",
							Deadline: server.Add(time.Minute)},
					},
				}))
		})
		c := newClient(t, Config{Servers: []string{url}})
		a, err := c.Hold(t.Context(), task.HoldRequest{Worker: "w", Queues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(a.Tasks[0].Deadline); left < 50*time.Second || left > 70*time.Second {
			t.Errorf("with the server %v ahead the deadline is in %v, want about a minute", ahead,
				left)
		}
	}
}

func TestAnswerThatIsNoProblemDocumentIsShown(t *testing.T) {
	url, _ := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>proxy says no</html>", 404)
	})
	c := newClient(t, Config{Servers: []string{url}})
	if _, err := c.Worker(t.Context(), "w"); err == nil ||
		err.Error() != `read worker "w": 404 <html>proxy says no</html>` {
		t.Errorf("error %v", err)
	}
}

func TestWrongConfigurationIsNamedAtOnceWithoutTheToken(t *testing.T) {
	_, err := New(Config{
		Servers: []string{"localhost:7700", "http://u:pw@h"}, Token: "se\ncret", Flights: -1,
		RetryShare: 2,
	})
	for _, want := range []string{`"localhost:7700"`, "http://u:xxxxx@h", "token: must be one line",
		"flights", "retry budget"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New answered %v, want it to name %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "cret") || strings.Contains(err.Error(), "pw@") {
		t.Errorf("a secret is shown: %v", err)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("id: 1\ndata: {}\n\n: ping\n\ndata: a\ndata: b\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		known := ""
		readEvents(strings.NewReader(s), func(e sent) error {
			if e.data == nil && e.id == known {
				t.Error("an event without data or another id")
			}
			known = e.id
			return nil
		})
	})
}
