package api

import (
	"strings"
	"testing"
)

// A key that a browser can't write in a path stands in the query.
func TestKeysMayStandInTheQuery(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	for _, key := range []string{".", "..", "a/b"} {
		for _, x := range []struct{ call, body, want string }{
			{"POST /v1/queues/mail/keys/-/pause?key=" + key, "", `"paused":true`},
			{"POST /v1/queues/mail/keys/-/resume?key=" + key, "", `"paused":false`},
			{"PUT /v1/queues/mail/keys/-?key=" + key, `{"weight":5}`, `"weight":5`},
		} {
			response, text := ask(t, a, x.call, x.body)
			if response.StatusCode != 200 || !strings.Contains(text, x.want) ||
				!strings.Contains(text, `"key":"`+key+`"`) {
				t.Errorf("%s: %d %s", x.call, response.StatusCode, text)
			}
		}
	}
	for _, call := range []string{
		"POST /v1/queues/mail/keys/acme/pause?key=", "POST /v1/queues/mail/keys/acme/resume?key=",
		"POST /v1/queues/mail/keys/acme/pause?kee=b", "POST /v1/queues/mail/keys/acme/resume?kee=b",
	} {
		if response, text := ask(t, a, call, ""); response.StatusCode != 422 {
			t.Errorf("%s: %d %s", call, response.StatusCode, text)
		}
	}
}
