package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"rota": main})
}

// suite runs the tests and cleans up behind them.
type suite struct{ *testing.M }

func (s suite) Run() int {
	defer build.clean()
	return pgtest.Main(s.M)
}

// build is the real binary, built for the first test that asks for it.
var build workshop

type workshop struct {
	once   sync.Once
	folder string
	err    error
}

func (w *workshop) rota() (binary string, err error) {
	w.once.Do(func() {
		if w.folder, w.err = os.MkdirTemp("", "rota-test-*"); w.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", w.binary(),
			".").CombinedOutput(); err != nil {
			w.err = fmt.Errorf("build rota: %w\n%s", err, out)
		}
	})
	return w.binary(), w.err
}

func (w *workshop) binary() string { return filepath.Join(w.folder, "rota.exe") }

func (w *workshop) clean() {
	if w.folder != "" {
		os.RemoveAll(w.folder)
	}
}

// TestStories runs the scripts in testdata. Besides what testscript knows they use
//
//	node [FLAG…]         a node in this process; ROTA_SERVER names it. Flags: -tokens FILE. It reads sources from the story's folder
//	exits CODE rota …    the command must exit with the code
//	eventually rota … -- TEXT   repeat the command until its stdout contains TEXT
//	id NAME              the last line of the last stdout becomes the variable NAME
//	empty DIR            the folder must hold nothing
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"node": func(ts *testscript.TestScript, _ bool, args []string) {
				startNode(t, ts, args)
			}, "exits": exits, "eventually": eventually, "id": nameOutput, "empty": empty,
		},
	})
}

func startNode(t *testing.T, ts *testscript.TestScript, args []string) {
	conf := rota.Config{
		Store: "sqlite:" + filepath.Join(ts.Getenv("WORK"), "rota.db"), Listen: "127.0.0.1:0",
		Name: "story", Beat: 50 * time.Millisecond,
		SourceFolder: ts.Getenv("WORK"),
	}
	if len(args) == 2 && args[0] == "-tokens" {
		conf.TokenFile = ts.MkAbs(args[1])
	} else if len(args) > 0 {
		ts.Fatalf("usage: node [-tokens FILE]")
	}
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, conf)
	ts.Check(err)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	ts.Defer(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("node of %s: %v", ts.Name(), err)
		}
	})
	ts.Setenv("ROTA_SERVER", "http://"+node.Addr())
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exited with %d, want %d", got, want)
	}
}

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	command, text, ok := cutArgs(args)
	if !ok {
		ts.Fatalf("usage: eventually COMMAND [ARG…] -- TEXT")
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		// real processes
		err := ts.Exec(command[0], command[1:]...)
		if out := ts.ReadFile("stdout"); err == nil && strings.Contains(out, text) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%q never came", text)
		}
	}
}

func cutArgs(args []string) (command []string, text string, ok bool) {
	n := len(args)
	if n < 3 || args[n-2] != "--" {
		return nil, "", false
	}
	return args[:n-2], args[n-1], true
}

func nameOutput(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: id NAME")
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	ts.Setenv(args[0], lines[len(lines)-1])
}

func empty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty DIR")
	}
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(entries) > 0 {
		ts.Fatalf("%s holds %v", args[0], entries)
	}
}

func TestExitCodeTellsUsageFromFailureFromAbsence(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("boom"), 1},
		{usage.Errorf("no"), 2},
		{fmt.Errorf("wrapped: %w", usage.Errorf("no")), 2},
		{&client.Error{Status: 404}, 3},
		{fmt.Errorf("read task: %w", &client.Error{Status: 404}), 3},
		{&client.Error{Status: 409}, 1},
		{errors.Join(&client.Error{Status: 409}, &client.Error{Status: 404}), 3},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

// Long help, units and an example are a promise to the user; a new command must not forget them.
func TestEveryCommandExplainsItself(t *testing.T) {
	a := &app{Output: term.Output{Now: time.Now}, env: os.LookupEnv}
	root := a.root()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s has no help", cmd.CommandPath())
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s has no example of itself", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

func TestUnreachableServerIsExplained(t *testing.T) {
	a := &app{servers: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}}
	got := a.explain(t.Context(), fmt.Errorf("submit: %w", client.ErrUnreachable))
	if want := "no server at http://127.0.0.1:1 or http://127.0.0.1:2: start one with `rota serve`, or name it with --server"; got != want {
		t.Errorf("explain = %q, want %q", got, want)
	}
}

func TestProgressOfARunningTaskIsShown(t *testing.T) {
	a := &app{Output: term.Output{Now: time.Now}}
	v := task.View{
		ID: task.ID{Batch: 1 << 40}, State: task.Running, Progress: 0.37, Note: "page 3\nof 8",
	}
	if got := ansi.Strip(a.taskText(v)); !strings.Contains(got, "progress   37% page 3 of 8\n") {
		t.Errorf("text =\n%s", got)
	}
	doc, err := json.Marshal(viewOf(v))
	if err != nil || !strings.Contains(string(doc), `"progress":0.37,"note":"page 3\nof 8"`) {
		t.Errorf("document = %s, %v", doc, err)
	}
	v.Progress, v.Note = 0, ""
	if got := a.taskText(v); strings.Contains(got, "progress") {
		t.Errorf("of one that says nothing the text is\n%s", got)
	}
}

func TestInterruptIsNoMystery(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := new(app).explain(
		ctx, fmt.Errorf("read: %w", context.Canceled),
	); got != "interrupted" {
		t.Errorf("explain = %q", got)
	}
}

func TestVerdictIsAnErrorUnlessDone(t *testing.T) {
	id := task.ID{Batch: 1 << 40, N: 7}
	for _, c := range []struct {
		view task.View
		want string
	}{
		{task.View{ID: id, State: task.Done}, ""},
		{task.View{ID: id, State: task.Cancelled}, "was cancelled"},
		{task.View{ID: id, State: task.Dead, Attempt: 5,
			Steps: []task.Step{{Kind: task.KindRetry, Error: "no\nroute"}}},
			"is dead after attempt 5: no route"},
		{task.View{ID: id, State: task.Dead, Attempt: 5, Steps: []task.Step{{Kind: task.KindLost}}},
			"is dead after attempt 5: lost"},
	} {
		err := verdict(c.view)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("verdict(%v) = %v, want %q", c.view.State, err, c.want)
		}
	}
}
