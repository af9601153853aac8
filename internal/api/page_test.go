package api

import (
	"context"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Addresses in pages are relative to them, so that pages also work behind a prefix.
func TestPagesComeWithTheirFilesAndNothingElse(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	linked := regexp.MustCompile(`(?:src|href|from)\s*=?\s*"([^"#]+)"`)
	seen := map[string]bool{}
	queue := []string{"/", "/docs"}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		response, text := ask(t, a, "GET "+path, "")
		if response.StatusCode != 200 {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
		if path == "/openapi.json" || strings.HasPrefix(path, "/console/") {
			continue // the console's own tests look at its files
		}
		if csp := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp,
			"default-src 'none'") || response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: policy %q", path, csp)
		}
		if regexp.MustCompile(`https?://|["'(]//`).MatchString(text) {
			t.Errorf("%s names an outside address", path)
		}
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "/") {
				t.Errorf("%s names %s, which is another page behind a prefix", path, m[1])
			}
			queue = append(queue, (&url.URL{Path: path}).JoinPath("..", m[1]).Path)
		}
	}
	for _, name := range []string{"/console/console.js", "/console/console.css"} {
		if !seen[name] {
			t.Errorf("the console does not use %s", name)
		}
	}
	err := fs.WalkDir(pages, "page", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && name != "page/docs.html" && !seen["/"+name] {
			t.Errorf("%s is embedded, and no page uses it", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if response, _ := ask(t, a, "GET /console/sums.txt", ""); response.StatusCode != 404 {
		t.Errorf("a file that is none of the console's: %d", response.StatusCode)
	}
}

func TestReadinessDecidesTheStatus(t *testing.T) {
	for ready, want := range map[bool]int{true: http.StatusOK,
		false: http.StatusServiceUnavailable} {
		a := newAPI(t, newFake(), func(c *Config) { c.Ready = readiness(ready) })
		response, text := ask(t, a, "GET /readyz", "")
		if response.StatusCode != want || !strings.Contains(text, `"store":"sqlite"`) ||
			!strings.Contains(text, `"clock_offset":"1.5s"`) {
			t.Errorf("ready %v: %d %s", ready, response.StatusCode, text)
		}
	}
}

func readiness(ready bool) func(context.Context) Readiness {
	return func(context.Context) Readiness {
		return Readiness{
			Ready: ready, Store: "sqlite", Durability: "local", Joined: true,
			ClockOffset: 1500 * time.Millisecond,
		}
	}
}
