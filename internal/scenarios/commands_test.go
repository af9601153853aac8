//go:build scenarios && unix

package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a story waits at most until something is so.
var patience = flag.Duration("patience", 40*time.Second, "how long until waits at most")

const (
	longest = 60 * time.Second // that one command takes
	pause   = 50 * time.Millisecond
)

// answer is what a command printed, and how it ended.
type answer struct {
	out, err string
	code     int
}

// perform runs one command of a story.
func perform(ts *testscript.TestScript, args []string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	s := sceneOf(ts)
	switch args[0] {
	case "rota":
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(ctx, binary, args[1:]...)
		cmd.Dir, cmd.Env = ts.MkAbs("."), s.environment(ts)
		cmd.Stdout, cmd.Stderr = &out, &errs
		exit := (*exec.ExitError)(nil)
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		return answer{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
	case "call":
		return call(ctx, ts, args[1:])
	case "show":
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		if err != nil { // it comes to be when something is written
			return answer{err: err.Error(), code: 1}
		}
		return answer{out: string(text)}
	}
	if verb := poolVerbs[args[0]]; verb != nil {
		out, err := verb(s, args[1:])
		if err != nil {
			return answer{out: out, err: err.Error() + "\n", code: 1}
		}
		return answer{out: out}
	}
	ts.Fatalf("%q is no command that shows anything", args[0])
	return answer{}
}

// call asks the API. An answer of 300 and above is an error.
func call(ctx context.Context, ts *testscript.TestScript, args []string) answer {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: call METHOD PATH [BODY]")
	}
	body := strings.Join(args[2:], "")
	r, err := http.NewRequestWithContext(ctx, args[0], ts.Getenv("ROTA_SERVER")+args[1],
		strings.NewReader(body))
	ts.Check(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token := ts.Getenv("ROTA_TOKEN"); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{err: err.Error(), code: 1}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := answer{out: string(text)}
	if err != nil || response.StatusCode >= 300 {
		a.code, a.err = 1, fmt.Sprintf("%s, %v\n", response.Status, err)
	}
	return a
}

// tell makes an answer what stdout and stderr look at.
func (a answer) tell(ts *testscript.TestScript) {
	io.WriteString(ts.Stdout(), a.out)
	io.WriteString(ts.Stderr(), a.err)
}

// plain runs a command that must succeed, or must not.
func plain(name string) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		a := perform(ts, append([]string{name}, args...))
		a.tell(ts)
		if (a.code != 0) != neg {
			ts.Fatalf("exited with %d", a.code)
		}
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE rota COMMAND")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	a := perform(ts, args[1:])
	a.tell(ts)
	if a.code != want {
		ts.Fatalf("exited with %d, want %d", a.code, want)
	}
}

// sees runs a command and compares what it prints: now, until it is so, or for as long as it must
// stay so. What must fail prints on stderr.
func sees(ts *testscript.TestScript, _ bool, args []string) {
	how, not := strings.CutPrefix(args[0], "!")
	text := os.Expand(ts.ReadFile(args[1]), func(name string) string {
		if name == "" || strings.ContainsAny(name[:1], "0123456789") {
			return "$" + name
		}
		return ts.Getenv(name)
	})
	w, err := parseWant(text)
	ts.Check(err)
	var stay time.Duration
	if how != "now" && how != "until" {
		stay, err = time.ParseDuration(how)
		ts.Check(err)
	}
	command := args[2:]
	expected := 0
	if command[0] == "exits" {
		expected, err = strconv.Atoi(command[1])
		ts.Check(err)
		command = command[2:]
	}
	for begun := time.Now(); ; time.Sleep(pause) { // real processes
		a := perform(ts, command)
		wrong := w.compare(a.out + a.err)
		if a.code == 0 && expected == 0 && !not {
			wrong = w.compare(a.out)
		} else if wrong == nil && (not && a.code == 0 || !not && a.code != expected) {
			wrong = fmt.Errorf("it exited with %d", a.code)
		}
		over := wrong == nil && time.Since(begun) >= stay ||
			wrong != nil && (how != "until" || time.Since(begun) > *patience)
		if !over {
			continue
		}
		a.tell(ts)
		if wrong != nil {
			ts.Fatalf("%v", wrong)
		}
		return
	}
}

// keep gives what was printed last a name.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: keep NAME [PATH]")
	}
	out := strings.TrimSpace(ts.ReadFile("stdout"))
	value := out[strings.LastIndex(out, "\n")+1:]
	if len(args) == 2 {
		var document any
		ts.Check(json.Unmarshal([]byte(out), &document))
		var ok bool
		if value, ok = fieldOf(document, args[1]); !ok {
			ts.Fatalf("there is no %s", args[1])
		}
	}
	ts.Setenv(args[0], value)
}

// jobs makes schedules that are due once a year: keys that nodes look after, and nothing else.
func jobs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: jobs FROM TO")
	}
	from, err := strconv.Atoi(args[0])
	ts.Check(err)
	to, err := strconv.Atoi(args[1])
	ts.Check(err)
	var list []string
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprintf(`{"name":"job-%02d","cron":"@yearly","queue":"q"}`, i))
	}
	a := perform(ts, []string{
		"call", "PUT", "/v1/schedules", `{"schedules":[` + strings.Join(list, ",") + `]}`,
	})
	if a.code != 0 {
		ts.Fatalf("%s%s", a.out, a.err)
	}
}
