package tasks_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/clitest"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// submitServer takes every submission but those with a task whose context is refused, and remembers
// the contexts it took: the task with number n has the n-th.
type submitServer struct {
	refused string
	mu      sync.Mutex
	taken   []string
}

func (s *submitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	tasks, err := wire.ParseSubmissions(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	receipts := make([]task.Receipt, len(tasks))
	for i, t := range tasks {
		if string(t.Context) == s.refused {
			http.Error(w, "refused", http.StatusUnprocessableEntity)
			return
		}
		receipts[i].ID = task.ID{Batch: 1, N: int32(len(s.taken) + i)}
	}
	for _, t := range tasks {
		s.taken = append(s.taken, string(t.Context))
	}
	w.WriteHeader(http.StatusCreated)
	w.Write(wire.AppendReceipts(nil, receipts))
}

// submitAll runs `rota submit q --lines` against s and answers the exit code, the ids that it
// printed, and stderr.
func submitAll(
	t *testing.T, s *submitServer, in string,
) (code int, ids []string, complaint string) {
	t.Helper()
	return submitBy(t, s, in, "--lines")
}

// submitBy runs `rota submit q` with flags against s.
func submitBy(
	t *testing.T, s *submitServer, in string, flags ...string,
) (code int, ids []string, complaint string) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	out, stderr := new(bytes.Buffer), new(bytes.Buffer)
	a := app.New(strings.NewReader(in), out, stderr, clitest.NoEnv)
	args := slices.Concat([]string{"submit", "q", "--server", server.URL}, flags)
	code = cli.Run(t.Context(), a, args)
	return code, strings.Fields(out.String()), stderr.String()
}

// numbers is n lines with the numbers from 0 on.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestLinesBecomeTasksInTheirOrder(t *testing.T) {
	const n = 12_345
	s := new(submitServer)
	code, ids, complaint := submitAll(t, s, numbers(n))
	if code != cli.ExitDone || len(ids) != n || len(s.taken) != n ||
		complaint[:len("12,345 tasks submitted to q")] != "12,345 tasks submitted to q" {
		t.Fatalf("exit code %d, %d ids, %d tasks, %q", code, len(ids), len(s.taken), complaint)
	}
	for i := range n {
		if id, _ := task.ParseID(ids[i]); int(id.N) != i || s.taken[i] != fmt.Sprint(i) {
			t.Fatalf("line %d: id %s, context %s", i, ids[i], s.taken[i])
		}
	}
}

func TestRefusedLinesAreNamedAndThoseBeforeThemTold(t *testing.T) {
	const gatherTasks = 2_000 // lines that travel together
	s := &submitServer{refused: `"bad"`}
	code, ids, complaint := submitAll(t, s, numbers(gatherTasks)+"bad\n"+numbers(2*gatherTasks))
	want := fmt.Sprintf("lines %d to %d: ", gatherTasks+1, 2*gatherTasks)
	if code != cli.ExitFailed || !strings.Contains(complaint, want) ||
		!strings.Contains(complaint, term.Count(gatherTasks)+" tasks submitted to q") {
		t.Errorf("exit code %d, %q, want %q", code, complaint, want)
	}
	if len(ids) != gatherTasks || len(s.taken) != gatherTasks {
		t.Errorf("%d ids for %d tasks, want %d", len(ids), len(s.taken), gatherTasks)
	}
}

// Any text is a context, as a JSON string that says the same: as an argument, from a file, from
// stdin, and each line of either.
func TestTextBecomesAStringHoweverItIsGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letter")
	const letter = "Dear \"Ann\",\n\t{}\n"
	if err := os.WriteFile(file, []byte(letter), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		in    string
		want  []string // contexts
		code  int
		says  string
	}{
		{[]string{"--context-text", `5 < 6 & "7"`}, "", []string{`"5 < 6 & \"7\""`}, cli.ExitDone, ""},
		{[]string{"--context-text", `{"a": 1}`}, "", []string{`"{\"a\": 1}"`}, cli.ExitDone, ""},
		{[]string{"--context-text", " é "}, "", []string{`" é "`}, cli.ExitDone, ""},
		{[]string{"--context-text", ""}, "", []string{`""`}, cli.ExitDone, ""},
		{[]string{"--context-text", "@" + file}, "", []string{`"Dear \"Ann\",\n\t{}\n"`}, cli.ExitDone, ""},
		{[]string{"--context-text", "-"}, letter, []string{`"Dear \"Ann\",\n\t{}\n"`}, cli.ExitDone, ""},
		{[]string{"--context-text", "-", "--lines"}, "1\ntwo\n\n", []string{`"1"`, `"two"`, `""`},
			cli.ExitDone, ""},
		{[]string{"--context-text", "@" + file, "--lines"}, "not this",
			[]string{`"Dear \"Ann\","`, `"\t{}"`}, cli.ExitDone, ""},
		{[]string{"--lines"}, "1\ntwo\n", []string{`1`, `"two"`}, cli.ExitDone, ""},
		{[]string{"--context-text", "a\xffb"}, "", nil, cli.ExitUsage, "not UTF-8"},
		{[]string{"--context-text", "-", "--lines"}, "a\nb\xff\n", nil, cli.ExitFailed, "line 2: not UTF-8"},
		{[]string{"--context-text", "a", "--lines"}, "", nil, cli.ExitUsage, "--context-text @FILE"},
		{[]string{"--context-text", "a", "--context", "1"}, "", nil, cli.ExitUsage, "two contexts"},
		{[]string{"--context-text", "@" + file + "x"}, "", nil, cli.ExitFailed, "no such file"},
		{[]string{"--context-text", "@" + file + "x", "--lines"}, "", nil, cli.ExitFailed, "no such file"},
	} {
		s := new(submitServer)
		code, _, complaint := submitBy(t, s, c.in, c.flags...)
		if code != c.code || c.want != nil && !slices.Equal(s.taken, c.want) ||
			!strings.Contains(complaint, c.says) {
			t.Errorf("%q: exit code %d, contexts %q, %s", c.flags, code, s.taken, complaint)
		}
	}
}

// Who is interrupted while a submission is on its way is told that it may be there.
func TestInterruptedSubmitSaysThatTheTaskMayBeThere(t *testing.T) {
	for name, flags := range map[string][]string{
		"one": nil, "several": {"--tasks", `[{"ref":"a"},{"after":["a"]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			server := httptest.NewServer(http.HandlerFunc(
				func(_ http.ResponseWriter, r *http.Request) {
					io.ReadAll(r.Body)
					interrupt()
					<-r.Context().Done()
				}))
			defer server.Close()
			stderr := new(bytes.Buffer)
			a := app.New(nil, io.Discard, stderr, clitest.NoEnv)
			args := append([]string{"submit", "q", "--server", server.URL}, flags...)
			if code := cli.Run(ctx, a, args); code != cli.ExitFailed {
				t.Errorf("exit code %d", code)
			}
			if got := stderr.String(); !strings.Contains(got, "It may be submitted all the same") ||
				!strings.Contains(got, "rota: interrupted") {
				t.Errorf("it said %q", got)
			}
		})
	}
}

// What stands beside the tasks of a body is refused, as the server would: it has a meaning to
// somebody.
func TestTasksOfABodyStandAlone(t *testing.T) {
	for _, text := range []string{
		`{"tasks":[{"context":1}],"delay":"10m"}`, `{"tasks":[{"context":1}],"Tasks":[]}`,
		`{"tasks":[{"context":1}],"tasks":[]}`, `{"tasks":[{"contxt":1}]}`, `[{"contxt":1}]`,
		`{"tasks":[]}`,
	} {
		s := new(submitServer)
		code, _, complaint := submitBy(t, s, "", "--tasks", text)
		if code != cli.ExitUsage || len(s.taken) != 0 {
			t.Errorf("%s: exit code %d, took %q: %s", text, code, s.taken, complaint)
		}
	}
	s := new(submitServer)
	code, _, _ := submitBy(t, s, "", "--tasks", `{"tasks":[{"context":1}]}`)
	if code != cli.ExitDone {
		t.Errorf("a body: exit code %d, took %q", code, s.taken)
	}
}
