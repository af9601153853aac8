package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rotahq/rota/internal/story"
)

// TestGroupStories runs the scripts in testdata/group. Their server answers as the API's own
// stories say, and 404 to everything else; it tells of groups in more trouble than a real one gets
// into within a test.
func TestGroupStories(t *testing.T) {
	story.Whole(t)
	server := toldServer(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/group",
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("ROTA_SERVER", server)
			e.Setenv("ROTA_FIXED", "true")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func toldServer(t *testing.T) (address string) {
	t.Helper()
	text, err := os.ReadFile("../../internal/api/testdata/calls.txt")
	if err != nil {
		t.Fatal(err)
	}
	stories := map[string]string{}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		asked, answer, _ := strings.Cut(strings.TrimSpace(block), "\n=>\n")
		line, body, _ := strings.Cut(asked, "\n")
		answer, _, _ = strings.Cut(answer, "\n* ")
		stories[question(line, body)] = answer
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/v1/stats" { // of an hour that differs with each run
			io.WriteString(w, `{"items":[]}`)
			return
		}
		asked := question(r.Method+" "+r.URL.RequestURI(), string(body))
		answer, ok := stories[asked]
		if !ok {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"title":"Not Found","status":404,"detail":%q}`,
				"no story answers "+asked)
			return
		}
		status, text, _ := strings.Cut(answer, " ")
		w.Header().Set("Content-Type", "application/json")
		code, err := strconv.Atoi(status)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(code)
		io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// question is a call with its query and its body in one form; the limits that the command asks for
// by itself hold everything.
func question(line, body string) string {
	path, query, _ := strings.Cut(line, "?")
	values, _ := url.ParseQuery(query)
	if limit := values.Get("limit"); limit == "1000" || limit == "100" {
		values.Del("limit")
	}
	var v any
	if json.Unmarshal([]byte(body), &v) == nil {
		if plain, err := json.Marshal(v); err == nil {
			body = string(plain)
		}
	}
	return path + "?" + values.Encode() + " " + strings.TrimSpace(body)
}
