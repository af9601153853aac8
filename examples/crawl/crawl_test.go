package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
)

// site is a small one, with circles, doubles, links that lead elsewhere and one that leads nowhere.
var site = map[string][]string{
	"/": {"/a", "/b", "/a#top", "http://elsewhere.example/"}, "/a": {"/", "/c"},
	"/b": {"c", "/d"}, "/c": {"/a", "/b", "/d"}, "/d": {"/d", "/lost"},
}

func TestEachPageIsReadOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		links, found := site[r.URL.Path]
		if seen[r.URL.Path]++; !found {
			http.NotFound(w, r)
			return
		}
		for _, to := range links {
			fmt.Fprintf(w, `<a href="%s">`, to)
		}
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "crawl.db")
	got, err := run(t.Context(), file, s.URL+"/")
	if err != nil || got != fmt.Sprint(len(site)) {
		t.Errorf("%s pages, %v", got, err)
	}
	for path := range site {
		if seen[path] != 1 {
			t.Errorf("%s was read %d times", path, seen[path])
		}
	}
	if seen["/lost"] != 3 {
		t.Errorf("what is not there was tried %d times", seen["/lost"])
	}
	// Its task stands, and its key: started again it reads nothing twice.
	if got, err = run(t.Context(), file, s.URL+"/"); err != nil || got != fmt.Sprint(len(site)) {
		t.Errorf("again: %s pages, %v", got, err)
	}
	if seen["/"] != 1 {
		t.Errorf("again it was read %d times", seen["/"])
	}
}
