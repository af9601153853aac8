//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/task"
)

// shellTask runs a task that brings its own command line and answers its outcome and log.
func shellTask(t *testing.T, c CommandConfig, line string) (task.Outcome, []string) {
	t.Helper()
	handler, err := Shell(c)
	if err != nil {
		t.Fatal(err)
	}
	held := &hand{worker: &Worker{logged: make(chan struct{}, 1)}}
	held.log.owner = held
	o := handler(context.WithValue(t.Context(), workKey{}, held), task.Handout{
		Queue: "crontab", Context: json.RawMessage(line),
	})
	var log []string
	for _, l := range held.log.takeAll() {
		log = append(log, l.Stream+": "+l.Text)
	}
	return o, log
}

func TestTaskBringsItsOwnCommandLine(t *testing.T) {
	home := t.TempDir()
	for _, c := range []struct {
		name, line string
		want       task.Kind
		log        []string
	}{
		{"a line", `{"command":"echo one; echo two >&2"}`, task.KindDone,
			[]string{"stderr: two", "stdout: one"}},
		{"its input", `{"command":"cat","stdin":"a\nb\n"}`, task.KindDone,
			[]string{"stdout: a", "stdout: b"}},
		{"no input is an empty one", `{"command":"wc -c | tr -d ' '"}`, task.KindDone,
			[]string{"stdout: 0"}},
		{"its variables",
			`{"command":"echo $A $B $ROTA_QUEUE","env":{"A":"1","B":"x y","ROTA_QUEUE":"mine"}}`,
			task.KindDone, []string{"stdout: 1 x y crontab"}},
		{"the worker's variables", `{"command":"echo $OWN"}`, task.KindDone,
			[]string{"stdout: ours"}},
		{"its home", fmt.Sprintf(`{"command":"pwd -P","env":{"HOME":%q}}`, home), task.KindDone,
			nil},
		{"its shell", `{"command":"a b","shell":"/bin/echo"}`, task.KindDone,
			[]string{"stdout: -c a b"}},
		{"exit codes", `{"command":"exit 65"}`, task.KindFail, nil},
		{"others", `{"command":"exit 7"}`, task.KindRetry, nil},
		{"output file",
			`{"command":"echo '{\"outcome\":\"snooze\",\"delay\":\"5s\"}' >$ROTA_OUTPUT; exit 1"}`,
			task.KindSnooze, nil},
		{"a shell that is not there", `{"command":"x","shell":"/nowhere/sh"}`, task.KindRetry, nil},
	} {
		o, log := shellTask(t, CommandConfig{Env: []string{"OWN=ours", "PATH=/usr/bin:/bin"}},
			c.line)
		slices.Sort(log)
		if o.Kind != c.want || c.log != nil && !slices.Equal(log, c.log) {
			t.Errorf("%s: %+v, log %q", c.name, o, log)
		}
	}
	t.Setenv("OF_THE_WORKER", "kept")
	if _, log := shellTask(
		t, CommandConfig{}, `{"command":"echo $OF_THE_WORKER $A","env":{"A":"1"}}`,
	); !slices.Equal(log, []string{"stdout: kept 1"}) {
		t.Errorf("the worker's own variables and one more: %q", log)
	}
	_, log := shellTask(t, CommandConfig{},
		fmt.Sprintf(`{"command":"pwd -P","env":{"HOME":%q}}`, home))
	if len(log) != 1 || !strings.HasSuffix(log[0], home[strings.LastIndexByte(home, '/'):]) {
		t.Errorf("it ran in %q, want %s", log, home)
	}
}

func TestTaskWithoutACommandLineFailsForGood(t *testing.T) {
	for line, place := range map[string]string{
		`null`: "object", ``: "body", `{}`: "command", `{"command":" "}`: "command",
		`{"comand":"x"}`: "comand", `{"command":1}`: "command",
		`{"command":"a\u0000b"}`: "command", `{"command":"x","shell":"\u0000"}`: "shell",
		`{"command":"x","env":{"A=B":"1"}}`: "env",
		`{"command":"x","env":{"":"1"}}`:    "env", `{"command":"x","env":{"A":"\u0000"}}`: "env",
		`{"command":"x","env":{"\u0000":"A"}}`: "env", `{"command":"x","env":{"A":1}}`: "env",
	} {
		if o, _ := shellTask(t, CommandConfig{}, line); o.Kind != task.KindFail ||
			!strings.Contains(o.Error, place) {
			t.Errorf("%s: %+v", line, o)
		}
	}
	if _, err := Shell(CommandConfig{Grace: -1}); err == nil {
		t.Error("a negative grace was taken")
	}
}

// FuzzParseShellTask: what is taken can be run: it has a command, and nothing that no program
// takes.
func FuzzParseShellTask(f *testing.F) {
	f.Add(`{"command":"x","shell":"/bin/sh","env":{"A":"b"},"stdin":"y"}`)
	f.Add(`{"command":"\u0000"}`)
	f.Fuzz(func(t *testing.T, text string) {
		line, err := parseShellTask(json.RawMessage(text))
		if err != nil {
			return
		}
		c := line.on(CommandConfig{})
		for _, s := range slices.Concat(c.Argv, c.Env) {
			if strings.ContainsRune(s, 0) {
				t.Errorf("%s has %q", text, s)
			}
		}
		if len(c.Argv) != 3 || c.Argv[0] == "" || strings.TrimSpace(c.Argv[2]) == "" {
			t.Errorf("%s runs %q", text, c.Argv)
		}
	})
}

// Who may work elsewhere must not say what runs here.
func TestShellRefusesWhatAnotherWorkerWrote(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	for _, c := range []struct {
		what string
		task.Handout
		as   string
		runs bool
	}{
		{"submitted", task.Handout{}, "box", true},
		{"written by another worker", task.Handout{ContextBy: "intruder"}, "box", false},
		{"written by another worker, for a shell that does not know its name",
			task.Handout{ContextBy: "intruder"}, "", false},
		{"written by another worker of this queue",
			task.Handout{ContextBy: "neighbour", InScope: true}, "box", true},
		{"written by itself", task.Handout{ContextBy: "box"}, "box", true},
	} {
		os.Remove(mark)
		handler, err := Shell(CommandConfig{Worker: c.as})
		if err != nil {
			t.Fatal(err)
		}
		held := &hand{worker: &Worker{logged: make(chan struct{}, 1)}}
		held.log.owner = held
		c.Queue, c.Context = "crontab", json.RawMessage(fmt.Sprintf(`{"command":"touch %s"}`, mark))
		o := handler(context.WithValue(t.Context(), workKey{}, held), c.Handout)
		_, err = os.Stat(mark)
		if ran := err == nil; ran != c.runs || (o.Kind == task.KindDone) != c.runs || !c.runs &&
			(o.Kind != task.KindFail || !strings.Contains(o.Error, `"intruder"`)) {
			t.Errorf("%s: it ran: %v, %+v", c.what, ran, o)
		}
	}
}
