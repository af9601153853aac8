package api

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// peer is the caller's end of a stream, which makes one call after the other.
type peer struct {
	*stream.Conn
	ws   *websocket.Conn
	t    testing.TB
	last uint32
}

// reply is the answer to a request.
type reply struct {
	id   uint32
	kind frame.Kind
	body []byte
}

// dialed opens a stream to an API; it ends with the test.
func dialed(t testing.TB, a *API, header ...string) *peer {
	t.Helper()
	s := httptest.NewServer(a.Handler())
	t.Cleanup(s.Close)
	p, response, err := dial(t, s.Client(), s.URL, header...)
	if err != nil {
		t.Fatalf("%v: %+v", err, response)
	}
	return p
}

func dial(
	t testing.TB, c *http.Client, url string, header ...string,
) (*peer, *http.Response, error) {
	h := http.Header{}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	ws, response, err := websocket.Dial(t.Context(), url+frame.Path, &websocket.DialOptions{
		HTTPClient: c, HTTPHeader: h, Subprotocols: []string{frame.Protocol},
	})
	if err != nil {
		return nil, response, err
	}
	p := &peer{Conn: stream.New(ws, &stream.Buffers{}), ws: ws, t: t}
	t.Cleanup(p.Cut)
	return p, response, nil
}

// tell sends a request and answers its id.
func (p *peer) tell(kind frame.Kind, body []byte) uint32 {
	p.t.Helper()
	p.last++
	if _, err := p.Send(p.t.Context(), p.last, kind, stream.Bytes(body)); err != nil {
		p.t.Errorf("send: %v", err)
	}
	return p.last
}

// hear reads the next answer.
func (p *peer) hear() (reply, error) {
	var r reply
	for {
		h, err := p.Next()
		if err != nil {
			return r, err
		}
		r.id, r.kind = h.ID, h.Kind
		piece := make([]byte, h.Size)
		if err := p.Read(piece); err != nil {
			return r, err
		}
		if r.body = append(r.body, piece...); !h.More {
			return r, nil
		}
	}
}

// ask makes a call, and answers its status with its body: a problem's, if it was refused.
func (p *peer) ask(kind frame.Kind, body []byte) (status int, answer []byte) {
	p.t.Helper()
	id := p.tell(kind, body)
	r, err := p.hear()
	if err != nil || r.id != id {
		p.t.Fatalf("answer %d to request %d: %v", r.id, id, err)
	}
	return r.read(p.t)
}

// settled waits until calls that were answered have given back what they took: a moment later.
func settled(t testing.TB, a *API) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); a.bodies.taken.Load() != 0; {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of the budget were not given back", a.bodies.taken.Load())
		}
		runtime.Gosched()
	}
}

func (r reply) read(t testing.TB) (status int, answer []byte) {
	t.Helper()
	if r.kind == frame.Answer {
		return http.StatusOK, r.body
	}
	refused, err := frame.ParseRefused(r.body)
	if err != nil || r.kind != frame.Refusal {
		t.Fatalf("an answer of kind %d: %v", r.kind, err)
	}
	if (refused.RetryAfter == time.Second) != (refused.Status == 503 || refused.Status == 429) {
		t.Errorf("%d: Retry-After %v", refused.Status, refused.RetryAfter)
	}
	return refused.Status, refused.Problem
}

// inFrames is a call with a JSON body as a stream carries it, if it does.
func inFrames(t testing.TB, pattern, text string) (kind frame.Kind, body []byte, ok bool) {
	t.Helper()
	var err error
	switch pattern {
	case "POST /v1/tasks":
		var tasks []task.Submission
		tasks, err = wire.ParseSubmissions([]byte(text))
		kind = frame.Submit
		body, _ = frame.CutSubmissions(nil, tasks, 1<<30)
	case "POST /v1/tasks/hold":
		var hold task.HoldRequest
		hold, err = wire.ParseHold([]byte(text))
		kind, body = frame.Hold, frame.AppendHold(nil, hold)
	case "POST /v1/tasks/report":
		worker, given, bad := wire.ParseReports([]byte(text))
		reports := make([]task.Report, len(given))
		for i := range given {
			reports[i] = given[i].Report
		}
		kind, err = frame.Report, bad
		body, _ = frame.CutReports(nil, worker, reports, 1<<30)
	case "POST /v1/workers/{worker}/beat":
		var beat task.Beat
		beat, err = wire.ParseBeat([]byte(text))
		beat.Worker = "w1"
		kind, body = frame.Beat, frame.AppendBeat(nil, beat)
	default:
		return 0, nil, false
	}
	if err != nil {
		t.Fatalf("%s %s: %v", pattern, text, err)
	}
	return kind, body, true
}

var instance = regexp.MustCompile(`[a-z2-7]{12}`)

// sameProblem tells whether a stream refused a call as HTTP did, but for the name of the fault.
func sameProblem(ofHTTP, ofStream string) bool {
	return instance.ReplaceAllString(ofHTTP, "") == instance.ReplaceAllString(ofStream, "")
}
