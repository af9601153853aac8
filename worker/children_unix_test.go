//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/pool"
	"github.com/rotahq/rota/task"
)

// children is a handler on one shell that answers each line by a script.
func children(t testing.TB, script string) Handler {
	t.Helper()
	c := pool.Command{Argv: []string{"sh", "-c", "while read -r line; do " + script + "\ndone"}}
	p, err := pool.New(pool.Config{Runners: 1, Penalty: -1}, c.Start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return Children(p)
}

func TestAChildsResultDecides(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         task.Outcome
	}{
		{"null is done", `{"result": null}`, task.Outcome{Kind: task.KindDone}},
		{"nothing is done", `{"result": {}}`, task.Outcome{Kind: task.KindDone}},
		{"a result", `{"result": {"result": 7}}`, task.Outcome{
			Kind: task.KindDone, Result: json.RawMessage(`7`),
		}},
		{"next", `{"result": {"outcome": "next", "stage": "b", "context": [1 ,2]}}`,
			task.Outcome{Kind: task.KindNext, Stage: "b", Context: json.RawMessage(`[1 ,2]`)}},
		{"snooze", `{"result": {"outcome": "snooze", "delay": "5s"}}`, task.Outcome{
			Kind: task.KindSnooze, Delay: 5 * time.Second,
		}},
		{"an error", `{"error": "no such file"}`, task.Outcome{
			Kind: task.KindRetry, Error: "no such file",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := children(t, "echo '"+c.answer+"'")(t.Context(), task.Handout{})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAChildIsToldWhatATaskIs(t *testing.T) {
	ask := children(t, `echo "{\"result\": {\"result\": $line}}"`)
	h := task.Handout{
		ID: task.ID{Batch: 1, N: 2}, Queue: "q", Stage: "s", Attempt: 3, Token: "t",
		Meta: map[string]string{"a": "b"},
	}
	for context, want := range map[string]string{`{"a":[1,"b"]}`: `{"a":[1,"b"]}`, "": "null"} {
		if h.Context = nil; context != "" {
			h.Context = json.RawMessage(context)
		}
		want := `{"task":"` + h.ID.String() +
			`","queue":"q","stage":"s","attempt":3,"token":"t","context":` + want +
			`,"meta":{"a":"b"}}`
		if o := ask(t.Context(), h); string(o.Result) != want {
			t.Errorf("it was told %s, not %s", o.Result, want)
		}
	}
}

func TestAChildThatCannotAnswerAsksForARetry(t *testing.T) {
	for script, why := range map[string]string{
		"echo last words >&2; exit 3":                     "exit status 3: last words",
		"echo nonsense":                                   "not an answer",
		`echo '{"result": 5}'`:                            "result: ",
		`echo '{"result": {"outcome": "lost"}}'`:          "result: outcome",
		`echo '{"result": {"outcome": "next", "x": ""}}'`: "result: ",
	} {
		o := children(t, script)(t.Context(), task.Handout{})
		if o.Kind != task.KindRetry || !strings.Contains(o.Error, why) {
			t.Errorf("%s: %+v", script, o)
		}
	}
}

func TestAChildEndsWithItsTask(t *testing.T) {
	ask := children(t, `case $line in *'"first"'*) sleep 3600 ;; esac; echo '{"result": null}'`)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, ErrSuperseded)
	defer cancel()
	if o := ask(
		ctx, task.Handout{Stage: "first"},
	); o.Kind != task.KindRetry || !strings.Contains(o.Error, ErrSuperseded.Error()) {
		t.Errorf("a hung one: %+v", o)
	}
	if o := ask(t.Context(), task.Handout{Stage: "second"}); o.Kind != task.KindDone {
		t.Errorf("its successor: %+v", o)
	}
}

// BenchmarkShell is one task by a process of its own, and by one that stays.
func BenchmarkShell(b *testing.B) {
	own, err := Command(CommandConfig{Argv: []string{"true"}})
	if err != nil {
		b.Fatal(err)
	}
	held := &hand{worker: &Worker{logged: make(chan struct{}, 1)}}
	held.log.owner = held
	ctx := context.WithValue(b.Context(), workKey{}, held)
	for name, handler := range map[string]Handler{"each its own": own,
		"one that stays": children(b, `echo '{"result": null}'`)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if o := handler(ctx, task.Handout{}); o.Kind != task.KindDone {
					b.Fatal(o)
				}
			}
		})
	}
}
