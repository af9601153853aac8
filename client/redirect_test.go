package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A proxy that sends plain HTTP on to HTTPS answers every call with 301. What follows it is a GET,
// which changes nothing, and whose answer looks like that to a change.
func TestARedirectMakesNoOtherCallOfACall(t *testing.T) {
	var made atomic.Value
	made.Store("")
	behind, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		made.Store(r.Method + " " + r.URL.Path)
		fmt.Fprint(w, `{"items":[],"next":""}`)
	})
	for status, follows := range map[int]bool{
		301: false, 302: false, 303: false, 307: true, 308: true,
	} {
		front, _ := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, behind+r.URL.Path, status)
		})
		for name, client := range map[string]*http.Client{"own": nil, "given": {}} {
			c := newClient(t, Config{Servers: []string{front}, HTTP: client})
			made.Store("")
			err := c.DeleteGroup(t.Context(), "g", false)
			if follows && (err != nil || made.Load() != "DELETE /v1/groups/g") {
				t.Errorf("%s client, %d: deleted by %q, %v", name, status, made.Load(), err)
			}
			var refused *Error
			if !follows && (!errors.As(err, &refused) || refused.Status != status ||
				!strings.Contains(refused.Detail, behind) || errors.Is(err, ErrOutcomeUnknown) ||
				made.Load() != "") {
				t.Errorf("%s client, %d: deleted by %q, %v", name, status, made.Load(), err)
			}
			if _, err := c.Groups(t.Context()); err != nil {
				t.Errorf("%s client, %d: what only reads is not followed: %v", name, status, err)
			}
		}
	}
}

func TestATokenForTLSIsNotSentOnWithout(t *testing.T) {
	plain, calls := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"items":[],"next":""}`)
	})
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain+r.URL.Path, http.StatusPermanentRedirect)
	}))
	t.Cleanup(front.Close)
	c := newClient(t, Config{Servers: []string{front.URL}, Token: "secret", HTTP: front.Client()})
	var refused *Error
	if _, err := c.Groups(t.Context()); !errors.As(err, &refused) ||
		refused.Status != http.StatusPermanentRedirect || calls.Load() != 0 {
		t.Errorf("listed with %d calls in plain text: %v", calls.Load(), err)
	}
}
