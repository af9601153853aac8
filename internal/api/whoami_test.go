package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestAccessSaysWhatTheTokenMay(t *testing.T) {
	tokens, err := ParseTokens(strings.NewReader(
		"eye viewer eye-secret-1\nops operator ops-secret-1 queues=mail,img-* groups=feeds\n" +
			"w1 worker w1-secret-1 queues=mail labels=zone:a capacity=16\n"))
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, newFake(), func(c *Config) { c.Tokens = tokens })
	for token, want := range map[string]string{
		"eye-secret-1": `{"name":"eye","role":"viewer","anonymous":false,"may":["prepare","read"]}`,
		"ops-secret-1": `{"name":"ops","role":"operator","anonymous":false,` +
			`"may":["prepare","read","submit","work","operate"],` +
			`"scope":{"queues":["mail","img-*"],"groups":["feeds"],"labels":[],"capacity":0}}`,
		"w1-secret-1": `{"name":"w1","role":"worker","anonymous":false,"may":["prepare","work"],` +
			`"scope":{"queues":["mail"],"groups":[],"labels":["zone:a"],"capacity":16}}`,
	} {
		_, got := ask(t, a, "GET /v1/access", "", "Authorization: Bearer "+token)
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %s", token, got)
		}
	}
	_, text := ask(t, newAPI(t, newFake(), nil), "GET /v1/access", "")
	if !strings.Contains(text, `"anonymous":true`) || !strings.Contains(text, `"destroy"`) {
		t.Errorf("without tokens: %s", text)
	}
	if response, _ := ask(t, a, "GET /v1/access", ""); response.StatusCode !=
		http.StatusUnauthorized {
		t.Errorf("without a token: %d", response.StatusCode)
	}
}
