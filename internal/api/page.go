package api

import (
	"embed"
	"net/http"

	"github.com/rotahq/rota/internal/console"
)

// pages are ours alone: nothing in them comes from elsewhere, so they also work where there is no
// network.
//
//go:embed page
var pages embed.FS

// pageTypes are the kinds of files there are.
var pageTypes = map[string]string{
	"docs.html": "text/html; charset=utf-8", "page.css": "text/css; charset=utf-8",
	"page.js": "text/javascript; charset=utf-8", "docs.js": "text/javascript; charset=utf-8",
}

// pageCalls are the pages for browsers.
type pageCalls struct{ door *API }

// The pages need no token: they hold nothing, and ask for one when a call is refused. Their
// addresses are relative, so that they also work behind a proxy that puts a prefix before them.
func (c *pageCalls) register() {
	c.door.plain("GET /{$}", func(w *answer, r *http.Request) error {
		return consoleFile(w, r, "index.html")
	})
	c.door.plain("GET /console/{file}", func(w *answer, r *http.Request) error {
		return consoleFile(w, r, r.PathValue("file"))
	})
	c.door.plain("GET /docs", func(w *answer, r *http.Request) error {
		return page(w, "docs.html")
	})
	c.door.plain("GET /page/{file}", func(w *answer, r *http.Request) error {
		return page(w, r.PathValue("file"))
	})
}

func consoleFile(w *answer, r *http.Request, name string) error {
	found, err := console.Serve(w, r, name)
	if err == nil && !found {
		return refuse(http.StatusNotFound, "there is no page %.80q", name)
	}
	return err
}

func page(w *answer, name string) error {
	kind, known := pageTypes[name]
	if !known {
		return refuse(http.StatusNotFound, "there is no page %.80q", name)
	}
	content, err := pages.ReadFile("page/" + name)
	if err != nil {
		return err
	}
	console.Headers(w.Header(), kind)
	w.Write(content)
	return nil
}
