package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func serve(t *testing.T, name string, header http.Header) *http.Response {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/"+name, nil)
	r.Header = header
	found, err := Serve(w, r, name)
	if err != nil || !found {
		t.Fatalf("%s: found %v, %v", name, found, err)
	}
	return w.Result()
}

func TestWholeConsoleIsSmall(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for name, f := range all {
		t.Logf("%s: %d bytes, %d compressed", name, len(f.plain), len(f.small))
		sum += len(f.small)
	}
	if sum > 80_000 {
		t.Errorf("%d bytes compressed, want at most 80,000", sum)
	}
	for _, name := range []string{"index.html", "console.js", "console.css", "icon.svg"} {
		if _, there := all[name]; !there {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestFileComesCompressedOrPlainAndOnce(t *testing.T) {
	plain := serve(t, "console.js", http.Header{})
	want, _ := io.ReadAll(plain.Body)
	if plain.Header.Get("Content-Encoding") != "" || len(want) == 0 {
		t.Errorf("unasked: %v", plain.Header)
	}
	small := serve(t, "console.js", http.Header{"Accept-Encoding": {"br, gzip;q=0.5"}})
	z, err := gzip.NewReader(small.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
		t.Errorf("compressed is something else: %v", err)
	}
	if plain.Header.Get("ETag") == small.Header.Get("ETag") {
		t.Error("two representations have one ETag")
	}
	for _, have := range []string{small.Header.Get("ETag"), "W/" + small.Header.Get("ETag"), `"a", ` +
		small.Header.Get("ETag"), "*"} {
		again := serve(t, "console.js", http.Header{
			"Accept-Encoding": {"gzip"}, "If-None-Match": {have},
		})
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("who has %s is answered %d", have, again.StatusCode)
		}
	}
	for _, refuses := range []string{"gzip;q=0", "gzip; q=0.000", "br"} {
		got := serve(t, "console.js", http.Header{"Accept-Encoding": {refuses}})
		if got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q is answered compressed", refuses)
		}
	}
}

func TestOnlyFilesOfTheConsoleAreServed(t *testing.T) {
	for _, name := range []string{
		"", "sums.txt", "../console.go", "dist", "console.js/", "app.js",
	} {
		w := httptest.NewRecorder()
		found, err := Serve(w, httptest.NewRequest("GET", "/", nil), name)
		if found || err != nil || w.Body.Len() > 0 {
			t.Errorf("%q: found %v, %v", name, found, err)
		}
	}
}

// The policy forbids what stands in a page, and any other host; so does this test, before a browser
// has to.
func TestConsoleAsksNobodyElse(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range all {
		h := serve(t, name, http.Header{}).Header
		if h.Get("Content-Security-Policy") != Policy ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, h)
		}
		text := string(f.plain)
		for _, url := range regexp.MustCompile(`https?://[\w.-]+`).FindAllString(text, -1) {
			switch url {
			case "http://www.w3.org": // names of formats
			default:
				t.Errorf("%s names %s", name, url)
			}
		}
		if strings.Contains(text, "sourceMappingURL") {
			t.Errorf("%s names a source map", name)
		}
	}
	html := string(all["index.html"].plain)
	inline := regexp.MustCompile(`<style|\sstyle=|\son\w+=|<script>`)
	if inline.MatchString(html) {
		t.Error("a script or a style stands in the page")
	}
	if regexp.MustCompile(`(?:src|href)="/`).MatchString(html) {
		t.Error("an address is absolute: behind a prefix it leads elsewhere")
	}
}

// Texts of users become text nodes: nothing in the sources makes markup of a text.
func TestNoTextBecomesMarkup(t *testing.T) {
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|` +
		`dangerouslySetInnerHTML|srcdoc|\beval\(|new Function|createContextualFragment`)
	for name, text := range sources(t, "app") {
		if m := markup.FindString(text); m != "" {
			t.Errorf("%s uses %s", name, m)
		}
	}
}

func TestLanguagesHaveTheSameTexts(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^  "?([\w.]+)"?: ("(?:[^"\\]|\\.)*"),$`)
	field := regexp.MustCompile(`\{\w+\}`)
	texts := map[string]map[string]string{}
	for _, lang := range []string{"en", "zh"} {
		texts[lang] = map[string]string{}
		b, err := os.ReadFile("app/i18n/" + lang + ".ts")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range entry.FindAllStringSubmatch(string(b), -1) {
			if _, twice := texts[lang][m[1]]; twice {
				t.Errorf("%s has %s twice", lang, m[1])
			}
			texts[lang][m[1]] = m[2]
		}
	}
	en, zh := texts["en"], texts["zh"]
	if len(en) < 100 {
		t.Fatalf("only %d texts were found", len(en))
	}
	for _, kind := range reasons(t) {
		if _, there := en["reason."+kind]; !there {
			t.Errorf("en lacks reason.%s", kind)
		}
	}
	for key, text := range en {
		there, ok := zh[key]
		if !ok {
			t.Errorf("zh lacks %s", key)
			continue
		}
		a, b := field.FindAllString(text, -1), field.FindAllString(there, -1)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Errorf("%s has the fields %v in English, %v in Chinese", key, a, b)
		}
	}
	for key := range zh {
		if _, ok := en[key]; !ok {
			t.Errorf("en lacks %s", key)
		}
	}
}

// reasons are the kinds of reasons that explain gives.
func reasons(t *testing.T) (kinds []string) {
	t.Helper()
	b, err := os.ReadFile("../../view/explanation.go")
	if err != nil {
		t.Fatal(err)
	}
	kind := regexp.MustCompile(`ReasonKind = "(\w+)"`)
	for _, m := range kind.FindAllStringSubmatch(string(b), -1) {
		kinds = append(kinds, m[1])
	}
	if len(kinds) < 10 {
		t.Fatalf("only %d kinds of reasons were found", len(kinds))
	}
	return kinds
}

// sources are the files below a folder, by name.
func sources(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		all[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// named are the names of files, in order.
func named(files map[string]string) []string {
	return slices.Sorted(maps.Keys(files))
}
