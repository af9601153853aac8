package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// logServer has the log of one task: lines named by their numbers from 1, whose cursors are the
// same numbers.
type logServer struct {
	lines   int
	final   bool
	streams []string // their cursors
	// what goes wrong with the n-th, from 1
	stream func(n int, w http.ResponseWriter, r *http.Request) (served bool)
}

func (s *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cursor := r.URL.Query().Get("cursor")
	switch {
	case !strings.HasSuffix(r.URL.Path, "/logs"):
		state := task.Running
		if s.final {
			state = task.Done
		}
		fmt.Fprintf(w, `{"id":%q,"state":%q}`, task.ID{Batch: 1}, state)
	case r.URL.Query().Get("follow") == "":
		var items []string
		for i := 1; i <= s.lines; i++ {
			if fmt.Sprint(i) > cursor {
				items = append(items, fmt.Sprintf(`{"text":"line %d"}`, i))
			}
		}
		fmt.Fprintf(w, `{"items":[%s],"next":""}`, strings.Join(items, ","))
	default:
		s.streams = append(s.streams, cursor)
		if s.stream == nil || !s.stream(len(s.streams), w, r) {
			s.events(w, cursor, s.lines)
		}
	}
}

// events sends the lines behind cursor up to the last one.
func (s *logServer) events(w http.ResponseWriter, cursor string, last int) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, ": hello\n\n")
	for i := 1; i <= last; i++ {
		if fmt.Sprint(i) > cursor {
			fmt.Fprintf(w,
				"id: %d\r\ndata: {\"stream\":\"stdout\",\ndata: \"text\":\"line %d\"}\r\n\r\n", i,
				i)
		}
	}
	w.(http.Flusher).Flush()
}

// followAll reads a log to its end.
func followAll(ctx context.Context, c *Client) (texts []string, err error) {
	for line, err := range c.FollowLines(ctx, task.ID{Batch: 1}, "") {
		if err != nil {
			return texts, err
		}
		texts = append(texts, line.Text)
	}
	return texts, nil
}

var fourLines = []string{"line 1", "line 2", "line 3", "line 4"}

func TestFollowGoesOnWhereTheStreamEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream func(s *logServer, n int, w http.ResponseWriter) bool
		want   []string // cursors
	}{
		{"the connection breaks", func(s *logServer, n int, w http.ResponseWriter) bool {
			if n == 1 {
				s.events(w, "", 2)
				panic(http.ErrAbortHandler)
			}
			s.final = true
			return false
		}, []string{"", "2"}},
		{"it breaks again and again, before anything comes",
			func(s *logServer, n int, w http.ResponseWriter) bool {
				switch {
				case n == 1:
					s.events(w, "", 1)
					panic(http.ErrAbortHandler)
				case n < 10:
					panic(http.ErrAbortHandler)
				}
				s.final = true
				return false
			}, []string{"", "1", "1", "1", "1", "1", "1", "1", "1", "1"}},
		{"the server stops", func(s *logServer, n int, w http.ResponseWriter) bool {
			switch n {
			case 1:
				s.events(w, "", 3) // and ends it as if there was no more
				return true
			case 2:
				refuse(w, http.StatusServiceUnavailable, "this node is closing")
				return true
			}
			s.final = true
			return false
		}, []string{"", "3", "3"}},
		{"the task ends between the end of the stream and the question",
			func(s *logServer, _ int, w http.ResponseWriter) bool {
				s.events(w, "", 2)
				s.final = true
				return true
			}, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &logServer{lines: 4}
			s.stream = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				return c.stream(s, n, w)
			}
			url, _ := fakeServer(t, s.ServeHTTP)
			texts, err := followAll(t.Context(),
				newClient(t, Config{Servers: []string{url}, Attempts: 2}))
			if err != nil || !slices.Equal(texts, fourLines) || !slices.Equal(s.streams, c.want) {
				t.Errorf("lines %q by cursors %q (%v), want cursors %q", texts, s.streams, err,
					c.want)
			}
		})
	}
}

func TestFollowTurnsToTheNextServer(t *testing.T) {
	s := &logServer{lines: 4, final: true}
	url, _ := fakeServer(t, s.ServeHTTP)
	texts, err := followAll(t.Context(),
		newClient(t, Config{Servers: []string{"http://127.0.0.1:1", url}}))
	if err != nil || !slices.Equal(texts, fourLines) {
		t.Errorf("lines %q, %v", texts, err)
	}
}

func TestFollowEndsWithWhatNoOtherTryMends(t *testing.T) {
	if _, err := followAll(
		t.Context(), newClient(t, Config{Servers: []string{"http://127.0.0.1:1"}}),
	); !errors.Is(err, ErrUnreachable) {
		t.Errorf("without any server: %v", err)
	}
	s := &logServer{stream: func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
		refuse(w, http.StatusNotFound, "no such task")
		return true
	}}
	url, _ := fakeServer(t, s.ServeHTTP)
	if _, err := followAll(
		t.Context(), newClient(t, Config{Servers: []string{url}}),
	); !errors.Is(err, ErrNotFound) {
		t.Errorf("without the task: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	s = &logServer{lines: 1}
	url, _ = fakeServer(t, s.ServeHTTP)
	if _, err := followAll(
		ctx, newClient(t, Config{Servers: []string{url}}),
	); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of ctx: %v", err)
	}
}
