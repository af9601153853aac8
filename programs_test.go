package rota

import (
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The comment of each public package has a complete program that go vet takes, so that what people
// copy works.
func TestEachPackageCommentHasAProgramThatCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs go vet: short runs, which look for races, need not")
	}
	for _, dir := range public {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			found := programsIn(packageComment(t, dir))
			if len(found) == 0 {
				t.Fatal("its comment has no program")
			}
			for _, text := range found {
				vet(t, text)
			}
		})
	}
}

// Of the pages the README and those about Go have whole programs, too. The README is short enough
// to be read.
func TestProgramsOfPagesCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs go vet: short runs, which look for races, need not")
	}
	fence := regexp.MustCompile("(?s)```go\n(package .*?)```")
	for _, name := range []string{"README.md", "docs/go.md", "docs/transactions.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := fence.FindAllStringSubmatch(string(page), -1)
		if len(found) == 0 && name == "README.md" {
			t.Errorf("%s has no program", name)
		}
		for _, m := range found {
			vet(t, m[1])
		}
		const most = 900
		if n := len(strings.Fields(string(page))); name == "README.md" && n > most {
			t.Errorf("%s has %d words, want at most %d", name, n, most)
		}
	}
}

// packageComment is what go doc shows of a package.
func packageComment(t *testing.T, dir string) string {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil,
			parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			return f.Doc.Text()
		}
	}
	t.Fatal("it has no comment")
	return ""
}

// programsIn are the whole files of Go among the code of a comment.
func programsIn(text string) (all []string) {
	for _, b := range new(comment.Parser).Parse(text).Content {
		if code, ok := b.(*comment.Code); ok && strings.HasPrefix(code.Text, "package ") {
			all = append(all, code.Text)
		}
	}
	return all
}

// vet lets go vet look at a program as if it stood in a module that requires this one.
func vet(t *testing.T, text string) {
	t.Helper()
	if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
		t.Errorf("gofmt would write it otherwise: %v\n%s", err, formatted)
	}
	name := "main.go"
	if strings.Contains(text, `"testing"`) {
		name = "shop_test.go"
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}
