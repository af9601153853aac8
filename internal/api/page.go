package api

import (
	"embed"
	"net/http"
)

// pages are ours alone: nothing in them comes from elsewhere, so they also work where there is no
// network.
//
//go:embed page
var pages embed.FS

// policy lets the pages load what this node serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageTypes are the kinds of files there are.
var pageTypes = map[string]string{
	"index.html": "text/html; charset=utf-8", "docs.html": "text/html; charset=utf-8",
	"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
	"index.js": "text/javascript; charset=utf-8", "docs.js": "text/javascript; charset=utf-8",
}

// The pages need no token: they hold nothing, and ask for one when a call is refused.
func (a *API) registerPages() {
	a.plain("GET /{$}", func(w *answer, r *http.Request) error { return page(w, "index.html") })
	a.plain("GET /docs", func(w *answer, r *http.Request) error { return page(w, "docs.html") })
	a.plain("GET /page/{file}", func(w *answer, r *http.Request) error {
		return page(w, r.PathValue("file"))
	})
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
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	w.Write(content)
	return nil
}
