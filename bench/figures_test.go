package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiguresAreRounded(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0854: "0.085", 0.1: "0.1", 5.23: "5.23", 21.44: "21.4", 99.96: "100",
		463.4: "463", 9999: "10,000", 15_049: "15,000", 188_234: "188,000",
		1_000_000: "1,000,000",
	} {
		if got := rounded(v); got != want {
			t.Errorf("rounded(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestBenchmarksBecomeRows(t *testing.T) {
	got, err := benchTable([]byte(`{"figures": [
		{"name": "http", "what": "life cycle", "unit": "tasks/s", "median": 130234, "target": 150000},
		{"name": "http", "what": "its CPU", "unit": "µs CPU per task", "median": 10.71},
		{"name": "lone", "what": "lone submissions", "unit": "tasks/s", "median": 15000}]}`),
		"rota bench --only ")
	want := `| what | measured | aimed at | by |
|---|---|---|---|
| life cycle | 130,000 tasks/s; 10.7 µs CPU per task | 150,000 tasks/s | ` + "`rota bench --only http`" + ` |
| lone submissions | 15,000 tasks/s |  | ` + "`rota bench --only lone`" + ` |
`
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestTablesArePublishedWhereverTheirMarksStand(t *testing.T) {
	root := t.TempDir()
	docs := filepath.Join(root, "docs")
	pages := map[string]string{
		"docs/figures.md": "a\n<!-- figures: x -->\nold\n<!-- end -->\nb\n<!-- figures: y -->\nkept\n<!-- end -->\n",
		"docs/other.md":   "no marks\n",
		"README.md":       "<!-- figures: x -->\nolder\n<!-- end -->\n",
	}
	if err := os.Mkdir(docs, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(docs, map[string]string{"x": "new\n", "z": "nowhere\n"}); err == nil {
		t.Error("a table without a place was published")
	}
	check := func(x string) {
		t.Helper()
		for name, text := range pages {
			got, err := os.ReadFile(filepath.Join(root, name))
			want := strings.NewReplacer("older\n", x, "old\n", x).Replace(text)
			if x == "" {
				want = text
			}
			if err != nil || string(got) != want {
				t.Errorf("%s: %v\n%s", name, err, got)
			}
		}
	}
	check("")
	if err := publish(docs, map[string]string{"x": "new\n"}); err != nil {
		t.Error(err)
	}
	check("new\n")
}
