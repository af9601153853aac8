package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
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
		"Fri, 31 Dec 9999 23:59:59 GMT": 24 * time.Hour,
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
