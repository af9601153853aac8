package recording

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/ptytest"
)

var update = flag.Bool("update", false, "record rota demo again, on the files of Go itself")

const picture = "../../docs/img/demo.svg"

// record runs a program on a terminal, and keeps what it writes by the tenth of a second. Before it
// the command is typed.
func record(t *testing.T, width, height int, typed string, cmd *exec.Cmd) (all []Piece) {
	t.Helper()
	const key = 70 * time.Millisecond
	at := 500 * time.Millisecond
	all = append(all, Piece{0, []byte("\x1b[32m$\x1b[m ")})
	for _, c := range typed + "\r\n" {
		at += key
		all = append(all, Piece{at, []byte(string(c))})
	}
	terminal := ptytest.New(t, width, height)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal.File, terminal.File, terminal.File
	begun, shown := time.Now(), 0
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v\n%s", err, terminal.Shown())
			}
			over = true
			<-tick.C // what it wrote last is read by now
		case <-tick.C:
		}
		if text := terminal.Shown(); len(text) > shown {
			all = append(all, Piece{at + time.Since(begun), []byte(text[shown:])})
			shown = len(text)
		}
	}
	return all
}

// With -update (make recording) the real program is recorded. The picture that is kept is looked at
// either way: it is whole, small, and has all in it.
func TestDemoIsRecorded(t *testing.T) {
	const width, height = 80, 30
	if *update {
		folder := t.TempDir()
		program := filepath.Join(folder, "rota")
		if out, err := exec.Command(
			"go", "build", "-trimpath", "-o", program, "../../cmd/rota",
		).CombinedOutput(); err != nil {
			t.Fatalf("build rota: %v\n%s", err, out)
		}
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "demo")
		cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), "src")
		cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "TERM=xterm-256color")
		film := NewFilm(width, height, record(t, width, height, "rota demo", cmd),
			190*time.Millisecond, 6*time.Second)
		if err := os.WriteFile(picture, film.SVG("rota demo in a terminal"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg)
	if len(svg) > 150_000 {
		t.Errorf("%d bytes, want at most 150,000", len(svg))
	}
	for _, want := range []string{
		"killed (SIGKILL)", "job clock of group demo-watch runs on", "every file accounted for",
	} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("the picture has no %q", want)
		}
	}
	loads := regexp.MustCompile(`(?i)href|url\(|@import|<script|<image`)
	if found := loads.Find(svg); found != nil {
		t.Errorf("the picture loads something: %s", found)
	}
}
