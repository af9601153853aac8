//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// shellJob runs a script as the handler of a job and answers its error and its log.
func shellJob(
	t *testing.T, ctx context.Context, script string, a task.Assignment, c CommandConfig,
) (log []string, err error) {
	t.Helper()
	c.Argv = []string{"sh", "-c", script}
	handler, err := JobCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{worker: &Worker{logged: make(chan struct{}, 1)}, replica: a.Replica}
	r.log.owner = r
	err = handler(context.WithValue(ctx, workKey{}, r), a)
	for _, l := range r.log.takeAll() {
		log = append(log, l.Stream+": "+l.Text)
	}
	return log, err
}

func TestJobCommandIsToldItsAssignment(t *testing.T) {
	t.Setenv("ROTA_TOKEN", "access")
	a := task.Assignment{
		Group: "g", Job: "a.b-c", Replica: 2, Token: task.JobToken{Number: 12, Seal: 34},
		Spec: json.RawMessage("{\"\u2028\" : 9007199254740993}"),
	}
	log, _ := shellJob(t, t.Context(),
		`echo "$ROTA_GROUP $ROTA_JOB $ROTA_REPLICA $ROTA_TOKEN $ROTA_FENCE"; cat`, a,
		CommandConfig{})
	same(t, "log", log, "stdout.2: g a.b-c 2 "+a.Token.String()+" 12", "stdout.2: "+string(a.Spec))
	log, _ = shellJob(t, t.Context(), `env | grep -c =access >&2`, a, CommandConfig{})
	same(t, "variables that have the access token", log, "stderr.2: 0")
	log, _ = shellJob(t, t.Context(), `cat`, task.Assignment{}, CommandConfig{})
	same(t, "input without a spec", log, "stdout.0: null")
}

func TestJobCommandThatEndsByItselfSaysHow(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                 "exit status 0",
		"exit 65":                "exit status 65",
		"echo lost it >&2; exit": "exit status 0: lost it",
		"kill -9 $$":             "signal: killed",
	} {
		if _, err := shellJob(
			t, t.Context(), script, task.Assignment{}, CommandConfig{},
		); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
	_, err := shellJob(t, t.Context(), "true", task.Assignment{}, CommandConfig{
		Dir: "/no/such/folder",
	})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a command that can't be started: %v", err)
	}
	if _, err := JobCommand(CommandConfig{Argv: []string{"no-such-command-anywhere"}}); err == nil {
		t.Error("a command that does not exist was accepted")
	}
}

func TestCommandOfACutOffWorkerHasNoTimeToLose(t *testing.T) {
	for _, cause := range []error{ErrCutOff, ErrSuperseded} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for readPid(dir) == 0 {
				time.Sleep(5 * time.Millisecond) // a real process
			}
			cancel(cause)
		}()
		stubborn := `trap '' TERM; sleep 1000 & echo $! >pid; wait; sleep 1000`
		_, err := shellJob(t, ctx, stubborn, task.Assignment{}, CommandConfig{
			Dir: dir, Grace: time.Hour,
		})
		if err == nil || err.Error() != "signal: killed" {
			t.Errorf("after %v it ended with %v", cause, err)
		}
		for pid := readPid(dir); alive(pid); {
			time.Sleep(5 * time.Millisecond) // killed, not yet reaped by init
		}
	}
}

func TestEndOfTheJobGivesItsCommandTheGraceAndThenKillsTheGroup(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		want   string
	}{
		"it says goodbye": {`trap 'echo bye; exit 0' TERM; sleep 1000 & echo $! >pid; wait`,
			time.Hour, "stdout.0: bye"},
		"SIGKILL is needed": {`trap '' TERM; sleep 1000 & echo $! >pid; wait; sleep 1000`,
			200 * time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			waited := make(chan struct{})
			go func() {
				defer close(waited)
				for readPid(dir) == 0 && ctx.Err() == nil {
					time.Sleep(5 * time.Millisecond) // a real process
				}
				cancel(ErrEnded)
			}()
			log, _ := shellJob(t, ctx, c.script, task.Assignment{}, CommandConfig{
				Dir: dir, Grace: c.grace,
			})
			<-waited
			if strings.Join(log, "|") != c.want {
				t.Errorf("log %q, want %q", log, c.want)
			}
			for pid := readPid(dir); alive(pid); {
				time.Sleep(5 * time.Millisecond) // killed, not yet reaped by init
			}
		})
	}
}

func TestTouchOfTheFileIsASign(t *testing.T) {
	c := CommandConfig{Argv: []string{"sh", "-c", `touch -d 2030-01-01T00:00:00Z "$ROTA_ALIVE"; sleep 1000`}}
	handler, err := JobCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{logged: make(chan struct{}, 1), signs: true}
	r := &run{worker: w}
	r.log.owner = r
	w.runs = []*run{r}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), workKey{}, r))
	done := make(chan error)
	go func() { done <- handler(ctx, task.Assignment{}) }()
	want := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for r.alive.Load() != want {
		w.lookForTouches()
		select {
		case err := <-done:
			t.Fatalf("the command ended: %v", err)
		case <-time.After(5 * time.Millisecond): // a real process
		}
	}
	cancel()
	<-done
	if r.touch.Load() != nil {
		t.Error("it is looked at after the command's end")
	}
}
