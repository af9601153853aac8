package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rotahq/rota/internal/frame"
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

// What stands in a body takes more memory than its bytes where its elements are short, and a call
// may wait for the store with it: that is counted, too.
func TestElementsOfBodiesAreCounted(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"queue":"mail"},`, 100), ",")
	report := fmt.Sprintf(`{"id":%q,"token":%q,"outcome":"done"`, idOf(1), token(0))
	for name, c := range map[string]struct {
		request, body string
		elements      int64
	}{
		"submissions": {"/v1/tasks", `{"tasks":[` + many + `]}`, 100},
		"reports": {"/v1/tasks/report", `{"worker":"w1","reports":[` +
			strings.TrimSuffix(strings.Repeat(report+`},`, 100), ",") + `]}`, 100},
		"children of reports": {"/v1/tasks/report",
			`{"worker":"w1","reports":[` + report + `,"spawn":[` + many + `]}]}`, 101},
		"children": {"/v1/tasks/" + idOf(1).String() + "/children", fmt.Sprintf(
			`{"worker":"w1","token":%q,"tasks":[%s]}`, token(0), many), 100},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, newFake(), nil)
			need := int64(len(c.body)) + c.elements*frame.ItemCost
			if !strings.Contains(name, "report") {
				need += a.conf.MaxBodies / 4 // is left to workers
			}
			for left, refused := range map[int64]bool{need: false, need - 1: true} {
				taken := a.bodies.limit - left
				a.bodies.taken.Store(taken)
				status, text := post(a, c.request, strings.NewReader(c.body), int64(len(c.body)))
				if (status == 503) != refused || refused && !strings.Contains(text, tooManyBodies) {
					t.Errorf("with %d bytes left: %d %.200s", left, status, text)
				}
				if got := a.bodies.taken.Load(); got != taken {
					t.Errorf("with %d bytes left: %d bytes are taken after it", left, got-taken)
				}
			}
		})
	}
}
