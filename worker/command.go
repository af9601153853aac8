package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/tracecontext"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// What a command's exit code says; 75 (EX_TEMPFAIL) and all others mean: try again.
const (
	exitDone = 0
	exitFail = 65 // EX_DATAERR: failed for good
)

// hurry is the grace of a command whose work others may begin soon: the server takes a silent
// worker for dead 3 seconds after the worker has stopped itself, or sooner where it goes by a
// shorter limit.
const hurry = 2 * time.Second

// CommandConfig says how a command does tasks, or runs jobs. Only Argv is needed.
type CommandConfig struct {
	Argv []string // the command and its arguments; no shell in between
	Dir  string   // working directory; default the worker's own
	// NAME=VALUE, besides the ROTA_ variables of the task or job; nil = the worker's own, without
	// TRACEPARENT and TRACESTATE
	Env []string
	// between SIGTERM and SIGKILL; default 10s; at most 2s after ErrCutOff and ErrSuperseded
	Grace time.Duration
	// how long output is read after the command's end, when others keep it open; default 1s
	Drain time.Duration
	// Worker is the name of the worker; [Shell] runs also what that one wrote itself. Default: it
	// runs only what others may have run.
	Worker string
	Leash  *Leash // holds the commands that run, for a process that must end at once; default none
}

func (c CommandConfig) withDefaults() CommandConfig {
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	c.Drain = cmp.Or(c.Drain, time.Second)
	return c
}

func (c CommandConfig) validate() error {
	var errs []error
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		errs = append(errs, errors.New("argv: needed"))
	} else if _, err := exec.LookPath(c.Argv[0]); err != nil {
		errs = append(errs, err)
	}
	if c.Grace < 0 || c.Drain < 0 {
		errs = append(errs, errors.New("grace, drain: must not be negative"))
	}
	return errors.Join(errs...)
}

// Command is a handler that runs a command once per task.
//
// The task's context is its standard input (null when there is none). ROTA_TASK, ROTA_QUEUE,
// ROTA_STAGE, ROTA_ATTEMPT, ROTA_META, a JSON object of the strings that the task carries, and
// ROTA_TOKEN, the token of the hand-out, tell the rest; an access
// token of that name in Env is not passed on. TRACEPARENT and TRACESTATE are the traceparent and
// tracestate of the task's meta, where they are well formed; where they are not, those in which the
// worker was started are not passed on. Exit code 0 is done, 65 fails for good, 75 and all
// others ask for a retry. What it writes to the file that ROTA_OUTPUT names decides over the exit
// code:
//
//	{"outcome": "next", "stage": "verify", "context": {…}, "result": …, "delay": "10s"}
//
// A next may wait for a signal before its stage begins:
//
//	{"outcome": "next", "stage": "ship",
//	 "await": {"signal": "paid", "key": "order-7", "timeout": "24h", "else": "remind"}}
//
// or for children, which a done and a next may submit, each as in POST /v1/tasks:
//
//	{"outcome": "next", "stage": "join", "await": "children", "when": "first_dead",
//	 "spawn": [{"queue": "pages", "context": {"url": "/a"}, "key": "/a"}]}
//
// A retry may pause its group key for a while, so that none of the key's tasks begins:
//
//	{"outcome": "retry", "delay": "30s", "hold_key": "30s"}
//
// ROTA_CHILDREN tells the stage how they ended, as JSON: {"total": …, "done": …, "dead": …,
// "cancelled": …, "expired": …}, and is empty elsewhere. ROTA_PARENT is the id of the task whose
// child this one is, empty for nobody's. While it runs, rota task spawn adds children; it goes by
// ROTA_WORKER, the worker's name, and by ROTA_TASK and ROTA_TOKEN.
//
// ROTA_AFTER tells for which other tasks this one has waited before it began, as a JSON list:
// [{"state": …, "id": …, "ref": …, "if": …, "context": …, "result": …}], and is empty where it has
// not. Above 16 KiB contexts and results are left out ("left_out": true), above 64 KiB it is empty;
// the file that ROTA_AFTER_FILE names has it whole.
//
// ROTA_SIGNAL tells the stage what came, as JSON: {"name": …, "payload": …, "by": …, "at": …}, or
// {"timed_out": true}. It is empty for a stage that has not waited, and where a payload is above
// 16 KiB that is left out; the file that ROTA_SIGNAL_FILE names has it whole.
//
// Each field may be left out; without an outcome the exit code's stays. A file that can't be read
// so is a failed attempt.
//
// Standard output and error become the task's log, line by line. The command leads a process group
// of its own. When the handler's context ends, the group gets SIGTERM, after Grace SIGKILL; what is
// left of it when the command has ended is killed too. (On Windows: Ctrl-Break, then the command
// alone is killed.)
func Command(c CommandConfig) (Handler, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure command: %w", err)
	}
	return c.handle, nil
}

func (c CommandConfig) handle(ctx context.Context, t task.Handout) task.Outcome {
	return c.attempt(ctx, t, t.Context)
}

// attempt runs the command once for a task, with input as its standard input.
func (c CommandConfig) attempt(ctx context.Context, t task.Handout, input []byte) task.Outcome {
	dir, err := os.MkdirTemp("", "rota-task-")
	if err != nil {
		return task.Retry(fmt.Errorf("make directory: %w", err))
	}
	defer os.RemoveAll(dir)
	output := filepath.Join(dir, "output.json")
	signal, signalFile, err := signalOf(&t, dir)
	if err != nil {
		return task.Retry(fmt.Errorf("write signal: %w", err))
	}
	after, afterFile, err := afterOf(&t, dir)
	if err != nil {
		return task.Retry(fmt.Errorf("write what others left: %w", err))
	}
	exit, failure := c.run(ctx, dir, input, append(traceOf(&t),
		"ROTA_TASK="+t.ID.String(), "ROTA_QUEUE="+t.Queue, "ROTA_STAGE="+t.Stage,
		"ROTA_ATTEMPT="+strconv.Itoa(t.Attempt), "ROTA_META="+metaOf(t.Meta),
		"ROTA_SIGNAL="+signal, "ROTA_SIGNAL_FILE="+signalFile,
		"ROTA_PARENT="+parentOf(&t), "ROTA_CHILDREN="+childrenOf(&t), "ROTA_WORKER="+NameOf(ctx),
		"ROTA_AFTER="+after, "ROTA_AFTER_FILE="+afterFile,
		"ROTA_TOKEN="+t.Token, "ROTA_OUTPUT="+output)...)
	var said task.Outcome
	switch {
	case exit == nil: // it never ran
		return task.Retry(failure)
	case exit.ExitCode() == exitDone:
		said = task.Finish(nil)
	case exit.ExitCode() == exitFail:
		said = task.Fail(failure)
	default:
		said = task.Retry(failure)
	}
	o, err := readOutput(output, said)
	if err != nil {
		return task.Retry(fmt.Errorf("output file: %w", err))
	}
	return o
}

// metaOf is what a task carries as a JSON object.
func metaOf(list map[string]string) string {
	if len(list) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(list) // strings always have a JSON
	return string(text)
}

// traceOf are the variables that tell a command which trace its task belongs to; none = no trace
// that is well formed.
func traceOf(t *task.Handout) (env []string) {
	parent, state := tracecontext.Of(t.Meta)
	if parent != "" {
		env = append(env, tracecontext.ParentVariable+"="+parent)
		env = append(env, tracecontext.StateVariable+"="+state)
	}
	return env
}

// parentOf is the id of the task whose child a task is; "" = it is nobody's.
func parentOf(t *task.Handout) string {
	if t.Parent == (task.ID{}) {
		return ""
	}
	return t.Parent.String()
}

// childrenOf is how the children ended for which the task's stage waited, as a JSON object; "" = it
// did not wait for any.
func childrenOf(t *task.Handout) string {
	if t.Children == nil {
		return ""
	}
	text, _ := json.Marshal(t.Children) // numbers always have a JSON
	return string(text)
}

// maxSignalText is the longest payload that a variable of the environment tells: all of them
// together have a limit.
const maxSignalText = 16 << 10

// signalOf is what ended the wait before the task's stage, as text and as a file in dir; "" = it
// did not wait.
func signalOf(t *task.Handout, dir string) (text, file string, err error) {
	var said struct {
		Name     string          `json:"name,omitempty"`
		Payload  json.RawMessage `json:"payload,omitempty"`
		By       string          `json:"by,omitempty"`
		At       *time.Time      `json:"at,omitempty"`
		TimedOut bool            `json:"timed_out,omitempty"`
	}
	said.TimedOut = t.TimedOut
	if s := t.Signal; s != nil {
		said.Name, said.Payload, said.By = s.Name, s.Payload, s.By
		if !s.At.IsZero() {
			said.At = &s.At
		}
	} else if !t.TimedOut {
		return "", "", nil
	}
	whole, err := json.Marshal(said)
	if err != nil {
		return "", "", err
	}
	file = filepath.Join(dir, "signal.json")
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		return "", "", err
	}
	if len(said.Payload) > maxSignalText {
		said.Payload = nil
		whole, err = json.Marshal(said)
	}
	return string(whole), file, err
}

// run runs the command to its end, with input as its standard input and env besides its
// environment. How it ended is nil when it could not be run; why says that, or how it ended, and
// the last words on its standard error.
func (c CommandConfig) run(
	ctx context.Context, dir string, input json.RawMessage, env ...string,
) (end *os.ProcessState, why error) {
	stdin, err := inputFile(filepath.Join(dir, "input.json"), input)
	if err != nil {
		return nil, err
	}
	defer stdin.Close()

	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = c.Dir, stdin, c.Grace
	cmd.Env = append(c.environment(), env...)
	ownGroup(cmd)
	cmd.Cancel = func() error {
		if cause := context.Cause(ctx); cause == ErrCutOff || cause == ErrSuperseded {
			time.AfterFunc(min(c.Grace, hurryOf(ctx)), func() { cmd.Process.Kill() })
		}
		return terminate(cmd.Process)
	}

	stdout, stderr := linesTo(ctx, "stdout"), linesTo(ctx, "stderr")
	if err := c.wait(cmd, stdout, stderr); err != nil {
		return nil, fmt.Errorf("run %q: %w", c.Argv[0], err)
	}
	why = errors.New(cmd.ProcessState.String())
	if stderr.last != "" {
		why = fmt.Errorf("%w: %s", why, stderr.last)
	}
	return cmd.ProcessState, why
}

// environment is what the command's variables begin with; later ones win. The trace in which the
// worker itself was started is not that of what it runs.
func (c CommandConfig) environment() []string {
	if c.Env != nil {
		return slices.Clone(c.Env)
	}
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return name == tracecontext.ParentVariable || name == tracecontext.StateVariable
	})
}

// wait runs cmd to its end and reads its output. The error is nil once it ran, whatever it said.
//
// The pipes are our own: so the command's end shows even while a process that it left behind keeps
// its output open. What remains of its group is killed then, and one that left the group is
// listened to for Drain.
func (c CommandConfig) wait(cmd *exec.Cmd, stdout, stderr *splitter) error {
	var readers sync.WaitGroup
	var ours, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	for _, out := range []*splitter{stdout, stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(theirs)
			readers.Wait()
			closeAll(ours)
			return fmt.Errorf("make pipe: %w", err)
		}
		ours = append(ours, r)
		theirs = append(theirs, w)
		readers.Go(func() {
			// a splitter never fails; the end of the pipe, or its closing below, is the end
			io.Copy(out, r)
			out.Close()
		})
	}
	cmd.Stdout, cmd.Stderr = theirs[0], theirs[1]
	err := c.Leash.start(cmd)
	closeAll(theirs)
	if err == nil {
		c.Leash.end(cmd)
	}
	late := time.AfterFunc(c.Drain, func() { closeAll(ours) })
	readers.Wait()
	late.Stop()
	closeAll(ours)
	return err
}

// inputFile is the command's standard input: a file, since a pipe would need somebody to feed it.
func inputFile(name string, input json.RawMessage) (*os.File, error) {
	if input == nil {
		input = json.RawMessage("null")
	}
	if err := os.WriteFile(name, input, 0o600); err != nil {
		return nil, fmt.Errorf("write input: %w", err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	return f, nil
}

// maxOutput is the longest output file in bytes: a context and a result of the largest size that
// servers take.
const maxOutput = 64 << 20

// readOutput is the outcome after what the command wrote to its output file. said is what the exit
// code says.
func readOutput(name string, said task.Outcome) (task.Outcome, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 && info.Mode().IsRegular() {
		return said, nil
	}
	switch {
	case err != nil:
		return said, err
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		return said, errors.New("not a regular file")
	case info.Size() > maxOutput:
		return said, fmt.Errorf("%d bytes: at most %d", info.Size(), maxOutput)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return said, err
	}
	return parseOutput(b, said)
}

// parseOutput reads the text of an output file.
func parseOutput(b []byte, said task.Outcome) (task.Outcome, error) {
	var out struct {
		Outcome *string         `json:"outcome"`
		Stage   string          `json:"stage"`
		Context json.RawMessage `json:"context"`
		Result  json.RawMessage `json:"result"`
		Delay   string          `json:"delay"`
		Await   json.RawMessage `json:"await"`
		When    *string         `json:"when"`
		Spawn   json.RawMessage `json:"spawn"`
		HoldKey string          `json:"hold_key"`
	}
	if err := wire.Strict(b, &out); err != nil {
		return said, err
	}
	o := task.Outcome{
		Kind: said.Kind, Stage: out.Stage, Context: given(out.Context), Result: given(out.Result),
		Error: said.Error,
	}
	if out.Outcome != nil {
		kind, ok := task.ParseKind(*out.Outcome)
		if !ok || !kind.Reportable() {
			return said,
				fmt.Errorf("outcome: %.40q is not one of done, next, retry, snooze, fail, release",
					*out.Outcome)
		}
		o.Kind = kind
	}
	var err error
	if out.Delay != "" {
		if o.Delay, err = view.ParseDuration(out.Delay); err != nil {
			return said, fmt.Errorf("delay: %w", err)
		}
	}
	if out.HoldKey != "" {
		if o.HoldKey, err = view.ParseDuration(out.HoldKey); err != nil {
			return said, fmt.Errorf("hold_key: %w", err)
		}
	}
	if given(out.Await) != nil || out.When != nil {
		if o.Await, err = wire.ParseAwait(out.Await, out.When); err != nil {
			return said, err
		}
	}
	if given(out.Spawn) != nil {
		if o.Spawn, err = wire.ParseSpawn(out.Spawn); err != nil {
			return said, err
		}
	}
	if problem := limits.CheckOutcome(&o); problem != "" {
		return said, errors.New(problem)
	}
	return o, nil
}

// given is an opaque value; null is none.
func given(b json.RawMessage) json.RawMessage {
	if string(b) == "null" {
		return nil
	}
	return b
}
