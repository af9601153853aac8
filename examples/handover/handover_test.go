package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example as people run it: three replicas in processes of their own, one of which is killed.
func TestEachResultIsHandedOnOnceThoughAReplicaIsKilled(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "handover.exe")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, "-events", "150").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(out)
	for _, line := range []string{
		"3 replicas follow the feed", "w0 is killed with -9",
		"150 events, 150 tasks, 150 results received, 0 of them twice",
		"each result was handed on once",
	} {
		at := strings.Index(text, line)
		if at < 0 {
			t.Fatalf("it did not say %q, or not in this order:\n%s", line, out)
		}
		text = text[at:]
	}
}
