package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkMachines runs every contender under Go's own benchmark: time by the wall.
func BenchmarkMachines(b *testing.B) {
	for _, f := range figures(config{timers: 1_000_000}) {
		for _, r := range f.rows {
			if r.probe != nil {
				continue // not a time per operation
			}
			for _, c := range r.contenders {
				b.Run(f.name+"/"+r.what+"/"+c.name, func(b *testing.B) {
					s := c.start()
					defer s.stop()
					b.ReportAllocs()
					b.ResetTimer()
					s.do(b.N)
					b.StopTimer()
				})
			}
		}
	}
}

// A whole run, as short as it can be: every contender does what it should, and the documentation
// gets its figures.
func TestEveryRowIsMeasuredAndPublished(t *testing.T) {
	folder := t.TempDir()
	page := "# words\n<!-- figures: %s -->\nold\n<!-- end -->\nmore words\n"
	for _, pkg := range []string{"pool", "tick"} {
		var text strings.Builder
		for _, f := range figures(config{only: []string{pkg}}) {
			text.WriteString(strings.ReplaceAll(page, "%s", f.name))
		}
		if err := os.WriteFile(
			filepath.Join(folder, pkg+".md"), []byte(text.String()), 0o644,
		); err != nil {
			t.Fatal(err)
		}
	}
	var out, progress bytes.Buffer
	if code := run([]string{"-rounds", "2", "-least", "1ms", "-idle", "60ms", "-timers", "1000",
		"-docs", folder}, &out, &progress); code != 0 {
		t.Fatalf("exit code %d: %s", code, &progress)
	}
	for _, f := range figures(config{timers: 1000}) {
		plot, err := os.ReadFile(filepath.Join(folder, "img", f.name+".svg"))
		if err != nil || !bytes.HasPrefix(plot, []byte("<svg ")) ||
			!bytes.HasSuffix(plot, []byte("</svg>\n")) {
			t.Errorf("the plot of %s: %v, %.20q…", f.name, err, plot)
		}
		page, err := os.ReadFile(filepath.Join(folder, f.pkg+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.rows {
			for _, c := range r.contenders {
				if !strings.Contains(out.String(), c.name) ||
					!bytes.Contains(page, []byte(c.name)) || !bytes.Contains(plot, []byte(c.name)) {
					t.Errorf("%s, %s: %s is missing in the table, the page or the plot", f.name,
						r.what, c.name)
				}
			}
		}
		if bytes.Contains(page, []byte("old")) || bytes.Count(page, []byte("words")) == 0 ||
			!bytes.Contains(page, []byte("Medians of 2 rounds")) {
			t.Errorf("the page of %s is\n%s", f.pkg, page)
		}
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{3, 100, 2}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for v, want := range map[float64]string{5802.3: "5802", 99.96: "100.0", 14.56: "14.6",
		4.984: "4.98", 0.0431: "0.043"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_000_000: "1,000,000"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestCallsAreSharedOutWhole(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 1000} {
		calls := make(chan int, n)
		callFrom(64, n, func() func() { return func() { calls <- 1 } })
		if len(calls) != n {
			t.Errorf("%d calls of %d", len(calls), n)
		}
	}
}

func TestWrongUsageIsNamedAtOnce(t *testing.T) {
	_, err := parse([]string{"-only", "tick,tock", "-rounds", "0", "-idle", "-1s", "-least", "0s",
		"-timers", "0"})
	for _, flag := range []string{`"tock"`, "-rounds", "-idle", "-least", "-timers"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("parse() = %v, which does not name %s", err, flag)
		}
	}
	for _, args := range [][]string{{"left over"}, {"-unknown"}} {
		if code := run(args, &bytes.Buffer{}, &bytes.Buffer{}); code != 2 {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
	if c, err := parse(nil); err != nil || c.rounds != 5 || c.idle < time.Second {
		t.Errorf("parse() = %+v, %v", c, err)
	}
}

func TestAPageWithoutAPlaceIsLeftAlone(t *testing.T) {
	f := figures(config{only: []string{"tick"}})[0]
	for _, page := range []string{"", "<!-- figures: other -->\n<!-- end -->",
		"<!-- figures: " + f.name + " -->\n"} {
		if _, err := f.replace([]byte(page)); err == nil {
			t.Errorf("%q has a place for %s", page, f.name)
		}
	}
}
