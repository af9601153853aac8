package api

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/story"
)

// TestNoRequestBreaksTheServer walks the OpenAPI document and throws wrong requests at every
// operation: no answer is a fault of the server, every refusal is a problem document, and a refusal
// changes nothing.
func TestNoRequestBreaksTheServer(t *testing.T) {
	story.Whole(t)
	f := newFake()
	a := newAPI(t, f, nil)
	a.close() // streams end
	s := readSpec(t, a)
	tried, refused := 0, 0
	try := func(method, target, body string) {
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		r.URL, r.RequestURI, r.Host = u, target, "localhost"
		w := httptest.NewRecorder()
		before := len(f.changed())
		a.Handler().ServeHTTP(w, r)
		tried++
		at := fmt.Sprintf("%s %s %.60q: %d %.200s", method, target, body, w.Code, w.Body)
		if w.Code >= 500 {
			t.Error(at)
		}
		if w.Code >= 400 {
			refused++
			if w.Header().Get("Content-Type") != problemType {
				t.Errorf("%s: %s", at, w.Header().Get("Content-Type"))
			}
			if after := f.changed(); len(after) != before {
				t.Errorf("%s: done all the same: %v", at, after[before:])
			}
		}
		if a.bodies.taken.Load() != 0 {
			t.Fatalf("%s: a part of the budget for bodies is lost", at)
		}
	}
	odd := []string{
		"", " ", "%00", "%ff", "%F0%9F%90%99", "..%2f..", "-1", "0", "999999999999999999999", "1e9",
		"NaN", "null", "%22", strings.Repeat("x", 5000),
	}
	a.close() // streams end as soon as they have begun
	for path, operations := range s.Paths {
		for method, op := range operations {
			method := strings.ToUpper(method)
			for _, value := range append(odd, "mail", "w1", idOf(1).String()) {
				if value == "" {
					continue
				}
				target := parameter.ReplaceAllString(path, value)
				if strings.Contains(target, " ") {
					target = strings.ReplaceAll(target, " ", "%20")
				}
				try(method, target, "")
				for _, p := range op.Parameters {
					if p.In != "query" || p.Name == "follow" {
						continue
					}
					for _, v := range odd {
						try(method, target+"?"+p.Name+"="+strings.ReplaceAll(v, " ", "+"), "")
					}
				}
				try(method, target+"?nobody=knows", "")
				try(method, target+"?%zz", "")
			}
			target := parameter.ReplaceAllString(path, "w1")
			for _, content := range op.RequestBody.Content {
				for _, body := range bodiesFor(s, content.Schema, 3) {
					try(method, target, body)
				}
			}
		}
	}
	if tried < 2000 || refused < tried/2 {
		t.Errorf("%d requests, %d of them refused: the generator is broken", tried, refused)
	}
}

// oddValues are values that some field or other will not take.
var oddValues = []string{
	"", "null", "true", "0", "-0", "-1", "1.5", "1e400", "9223372036854775808", `""`, `"x"`,
	`"\u0000"`, `"\ud800"`, "\"\xff\"", `"1h"`, `"2026-01-01T00:00:00Z"`,
	"[]", "{}", "[[]]", `{"a":1,"a":2}`, "[1,", `{"a"`, "tru", strings.Repeat("[", 1001),
	strings.Repeat(`{"a":`, 2000), `"` + strings.Repeat("x", 5000) + `"`,
}

// bodiesFor makes bodies of a schema's form with one odd value each, at every place down to a
// depth.
func bodiesFor(s spec, x schemaSpec, depth int) []string {
	bodies := append([]string{}, oddValues...)
	x = s.resolve(x)
	if depth == 0 {
		return bodies
	}
	if x.Items != nil {
		for _, e := range bodiesFor(s, *x.Items, depth-1) {
			bodies = append(bodies, "["+e+"]", "["+e+","+e+"]")
		}
	}
	for name, field := range x.Properties {
		for _, v := range bodiesFor(s, field, depth-1) {
			bodies = append(bodies, fmt.Sprintf("{%q:%s}", name, v))
		}
		bodies = append(bodies, fmt.Sprintf("{%q:1,%[1]q:1}", name), fmt.Sprintf("{%q:{}} x", name),
			fmt.Sprintf("{%q:{},\"nobody\":0}", strings.ToUpper(name)))
	}
	return bodies
}
