//go:build unix

package notify

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
)

func runner(t *testing.T, within time.Duration) *Sender {
	t.Helper()
	s, err := New(Config{
		Store: model.New(time.Now), Commands: true, RunFor: within,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func scriptOf(line string) *store.Notifier {
	return &store.Notifier{Name: "值班", Kind: kindRun, Command: []string{"sh", "-c", line}}
}

func TestACommandIsGivenTheEvent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	n := scriptOf(`cat > ` + file + `; echo "$ROTA_NOTIFIER|$ROTA_EVENT_KIND|$ROTA_EVENT_SUBJECT|` +
		`$ROTA_EVENT_SEQ|$ROTA_EVENT_ID|$ROTA_EVENT_TIME" >> ` + file)
	e := offline()
	e.Text = "with \x00 in it"
	m := messageOf(n, &e, time.Now())
	if err := runner(t, time.Minute).sendWithin(t.Context(), n, m); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `值班|node.offline|n2|42|evt-42|2026-11-21T08:30:00.123Z`
	if !strings.HasPrefix(string(said), `{"seq":42,"time":"2026-11-21T08:30:00.123Z",`) ||
		!strings.Contains(string(said), want) {
		t.Errorf("it was given %s", said)
	}
}

func TestTheTroubleOfACommandSaysWhatItSaid(t *testing.T) {
	for line, want := range map[string]string{
		"echo no route >&2; exit 3": "exit status 3: no route", "exit 1": "exit status 1",
		`head -c 100000 /dev/zero | tr '\0' x >&2; exit 4`: "exit status 4: xxx",
		"kill -9 $$": "killed",
	} {
		n := scriptOf(line)
		e := offline()
		err := runner(t, time.Minute).sendWithin(t.Context(), n, messageOf(n, &e, time.Now()))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1200 {
			t.Errorf("%s: %.200v", line, err)
		}
	}
	s := runner(t, time.Minute)
	s.conf.Commands = false
	n, e := scriptOf("true"), offline()
	if err := s.sendWithin(t.Context(), n, messageOf(n, &e, time.Now())); err == nil {
		t.Error("a command ran where none may")
	}
}

// A command that takes too long is ended, with all that it started.
func TestACommandHasItsTime(t *testing.T) {
	note := filepath.Join(t.TempDir(), "pid")
	n, e := scriptOf("sleep 300 & echo $! > "+note+"; wait"), offline()
	var text []byte
	// a busy machine may not even begin within the first of these
	for within := 300 * time.Millisecond; len(text) == 0; within *= 10 {
		if within > time.Minute {
			t.Fatal("it never began")
		}
		err := runner(t, within).sendWithin(t.Context(), n, messageOf(n, &e, time.Now()))
		if err == nil || !strings.Contains(err.Error(), "it took longer than "+within.String()) {
			t.Fatalf("it ended with %v", err)
		}
		text, _ = os.ReadFile(note) // there is none before it began
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil && !zombie(pid); {
		if time.Now().After(deadline) {
			t.Fatal("what it started goes on")
		}
		time.Sleep(10 * time.Millisecond) // real processes
	}
}

// zombie tells whether a process is dead, and only nobody has taken note of it.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
