package rota

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// lineWidth is how many columns a line of Go may have, a tab counted as four.
const lineWidth = 100

// fileLength is how many lines a file of Go may have that nobody generated: a longer one is two
// stories, and is split by what they are about.
const fileLength = 500

// A line longer than that is one that can't be broken: it ends in a string, or one of more than
// 40 bytes stands in it; it is inside a string of several lines; or it belongs to a drawing, to
// code in a comment, or to what an example prints.
func TestLinesFitTheScreen(t *testing.T) {
	for name, text := range goFiles(t) {
		for n, why := range badLines([]byte(text)) {
			t.Errorf("%s:%d: %s", name, n, why)
		}
	}
}

func TestFilesHaveFiveHundredLinesAtMost(t *testing.T) {
	for name, text := range goFiles(t) {
		n := strings.Count(text, "\n")
		if n > fileLength && !strings.HasPrefix(text, "// Code generated ") {
			t.Errorf("%s has %d lines: split it by what it is about", name, n)
		}
	}
}

func TestBadLinesAreFound(t *testing.T) {
	long := strings.Repeat("x", 70)
	for what, text := range map[string]string{
		"code":           "var a = f(" + long + ", " + long + ")",
		"a comment":      "// " + long + " " + long,
		"behind code":    "var a = 1 // " + long + " " + long,
		"before strings": "var a = f(" + long + ", \"" + long[:30] + "\", b, c)",
		"a pack":         "a, b = append(a, 1), append(b, 2)",
	} {
		if len(badLines([]byte("package p\n"+text+"\n"))) != 1 {
			t.Errorf("%s is not found", what)
		}
	}
	for what, text := range map[string]string{
		"a string":   "var a = \"" + long + long + "\"",
		"its end":    "var a = f(\"" + long + long + "\"),",
		"a text":     "var a = `\n" + long + long + "`",
		"inside it":  "var a = f(\"" + long + long + "\", b)",
		"printed":    "// Output:\n// " + long + " " + long,
		"a drawing":  "//\t" + long + long,
		"wide signs": "// " + strings.Repeat("é", 90),
	} {
		if bad := badLines([]byte("package p\n" + text + "\n")); len(bad) != 0 {
			t.Errorf("%s is found: %v", what, bad)
		}
	}
}

// goFiles are the tree's own sources, by name.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(name, ".") && name != "."):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// badLines says what is wrong with the lines of a file, by their numbers.
func badLines(text []byte) map[int]string {
	lines := strings.Split(string(text), "\n")
	excused := map[int]bool{}
	printed := 0 // the last line of what an example prints
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		at, kind, lit := s.Scan()
		if kind == token.EOF {
			break
		}
		where := file.Position(at)
		end := where.Line + strings.Count(lit, "\n")
		switch {
		case kind == token.STRING && end > where.Line:
			for n := where.Line; n <= end; n++ {
				excused[n] = true
			}
		case kind == token.STRING:
			rest := strings.TrimRight(lines[where.Line-1][where.Column-1+len(lit):], " )}],;+:{")
			whole := rest == "" || len(lit) > 40
			excused[where.Line] = excused[where.Line] || whole
		case kind == token.COMMENT:
			inside := strings.TrimPrefix(lit, "//")
			if strings.HasPrefix(inside, " Output:") || strings.HasPrefix(inside, " Unordered output:") {
				printed = where.Line
			}
			if printed == where.Line-1 {
				printed = where.Line
			}
			if strings.HasPrefix(inside, "\t") || strings.HasPrefix(inside, "  ") ||
				printed == where.Line {
				excused[where.Line] = true
			}
		}
	}
	bad := map[int]string{}
	for i, line := range lines {
		switch columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); {
		case excused[i+1]:
		case columns > lineWidth:
			bad[i+1] = "this line is too long"
		case strings.Contains(line, " = append(") && strings.Contains(line, "), append("):
			bad[i+1] = "each statement has a line of its own"
		}
	}
	return bad
}
