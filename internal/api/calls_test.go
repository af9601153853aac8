package api

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
)

var update = flag.Bool("update", false, "write the files under testdata anew")

// exchange is one call in a file of testdata: a request line, perhaps a body (a Go string in quotes
// where it holds odd bytes), "=>", and the answer.
type exchange struct{ request, body, answer string }

func readExchanges(t testing.TB, name string) []exchange {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []exchange
	for block := range strings.SplitSeq(string(text), "\n\n") {
		asked, answer, _ := strings.Cut(strings.TrimSpace(block)+"\n", "=>\n")
		request, body, _ := strings.Cut(strings.TrimSpace(asked), "\n")
		list = append(list, exchange{request, body, strings.TrimSpace(answer)})
	}
	return list
}

// stage is an Engine that can be exchanged for another: to build an API takes longer than to call
// it.
type stage struct{ Engine }

func (s *stage) now() *fake { return s.Engine.(*fake) }

func (s *stage) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return s.now().Events(ctx, q)
}

func (s *stage) History(
	ctx context.Context, q history.Question,
) ([]history.Period, error) {
	return s.now().History(ctx, q)
}

func (s *stage) Known(patience time.Duration) (forecast.Seen, error) {
	return s.now().Known(patience)
}

func (s *stage) PutNotifier(
	ctx context.Context, n store.Notifier,
) (store.Changed[store.Notifier], error) {
	return s.now().PutNotifier(ctx, n)
}

func (s *stage) Notifiers(ctx context.Context) ([]store.Notifier, error) {
	return s.now().Notifiers(ctx)
}

func (s *stage) DeleteNotifier(ctx context.Context, name string) error {
	return s.now().DeleteNotifier(ctx, name)
}

func (s *stage) TestNotifier(ctx context.Context, name string) (string, error) {
	return s.now().TestNotifier(ctx, name)
}

func (s *stage) PutHook(ctx context.Context, h store.Hook) (store.Changed[store.Hook], error) {
	return s.now().PutHook(ctx, h)
}

func (s *stage) Hooks(ctx context.Context) ([]store.Hook, error) { return s.now().Hooks(ctx) }

func (s *stage) DeleteHook(ctx context.Context, name string) error {
	return s.now().DeleteHook(ctx, name)
}

func (s *stage) FindHook(name string) (*store.Hook, error) { return s.now().FindHook(name) }

// tell makes the calls of a file against a new fake each and compares what comes back, and what was
// changed.
func tell(t *testing.T, name string, check func(*testing.T, exchange, *http.Response, *fake)) {
	var again bytes.Buffer
	on := &stage{newFake()}
	a := newAPI(t, on, nil)
	for _, s := range readExchanges(t, name) {
		f := newFake()
		on.Engine = f
		body := s.body
		if strings.HasPrefix(body, `q"`) {
			var err error
			if body, err = strconv.Unquote(body[1:]); err != nil {
				t.Fatalf("%s: %v", s.request, err)
			}
		}
		response, text := ask(t, a, s.request, body)
		var got strings.Builder
		fmt.Fprintf(&got, "%d %s", response.StatusCode, strings.TrimSpace(text))
		for _, name := range []string{"Allow", "Retry-After"} {
			if v := response.Header.Get(name); v != "" {
				fmt.Fprintf(&got, "\n%s: %s", name, v)
			}
		}
		for _, c := range f.changed() {
			fmt.Fprintf(&got, "\n* %s", c)
		}
		t.Run(s.request, func(t *testing.T) {
			if !*update && got.String() != s.answer {
				t.Errorf("%s\n got %s\nwant %s", s.body, got.String(), s.answer)
			}
			check(t, s, response, f)
		})
		fmt.Fprintf(&again, "%s\n", s.request)
		if s.body != "" {
			fmt.Fprintf(&again, "%s\n", s.body)
		}
		fmt.Fprintf(&again, "=>\n%s\n\n", got.String())
	}
	if *update {
		if err := os.WriteFile(
			name, append(bytes.TrimSpace(again.Bytes()), '\n'), 0o644,
		); err != nil {
			t.Fatal(err)
		}
	}
}

// ask makes one call, from this machine.
func ask(t testing.TB, a *API, request, body string, header ...string) (*http.Response, string) {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost:7700"
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	if n := a.bodies.taken.Load(); n != 0 {
		t.Errorf("%s: %d bytes of the budget for bodies were not given back", request, n)
	}
	return w.Result(), w.Body.String()
}

func TestCallsAnswerAsTheContractSays(t *testing.T) {
	tell(t, "testdata/calls.txt", func(t *testing.T, s exchange, r *http.Response, _ *fake) {
		if r.StatusCode >= 300 {
			t.Errorf("%s: status %d", s.request, r.StatusCode)
		}
		if kind := r.Header.Get("Content-Type"); r.StatusCode != http.StatusNoContent &&
			kind != "application/json" {
			t.Errorf("content type %q", kind)
		}
	})
}

func TestBadInputIsNamedAndChangesNothing(t *testing.T) {
	tell(t, "testdata/bad.txt", func(t *testing.T, s exchange, r *http.Response, f *fake) {
		if r.StatusCode < 400 || r.StatusCode >= 500 {
			t.Errorf("status %d", r.StatusCode)
		}
		if kind := r.Header.Get("Content-Type"); kind != problemType {
			t.Errorf("content type %q", kind)
		}
		if changes := f.changed(); len(changes) != 0 {
			t.Errorf("the engine was asked to %v", changes)
		}
	})
}

func TestNoQueuesAreCountedWithoutAsking(t *testing.T) {
	f := newFake()
	f.queues = nil
	if _, text := ask(
		t, newAPI(t, f, nil), "GET /v1/queues", "",
	); f.asked != 0 || strings.TrimSpace(text) != `{"items":[],"next":""}` {
		t.Errorf("asked %d times: %s", f.asked, text)
	}
}
