//go:build unix

package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/command"
)

func ExampleCommand_Run() {
	out, said, err := command.Command{
		Argv: []string{"sh", "-c", `read line; echo "$GREETING, $line"; echo hm >&2`},
		Env:  []string{"GREETING=hello"}, Stdin: []byte("world\n"), Limit: 100,
	}.Run(context.Background())
	fmt.Printf("%q %q %v\n", out, said, err)
	// Output: "hello, world\n" "hm" <nil>
}

func TestRunSaysHowItEnded(t *testing.T) {
	tooLong := errors.New("too much")
	for name, c := range map[string]struct {
		command    string
		tooLong    error
		out, fault string
	}{
		"prints":                  {command: "echo a", out: "a\n"},
		"prints as much as may":   {command: "printf 1234567890", out: "1234567890"},
		"prints more":             {command: "printf 1234567890b; printf c", out: "1234567890"},
		"must not print more":     {command: "yes", tooLong: tooLong, fault: "too much"},
		"prints all that it may":  {command: "printf 1234567890", tooLong: tooLong, out: "1234567890"},
		"fails":                   {command: "exit 3", fault: "exit status 3"},
		"fails and says why":      {command: "echo no >&2; exit 3", fault: "exit status 3: no"},
		"is killed":               {command: "kill -9 $$", fault: "killed"},
		"leaves its output open":  {command: "sleep 300 & echo a", fault: "keeps its output open"},
		"leaves another one":      {command: "sleep 300 >/dev/null 2>&1 & echo a", out: "a\n"},
		"says what is no text":    {command: `printf '\377' >&2; exit 1`, fault: "exit status 1: \uFFFD"},
		"has no input to wait on": {command: "cat", out: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _, err := command.Command{
				Argv: []string{"sh", "-c", c.command}, Limit: 10, TooLong: c.tooLong,
			}.Run(t.Context())
			if string(out) != c.out {
				t.Errorf("printed %q, want %q", out, c.out)
			}
			if (err == nil) != (c.fault == "") ||
				err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%v, want %q", err, c.fault)
			}
			if c.tooLong != nil && err != nil && !errors.Is(err, tooLong) {
				t.Errorf("%v is not what it was to end with", err)
			}
		})
	}
	for _, argv := range [][]string{nil, {"/no/such/program"}} {
		if _, _, err := (command.Command{Argv: argv}).Run(t.Context()); err == nil {
			t.Errorf("%q was run", argv)
		}
	}
}

func TestComplaintsAreCut(t *testing.T) {
	_, said, err := command.Command{
		Argv: []string{"sh", "-c", `head -c 100000 /dev/zero | tr '\0' x >&2`}, Limit: 10,
	}.Run(t.Context())
	if err != nil || len(said) != 1000 {
		t.Errorf("%d bytes, %v", len(said), err)
	}
}

// What a command started ends with it, when it is ended and when it has left something behind.
func TestRunEndsAllThatWasStarted(t *testing.T) {
	for name, after := range map[string]string{"left behind": "", "ended": "; wait"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note := filepath.Join(t.TempDir(), "pid")
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			over := errors.New("over")
			ended := make(chan error, 1)
			go func() {
				_, _, err := command.Command{Limit: 10, Argv: []string{"sh", "-c",
					"sleep 300 >/dev/null 2>&1 & echo $! > " + note + ".new; mv " + note + ".new " +
						note + after}}.Run(ctx)
				ended <- err
			}()
			pid := readPID(t, note)
			if after != "" {
				end(over)
				if err := <-ended; !errors.Is(err, over) {
					t.Errorf("it ended with %v", err)
				}
			} else if err := <-ended; err != nil {
				t.Error(err)
			}
			late := time.Now().Add(20 * time.Second)
			for ; runs(pid); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(late) {
					t.Fatalf("process %d runs on", pid)
				}
			}
		})
	}
}

// readPID waits for a file with the number of a process.
func readPID(t *testing.T, file string) int {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err == nil {
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// runs tells whether a process does: one that has ended and that nobody waited for does not.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
