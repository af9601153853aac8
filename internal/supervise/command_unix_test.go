//go:build unix

package supervise_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

func shell(t *testing.T, c supervise.Sources, script string) ([]task.Job, error) {
	t.Helper()
	c.Commands = true
	jobs, _, err := c.Read(t.Context(), task.Source{
		Kind: task.SourceCommand, Command: []string{"sh", "-c", script},
	})
	return jobs, err
}

func TestCommandPrintsTheList(t *testing.T) {
	jobs, err := shell(t, supervise.Sources{}, `echo '{"jobs":[{"job":"a"},{"job":"b"}]}'`)
	if err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

func TestFailedCommandSaysWhy(t *testing.T) {
	for script, wrong := range map[string]string{
		"echo no such table >&2; exit 3": "exit status 3: no such table",
		`echo '{"jobs":[]}'; exit 1`:     "exit status 1",
		"echo a":                         "no list of jobs",
		"true":                           `{"jobs":[]}`,
		"yes":                            "more than 100000 bytes",
		"kill -9 $$":                     "killed",
		"sleep 300 & echo a":             "keeps its output open",
	} {
		if _, err := shell(
			t, supervise.Sources{Limit: 100_000}, script,
		); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q in it", script, err, wrong)
		}
	}
	c := supervise.Sources{Commands: true}
	if _, _, err := c.Read(
		t.Context(), task.Source{Kind: task.SourceCommand, Command: []string{"/no/such/command"}},
	); err == nil {
		t.Error("a command that is not there was run")
	}
}

// What a command started ends with it, when it hangs and when it has left something behind.
func TestCommandEndsWithAllThatItStarted(t *testing.T) {
	for name, script := range map[string]string{
		"hangs":  "sleep 300 & echo $! > %; wait",
		"leaves": `sleep 300 > /dev/null 2>&1 & echo $! > %; echo '{"jobs":[]}'`,
	} {
		note := filepath.Join(t.TempDir(), "pid")
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan error, 1)
		go func() {
			command := []string{"sh", "-c", strings.ReplaceAll(script, "%", note)}
			_, _, err := supervise.Sources{Commands: true, Timeout: time.Hour}.Read(ctx,
				task.Source{Kind: task.SourceCommand, Command: command})
			read <- err
		}()
		pid := 0
		soon(t, name+" has begun", func() bool {
			text, _ := os.ReadFile(note)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return strings.HasSuffix(string(text), "\n")
		})
		hangs := name == "hangs"
		if hangs {
			cancel()
		}
		if err := <-read; hangs != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		soon(t, name+": what it started has ended", func() bool {
			return syscall.Kill(pid, 0) != nil || zombie(pid)
		})
	}
}

// soon waits until something holds among real processes.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// zombie tells whether a process is dead, and only nobody has taken note of it.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
