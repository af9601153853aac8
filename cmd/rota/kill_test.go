//go:build unix

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

var (
	killRounds = flag.Int("kills", 0,
		"how often the server is killed in the tests named Kill; 0 = ten times, three with -short")
	killSeed = flag.Uint64("seed", 0, "of the tests named Kill; 0 = another one each time")
)

const killQueue = "kill"

// The server dies and comes back while submitters and workers go on; now and then it only stops for
// longer than its own lease; and a worker process dies with tasks in its hands. One of two workers
// and some submitters are on streams, the others call over HTTP. Whatever was acknowledged, and so
// stands in the ledgers, must stand in the store in the end, once, and nothing else.
func TestKilledServerLosesNothingAndAcceptsNothingTwice(t *testing.T) {
	rounds, seed := *killRounds, *killSeed
	if rounds == 0 && testing.Short() {
		rounds = 3
	} else if rounds == 0 {
		rounds = 10
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d kills; again with -seed %d", rounds, seed)
	luck := rand.New(rand.NewPCG(seed, 0))

	s := makeVictim(t)
	s.start()
	c := s.connect()
	configureKillQueue(t, c)
	l := newLedgers(t)
	doomed := s.run("worker", "--server", s.url, "--queue", killQueue, "--capacity", "4", "--name",
		"doomed",
		"--log-level", "error", "--", "sleep", "0.3")

	submitting, stopSubmitters := context.WithCancel(t.Context())
	working, stopWorkers := context.WithCancel(t.Context())
	var submitters, workers sync.WaitGroup
	for i := range 3 {
		p := &submitter{
			t: t, client: s.connect(), ledgers: l, luck: rand.New(rand.NewPCG(seed, uint64(i)+1)),
			name: fmt.Sprintf("s%d", i),
		}
		submitters.Go(func() { p.run(submitting) })
	}
	for i := range 2 {
		w, err := worker.New(worker.Config{
			Queue: &ledgerQueue{
				Client: s.connect(), t: t, ledgers: l,
				luck: rand.New(rand.NewPCG(seed, uint64(i)+101)),
			},
			Name: fmt.Sprintf("w%d", i), Capacity: 16, Beat: 300 * time.Millisecond,
			StopGrace: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle(killQueue, handleKilled)
		workers.Go(func() {
			if err := w.Run(working); err != nil {
				t.Errorf("worker: %v", err)
			}
		})
	}
	t.Cleanup(func() { // whatever fails, nothing is left running
		stopSubmitters()
		stopWorkers()
		submitters.Wait()
		workers.Wait()
	})

	for round := range rounds {
		time.Sleep(time.Duration(50+luck.IntN(900)) * time.Millisecond) // a real process
		switch {
		case round == rounds/2:
			killHolding(t, c, doomed, "doomed")
		case round%4 == 1:
			s.freeze(2500 * time.Millisecond)
		}
		s.kill()
		s.start()
	}
	stopSubmitters()
	submitters.Wait()
	workOff(t, c, l, s)
	stopWorkers()
	workers.Wait()
	killAudit(t, c, l)
	s.end()
	l.compareSteps(t, s.store())
}

// configureKillQueue lets nothing die of its many attempts, and finds silent workers soon.
func configureKillQueue(t *testing.T, c *client.Client) {
	t.Helper()
	silence, attempts := 2*time.Second, limits.MaxAttempts
	pause, longest := 10*time.Millisecond, 50*time.Millisecond
	change := client.QueueChange{
		Silence: &silence, MaxAttempts: &attempts, Retry: &client.RetryChange{
			Initial: &pause, Max: &longest,
		},
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := c.PutQueue(t.Context(), killQueue, change); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// killHolding kills a worker's process as soon as the server says that it holds tasks.
func killHolding(t *testing.T, c *client.Client, cmd *exec.Cmd, name string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if w, err := c.Worker(t.Context(), name); err == nil && w.Running > 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("worker %s never held a task: %+v, %v", name, w, err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it says that it was killed
}

// workOff waits until nothing is left to do.
func workOff(t *testing.T, c *client.Client, l *ledgers, s *victim) {
	t.Helper()
	var last task.Counts
	for since := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		q, err := c.Queue(t.Context(), killQueue)
		if err != nil {
			t.Fatal(err)
		}
		if q.Counts != last {
			last, since = q.Counts, time.Now()
		}
		switch {
		case last.Waiting+last.Ready+last.Running == 0:
			return
		// A dead worker is found after 15 s of silence, which a server that was itself held up
		// counts anew.
		case time.Since(since) > time.Minute:
			l.printUnfinished(t, c)
			s.dump(c)
			t.Fatalf("nothing moves for a minute: %+v", last)
		}
	}
}

// victim is the server, a process of the real binary on a fixed address and store.
type victim struct {
	t      *testing.T
	binary string
	folder string
	listen string
	url    string
	member []string // flags that make it one of several; nil = it is alone, on a file
	log    *os.File
	tail   int // how much of the log a test that fails shows
	// how many clients were connected: every second one makes each call over HTTP
	clients int
	cmd     *exec.Cmd
}

// newVictim makes a victim in the whole run only: the race detector watches the test's process, and
// not the victim's.
func newVictim(t *testing.T) *victim {
	t.Helper()
	story.Whole(t)
	return makeVictim(t)
}

func makeVictim(t *testing.T) *victim {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &victim{
		t: t, binary: buildRota(t), folder: t.TempDir(), listen: fmt.Sprintf("127.0.0.1:%d", port),
		tail: 4000,
	}
	s.url = "http://" + s.listen
	if s.log, err = os.Create(filepath.Join(s.folder, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.log.Close()
		if text, err := os.ReadFile(s.log.Name()); err == nil && t.Failed() {
			t.Logf("what the processes said last:\n%s", text[max(0, len(text)-s.tail):])
		}
	})
	return s
}

func (s *victim) store() string { return filepath.Join(s.folder, "rota.db") }

// run starts a process that is killed, if nothing else ends it, with the test.
func (s *victim) run(args ...string) *exec.Cmd {
	s.t.Helper()
	return s.runTo(s.log, s.log, args...)
}

// runTo is run with a place of its own for what the process prints.
func (s *victim) runTo(stdout, stderr io.Writer, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(s.binary, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROTA_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

func (s *victim) start() {
	s.t.Helper()
	who := s.member
	if who == nil {
		who = []string{"--store", "sqlite:" + s.store(), "--name", "victim"}
	}
	args := append([]string{"serve", "--listen", s.listen, "--beat", "200ms"}, who...)
	for flag, value := range map[string]string{"--lease": "2s", "--log-level": "warn"} {
		if !slices.Contains(who, flag) {
			args = append(args, flag, value)
		}
	}
	s.cmd = s.run(args...)
}

// kill kills the server with SIGKILL. One that had ended before is a failure.
func (s *victim) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatalf("kill the server: %v", err)
	}
	_ = s.cmd.Wait()
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok ||
		status.Signal() != syscall.SIGKILL {
		s.t.Fatalf("the server ended by itself: %v", s.cmd.ProcessState)
	}
}

// dump tells of a server that stands still what it knows of its workers, and what each goroutine
// does, of its process and of this one.
func (s *victim) dump(c *client.Client) {
	s.t.Helper()
	workers, _, err := c.Workers(s.t.Context())
	s.t.Logf("workers: %+v %v", workers, err)
	e, err := c.ExplainQueue(s.t.Context(), killQueue)
	s.t.Logf("the queue: %+v %v", e, err)
	stacks := make([]byte, 1<<20)
	s.t.Logf("this process:\n%s", stacks[:runtime.Stack(stacks, true)])
	s.tail = 1 << 20
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		s.t.Logf("ask the server for its stacks: %v", err)
	}
	_ = s.cmd.Wait()
}

// freeze stops the server's process for d, without its knowing.
func (s *victim) freeze(d time.Duration) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(d)
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // it finds out how late it is
}

// end ends the server cleanly.
func (s *victim) end() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("end the server: %v", err)
	}
}

func (s *victim) connect() *client.Client {
	s.t.Helper()
	s.clients++
	c, err := client.New(client.Config{
		Servers: []string{s.url}, Timeout: 10 * time.Second, RetryFloor: 1000,
		HTTPOnly: s.clients%2 == 0,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// compareSteps looks into the store itself: each report that was answered recorded stands at its
// seq, under its token, and no span is left.
func (l *ledgers) compareSteps(t *testing.T, store string) {
	t.Helper()
	db, err := sqlite.OpenConn(store, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range []string{"span", "running"} {
		if n := number64(t, db, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	reports := l.readReports(t)
	for _, r := range reports {
		token, err := task.ParseToken(r.Token)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		const step = "SELECT token, kind, coalesce(error, '') FROM step WHERE batch = ? AND n = ? AND seq = ?"
		err = sqlitex.Execute(db, step, &sqlitex.ExecOptions{
			Args: []any{r.ID.Batch, r.ID.N, token.Seq},
			ResultFunc: func(row *sqlite.Stmt) error {
				found = true
				if row.ColumnInt64(0) != token.SpanToken ||
					task.Kind(row.ColumnInt64(1)) != r.Outcome || row.ColumnText(2) != r.Mark {
					t.Errorf("task %v, seq %d: answered %s to %s %q under token %d, but there stands %v %q under %d",
						r.ID, token.Seq, r.Status,
						r.Outcome, r.Mark, token.SpanToken, task.Kind(row.ColumnInt64(1)),
						row.ColumnText(2), row.ColumnInt64(0))
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			t.Errorf("task %v, seq %d: answered %s to %s %q, but nothing stands there", r.ID,
				token.Seq, r.Status, r.Outcome, r.Mark)
		}
	}
	t.Logf("%d acknowledged reports stand", len(reports))
}

func number64(t *testing.T, db *sqlite.Conn, query string) (n int64) {
	t.Helper()
	err := sqlitex.Execute(db, query,
		&sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
			n = row.ColumnInt64(0)
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
