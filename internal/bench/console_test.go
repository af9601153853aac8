package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the benchmark asks is what an open overview asks, and as often.
func TestTheBenchmarkAsksWhatTheConsoleAsks(t *testing.T) {
	var app strings.Builder
	files, err := filepath.Glob("../console/app/*.tsx")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d sources of the console (%v)", len(files), err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		app.Write(source)
	}
	for _, part := range []string{
		`"v1/stats" + query({ ...of, step: step + "s" })`, `"1h": [36e5, 60]`,
		"Math.max(5_000, step * 100)",
		`useShared<Forecast>("v1/forecast" + query({ queue, wait }), 10_000)`,
		`useShared<Known>("v1/events#alarms", 15_000`,
		`const markKinds = "` + markKinds + `"`,
		`encodeURIComponent(markKinds) + "#" + span(), 30_000`,
	} {
		if !strings.Contains(app.String(), part) {
			t.Errorf("the console has no %q any more: change overviewAsks", part)
		}
	}
	for kind := range strings.SplitSeq(alarmKinds, ",") {
		if !strings.Contains(app.String(), fmt.Sprintf("%q", kind)) {
			t.Errorf("the console's alarms don't know %s", kind)
		}
	}
	if n := strings.Count(app.String(), "useShared("+`"`) +
		strings.Count(app.String(), "useShared<"); n != len(overviewAsks()) {
		t.Errorf("the console shares %d readings, the benchmark asks %d", n, len(overviewAsks()))
	}
}
