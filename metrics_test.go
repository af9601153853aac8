package rota_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metricsIn are the names of metrics in files.
func metricsIn(t *testing.T, pattern string, name *regexp.Regexp) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	found := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			found[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")] = true
		}
	}
	return found
}

// The page, its description, the alert rules and the board are about the same metrics.
func TestMetricsAreDescribedAndThoseThatAreUsedAreThere(t *testing.T) {
	there := metricsIn(t, "internal/api/metrics*.go", regexp.MustCompile(`"(rota_[a-z_]+)"`))
	maps.Copy(there, metricsIn(t, "internal/meter/*.go", regexp.MustCompile(`"(rota_[a-z_]+)"`)))
	described := metricsIn(t, "docs/metrics.md", regexp.MustCompile("`(rota_[a-z_]+)[`{]"))
	for name := range there {
		if !described[name] {
			t.Errorf("docs/metrics.md does not describe %s", name)
		}
	}
	used := metricsIn(t, "docs/monitoring/*", regexp.MustCompile(`\b(rota_[a-z_]+)`))
	for _, name := range slices.Concat(slices.Collect(maps.Keys(described)),
		slices.Collect(maps.Keys(used))) {
		if !there[name] {
			t.Errorf("there is no metric %s", name)
		}
	}
	if len(used) < 10 {
		t.Errorf("the rules and the board use only %v", used)
	}
}

// Each rule is tested twice at least: that it is silent when all is well, and what it says.
func TestEveryAlertIsTested(t *testing.T) {
	rules, err := os.ReadFile("docs/monitoring/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("docs/monitoring/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	for _, alert := range alerts {
		named := regexp.MustCompile(`alertname: ` + alert[1] + `\b`)
		if n := len(named.FindAll(tests, -1)); n < 2 {
			t.Errorf("alerts_test.yml tests %s %d times", alert[1], n)
		}
	}
	if len(alerts) < 10 {
		t.Errorf("there are only the rules %v", alerts)
	}
}

// Grafana imports the board: every panel asks something of the source that is chosen.
func TestTheBoardIsOne(t *testing.T) {
	text, err := os.ReadFile("docs/monitoring/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		Panels []struct {
			Title      string
			Datasource struct{ UID string }
			Targets    []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil || board.Title != "Rota" {
		t.Fatalf("%q, %v", board.Title, err)
	}
	for _, p := range board.Panels {
		if p.Datasource.UID != "${source}" || len(p.Targets) == 0 ||
			!strings.Contains(p.Targets[0].Expr, "rota_") {
			t.Errorf("panel %q asks nothing: %+v", p.Title, p)
		}
	}
}
