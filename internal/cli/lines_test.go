package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// gathersOf cuts all of r into gathers.
func gathersOf(r io.Reader) []gather {
	l := &lineReader{r: bufio.NewReaderSize(r, 256<<10)}
	for all := []gather(nil); ; {
		g := l.gather(task.Submission{Queue: "q"})
		if all = append(all, g); g.end != nil {
			return all
		}
	}
}

func contexts(gathers []gather) (all []string) {
	for _, g := range gathers {
		for _, s := range g.tasks {
			all = append(all, string(s.Context))
		}
	}
	return all
}

func TestLineThatIsJSONIsTheContextAsItIs(t *testing.T) {
	in := strings.Join([]string{
		`{"n":9007199254740993, "e":1e400}`, `  [1,  2] `, `42`, `null`, `"text"`,
		`plain text`, `{"broken`, `a "quote" \ <&> ` + "\u2028", "tab\there", "", "windows\r",
		"no end",
	}, "\n")
	got := contexts(gathersOf(strings.NewReader(in)))
	want := []string{
		`{"n":9007199254740993, "e":1e400}`, `[1,  2]`, `42`, `null`, `"text"`,
		`"plain text"`, `"{\"broken"`, `"a \"quote\" \\ <&> \u2028"`, `"tab\there"`, `""`,
		`"windows"`, `"no end"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTrailingNewlineIsNoTask(t *testing.T) {
	if got := contexts(gathersOf(strings.NewReader("a\n"))); len(got) != 1 {
		t.Errorf("contexts = %q, want one", got)
	}
	if got := contexts(gathersOf(strings.NewReader(""))); len(got) != 0 {
		t.Errorf("contexts = %q, want none", got)
	}
}

func TestGathersAreBounded(t *testing.T) {
	many := gathersOf(strings.NewReader(strings.Repeat("1\n", 2*gatherTasks+1)))
	large := gathersOf(strings.NewReader(strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 10)))
	total := 0
	for _, g := range append(many, large...) {
		size := 0
		for _, s := range g.tasks {
			size += len(s.Context)
		}
		if len(g.tasks) > gatherTasks || size > gatherBytes+1<<20+2 {
			t.Errorf("a gather of %d tasks and %d bytes", len(g.tasks), size)
		}
		total += len(g.tasks)
	}
	if total != 2*gatherTasks+11 {
		t.Errorf("%d tasks in all", total)
	}
}

func TestGatherLeavesWhenStdinPauses(t *testing.T) {
	in, out := io.Pipe()
	l := &lineReader{r: bufio.NewReader(in)}
	go func() {
		io.WriteString(out, "a\nb\n")
		// and now nothing, for ever
	}()
	if got := contexts(
		[]gather{l.gather(task.Submission{})},
	); !cmp.Equal(got, []string{`"a"`, `"b"`}) {
		t.Errorf("first gather = %q", got)
	}
	out.Close()
}

func TestBadLineIsNamedAndThoseBeforeItStand(t *testing.T) {
	broken := errors.New("device on fire")
	for _, c := range []struct {
		name  string
		in    io.Reader
		tasks int
		want  string
	}{
		{"not UTF-8", strings.NewReader("a\nb\n\xff\nd\n"), 2, "line 3: not UTF-8"},
		{"too long", strings.NewReader("a\n" + strings.Repeat("x", maxContext+1) + "\n"), 1,
			"line 2: longer than 32.0 MiB"},
		{"read error", io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(broken)), 1,
			"read line 2: device on fire"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gathers := gathersOf(c.in)
			end := gathers[len(gathers)-1].end
			if got := len(contexts(gathers)); got != c.tasks || end.Error() != c.want {
				t.Errorf("%d tasks, then %v; want %d, then %s", got, end, c.tasks, c.want)
			}
		})
	}
}

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
	server := httptest.NewServer(s)
	defer server.Close()
	out, stderr := new(bytes.Buffer), new(bytes.Buffer)
	a := &App{
		Output: term.Output{Out: out, Err: stderr, Now: time.Now}, in: strings.NewReader(in),
		env: noEnv,
	}
	code = Run(t.Context(), a, []string{"submit", "q", "--lines", "--server", server.URL})
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
	if code != ExitDone || len(ids) != n || len(s.taken) != n ||
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
	s := &submitServer{refused: `"bad"`}
	code, ids, complaint := submitAll(t, s, numbers(gatherTasks)+"bad\n"+numbers(2*gatherTasks))
	want := fmt.Sprintf("lines %d to %d: ", gatherTasks+1, 2*gatherTasks)
	if code != ExitFailed || !strings.Contains(complaint, want) ||
		!strings.Contains(complaint, term.Count(gatherTasks)+" tasks submitted to q") {
		t.Errorf("exit code %d, %q, want %q", code, complaint, want)
	}
	if len(ids) != gatherTasks || len(s.taken) != gatherTasks {
		t.Errorf("%d ids for %d tasks, want %d", len(ids), len(s.taken), gatherTasks)
	}
}

// Any bytes: what is taken is valid JSON, and a line of plain text comes back from it unchanged.
func FuzzContextOf(f *testing.F) {
	for _, seed := range []string{"", "a", `{"a":1}`, "\xff", "1e400", `"\ud800"`, "\u2028", "\x00",
		" 1 ", "nul"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := contextOf(bytes.Clone(line))
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("context of %q is %q", line, got)
		}
		if json.Valid(line) {
			if !bytes.Equal(got, bytes.TrimSpace(line)) {
				t.Fatalf("JSON %q became %q", line, got)
			}
			return
		}
		var text string
		if err := json.Unmarshal(got, &text); err != nil || text != string(line) {
			t.Fatalf("text %q became %q (%v)", line, text, err)
		}
	})
}
