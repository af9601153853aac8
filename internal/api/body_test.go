package api

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// post sends body as it comes, with the given announced length; -1 = chunked.
func post(a *API, path string, body io.Reader, length int64) (int, string) {
	r := httptest.NewRequest("POST", path, body)
	r.Host, r.ContentLength = "localhost", length
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func submissionOf(size int) string {
	const frame = `{"tasks":[]}`
	return frame[:10] + strings.Repeat(" ", size-len(frame)) + frame[10:]
}

func TestBodiesUpToTheLimitAreRead(t *testing.T) {
	on := &stage{newFake()}
	a := newAPI(t, on, nil)
	for _, c := range []struct {
		size int
		want int
	}{
		{12, 201}, {firstRead - 1, 201}, {firstRead, 201}, {firstRead + 1, 201},
		{4*firstRead + 1, 201}, {1 << 20, 201}, {1<<20 + 1, 413}, {3 << 20, 413},
	} {
		for _, length := range []int64{int64(c.size), -1} {
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader {
					return r
				}, "in halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
			} {
				f := newFake()
				on.Engine = f
				status, text := post(a, "/v1/tasks", wrap(strings.NewReader(submissionOf(c.size))),
					length)
				if status != c.want {
					t.Errorf("%d bytes %s, announced as %d: %d %s", c.size, name, length, status,
						text)
				}
				if n := len(f.changed()); (n == 1) != (c.want == 201) {
					t.Errorf("%d bytes %s: %d calls of the engine", c.size, name, n)
				}
				if left := a.bodies.taken.Load(); left != 0 {
					t.Errorf("%d bytes %s: %d bytes of the budget are missing", c.size, name, left)
				}
			}
		}
	}
}

func TestBodyThatBreaksOffIsRefused(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	broken := io.MultiReader(strings.NewReader(`{"tasks":[]}`),
		iotest.ErrReader(errors.New("connection reset")))
	if status, _ := post(a, "/v1/tasks", broken, 100); status != http.StatusBadRequest ||
		len(f.changed()) != 0 {
		t.Errorf("%d, done %v", status, f.changed())
	}
}

// watched is a body that looks at the budget when it is read.
type watched struct {
	a    *API
	most int64
}

func (w *watched) Read([]byte) (int, error) {
	w.most = max(w.most, w.a.bodies.taken.Load())
	return 0, io.ErrUnexpectedEOF
}

func TestAnnouncedBytesTakeNoMemoryBeforeTheyCome(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	body := &watched{a: a}
	post(a, "/v1/tasks", body, 1<<20)
	if body.most != firstRead {
		t.Errorf("%d bytes are taken for nothing, want %d", body.most, firstRead)
	}
}

func TestUnderLoadWorkersCallsGoFirst(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	calls := []struct{ path, body string }{
		{"/v1/tasks", `{"tasks":[]}`},
		{"/v1/tasks/cancel", `{"filter":{"all":true}}`},
		{"/v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`},
		{"/v1/tasks/report", `{"worker":"w1","reports":[]}`},
		{"/v1/workers/w1/beat", `{"incarnation":"i"}`},
	}
	for _, c := range []struct {
		name  string
		taken int64
		want  [5]bool // in the order of calls
	}{
		{"idle", 0, [5]bool{true, true, true, true, true}},
		{"busy", 3 << 20, [5]bool{false, false, true, true, true}},
		{"full", 4 << 20, [5]bool{}},
	} {
		a.bodies.taken.Store(c.taken)
		for i, call := range calls {
			status, text := post(a, call.path, strings.NewReader(call.body), int64(len(call.body)))
			if (status < 300) != c.want[i] || status >= 300 && status != 503 {
				t.Errorf("%s: %s: %d %s", c.name, call.path, status, text)
			}
		}
		if a.bodies.taken.Load() != c.taken {
			t.Errorf("%s: the budget is %d afterwards, want %d", c.name, a.bodies.taken.Load(),
				c.taken)
		}
	}
}
