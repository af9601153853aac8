package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/task"
)

func tokensOf(t *testing.T, lines string) Tokens {
	t.Helper()
	tokens, err := ParseTokens(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// Tokens may change between the moment in which a caller is let in and the one in which its stream
// is open.
func TestStreamThatOpensWhileTokensChangeHasNoOldRights(t *testing.T) {
	a := newAPI(t, newFake(), func(c *Config) {
		c.Tokens = tokensOf(t, "ann submitter aaaa\nroot admin rrrr\n")
	})
	var calls *streamCalls
	for _, noun := range a.nouns {
		if c, is := noun.(*streamCalls); is {
			calls = c
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &answer{
			ResponseWriter: rw, within: a.conf.AnswerWithin,
			call: call{from: addressOf(r), remote: r.RemoteAddr},
		}
		var err error
		if w.who, err = a.admit(r, toStream); err != nil {
			t.Error(err)
		}
		if err := a.SetTokens(tokensOf(t, "root admin rrrr\n")); err != nil {
			t.Error(err)
		}
		if err := calls.open(w, r); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	p, response, err := dial(t, s.Client(), s.URL, "Authorization: Bearer aaaa")
	if err != nil {
		t.Fatalf("%v: %+v", err, response)
	}
	submit, _ := frame.CutSubmissions(nil, []task.Submission{{Queue: "mail"}}, 99)
	if status, text := p.ask(frame.Submit, submit); status != http.StatusUnauthorized {
		t.Errorf("a token that is gone submits: %d %s", status, text)
	}
}
