package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The example as people run it: real processes, one of them killed.
func TestEveryLineIsCountedOnceThoughAWorkerIsKilled(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "follow.exe")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, "-files", "4").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	text := string(out)
	for _, line := range []string{
		"all 8 replicas run:", "is killed with -9", "all 8 replicas run again:",
		"the files grow no more:", "every line was counted once",
	} {
		at := strings.Index(text, line)
		if at < 0 {
			t.Fatalf("it did not say %q, or not in this order", line)
		}
		text = text[at:]
	}
	said := regexp.MustCompile(
		`wc -l says (\d+) lines|the ledger says (\d+) lines`,
	).FindAllStringSubmatch(string(out), -1)
	if len(said) != 2 || said[0][1] != said[1][2] || said[0][1] == "0" {
		t.Errorf("the counts are %q", said)
	}
}
