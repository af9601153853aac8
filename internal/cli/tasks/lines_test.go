package tasks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/task"
)

// gathersOf cuts all of r into gathers.
func gathersOf(r io.Reader) []gather {
	l := &lineReader{context: contextOf, r: bufio.NewReaderSize(r, 256<<10)}
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

// A server takes 32 MiB in one call, with all that is written around the contexts.
func TestLongLineTravelsAlone(t *testing.T) {
	small := strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 3)
	got := gathersOf(strings.NewReader(small + strings.Repeat("y", 30<<20) + "\n" + small))
	var lines []int64
	var tasks []int
	for _, g := range got {
		lines = append(lines, g.line)
		tasks = append(tasks, len(g.tasks))
	}
	if !cmp.Equal(tasks, []int{3, 1, 3, 0}) || !cmp.Equal(lines, []int64{1, 4, 5, 8}) {
		t.Errorf("gathers from lines %v have %v tasks", lines, tasks)
	}
}

func TestGatherLeavesWhenStdinPauses(t *testing.T) {
	in, out := io.Pipe()
	l := &lineReader{context: contextOf, r: bufio.NewReader(in)}
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
		{"too long", strings.NewReader("a\n" + strings.Repeat("x", app.MaxContext+1) + "\n"), 1,
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
