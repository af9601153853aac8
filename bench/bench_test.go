package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"
)

// asProgram makes the test binary the program itself, for its workers and for tests of the whole.
const asProgram = "ROTA_COMPARE_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Setenv(asProgram, "1")
	os.Exit(m.Run())
}

// needPeers fails a test that can't run without Redis and PostgreSQL, with the sentence that says
// how to get them.
func needPeers(t *testing.T) {
	t.Helper()
	for _, p := range []peer{redisAsynq{fsync: "always"}, postgresRiver{}} {
		if _, err := p.title(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// openDir is an empty folder that anybody may enter: root's PostgreSQL runs as another user.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rota-compare-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEveryTaskOfBothSidesIsCountedDone(t *testing.T) {
	needPeers(t)
	dir := openDir(t)
	var out, progress bytes.Buffer
	if code := run(
		[]string{"--seconds", "300ms", "--pairs", "2", "--dir", dir, "-o", "json"}, &out, &progress,
	); code != 0 {
		t.Fatalf("exit code %d: %s", code, &progress)
	}
	var rep report
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if rep.Cores < 1 || rep.Pairs != 2 || !strings.Contains(rep.Rota, "rota") ||
		len(rep.Peers) != 3 ||
		!strings.HasPrefix(rep.Peers[0], "Asynq v0.") ||
		!strings.HasSuffix(rep.Peers[1], "with appendfsync always") ||
		!strings.HasPrefix(rep.Peers[2], "River v0.") {
		t.Errorf("the report does not say what was compared: %s", &out)
	}
	if len(rep.Rows) != len(rows()) {
		t.Fatalf("%d rows, want %d", len(rep.Rows), len(rows()))
	}
	for i, row := range rep.Rows {
		for _, s := range []side{row.Rota, row.Peer} {
			if s.Tasks < 2*int64(s.Batch) || len(s.Rate.Runs) != 2 || s.Rate.Lowest <= 0 {
				t.Errorf("%s, %s: nothing was measured: %+v", row.Name, s.Name, s)
			}
			if counted := s.Database.Highest > 0; counted != rows()[i].postgres {
				t.Errorf("%s, %s: the database's CPU time: %+v", row.Name, s.Name, s.Database)
			}
		}
		if len(row.Ratio.Runs) != 2 || row.Ratio.Lowest <= 0 {
			t.Errorf("%s: ratio %+v", row.Name, row.Ratio)
		}
	}
	nothingLeft(t, dir)
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestWithoutRedisTheErrorSaysHowToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	var out, progress bytes.Buffer
	if code := run(
		[]string{"--dir", dir}, &out, &progress,
	); code != 1 || !strings.Contains(progress.String(), "apt-get install redis-server") {
		t.Errorf("exit code %d: %s", code, &progress)
	}
	nothingLeft(t, dir)
}

func TestCtrlCEndsEveryProcess(t *testing.T) {
	needPeers(t)
	t.Run("server and worker", func(t *testing.T) { interruptWith(t, "batch", 2) })
	t.Run("PostgreSQL, server and worker", func(t *testing.T) { interruptWith(t, "postgres", 3) })
}

// interruptWith interrupts the program when it runs a row and has so many children.
func interruptWith(t *testing.T, row string, processes int) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	cmd := exec.Command(self, "--seconds", "1m", "--dir", dir, "--only", row)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	children := running(t, processes, cmd.Process.Pid, ended)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(3 * patience):
		for _, c := range children {
			_ = c.Kill()
		}
		_ = cmd.Process.Kill()
		t.Fatal("the program does not end")
	}
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "interrupt") {
		t.Errorf("%v: %s", cmd.ProcessState, &out)
	}
	for _, c := range children {
		if err := syscall.Kill(int(c.Pid), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", c.Pid, err)
		}
	}
	nothingLeft(t, dir)
}

// running waits until a program has so many children, of which one is a worker: building rota has
// its own.
func running(t *testing.T, processes, pid int, ended <-chan error) []*gopsutil.Process {
	t.Helper()
	for {
		select {
		case err := <-ended:
			t.Fatalf("the program ended too soon: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		parent, err := gopsutil.NewProcess(int32(pid))
		if err != nil {
			continue // it has ended just now
		}
		if children, err := parent.Children(); err == nil && len(children) == processes &&
			slices.ContainsFunc(children, isWorker) {
			return children
		}
	}
}

func isWorker(p *gopsutil.Process) bool {
	args, err := p.CmdlineSlice()
	return err == nil && slices.Contains(args, workerVerb)
}

// sulky is Asynq with something wrong.
type sulky struct {
	redisAsynq
	command []string // instead of Redis, when there is one
	submit  func(ctx context.Context) error
}

func (s sulky) server(ctx context.Context, g ground) ([]string, func(string) string, error) {
	if s.command == nil {
		return redisAsynq{fsync: "everysec"}.server(ctx, g)
	}
	return s.command, func(line string) string { return line }, nil
}

func (s sulky) connect(address string, l load) (submitter, error) {
	return sulkySubmitter{fakeBooks{}, s.submit}, nil
}

type sulkySubmitter struct {
	fakeBooks
	does func(context.Context) error
}

func (s sulkySubmitter) submit(ctx context.Context, _ int) error { return s.does(ctx) }

func waitFor(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestRunEndsWithItsServer(t *testing.T) {
	dir := t.TempDir()
	dies := sulky{
		command: []string{"sh", "-c", "echo 127.0.0.1:9; sleep 0.1; echo out of order >&2; exit 3"},
		submit:  waitFor,
	}
	_, err := measurePeer(t.Context(), "asynq", dies, load{callers: 4, batch: 1},
		ground{folder: dir}, time.Minute, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "exit status 3: out of order") {
		t.Errorf("error %v", err)
	}
}

func TestServerThatNeverListensIsAnError(t *testing.T) {
	never := sulky{command: []string{"sh", "-c", "echo; exit 4"}, submit: waitFor}
	if _, err := measurePeer(
		t.Context(), "asynq", never, load{callers: 4, batch: 1}, ground{folder: t.TempDir()}, 0, 0,
	); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("error %v", err)
	}
}

func TestRefusedSubmissionEndsTheRun(t *testing.T) {
	needPeers(t)
	refused := errors.New("refused")
	refuses := sulky{submit: func(context.Context) error { return refused }}
	if _, err := measurePeer(t.Context(), "asynq", refuses, load{callers: 4, batch: 1},
		ground{folder: t.TempDir()}, time.Minute, time.Minute); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}

func TestWrongUsageIsExitCode2(t *testing.T) {
	for _, args := range [][]string{{"--pairs", "0"}, {"--seconds", "-1s"}, {"--only", "both"},
		{"-o", "xml"}, {"more"}, {"--unknown"}} {
		var out, progress bytes.Buffer
		if code := run(args, &out, &progress); code != 2 || progress.Len() == 0 || out.Len() > 0 {
			t.Errorf("%q: exit code %d: %s%s", args, code, &progress, &out)
		}
	}
}

func TestRotaIsNotBuiltFromElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := build(t.Context(), t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), filepath.Join("cmd", "rota")) {
		t.Errorf("error %v", err)
	}
}
