// Package console is rota's web console: one page that shows what a node tells by its API and lets
// people act on it. The sources stand in app, the libraries that they use, as they were published,
// in vendor; dist is what esbuild makes of both (go generate), and what a binary carries. So
// neither building nor running rota needs anything but Go, and the page asks nobody but the node.
//
// The page holds nothing: it reads what the caller's access token lets it read.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:generate go test . -run Bundle -update

//go:embed dist
var dist embed.FS

// Policy lets a page of rota load what its node serves, and nothing else: no script or style stands
// in a page, and no other page may frame it.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the kinds of files that there are.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// file is one file of the console, as it is sent.
type file struct {
	kind         string
	plain, small []byte // small is plain, compressed by gzip
	tag          string // its ETag: what is in it
}

// files are what dist holds, by name, compressed once.
var files = sync.OnceValues(func() (map[string]file, error) {
	entries, err := dist.ReadDir("dist")
	if err != nil {
		return nil, err
	}
	all := map[string]file{}
	for _, e := range entries {
		kind, known := types[path.Ext(e.Name())]
		if !known {
			continue
		}
		f := file{kind: kind}
		if f.plain, err = dist.ReadFile("dist/" + e.Name()); err != nil {
			return nil, err
		}
		if f.small, err = compressed(f.plain); err != nil {
			return nil, fmt.Errorf("compress %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(f.plain)
		f.tag = hex.EncodeToString(sum[:12])
		all[e.Name()] = f
	}
	return all, nil
})

func compressed(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Headers sets what every page of rota is sent with. A browser asks each time whether it is still
// the same, so that a node that was updated shows its own console at once.
func Headers(h http.Header, kind string) {
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
}

// Serve answers with a file of the console. It is false, and has written nothing, when there is no
// such file.
func Serve(w http.ResponseWriter, r *http.Request, name string) (bool, error) {
	all, err := files()
	if err != nil {
		return false, err
	}
	f, known := all[name]
	if !known {
		return false, nil
	}
	h := w.Header()
	Headers(h, f.kind)
	h.Add("Vary", "Accept-Encoding")
	body, tag := f.plain, `"`+f.tag+`"`
	if takesGzip(r) {
		body, tag = f.small, `"`+f.tag+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return true, nil
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method == http.MethodHead {
		return true, nil
	}
	_, err = w.Write(body)
	return true, err
}

// takesGzip tells whether the caller says that it reads gzip. One that forbids it by q=0 does not.
func takesGzip(r *http.Request) bool {
	for _, word := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(word), ";")
		if coding != "gzip" && coding != "*" {
			continue
		}
		weight = strings.TrimRight(strings.ReplaceAll(weight, " ", ""), "0")
		return weight != "q=" && weight != "q=0."
	}
	return false
}

// matches tells whether the caller has this version. Tags are compared weakly: a proxy may have
// marked them so.
func matches(have, tag string) bool {
	for _, t := range strings.Split(have, ",") {
		t = strings.TrimPrefix(strings.TrimSpace(t), "W/")
		if t == tag || t == "*" {
			return true
		}
	}
	return false
}
