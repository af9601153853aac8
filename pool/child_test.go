package pool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// mustAnswer says that the child works, and gives the number of its process.
func mustAnswer(t *testing.T, c *Child) (pid int) {
	t.Helper()
	var n int
	if err := c.Call(t.Context(), order{Do: "echo", N: 42}, &n); err != nil || n != 42 {
		t.Errorf("Call() = %d, %v", n, err)
	}
	return c.Pid()
}

func TestAChildAnswersOneRequestAfterTheOther(t *testing.T) {
	c := startChild(t, program(t))
	pid := mustAnswer(t, c)
	for n := range 100 {
		var got int
		if err := c.Call(t.Context(), order{Do: "echo", N: n}, &got); err != nil || got != n {
			t.Fatalf("request %d: %d, %v", n, got, err)
		}
	}
	var number int
	if err := c.Call(t.Context(), order{Do: "number"}, &number); err != nil || number != 7 {
		t.Errorf("runner 7 is told that it is %d, %v", number, err)
	}
	if err := c.Call(t.Context(), order{Do: "echo"}, nil); err != nil {
		t.Errorf("an answer that nobody wants: %v", err)
	}
	if c.Pid() != pid || pid == 0 {
		t.Errorf("process %d became %d", pid, c.Pid())
	}
}

func TestAChildMayBeCalledByMany(t *testing.T) {
	c := startChild(t, program(t))
	var calls sync.WaitGroup
	for n := range 20 {
		calls.Go(func() {
			var got int
			if err := c.Call(t.Context(), order{Do: "echo", N: n}, &got); err != nil || got != n {
				t.Errorf("request %d: %d, %v", n, got, err)
			}
		})
	}
	calls.Wait()
}

func TestWhatAChildSaysDecidesWhatTheCallerGets(t *testing.T) {
	c := startChild(t, program(t))
	for said, want := range map[string]struct {
		err    error
		stays  bool // the process
		result int
	}{
		`{"result": 5}`:                      {stays: true, result: 5},
		` { "error": null, "result": 5 } `:   {stays: true, result: 5},
		`{"result": null}`:                   {stays: true},
		`{"error": "no such number"}`:        {err: ChildError("no such number"), stays: true},
		`{"error": "no", "result": null}`:    {err: ChildError("no"), stays: true},
		`{"error": ""}`:                      {err: ChildError(""), stays: true},
		``:                                   {err: ErrAnswer},
		`five`:                               {err: ErrAnswer},
		`5`:                                  {err: ErrAnswer},
		`null`:                               {err: ErrAnswer},
		`{}`:                                 {err: ErrAnswer},
		`{"error": null}`:                    {err: ErrAnswer},
		`{"result": 5, "error": "no"}`:       {err: ErrAnswer},
		`{"result": 5, "resutl": 6}`:         {err: ErrAnswer},
		`{"result": 5} {"result": 6}`:        {err: ErrAnswer},
		`{"result": 5`:                       {err: ErrAnswer},
		"{\"result\": 5}\n{\"result\": 6}":   {err: ErrAnswer},
		"{\"result\": 5}\n{\"result\": 6}\n": {err: ErrAnswer},
	} {
		before := mustAnswer(t, c)
		var result int
		err := c.Call(t.Context(), order{Do: "say", Text: said + "\n"}, &result)
		if want.err == nil && err != nil || !errors.Is(err, want.err) || result != want.result {
			t.Errorf("%s: %d, %v; want %d, %v", said, result, err, want.result, want.err)
		}
		if after := mustAnswer(t, c); want.stays != (after == before) {
			t.Errorf("%s: process %d, then %d", said, before, after)
		}
	}
}

func TestAResultOfAnotherTypeIsTheCallersError(t *testing.T) {
	c := startChild(t, program(t))
	before := mustAnswer(t, c)
	var n int
	err := c.Call(t.Context(), order{Do: "say", Text: "{\"result\": \"five\"}\n"}, &n)
	if mismatch := (*json.UnmarshalTypeError)(nil); !errors.As(err, &mismatch) ||
		mustAnswer(t, c) != before {
		t.Errorf("Call() = %v", err)
	}
	if err := c.Call(t.Context(), math.NaN(), &n); err == nil ||
		!strings.Contains(err.Error(), "encode request") {
		t.Errorf("a request that is no JSON: %v", err)
	}
}

func TestWhatWasSaidUnaskedIsNoAnswer(t *testing.T) {
	var p pipe
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	a := newAnswers(p.r, 100)
	if err := a.silent(); err != nil {
		t.Errorf("of one that said nothing: %v", err)
	}
	p.w.WriteString("first\n")
	if line, err := a.next(); string(line) != "first\n" || err != nil {
		t.Errorf("next() = %q, %v", line, err)
	}
	p.w.WriteString("second\n")
	if err := a.silent(); !errors.Is(err, ErrAnswer) {
		t.Errorf("of one that spoke unasked: %v", err)
	}
	p.w.Close()
	if err := a.silent(); err != io.EOF {
		t.Errorf("of one that ended: %v", err)
	}
}

func TestLinesAreBounded(t *testing.T) {
	command := program(t)
	command.MaxLine = 10_000
	c := startChild(t, command)
	before := mustAnswer(t, c)
	if err := c.Call(
		t.Context(), order{Text: strings.Repeat("x", 10_000)}, nil,
	); !errors.Is(err, ErrLine) {
		t.Errorf("a long request: %v", err)
	}
	if mustAnswer(t, c) != before {
		t.Error("a request that was refused cost a process")
	}
	frame := len(`{"result": ""}` + "\n")
	for n, want := range map[int]error{5_000: nil, 10_000 - frame: nil, 10_001 - frame: ErrLine,
		5_000_000: ErrLine} {
		var text string
		err := c.Call(t.Context(), order{Do: "long", N: n}, &text)
		if !errors.Is(err, want) || want == nil && (err != nil || len(text) != n) {
			t.Errorf("an answer of %d bytes: %d, %v", n, len(text), err)
		}
		mustAnswer(t, c)
	}
}

func TestAChildThatDiesSaysHowAndIsReplaced(t *testing.T) {
	c := startChild(t, program(t))
	before := mustAnswer(t, c)
	err := c.Call(t.Context(), order{Do: "die"}, nil)
	if !errors.Is(err, ErrDied) ||
		!strings.Contains(err.Error(), "exit status 3: first words ...") ||
		!strings.HasSuffix(err.Error(), " last words") || len(err.Error()) > 4<<10 {
		t.Errorf("Call() = %.200v", err)
	}
	if c.Pid() != 0 || mustAnswer(t, c) == before {
		t.Error("it was not replaced")
	}
}

func TestLastWordsAreThoseOfTheLastRequest(t *testing.T) {
	c := startChild(t, program(t))
	if err := c.Call(t.Context(), order{Do: "grumble", Text: "old words"}, nil); err != nil {
		t.Fatal(err)
	}
	for c.process.words.String() != ": old words" {
		runtime.Gosched() // they come by another pipe than the answer
	}
	if err := c.Call(
		t.Context(), order{Do: "die"}, nil,
	); !errors.Is(err, ErrDied) || strings.Contains(err.Error(), "old words") {
		t.Errorf("Call() = %.200v", err)
	}
}

func TestARequestThatWasGivenIsNeverGivenAgain(t *testing.T) {
	c := startChild(t, program(t))
	mustAnswer(t, c)
	for n := range 3 {
		name := filepath.Join(t.TempDir(), "signed")
		if err := c.Call(
			t.Context(), order{Do: "sign and die", Text: name}, nil,
		); !errors.Is(err, ErrDied) {
			t.Errorf("Call() = %v", err)
		}
		if signed, err := os.ReadFile(name); string(signed) != "x" {
			t.Errorf("request %d ran %d times, %v", n, len(signed), err)
		}
		mustAnswer(t, c)
	}
}

func TestARequestThatReachedNobodyGoesToTheNextChild(t *testing.T) {
	c := startChild(t, program(t))
	for range 3 {
		before := mustAnswer(t, c)
		c.process.cmd.Process.Kill()
		<-c.process.ended
		if mustAnswer(t, c) == before {
			t.Error("a dead process answered")
		}
	}
}

func TestAChildThatCannotBeStartedAgainIsAnError(t *testing.T) {
	command := program(t)
	c := startChild(t, command)
	c.command.Argv = []string{os.TempDir() + "/there is no such program"}
	c.process.cmd.Process.Kill()
	<-c.process.ended
	if err := c.Call(t.Context(), order{Do: "echo"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Call() = %v", err)
	}
	c.command = startChild(t, command).command
	mustAnswer(t, c)
}

func TestAProgramThatEndsAtOnceIsNotStartedForEver(t *testing.T) {
	command := program(t)
	command.Env = append(os.Environ(), "POOL_CHILD_ENDS=1")
	c := startChild(t, command)
	<-c.process.ended
	for range 3 {
		err := c.Call(t.Context(), order{Do: "echo"}, nil)
		if !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), "exit status 5") {
			t.Errorf("Call() = %v", err)
		}
	}
}

func TestAHungChildIsKilledWithItsGroupAndReplaced(t *testing.T) {
	meet := newArrivals(t)
	c := startChild(t, program(t))
	before := mustAnswer(t, c)
	if err := c.Call(t.Context(), order{Do: "breed", Addr: meet.addr()}, nil); err != nil {
		t.Fatal(err)
	}
	grandchildGone := meet.next(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	called := make(chan error, 1)
	go func() { called <- c.Call(ctx, order{Do: "arrive", Addr: meet.addr()}, nil) }()
	childGone := meet.next(t)
	cancel(errOuch)
	if err := <-called; !errors.Is(err, errOuch) {
		t.Errorf("Call() = %v", err)
	}
	childGone()
	grandchildGone()
	if mustAnswer(t, c) == before {
		t.Error("it was not replaced")
	}
	if err := c.Call(ctx, order{Do: "echo"}, nil); !errors.Is(err, errOuch) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestWhatADeadChildLeavesInItsGroupIsKilled(t *testing.T) {
	meet := newArrivals(t)
	c := startChild(t, program(t))
	if err := c.Call(t.Context(), order{Do: "breed", Addr: meet.addr()}, nil); err != nil {
		t.Fatal(err)
	}
	grandchildGone := meet.next(t)
	c.process.cmd.Process.Kill()
	grandchildGone() // without another Call
	mustAnswer(t, c)
}

func TestCloseEndsTheInputThenTheProcess(t *testing.T) {
	command := program(t)
	c, err := command.Start(0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	if err := c.Call(t.Context(), order{Do: "echo"}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Call after Close: %v", err)
	}
	command.Grace = time.Millisecond
	command.Env = append(os.Environ(), "POOL_CHILD_STAYS=1")
	if c, err = command.Start(0); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "killed 1ms after") {
		t.Errorf("Close() of one that stays = %v", err)
	}
}

func TestBadCommandsAreRefused(t *testing.T) {
	_, err := Command{MaxLine: -1, Grace: -2, Memory: -3, CPU: -4}.Start(0)
	for _, field := range []string{"argv", "MaxLine -1", "Grace -2", "Memory -3", "CPU -4"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if _, err := (Command{Argv: []string{"no such program at all"}}).Start(0); !errors.Is(err,
		exec.ErrNotFound) {
		t.Errorf("Start() = %v", err)
	}
}

func TestAPoolOfChildrenSurvivesTheirDeaths(t *testing.T) {
	p, err := New(Config{Runners: 2, Penalty: time.Millisecond}, program(t).Start)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var calls sync.WaitGroup
	for n := range 40 {
		calls.Go(func() {
			if n%8 == 0 {
				if _, err := Ask[int](t.Context(), p, 1, order{Do: "die"}); !errors.Is(err,
					ErrDied) {
					t.Errorf("Ask() = %v", err)
				}
				return
			}
			if got, err := Ask[int](t.Context(), p, 1, order{Do: "echo", N: n}); got != n ||
				err != nil {
				t.Errorf("Ask() = %d, %v", got, err)
			}
		})
	}
	calls.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatAChildAnswersIsNotItsFault(t *testing.T) {
	p, err := New(Config{Runners: 1}, program(t).Start)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	say := func(text string) {
		if _, err := Ask[int](t.Context(), p, 1, order{Do: "say", Text: text + "\n"}); err == nil {
			t.Errorf("%s is a result", text)
		}
	}
	if say(`{"error": "no"}`); p.View().Runners[0].Faults != 0 {
		t.Error("an error that it answered is its fault")
	}
	if say(`{"result": "five"}`); p.View().Runners[0].Faults != 0 {
		t.Error("that its caller expects another type is its fault")
	}
	for _, request := range []any{math.NaN(), strings.Repeat("x", 2<<20)} {
		if _, err := Ask[int](t.Context(), p, 1, request); err == nil ||
			p.View().Runners[0].Faults != 0 {
			t.Error("what its caller cannot ask is its fault")
		}
	}
	if say(`no`); p.View().Runners[0].Faults != 1 {
		t.Error("nonsense is not its fault")
	}
	if say(`{"error": "no"}`); p.View().Runners[0].Faults != 0 {
		t.Error("it answered, and is still at fault")
	}
}

func FuzzAnswersAreResultsOrErrors(f *testing.F) {
	for _, s := range []string{`{"result": 5}`, `{"error": "no"}`, `{"result": 5} 6`, `{`,
		`{"error": null, "result": [1, {}]}`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		result, err := parseAnswer(line)
		_, refused := errors.AsType[ChildError](err)
		switch {
		case (result == nil) == (err == nil):
			t.Errorf("%q: %q and %v", line, result, err)
		case err == nil && (!json.Valid(result) || !json.Valid(line)):
			t.Errorf("%q: result %q", line, result)
		case err != nil && refused == errors.Is(err, ErrAnswer):
			t.Errorf("%q: %v", line, err)
		}
	})
}

// BenchmarkAsk is a request to one of two processes and the way back.
func BenchmarkAsk(b *testing.B) {
	p, err := New(Config{Runners: 2}, program(b).Start)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		if _, err := Ask[int](b.Context(), p, 1, order{Do: "echo", N: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
