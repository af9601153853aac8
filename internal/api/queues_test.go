package api

import (
	"net/http"
	"testing"
)

// A queue gets a task for each that dies in another one, if that says so: who may say so submits
// there.
func TestFinalQueueIsInTheScope(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, func(c *Config) {
		c.Tokens = tokensOf(t, "ops operator narrow queues=mail\nops operator wide "+
			"queues=mail,final*\nroot admin root")
	})
	for _, c := range []struct {
		token, body string
		want        int
	}{
		{"narrow", `{"final_queue":"final-mail"}`, http.StatusForbidden},
		{"wide", `{"final_queue":"final-mail"}`, http.StatusOK},
		{"root", `{"final_queue":"final-mail"}`, http.StatusOK},
		{"narrow", `{"final_queue":""}`, http.StatusOK},
		{"narrow", `{"timeout":"1m"}`, http.StatusOK},
	} {
		before := len(f.changed())
		response, text := ask(t, a, "PUT /v1/queues/mail", c.body,
			"Authorization: Bearer "+c.token)
		if response.StatusCode != c.want {
			t.Errorf("%s by %s: %d %s, want %d", c.body, c.token, response.StatusCode, text, c.want)
		}
		if done := len(f.changed()) > before; done != (c.want == http.StatusOK) {
			t.Errorf("%s by %s: done: %v", c.body, c.token, done)
		}
	}
}
