package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/demo"
	"github.com/rotahq/rota/internal/story"
)

// buildRota builds the real binary.
func buildRota(t *testing.T) string {
	t.Helper()
	binary, err := build.rota()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// The real thing, with real processes: two files are enough to have a worker killed with one in its
// hands. With more, a third is done by then.
func TestDemoAccountsForEveryFileWithAWorkerKilled(t *testing.T) {
	story.Whole(t)
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder, temp := t.TempDir(), t.TempDir()
	write(filepath.Join(folder, "small"), "hello")
	write(filepath.Join(folder, "large"), strings.Repeat("0123456789abcdef", 40_000))
	many := t.TempDir()
	for i := range 120 {
		write(filepath.Join(many, fmt.Sprint(i)), "hello")
	}
	killed := regexp.MustCompile(
		`killed \(SIGKILL\) while it held (\d+) of the tasks and (\d+) of (\d+) files were done`,
	)
	rota := buildRota(t)
	for _, c := range []struct {
		root                 string
		files, stages, blobs int64
		killed               string
	}{
		{folder, 2, 6, 2, "demo-1"},
		{many, 120, 360, 0, "demo-1"},
		{t.TempDir(), 0, 0, 0, ""},
	} {
		cmd := exec.Command(rota, "demo", "--workers", "2", "--for", "0s", "-o", "json", c.root)
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s%s", err, out, stderr.String())
		}
		var r demo.Report
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		if !r.Accounted || r.Files != c.files || r.Tasks != c.files || r.Done != c.files ||
			r.Stages != c.stages ||
			r.Blobs != c.blobs || r.Killed != c.killed || (r.Reruns > 0) != (c.killed != "") {
			t.Errorf("demo of %s: %s\n%s", c.root, out, stderr.String())
		}
		if !strings.HasPrefix(stderr.String(), "The console is at http://127.0.0.1:") {
			t.Errorf("it begins with %.100q", stderr.String())
		}
		if !r.EachOnce || r.Fired != r.DueTimes || r.PulsesDone != r.Fired {
			t.Errorf("of the schedule: %s", out)
		}
		if c.killed == "" {
			continue
		}
		if n := len(r.JobOn); n < 2 || r.JobOn[0] != c.killed || r.JobOn[n-1] == c.killed {
			t.Errorf("the job ran on %v, and %s was killed", r.JobOn, c.killed)
		}
		said := killed.FindStringSubmatch(stderr.String())
		want := []string{"1", fmt.Sprint(c.files / 3), fmt.Sprint(c.files)}
		if said == nil || !slices.Equal(said[1:], want) || r.KilledAt != c.files/3 ||
			r.KilledOf != c.files {
			t.Errorf("want the kill with 1 held and %d of %d done: %s\n%s", c.files/3, c.files, out,
				stderr.String())
		}
		if r.RateTasks != c.files-1 || r.RateTime <= 0 || r.RateTime >= r.Seconds {
			t.Errorf("the rate is of %d tasks in %v of %v s", r.RateTasks, r.RateTime, r.Seconds)
		}
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
