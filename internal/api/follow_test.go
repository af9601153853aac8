package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// backlog has an event behind every event, and a line behind every line.
type backlog struct{ *fake }

func (backlog) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return store.EventPage{
		Events: []store.Event{{Seq: q.After + 1, Time: moment.UnixMicro(), Kind: "node.online"}},
		Next:   q.After + 1,
	}, ctx.Err()
}

func (backlog) Lines(
	ctx context.Context, _ task.ID, from int64, limit int,
) (store.LogPage, error) {
	return store.LogPage{Lines: make([]task.LogLine, limit), Next: from + int64(limit)}, ctx.Err()
}

// firstByte tells when the first bytes of an answer were written.
type firstByte struct {
	http.ResponseWriter
	once chan struct{}
}

func (b *firstByte) Write(p []byte) (int, error) {
	select {
	case <-b.once:
	default:
		close(b.once)
	}
	return len(p), nil
}

// Whoever has a month to catch up on reads for as long as it takes; a token that is gone must not
// read so long, nor hold up the end of the server.
func TestStreamsThatCatchUpEndWithTheirTokenAndTheServer(t *testing.T) {
	for _, call := range []string{
		"/v1/events/stream?cursor=1", "/v1/tasks/" + idOf(2).String() + "/logs?follow=true",
	} {
		for what, end := range map[string]func(*API){
			"the token is gone": func(a *API) {
				if err := a.SetTokens(tokensOf(t, "root admin rrrr\n")); err != nil {
					t.Error(err)
				}
			},
			"the server shuts down": (*API).Close,
		} {
			f := backlog{newFake()}
			a := newAPI(t, f.fake, func(c *Config) {
				c.Engine, c.Events = f, f
				c.Tokens = tokensOf(t, "ann viewer aaaa\nroot admin rrrr\n")
			})
			ctx, cancel := context.WithCancel(t.Context())
			r := httptest.NewRequest("GET", call, nil).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer aaaa")
			w := &firstByte{httptest.NewRecorder(), make(chan struct{})}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				a.Handler().ServeHTTP(w, r)
			}()
			select {
			case <-w.once:
			case <-ended:
				t.Fatalf("%s ended at once", call)
			}
			end(a)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Errorf("%s goes on when %s", call, what)
			}
			cancel()
			<-ended
		}
	}
}

// Who asks only for the header of a stream has all of it at once: what follows on the connection
// would wait for the stream's end, which never comes.
func TestHeaderOfAStreamIsAnAnswer(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	defer a.Close()
	for _, path := range []string{
		"/v1/events/stream", "/v1/tasks/" + idOf(1).String() + "/logs?follow=true",
		"/v1/overview/stream",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for _, method := range []string{http.MethodHead, http.MethodHead, http.MethodGet} {
			if method == http.MethodGet {
				path = "/healthz"
			}
			r, err := http.NewRequestWithContext(ctx, method, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := s.Client().Do(r)
			if err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s %s: %s", method, path, response.Status)
			}
		}
		cancel()
	}
	for end := time.Now().Add(10 * time.Second); a.follows.open() > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d streams are still open", a.follows.open())
		}
		runtime.Gosched()
	}
}
