package rota

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A name that is no text can't be asked for in PostgreSQL. Nobody asks: the call is refused before,
// nobody is told of it, and events that come later don't wait behind one that can't be stored.
func TestCallsAboutImpossibleNamesAreRefusedAndHoldUpNoEvent(t *testing.T) {
	n := members(t, Config{Store: database(t)}, "a")[0]
	call := func(method, path, body string) (status int, answer string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.Addr()+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		b, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(b)
	}
	long := strings.Repeat("a", 2000)
	for _, c := range []struct {
		method, path string
		want         int
		detail       string
	}{
		{"DELETE", "/v1/queues/%00", http.StatusNotFound, `queue \"\\x00\": not found`},
		{"DELETE", "/v1/hooks/%00", http.StatusNotFound, `hook \"\\x00\": not found`},
		{"DELETE", "/v1/schedules/%FF", http.StatusNotFound, `schedule \"\\xff\": not found`},
		{"GET", "/v1/schedules/%00", http.StatusNotFound, `schedule \"\\x00\": not found`},
		{"GET", "/v1/groups/g/jobs/%00/logs", http.StatusNotFound, `job \"\\x00\": not found`},
		{"POST", "/v1/groups/%00/refresh", http.StatusNotFound, `group \"\\x00\": not found`},
		{"DELETE", "/v1/groups/" + long, http.StatusNotFound, "not found"},
		{"PUT", "/v1/groups/%00/jobs", http.StatusUnprocessableEntity, "path.group"},
	} {
		body := ""
		if c.method == http.MethodPut {
			body = `{"jobs": []}`
		}
		if got, answer := call(c.method, c.path, body); got != c.want ||
			!strings.Contains(answer, c.detail) {
			t.Errorf("%s %.40s: %d %s, want %d %s", c.method, c.path, got, answer, c.want, c.detail)
		}
	}
	if got, answer := call("PUT", "/v1/queues/q", "{}"); got != http.StatusCreated {
		t.Fatal(got, answer)
	}
	settled(t, "it is told that a queue was made", func() bool {
		_, answer := call("GET", "/v1/events?kind=audit.*", "")
		return strings.Contains(answer, "audit.queue.put")
	})
}
