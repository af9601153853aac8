//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// shell runs a script as the handler of a task and answers its outcome and log.
func shell(
	t *testing.T, ctx context.Context, script string, h task.Handout, c CommandConfig,
) (task.Outcome, []string) {
	t.Helper()
	c.Argv = []string{"sh", "-c", script}
	handler, err := Command(c)
	if err != nil {
		t.Fatal(err)
	}
	held := &hand{worker: &Worker{logged: make(chan struct{}, 1)}}
	held.log.owner = held
	o := handler(context.WithValue(ctx, workKey{}, held), h)
	var log []string
	for _, l := range held.log.takeAll() {
		log = append(log, l.Stream+": "+l.Text)
	}
	return o, log
}

func TestExitCodeAndOutputFileDecide(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         task.Outcome
	}{
		{"zero is done", "exit 0", task.Outcome{Kind: task.KindDone}},
		{"65 fails", "exit 65", task.Outcome{Kind: task.KindFail, Error: "exit status 65"}},
		{"75 retries", "exit 75", task.Outcome{Kind: task.KindRetry, Error: "exit status 75"}},
		{"others retry", "exit 1", task.Outcome{Kind: task.KindRetry, Error: "exit status 1"}},
		{"last words", "echo a >&2; echo b >&2; echo >&2; exit 2", task.Outcome{
			Kind: task.KindRetry, Error: "exit status 2: b",
		}},
		{"killed", "kill -9 $$", task.Outcome{Kind: task.KindRetry, Error: "signal: killed"}},
		{"empty file", ": >$ROTA_OUTPUT", task.Outcome{Kind: task.KindDone}},
		{"result, code stays", `echo '{"result": {"n" : 1e400}}' >$ROTA_OUTPUT`,
			task.Outcome{Kind: task.KindDone, Result: json.RawMessage(`{"n" : 1e400}`)}},
		{"file over code",
			`echo '{"outcome":"next","stage":"b","context":[1 ,2]}' >$ROTA_OUTPUT; exit 65`,
			task.Outcome{
				Kind: task.KindNext, Stage: "b", Context: json.RawMessage(`[1 ,2]`),
				Error: "exit status 65",
			}},
		{"delay", `echo '{"delay":"1m30s"}' >$ROTA_OUTPUT; exit 75`,
			task.Outcome{Kind: task.KindRetry, Delay: 90 * time.Second, Error: "exit status 75"}},
		{"a key that is paused",
			`echo '{"outcome":"retry","delay":"1s","hold_key":"30s"}' >$ROTA_OUTPUT`,
			task.RetryAfter(time.Second, nil).HoldingKey(30 * time.Second)},
		{"a wait before the next stage",
			`echo '{"outcome":"next","stage":"b","delay":"2h"}' >$ROTA_OUTPUT`,
			task.Outcome{Kind: task.KindNext, Stage: "b", Delay: 2 * time.Hour}},
		{"null is none", `echo '{"context":null,"result":null}' >$ROTA_OUTPUT`, task.Outcome{
			Kind: task.KindDone,
		}},
		{"replaced file", `echo '{"outcome":"snooze","delay":"5s"}' >x; mv x $ROTA_OUTPUT`,
			task.Outcome{Kind: task.KindSnooze, Delay: 5 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, _ := shell(t, t.Context(), c.script, task.Handout{}, CommandConfig{Dir: t.TempDir()})
			if got, want := fmt.Sprintf("%+v", o), fmt.Sprintf("%+v", c.want); got != want {
				t.Errorf("outcome %s, want %s", got, want)
			}
		})
	}
}

func TestMalformedOutputFileIsAFailedAttemptThatNamesThePlace(t *testing.T) {
	for file, place := range map[string]string{
		`{"outcome":"done"`:             "body",
		`{"outcome":"done"} {}`:         "body",
		`{"outcome":"lost"}`:            "outcome",
		`{"outcome":"next"}`:            "stage",
		`{"stage":"b"}`:                 "stage",
		`{"outcome":"retry","delay":5}`: "delay",
		`{"delay":"soon"}`:              "delay",
		`{"hold_key":"soon"}`:           "hold_key",
		`{"hold_key":"1s"}`:             "hold_key",
		`{"outcom":"done"}`:             "outcom",
		`{"result":1,"result":2}`:       "result",
		`{"context":{]}`:                "context",
		`[]`:                            "body",
	} {
		o, _ := shell(t, t.Context(), `printf %s "$FILE" >$ROTA_OUTPUT`, task.Handout{},
			CommandConfig{Env: []string{"FILE=" + file}})
		if o.Kind != task.KindRetry || !strings.HasPrefix(o.Error, "output file: ") ||
			!strings.Contains(o.Error, place) {
			t.Errorf("%s: %v %q, want a retry that names %q", file, o.Kind, o.Error, place)
		}
	}
	if o, _ := shell(
		t, t.Context(), `mkfifo $ROTA_OUTPUT`, task.Handout{}, CommandConfig{},
	); o.Error != "output file: not a regular file" {
		t.Errorf("a pipe for an output file: %+v", o)
	}
}

func TestCommandIsToldItsTask(t *testing.T) {
	h := task.Handout{
		ID: task.ID{Batch: 5, N: 6}, Queue: "q", Stage: "s", Attempt: 3, Token: "1.2.3.4",
		Context: json.RawMessage("{\"\u2028\" : 9007199254740993}"),
		Meta:    map[string]string{"customer": "7", "a.b": `"`},
	}
	_, log := shell(t, t.Context(),
		`echo "$ROTA_TASK $ROTA_QUEUE $ROTA_STAGE $ROTA_ATTEMPT $ROTA_TOKEN"; cat; echo; echo "$ROTA_META"`, h,
		CommandConfig{})
	want := []string{"stdout: " + h.ID.String() + " q s 3 1.2.3.4", "stdout: " + string(h.Context),
		`stdout: {"a.b":"\"","customer":"7"}`}
	if strings.Join(log, "|") != strings.Join(want, "|") {
		t.Errorf("log %q, want %q", log, want)
	}
	if _, log := shell(
		t, t.Context(), `cat; echo " $ROTA_META"`, task.Handout{},
		CommandConfig{Env: []string{"ROTA_META=another's"}},
	); strings.Join(log, "|") != "stdout: null {}" {
		t.Errorf("without a context the input is %q", log)
	}
	unread := task.Handout{Context: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	if o, _ := shell(t, t.Context(), `exit 0`, unread, CommandConfig{}); o.Kind != task.KindDone {
		t.Errorf("a context that is not read: %+v", o)
	}
}

// The trace of a task is in its command's environment, and no other is: not the one in which the
// worker was started, and not what is no trace.
func TestCommandIsToldTheTraceOfItsTask(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	t.Setenv("TRACEPARENT", "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01")
	t.Setenv("TRACESTATE", "another=s")
	for _, c := range []struct {
		meta map[string]string
		want string
	}{
		{nil, "no no"},
		{map[string]string{"traceparent": parent}, parent + " "},
		{map[string]string{"traceparent": parent, "tracestate": "a=b"}, parent + " a=b"},
		{map[string]string{"traceparent": parent, "tracestate": "`ls`"}, parent + " "},
		{map[string]string{"traceparent": strings.ToUpper(parent)}, "no no"},
		{map[string]string{"traceparent": "ff" + parent[2:]}, "no no"},
		{map[string]string{"traceparent": parent + parent}, "no no"},
		{map[string]string{"tracestate": "a=b"}, "no no"},
	} {
		o, log := shell(t, t.Context(), `echo "${TRACEPARENT-no} ${TRACESTATE-no}"`,
			task.Handout{Meta: c.meta}, CommandConfig{})
		if got := strings.Join(log, "|"); got != "stdout: "+c.want || o.Kind != task.KindDone {
			t.Errorf("%v: %q, %v", c.meta, got, o.Kind)
		}
	}
}

func TestCommandIsToldWhatItsStageHasWaitedFor(t *testing.T) {
	at := time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)
	large := json.RawMessage(`"` + strings.Repeat("x", 20_000) + `"`)
	for name, x := range map[string]struct {
		of   task.Handout
		text string // its variable
		file int    // bytes of its file
	}{
		"it has not waited": {},
		"a signal came": {task.Handout{Signal: &task.Signal{
			Name: "paid", Payload: json.RawMessage(`{"euro":7}`), By: "ann", At: at,
		}}, `{"name":"paid","payload":{"euro":7},"by":"ann","at":"2026-11-26T18:00:00Z"}`, 75},
		"one without anything": {task.Handout{Signal: &task.Signal{Name: "paid"}},
			`{"name":"paid"}`, 15},
		"its time was over": {task.Handout{TimedOut: true}, `{"timed_out":true}`, 18},
		"what is too large for a variable stands in the file": {task.Handout{
			Signal: &task.Signal{Name: "paid", Payload: large},
		}, `{"name":"paid"}`, 26 + len(large)},
	} {
		_, log := shell(t, t.Context(),
			`echo "$ROTA_SIGNAL"; test -n "$ROTA_SIGNAL_FILE" && wc -c <"$ROTA_SIGNAL_FILE"`, x.of,
			CommandConfig{Env: append(os.Environ(), "ROTA_SIGNAL=another's")})
		want := "stdout: " + x.text
		if x.file > 0 {
			want += fmt.Sprintf("|stdout: %d", x.file)
		}
		if got := strings.Join(log, "|"); got != want {
			t.Errorf("%s: %.200q, want %q", name, got, want)
		}
	}
}

func TestCommandWaitsForASignalByItsOutput(t *testing.T) {
	for file, want := range map[string]task.Outcome{
		`{"outcome":"next","stage":"ship","context":1,"await":{"signal":"paid"}}`: task.NextOn(
			task.Await{Signal: "paid"}, "ship", 1,
		),
		`{"outcome":"next","stage":"ship","await":{"signal":"paid","key":"7","timeout":"1h","else":"dun"}}`: task.NextOn(
			task.Await{Signal: "paid", Key: "7", Timeout: time.Hour, Else: "dun"}, "ship", nil,
		),
		`{"await":{"signal":"paid"}}`: task.Retry(errors.New(
			"output file: await: only next waits")),
		`{"outcome":"next","stage":"ship","delay":"1s","await":{"signal":"paid"}}`: task.Retry(
			errors.New("output file: await: give await or delay, not both")),
	} {
		o, _ := shell(t, t.Context(), `printf %s "$FILE" >$ROTA_OUTPUT`, task.Handout{},
			CommandConfig{Env: []string{"FILE=" + file}})
		if !reflect.DeepEqual(o, want) {
			t.Errorf("%s: %+v, want %+v", file, o, want)
		}
	}
}

func TestCommandIsToldOfItsFamily(t *testing.T) {
	for want, of := range map[string]task.Handout{
		"|": {},
		`000000000000511|{"total":9,"done":5,"dead":1,"cancelled":2,"expired":1}`: {
			Parent:   task.ID{Batch: 5, N: 1},
			Children: &task.Children{Total: 9, Done: 5, Dead: 1, Cancelled: 2, Expired: 1},
		},
	} {
		_, log := shell(t, t.Context(), `echo "$ROTA_PARENT|$ROTA_CHILDREN"`, of,
			CommandConfig{Env: []string{"ROTA_PARENT=another's", "ROTA_CHILDREN=another's"}})
		if got := strings.Join(log, " "); got != "stdout: "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCommandHasChildrenByItsOutput(t *testing.T) {
	pages := []task.Submission{
		{Queue: "pages", Context: json.RawMessage(`{"url": "/a"}`), Key: "/a"},
		{Queue: "pages", Orphan: true, Delay: time.Minute},
	}
	spawn := `"spawn":[{"queue":"pages","context":{"url": "/a"},"key":"/a"},` +
		`{"queue":"pages","orphan":true,"delay":"1m"}]`
	for file, want := range map[string]task.Outcome{
		`{"outcome":"done",` + spawn + `}`: task.Finish(nil).Spawning(pages...),
		`{"outcome":"next","stage":"join","await":"children",` + spawn + `}`: task.NextOn(
			task.Await{Children: task.AllChildren}, "join", nil).Spawning(pages...),
		`{"outcome":"next","stage":"join","await":"children","when":"first_dead"}`: task.NextOn(
			task.Await{Children: task.FirstDead}, "join", nil),
		`{"outcome":"next","stage":"join","await":{"children":"all","timeout":"1h","else":"late"}}`: task.NextOn(
			task.Await{Children: task.AllChildren, Timeout: time.Hour, Else: "late"}, "join", nil),
		`{"outcome":"retry","spawn":[{"queue":"pages"}]}`: task.Retry(errors.New(
			"output file: spawn: only done and next submit children")),
		`{"outcome":"done","spawn":[{"queue":"pages"},{"que":""}]}`: task.Retry(errors.New(
			"output file: spawn[1].que: unknown field; known are queue, stage, context, " +
				"priority, due, delay, key, key_for, group_key, max_attempts, timeout, meta, " +
				"start_within, unique, on_existing, orphan, ref, after, if")),
		`{"outcome":"next","stage":"s","await":{"signal":"x","who":""}}`: task.Retry(errors.New(
			"output file: await.who: unknown field; known are signal, key, children, timeout, " +
				"else")),
		`{"outcome":"next","stage":"s","when":"all"}`: task.Retry(errors.New(
			`output file: when: goes with "await": "children"`)),
	} {
		o, _ := shell(t, t.Context(), `printf %s "$FILE" >$ROTA_OUTPUT`, task.Handout{},
			CommandConfig{Env: []string{"FILE=" + file}})
		if !reflect.DeepEqual(o, want) {
			t.Errorf("%s: %+v, want %+v", file, o, want)
		}
	}
}

func TestFloodOfOutputNeitherBlocksNorFillsMemory(t *testing.T) {
	o, log := shell(t, t.Context(),
		`i=0; while [ $i -lt 20000 ]; do echo "line $i of many more than there is room for"; i=$((i+1)); done; printf 'no end \377'`,
		task.Handout{}, CommandConfig{})
	bytes := 0
	for _, l := range log {
		bytes += len(l)
	}
	kept, dropped := keptAndDropped(t, log)
	if o.Kind != task.KindDone || bytes > maxWaiting || kept+dropped != 20_001 ||
		log[kept] != "stdout: no end \uFFFD" {
		t.Errorf("%v with %d bytes of log, %d lines kept and %d dropped, last line %q", o.Kind,
			bytes, kept, dropped, log[len(log)-1])
	}
	if _, log := shell(
		t, t.Context(), `printf 'no end \377'`, task.Handout{}, CommandConfig{},
	); strings.Join(log, "|") != "stdout: no end \uFFFD" {
		t.Errorf("log %q", log)
	}
}

func TestEndOfTheContextStopsTheWholeGroup(t *testing.T) {
	for name, script := range map[string]string{
		"SIGTERM is enough":    `sleep 1000 & echo $! >pid; echo up; wait`,
		"SIGKILL is needed":    `trap '' TERM; sleep 1000 & echo $! >pid; echo up; wait; wait; sleep 1000`,
		"only the child hangs": `(trap '' TERM; sleep 1000) & echo $! >pid; trap 'exit 75' TERM; echo up; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			waited := make(chan struct{})
			go func() {
				defer close(waited)
				for readPid(dir) == 0 && ctx.Err() == nil {
					time.Sleep(5 * time.Millisecond)
				}
				cancel(ErrCancelled)
			}()
			o, _ := shell(t, ctx, script, task.Handout{}, CommandConfig{
				Dir: dir, Grace: 100 * time.Millisecond,
			})
			<-waited
			if o.Kind != task.KindRetry {
				t.Errorf("outcome %+v", o)
			}
			pid := readPid(dir)
			for alive(pid) {
				time.Sleep(5 * time.Millisecond) // killed, not yet reaped by init
			}
		})
	}
}

func readPid(dir string) int {
	b, _ := os.ReadFile(filepath.Join(dir, "pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// alive tells whether a process runs; zombies don't.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestAccessTokenIsNotPassedToTheCommand(t *testing.T) {
	t.Setenv("ROTA_TOKEN", "access")
	h := task.Handout{Token: "hand-out"}
	for _, env := range [][]string{nil, {"ROTA_TOKEN=access", "PATH=" + os.Getenv("PATH")}} {
		_, log := shell(t, t.Context(), `echo $ROTA_TOKEN; env | grep -c access`, h, CommandConfig{
			Env: env,
		})
		if strings.Join(log, "|") != "stdout: hand-out|stdout: 0" {
			t.Errorf("log %q", log)
		}
	}
}

func TestProcessThatKeepsTheOutputOpenDoesNotHoldUpTheTask(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		drain  time.Duration
	}{
		"in the group": {`sleep 1000 & echo done`, time.Hour},
		"out of reach": {`setsid sh -c 'echo $$ >pid; exec sleep 30' & while [ ! -s pid ]; do sleep 0.01; done; echo done`,
			0},
		"input as well": {`cat <&0 >/dev/null & sleep 1000 <&0 & echo done`, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o, log := shell(t, t.Context(), c.script, task.Handout{}, CommandConfig{
				Dir: dir, Drain: c.drain,
			})
			if o.Kind != task.KindDone || strings.Join(log, "|") != "stdout: done" {
				t.Errorf("outcome %+v, log %q", o, log)
			}
			if pid := readPid(dir); pid != 0 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

func TestNothingIsLeftInTheTemporaryDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	shell(t, t.Context(), `echo '{}' >$ROTA_OUTPUT; chmod 500 $(dirname $ROTA_OUTPUT)`,
		task.Handout{}, CommandConfig{})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCommandThatCannotRunIsRefusedAtOnce(t *testing.T) {
	for _, argv := range [][]string{nil, {""}, {"no-such-command-anywhere"}} {
		if _, err := Command(CommandConfig{Argv: argv}); err == nil {
			t.Errorf("Command(%q) was accepted", argv)
		}
	}
}

func FuzzParseOutput(f *testing.F) {
	f.Add([]byte(`{"outcome":"next","stage":"b","context":{"a":1e400},"delay":"1s"}`))
	f.Add([]byte(`{"result":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOutput(b, task.Finish(nil))
		if err != nil {
			return
		}
		if problem := limits.CheckOutcome(&o); problem != "" || sound(o).Kind != o.Kind {
			t.Errorf("accepted %q as %+v: %s", b, o, problem)
		}
	})
}
