package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/stream"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

func TestStreamRefusesAsHTTPDoes(t *testing.T) {
	on := &stage{newFake()}
	a := newAPI(t, on, nil)
	p := dialed(t, a)
	field := []task.FieldError{{Location: "body.x", Message: "no"}}
	asked := 0
	for _, call := range everyCall {
		kind, body, ok := inFrames(t, call.pattern, call.body)
		if !ok {
			continue
		}
		asked++
		for _, err := range []error{
			&task.InvalidError{Fields: field}, &task.InvalidError{TooLarge: true, Fields: field},
			store.ErrNotFound, store.ErrConflict, store.ErrFull, store.ErrBusy, store.ErrDraining,
			store.ErrOutOfReach, store.ErrClosed, store.ErrUnknown, store.ErrBroken, outlived{},
			context.Canceled, errors.New("disk on fire: password hunter2"),
		} {
			f := newFake()
			f.err = fmt.Errorf("wrapped: %w", err)
			on.Engine = f
			response, want := ask(t, a, "POST "+call.target, call.body)
			status, got := p.ask(kind, body)
			settled(t, a)
			if status != response.StatusCode || !sameProblem(want, string(got)) {
				t.Errorf("%s, %v: %d %s, over HTTP %d %s", call.pattern, err, status, got,
					response.StatusCode, want)
			}
			if strings.Contains(string(got), "hunter2") {
				t.Errorf("%s: the answer tells too much: %s", call.pattern, got)
			}
		}
		on.Engine = newFake()
	}
	if asked != 4 {
		t.Errorf("%d hot calls were asked", asked)
	}
}

func TestStreamAnswersAsHTTPDoes(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	p := dialed(t, a)
	for _, call := range everyCall {
		kind, body, ok := inFrames(t, call.pattern, call.body)
		if !ok {
			continue
		}
		before := len(f.changed())
		_, text := ask(t, a, "POST "+call.target, call.body)
		status, got := p.ask(kind, body)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", call.pattern, status, got)
			continue
		}
		settled(t, a)
		if did := f.changed()[before:]; len(did)%2 != 0 ||
			!slices.Equal(did[:len(did)/2], did[len(did)/2:]) {
			t.Errorf("%s did %q", call.pattern, did)
		}
		var want, have any
		var err, wrong error
		switch kind {
		case frame.Submit:
			want, err = wire.ParseReceipts([]byte(text))
			have, wrong = frame.ParseReceipts(got)
		case frame.Hold:
			var held frame.Handouts
			want, err = wire.ParseHandouts([]byte(text))
			held, wrong = frame.ParseHandouts(got)
			have = held.HoldAnswer
			if ago := time.Since(held.Now); ago < 0 || ago > time.Minute {
				t.Errorf("the server's time was %v ago", ago)
			}
		case frame.Report:
			var answers []task.Answer
			answers, err = wire.ParseAnswers([]byte(text))
			for i := range answers {
				answers[i].ID = task.ID{} // they are in the order of the reports
			}
			want = answers
			have, wrong = frame.ParseAnswers(got)
		case frame.Beat:
			want, err = wire.ParseBeatAnswer([]byte(text))
			have, wrong = wire.ParseBeatAnswer(got)
		}
		if err != nil || wrong != nil || fmt.Sprint(want) != fmt.Sprint(have) {
			t.Errorf("%s: %+v (%v), over HTTP %+v (%v)", call.pattern, have, wrong, want, err)
		}
	}
	if f.written != 2 {
		t.Errorf("Written was called %d times", f.written)
	}
	_, page := ask(t, a, "GET /metrics", "")
	for _, line := range []string{
		`rota_http_requests_total{call="POST /v1/tasks",status="201"} 2`,
		`rota_http_requests_total{call="POST /v1/tasks/report",status="200"} 2`, "rota_streams 1",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}

func TestStreamKeepsToTheScopeAsHTTPDoes(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) { c.Tokens = scoped(t) })
	for pattern, bodies := range chosen {
		for _, text := range bodies {
			if text == "-" {
				continue
			}
			for _, token := range []string{
				"operator-in", "operator-out", "submitter-in", "submitter-out", "worker-in",
				"worker-out", "viewer-in",
			} {
				if !strings.HasPrefix(text, "{") {
					continue
				}
				kind, body, ok := inFrames(t, pattern, text)
				if !ok {
					continue
				}
				bearer := "Authorization: Bearer " + token
				target := strings.Replace(pattern, "{worker}", "w1", 1)
				response, want := ask(t, a, target, text, bearer)
				if strings.HasPrefix(token, "viewer") {
					s := httptest.NewServer(a.Handler())
					_, refusal, err := dial(t, s.Client(), s.URL, bearer)
					s.Close()
					if err == nil || refusal.StatusCode != http.StatusForbidden {
						t.Errorf("a viewer opened a stream: %v", refusal)
					}
					continue
				}
				status, got := dialed(t, a, bearer).ask(kind, body)
				settled(t, a)
				if refused := response.StatusCode == 403; refused != (status == 403) ||
					refused && !sameProblem(want, string(got)) {
					t.Errorf("%s %s as %s: %d %s, over HTTP %d %s", pattern, text, token, status,
						got, response.StatusCode, want)
				}
			}
		}
	}
}

// Whoever may not open a stream is told so as by any other call.
func TestStreamIsRefusedAsOtherCallsAre(t *testing.T) {
	open := newAPI(t, newFake(), nil)
	closed := newAPI(t, newFake(), func(c *Config) {
		c.Tokens = scoped(t)
		c.Peer = func(*http.Request) (string, bool) { return "n2", true }
	})
	for _, c := range []struct {
		api    *API
		header string
		status int
	}{
		{open, "Host: evil.example", 403}, {open, "Origin: http://evil.example", 403},
		{open, "Sec-Fetch-Site: cross-site", 403}, {closed, "X: none", 401},
		{closed, "Authorization: Bearer wrong", 401},
		{closed, "Authorization: Rota-Node n2 1 2 3", 403},
	} {
		s := httptest.NewServer(c.api.Handler())
		client := s.Client()
		if host, ok := strings.CutPrefix(c.header, "Host: "); ok {
			inner := client.Transport
			client.Transport = roundTrip(func(q *http.Request) (*http.Response, error) {
				q.Host = host
				return inner.RoundTrip(q)
			})
		}
		_, response, err := dial(t, client, s.URL, c.header)
		if err == nil || response.StatusCode != c.status ||
			response.Header.Get("Content-Type") != problemType {
			t.Errorf("%s: %v, %+v", c.header, err, response)
		}
		s.Close()
	}
	response, text := ask(t, open, "GET /v1/stream", "")
	if response.StatusCode != 426 || response.Header.Get("Upgrade") != "websocket" {
		t.Errorf("without an upgrade: %d %s", response.StatusCode, text)
	}
	response, text = ask(t, open, "GET /v1/stream", "", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-Websocket-Protocol: chat")
	if response.StatusCode != 400 || !strings.Contains(text, "rota.v1") {
		t.Errorf("another protocol: %d %s", response.StatusCode, text)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// A stream keeps no rights that are gone.
func TestStreamLosesWhatItsTokenLoses(t *testing.T) {
	tokens := func(lines string) Tokens {
		parsed, err := ParseTokens(strings.NewReader(lines))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	a := newAPI(t, newFake(), func(c *Config) {
		c.Tokens = tokens("ann submitter aaaa\nroot admin rrrr\n")
	})
	p := dialed(t, a, "Authorization: Bearer aaaa")
	submit, _ := frame.CutSubmissions(nil, []task.Submission{{Queue: "mail"}}, 99)
	try := func(want int) {
		t.Helper()
		if status, text := p.ask(frame.Submit, submit); status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	try(200)
	for _, step := range []struct {
		lines string
		want  int
	}{
		{"ann submitter aaaa queues=scan\nroot admin rrrr\n", 403},
		{"ann viewer aaaa\nroot admin rrrr\n", 403}, {"root admin rrrr\n", 401},
		{"ann submitter aaaa\n", 200},
	} {
		if err := a.SetTokens(tokens(step.lines)); err != nil {
			t.Fatal(err)
		}
		try(step.want)
	}
	hold := frame.AppendHold(nil, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}})
	if status, text := p.ask(frame.Hold, hold); status != 403 {
		t.Errorf("a submitter holds: %d %s", status, text)
	}
}

// What can't be read is refused with its place, and the stream goes on.
func TestMessageThatIsWrongCostsTheStreamNothing(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	p := dialed(t, a)
	large, _ := frame.CutSubmissions(nil, []task.Submission{
		{Queue: "mail", Context: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)},
	}, 4<<20)
	odd, _ := frame.CutSubmissions(nil, []task.Submission{
		{Queue: "mail", Context: json.RawMessage(`{"a":}`)},
	}, 99)
	for _, c := range []struct {
		kind   frame.Kind
		body   []byte
		status int
		place  string
	}{
		{frame.Submit, odd, 400, "body.tasks[0].context"},
		{frame.Hold, frame.AppendHold(nil, task.HoldRequest{Worker: "w1", Limit: -1}), 422,
			"body.limit"},
		{frame.Hold, []byte{200, 1}, 400, "body.worker"},
		{frame.Submit, large, 413, "body"},
		{frame.Beat, frame.AppendBeat(nil, task.Beat{Worker: "not a name"}), 422, "body.worker"},
		{9, nil, 400, ""}, {0, []byte("x"), 400, ""}, {99, large, 400, ""},
		{frame.Ping, nil, 200, ""},
	} {
		status, text := p.ask(c.kind, c.body)
		if status != c.status || !strings.Contains(string(text), c.place) {
			t.Errorf("kind %d: %d %s, want %d at %q", c.kind, status, text, c.status, c.place)
		}
	}
	settled(t, a)
}

// What is no frame at all ends the stream, with a reason.
func TestBrokenEnvelopeEndsTheStream(t *testing.T) {
	head := func(size int, id uint32, kind frame.Kind, more bool) []byte {
		return frame.AppendHeader(nil, frame.Header{Size: size, ID: id, Kind: kind, More: more})
	}
	var many []byte
	for id := range uint32(frame.MaxCalls + 1) {
		many = append(append(many, head(1, id, frame.Submit, true)...), 'x')
	}
	for name, c := range map[string]struct {
		kind websocket.MessageType
		text []byte
		code websocket.StatusCode
	}{
		"text": {websocket.MessageText, []byte("hello"), websocket.StatusUnsupportedData},
		"too long": {websocket.MessageBinary, head(1<<20, 1, frame.Submit, false),
			websocket.StatusMessageTooBig},
		"two kinds": {websocket.MessageBinary, append(append(head(1, 1, frame.Submit, true), 'x'),
			head(0, 1, frame.Hold, false)...), websocket.StatusProtocolError},
		"too many": {websocket.MessageBinary, many, websocket.StatusPolicyViolation},
	} {
		a := newAPI(t, newFake(), nil)
		s := httptest.NewServer(a.Handler())
		ws, _, err := websocket.Dial(t.Context(), s.URL+frame.Path, &websocket.DialOptions{
			Subprotocols: []string{frame.Protocol},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.Write(t.Context(), c.kind, c.text); err != nil {
			t.Fatal(err)
		}
		_, _, err = ws.Read(t.Context())
		if code := websocket.CloseStatus(err); code != c.code {
			t.Errorf("%s: %v, want code %d", name, err, c.code)
		}
		ws.CloseNow()
		a.Close()
		if n := a.bodies.taken.Load(); n != 0 {
			t.Errorf("%s: %d bytes of the budget were not given back", name, n)
		}
		s.Close()
	}
}

// A call that panics is answered, told of in the log, and costs the others nothing.
func TestCallThatPanicsCostsTheStreamNothing(t *testing.T) {
	var log bytes.Buffer
	f := newFake()
	f.hold = func(context.Context, task.HoldRequest) (task.HoldAnswer, error) { panic("hunter2") }
	a := newAPI(t, f, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	p := dialed(t, a)
	hold := frame.AppendHold(nil, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}})
	status, text := p.ask(frame.Hold, hold)
	if status != 500 || !strings.Contains(string(text), `"outcome":"unknown"`) ||
		strings.Contains(string(text), "hunter2") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := p.ask(frame.Ping, nil); status != 200 {
		t.Errorf("the ping after it: %d", status)
	}
	p.Cut()
	a.Close()
	if !strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log says %s", &log)
	}
}

// Whoever does not wait for an answer any more ends the call.
func TestLeaveEndsAWaitingCall(t *testing.T) {
	f := newFake()
	began := make(chan struct{})
	f.hold = func(ctx context.Context, _ task.HoldRequest) (task.HoldAnswer, error) {
		close(began)
		<-ctx.Done()
		return task.HoldAnswer{}, ctx.Err()
	}
	p := dialed(t, newAPI(t, f, nil))
	id := p.tell(frame.Hold, frame.AppendHold(nil, task.HoldRequest{
		Worker: "w1", Queues: []string{"mail"}, Wait: time.Minute,
	}))
	<-began
	if _, err := p.Send(t.Context(), id, frame.Leave, stream.None); err != nil {
		t.Fatal(err)
	}
	r, err := p.hear()
	if err != nil || r.id != id {
		t.Fatalf("%+v, %v", r, err)
	}
	if status, text := r.read(t); status != 503 {
		t.Errorf("%d %s", status, text)
	}
}

// A node that stops answers what is under way, and then says that it goes.
func TestStreamEndsWithItsNode(t *testing.T) {
	f := newFake()
	began, goOn := make(chan struct{}), make(chan struct{})
	f.hold = func(context.Context, task.HoldRequest) (task.HoldAnswer, error) {
		close(began)
		<-goOn
		return task.HoldAnswer{PollInterval: time.Second}, nil
	}
	a := newAPI(t, f, nil)
	p := dialed(t, a)
	p.tell(frame.Hold, frame.AppendHold(nil, task.HoldRequest{
		Worker: "w1", Queues: []string{"mail"}, Wait: time.Minute,
	}))
	<-began
	closed := make(chan struct{})
	go func() {
		a.Close()
		close(closed)
	}()
	<-a.closing
	close(goOn)
	if r, err := p.hear(); err != nil || r.kind != frame.Answer {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := p.hear(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("then %v", err)
	}
	<-closed
}

// Else its calls would come after the API has been waited for, when the store is closed.
func TestNoStreamBeginsOnceTheAPIIsClosed(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	a.Close()
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	_, response, err := dial(t, s.Client(), s.URL)
	if err == nil || response == nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v: %+v", err, response)
	}
	if n := a.streams.open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

// A stream that is opened while the store is away takes beats, and refuses what needs the store.
func TestStreamTakesBeatsWhileTheStoreIsAway(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) {
		c.Reach = func() error { return store.ErrOutOfReach }
	})
	p := dialed(t, a)
	beat := frame.AppendBeat(nil, task.Beat{Worker: "w1", Incarnation: "1", Capacity: 1})
	if status, text := p.ask(frame.Beat, beat); status != http.StatusOK {
		t.Errorf("beat: %d %s", status, text)
	}
	hold := frame.AppendHold(nil, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}})
	if status, text := p.ask(frame.Hold, hold); status != http.StatusServiceUnavailable {
		t.Errorf("hold: %d %s", status, text)
	}
}
