package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/story"
)

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"rota": main})
}

// suite runs the tests and cleans up behind them.
type suite struct{ *testing.M }

func (s suite) Run() int {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of nodes and workers in this process
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
	story.Whole(t)
	tell(t, testscript.Params{Dir: "testdata"}, "")
}

// TestStoriesOnPostgreSQL tells on the other store what databases must understand of texts: names
// of all scripts, and what tasks carry; and of what the store decides: what queues are allowed, and
// who has unique keys.
func TestStoriesOnPostgreSQL(t *testing.T) {
	story.Whole(t)
	for _, name := range []string{"names", "meta", "editmeta", "limits", "limits_keys", "signal",
		"children", "after", "limits_keys_work", "limits_work", "submit_unique", "hook"} {
		tell(t, testscript.Params{Files: []string{"testdata/" + name + ".txtar"}},
			pgtest.Shared(t).Database(t))
	}
}

// tell runs scripts whose nodes work on a store; "" = on a file of their own.
func tell(t *testing.T, p testscript.Params, store string) {
	testscript.Run(t, testscript.Params{
		Dir: p.Dir, Files: p.Files,
		Setup: func(e *testscript.Env) error {
			e.Setenv("STORE", store)
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
		Store: cmp.Or(ts.Getenv("STORE"),
			"sqlite:"+filepath.Join(ts.Getenv("WORK"), "rota.db")), Listen: "127.0.0.1:0",
		Name: cmp.Or(ts.Getenv("NODE"), "story"), Beat: 50 * time.Millisecond,
		SourceFolder: ts.Getenv("WORK"), AllowCommands: ts.Getenv("COMMANDS") != "",
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
