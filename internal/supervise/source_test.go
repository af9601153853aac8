package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

func TestListsOfJobs(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text  string
		jobs  []string // name load spec
		wrong string   // part of the error
	}{
		"object": {text: `{"jobs":[{"job":"a"},{"job":"b","load":0.5,"spec":{"x": 1}}]}`,
			jobs: []string{"a 1 ", `b 0.5 {"x": 1}`}},
		"array": {text: ` [{"job":"a","load":2}]`, jobs: []string{"a 2 "}},
		"lines": {text: "# sources\na\n\nb 2\r\nc 0.5 {\"x\": 1}\n",
			jobs: []string{"a 1 ", "b 2 ", `c 0.5 {"x": 1}`}},
		"no jobs, and so": {text: `{"jobs":[]}`},
		"empty":           {text: "", wrong: `{"jobs":[]}`},
		"blank":           {text: " \n\t\r\n", wrong: `{"jobs":[]}`},
		"comments":        {text: "# nothing yet\n", wrong: `{"jobs":[]}`},
		"empty array":     {text: "[]", wrong: `{"jobs":[]}`},
		"same name": {text: `{"jobs":[{"job":"a"},{"job":"a"}]}`,
			wrong: `is the name of [0]`},
		"same line":       {text: "a\na\n", wrong: "line 2"},
		"bad name":        {text: `{"jobs":[{"job":"A b"}]}`, wrong: "jobs[0].job"},
		"bad line":        {text: "a\nb c\n", wrong: "line 2"},
		"negative load":   {text: `{"jobs":[{"job":"a","load":-1}]}`, wrong: "must be 0 to"},
		"load above 2^53": {text: `{"jobs":[{"job":"a","load":1e300}]}`, wrong: "must be 0 to"},
		"no number":       {text: `{"jobs":[{"job":"a","load":NaN}]}`, wrong: "byte"},
		"unknown field":   {text: `{"jobs":[{"job":"a","weight":1}]}`, wrong: "weight"},
		"no jobs in it":   {text: `{}`, wrong: "jobs"},
		"cut off":         {text: `{"jobs":[{"job":"a"},`, wrong: "byte"},
		"something after": {text: `{"jobs":[]} {}`, wrong: "byte"},
		"an error page":   {text: "<html>502 Bad Gateway</html>", wrong: "line 1"},
		"binary":          {text: "\x00\xff\xfe", wrong: "line 1"},
		"too long": {text: `{"jobs":[` + strings.Repeat(" ", 1<<16) + `]}`,
			wrong: "more than 10000 bytes"},
		"large spec is out": {text: `{"jobs":[{"job":"a","spec":"` + strings.Repeat("x", 5000) +
			`"}]}`, jobs: []string{`a 1 "` + strings.Repeat("x", 5000) + `"`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "list")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			jobs, hash, err := supervise.Sources{Folder: folder(t, dir),
				Limit: 10_000}.Read(t.Context(), task.Source{Kind: task.SourceFile, Path: path})
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("%d jobs, error %v, want %q in it", len(jobs), err, c.wrong)
				}
				return
			}
			var got []string
			for _, j := range jobs {
				got = append(got, fmt.Sprintf("%s %v %s", j.Name, j.Load.Float(), j.Spec))
			}
			if err != nil || hash == "" || !slices.Equal(got, c.jobs) {
				t.Errorf("jobs %q, hash %q, error %v, want %q", got, hash, err, c.jobs)
			}
		})
	}
}

func FuzzAnyTextIsAListOrAnError(f *testing.F) {
	for _, s := range []string{"", "a 1 {}\n", `{"jobs":[{"job":"a"}]}`,
		`[{"job":"a","load":1.5,"spec":null}]`, "{", "\x00"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	path, lists := filepath.Join(dir, "list"), folder(f, dir)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		jobs, _, err := supervise.Sources{Folder: lists}.Read(t.Context(), task.Source{
			Kind: task.SourceFile, Path: path,
		})
		seen := map[string]bool{}
		for _, j := range jobs {
			if err != nil || seen[j.Name] || !limits.ValidName(j.Name) || j.Load < 0 ||
				j.Load > task.MaxLoad || len(j.Spec) > limits.MaxSpec {
				t.Errorf("job %q of load %v beside error %v", j.Name, j.Load, err)
			}
			seen[j.Name] = true
		}
		if err == nil && len(jobs) == 0 && !strings.Contains(string(text), "jobs") {
			t.Errorf("%q is an empty list", text)
		}
	})
}

// deaf is a server's answer that does not come, whatever becomes of the call.
type deaf struct {
	asked atomic.Int64
	end   chan struct{}
}

func (d *deaf) RoundTrip(*http.Request) (*http.Response, error) {
	d.asked.Add(1)
	<-d.end
	return nil, errors.New("gone")
}

func TestReaderThatHangsIsLeftBehind(t *testing.T) {
	inHouse(t, func(h *house) {
		server := &deaf{end: make(chan struct{})}
		defer close(server.end) // the bubble ends when all goroutines have
		h.sources = supervise.Sources{
			HTTP: &http.Client{Transport: server}, Timeout: 30 * time.Second,
		}
		h.group("g", 0, func(g *task.Group) {
			g.Source = task.Source{
				Kind: task.SourceURL, URL: "http://list.example/", Every: time.Minute,
			}
		})
		h.Start("n1")
		h.Await(time.Minute, "the deadline holds", func() bool {
			return strings.Contains(h.read().Error, "longer than 30s")
		})
		h.Must(h.Store.AskGroup(h.T.Context(), "g", true, false))
		h.Pass(10 * time.Minute)
		if n := server.asked.Load(); n != 1 {
			t.Errorf("%d readers hang, want no other while one does", n)
		}
		began := time.Now()
		h.Kill("n1") // waits for the supervisor
		if took := time.Since(began); took > 10*beat {
			t.Errorf("the supervisor ended after %v", took)
		}
	})
}

func TestReadersThatHangLeaveNoRoomForMore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "list"), []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := supervise.Sources{
		Folder: folder(t, dir), Timeout: 50 * time.Millisecond, Slots: make(chan struct{}, 1),
	}
	for range 3 { // each gives its slot back
		if err := readFile(t, c, filepath.Join(dir, "list")); err != nil {
			t.Fatal(err)
		}
	}
	c.Slots <- struct{}{}
	if err := readFile(
		t, c, filepath.Join(dir, "list"),
	); err == nil || !strings.Contains(err.Error(), "waiting for 1 others") {
		t.Errorf("read beside one that hangs: %v", err)
	}
}

func TestErrorAboutAFileDoesNotRepeatIt(t *testing.T) {
	dir := t.TempDir()
	path, lists := filepath.Join(dir, "shadow"), folder(t, dir)
	for text, want := range map[string]string{
		"root:$6$sEcReT\n":                                "line 1",
		`{"jobs":[{"job":"sEcReT \" sEcReT"}]}`:           "jobs[0].job",
		"a\na sEcReT=1\n":                                 "line 2",
		"sEcReT-\x00\xff\"":                               "line 1",
		`[{"job":"a"},{"job":"a","spec":{"k":"sEcReT"}}]`: "[1]",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := readFile(t, supervise.Sources{Folder: lists}, path)
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "sEcReT") {
			t.Errorf("%q: %v, want it to name %s", text, err, want)
		}
	}
}

func TestURLsAreReadWithinLimits(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			io.WriteString(w, `{"jobs":[{"job":"a"}]}`)
		case "/lines":
			io.WriteString(w, "a\nb\n")
		case "/gone":
			http.NotFound(w, r)
		case "/long":
			for range 1000 {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		case "/slow":
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	sources := supervise.Sources{
		HTTP: server.Client(), Timeout: 200 * time.Millisecond, Limit: 10_000,
	}
	read := func(c supervise.Sources, path string) ([]task.Job, error) {
		jobs, _, err := c.Read(t.Context(), task.Source{
			Kind: task.SourceURL, URL: server.URL + path,
		})
		return jobs, err
	}
	generous := sources
	generous.Timeout = time.Minute
	if jobs, err := read(generous, "/good"); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	for path, wrong := range map[string]string{"/lines": "no list of jobs", "/gone": "404",
		"/long": "more than 10000 bytes", "/slow": "longer than", "/": `{"jobs":[]}`} {
		c := generous
		if path == "/slow" {
			c = sources
		}
		if _, err := read(c, path); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q in it", path, err, wrong)
		}
	}
	if _, err := read(supervise.Sources{}, "/good"); err == nil {
		t.Error("a node without a way out read a URL")
	}
}

func TestSourceChangesJobsByTheDifference(t *testing.T) {
	inHouse(t, func(h *house) {
		f := newFile(h, "a\nb\nc\n")
		h.group("g", 0, f.source, func(g *task.Group) { g.Policy.Moves = 0 })
		h.Start("n1")
		h.addWorkers(2, 60, "n1")
		h.Await(20*beat, "all run", h.allRun("g", 3))
		_, ended := h.begun()
		f.write("b\nc\nd 2\n")
		h.Await(15*beat, "the new one runs, and the old one does not", func() bool {
			return h.allRun("g", 3)() && h.copies()["d"] == 1 && h.copies()["a"] == 0
		})
		if _, now := h.begun(); now-ended != 1 {
			t.Errorf("%d ended, want a only", now-ended)
		}
		if h.told(supervise.SourceFailed)+h.told(supervise.SourceOK) != 0 {
			t.Errorf("told %v", h.events)
		}
	})
}

func TestBrokenSourceChangesNothingAndIsToldOnce(t *testing.T) {
	inHouse(t, func(h *house) {
		f := newFile(h, "a\nb\nc\n")
		h.group("g", 0, f.source)
		h.Start("n1", "n2")
		h.addWorkers(2, 60, "n1", "n2")
		h.Await(20*beat, "all run", h.allRun("g", 3))
		before := started(h)
		for _, nonsense := range []string{"", "a\na\n", "NOT A LIST\n", "{"} {
			f.write(nonsense)
			h.Pass(15 * time.Second)
		}
		h.Must(os.Remove(f.path))
		h.Pass(15 * time.Second)
		if g := h.read(); g.Error == "" || g.Good == 0 || g.Time <= g.Good {
			t.Errorf("read %+v", g)
		}
		if !h.allRun("g", 3)() || started(h) != before {
			t.Errorf("%v run", h.running())
		}
		if h.told(supervise.SourceFailed) != 1 {
			t.Errorf("told %v, want the failure once", h.events)
		}
		for _, name := range []string{"n1", "n2"} { // whoever takes over knows of it
			h.Kill(name)
			h.Start(name)
			h.Pass(30 * time.Second)
		}
		if h.told(supervise.SourceFailed) != 1 || h.told(supervise.SourceOK) != 0 {
			t.Errorf("told %v, want the failure once", h.events)
		}
		f.write("a\nb\nc\n")
		h.Pass(15 * time.Second)
		if g := h.read(); g.Error != "" || h.told(supervise.SourceOK) != 1 {
			t.Errorf("read %+v, told %v", g, h.events)
		}
		f.write(`{"jobs":[]}`)
		h.Await(20*beat, "nothing runs: the source says so", h.allRun("g", 0))
	})
}

func TestRefreshReadsTheSourceNow(t *testing.T) {
	inHouse(t, func(h *house) {
		var reads atomic.Int64
		h.sources = supervise.Sources{HTTP: &http.Client{Transport: transport(func() string {
			return fmt.Sprintf(`{"jobs":[{"job":"j%d"}]}`, reads.Add(1))
		})}}
		h.group("g", 0, func(g *task.Group) {
			g.Source = task.Source{
				Kind: task.SourceURL, URL: "http://list.example/", Every: 10 * time.Minute,
			}
		})
		h.Start("n1")
		h.addWorkers(1, 60, "n1")
		h.Await(20*beat, "the first list runs", func() bool { return h.copies()["j1"] == 1 })
		h.Must(h.Store.AskGroup(h.T.Context(), "g", true, false))
		h.Await(10*beat, "the second list runs", func() bool {
			return h.copies()["j2"] == 1 && h.copies()["j1"] == 0
		})
		h.Pass(5 * time.Minute)
		if n := reads.Load(); n != 2 {
			t.Errorf("it was read %d times", n)
		}
		h.Await(10*time.Minute, "it is read again every ten minutes", func() bool {
			return reads.Load() == 3
		})
	})
}

func TestListOfAnEarlierSourceIsNotTaken(t *testing.T) {
	inHouse(t, func(h *house) {
		h.sources.HTTP = &http.Client{Transport: slowly{"a": 5 * beat, "b": 0}}
		from := func(name string) func(*task.Group) {
			return func(g *task.Group) {
				g.Source = task.Source{
					Kind: task.SourceURL, URL: "http://lists.example/" + name, Every: time.Hour,
				}
			}
		}
		h.group("g", 0, from("a"))
		h.Start("n1")
		h.worker("w0", 60, "n1")
		h.Pass(3 * beat)
		h.configure("g", from("b"))
		h.Await(10*beat, "the list is that of the newer source", func() bool {
			return len(h.running()) == 1
		})
		h.Pass(10 * beat)
		c, err := h.Store.Changes(t.Context(), "g", 1)
		if h.Must(err); c.Whole || len(c.Jobs) != 1 || c.Jobs[0].Name != "b" {
			t.Errorf("there are or were %+v", c.Jobs)
		}
	})
}

// slowly answers with the name that was asked for as the only job, after a while.
type slowly map[string]time.Duration

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	time.Sleep(s[name])
	return &http.Response{StatusCode: http.StatusOK,
		Body: io.NopCloser(strings.NewReader(`{"jobs":[{"job":"` + name + `"}]}`))}, nil
}

// transport answers every request with a text.
type transport func() string

func (f transport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(f()))},
		nil
}

func TestCommandsRunOnlyWhereTheyAreAllowed(t *testing.T) {
	_, _, err := supervise.Sources{}.Read(t.Context(), task.Source{
		Kind: task.SourceCommand, Command: []string{"echo"},
	})
	if err == nil || !strings.Contains(err.Error(), "operator") {
		t.Errorf("error %v, want it to say who may allow it", err)
	}
}

func TestCancelledReadingEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("node is stopping")
	cancel(why)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, _, err := supervise.Sources{HTTP: server.Client()}.Read(ctx, task.Source{
		Kind: task.SourceURL, URL: server.URL,
	})
	if !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
}

// file is a list that a group reads.
type file struct {
	h    *house
	path string
	n    int
}

func newFile(h *house, text string) *file {
	dir := h.T.TempDir()
	h.sources.Folder = folder(h.T, dir)
	f := &file{h: h, path: filepath.Join(dir, "jobs")}
	f.write(text)
	return f
}

// write changes the file, and its time by what has passed in the bubble.
func (f *file) write(text string) {
	f.h.T.Helper()
	f.h.Must(os.WriteFile(f.path, []byte(text), 0o600))
	f.n++
	at := time.Now().Add(time.Duration(f.n) * time.Second)
	f.h.Must(os.Chtimes(f.path, at, at))
}

func (f *file) source(g *task.Group) {
	g.Source = task.Source{Kind: task.SourceFile, Path: f.path, Every: time.Hour}
}

// read is what came of the source of g.
func (h *house) read() store.SourceRead {
	h.T.Helper()
	list, err := h.Store.Groups(h.T.Context())
	h.Must(err)
	return list[0].Read
}

// Errors of sources stand in logs, events and groups, which more people read than may know what is
// in a URL.
func TestErrorAboutAURLDoesNotRepeatIt(t *testing.T) {
	sources := supervise.Sources{HTTP: http.DefaultClient, Timeout: 5 * time.Second, Limit: 100}
	for _, from := range []string{"http://127.0.0.1:1/?token=s3cret", "x%zz://s3cret",
		"https://s3cret@[::1/"} {
		_, _, err := sources.Read(t.Context(), task.Source{Kind: task.SourceURL, URL: from})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", from, err)
		}
	}
}
