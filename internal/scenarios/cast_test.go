//go:build scenarios && unix

package scenarios

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rotahq/rota/internal/child"
	"github.com/rotahq/rota/internal/pgtest"
)

// scene is what one scenario has: its processes, and what they are started with.
type scene struct {
	t       testing.TB
	folder  string
	base    []string // environment of commands
	running context.Context
	nodes   []*member
	members map[string]*member // nodes, workers and others, by name
	pool    *runners
}

// member is a process that the story speaks of by a name; it may be started again.
type member struct {
	name    string
	args    []string
	listen  string // a node
	url     string // of a node that was started
	process *child.Process
	files   []*os.File // what it writes
}

type sceneKey struct{}

func sceneOf(ts *testscript.TestScript) *scene { return ts.Value(sceneKey{}).(*scene) }

func setUp(e *testscript.Env) error {
	e.Setenv("NO_COLOR", "1")
	e.Setenv("HOME", e.WorkDir)
	path := []string{filepath.Dir(binary), examples, e.Getenv("PATH")}
	e.Setenv("PATH", strings.Join(path, string(os.PathListSeparator)))
	s := &scene{
		t: e.T().(testing.TB), folder: e.WorkDir, base: slices.Clone(e.Vars),
		members: map[string]*member{},
	}
	e.Values[sceneKey{}] = s
	var stop func()
	s.running, stop = context.WithCancel(context.Background())
	e.Defer(func() {
		for _, m := range s.members { // nobody waits for a good end of what is over
			m.finish(syscall.SIGKILL)
		}
		stop()
		s.pool.close()
	})
	return nil
}

// database gives the nodes of a scenario a database of PostgreSQL.
func database(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: database")
	}
	t := sceneOf(ts).t
	ts.Setenv("ROTA_STORE", pgtest.Shared(t).Database(t))
}

// nodeFlags make nodes quick, so that what takes some beats or a lease takes a second or three.
var nodeFlags = [][2]string{{"--beat", "250ms"}, {"--lease", "3s"}, {"--warmup", "1s"}}

// serve starts a node, and waits until it serves.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve NAME [FLAG…]")
	}
	s := sceneOf(ts)
	m := s.members[args[0]]
	if m == nil {
		port, err := pgtest.FreePort()
		ts.Check(err)
		m = &member{name: args[0], listen: fmt.Sprintf("127.0.0.1:%d", port)}
		m.args = []string{
			"--name", m.name, "--source-folder", s.folder, "--allow-private", "127.0.0.0/8",
			"--allow-commands",
		}
		for _, f := range nodeFlags {
			if !slices.Contains(args, f[0]) {
				m.args = append(m.args, f[:]...)
			}
		}
		m.args = append(m.args, args[1:]...)
		s.members[m.name] = m
		s.nodes = append(s.nodes, m)
	}
	store := ts.Getenv("ROTA_STORE")
	if store == "" {
		store = "sqlite:" + filepath.Join(s.folder, "rota.db")
	}
	program, err := m.program(s)
	ts.Check(err)
	m.process, m.url, err = program.StartServer(s.running, store, "info", m.args...)
	ts.Check(err)
	ts.Setenv(m.name, m.url)
	if ts.Getenv("ROTA_SERVER") == "" {
		ts.Setenv("ROTA_SERVER", m.url)
	}
}

// program is rota, run in the scenario's folder; its log is there, too.
func (m *member) program(s *scene) (child.Program, error) {
	log, err := os.OpenFile(filepath.Join(s.folder, m.name+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return child.Program{}, err
	}
	m.files = append(m.files, log)
	return child.Program{Path: binary, Folder: s.folder, Listen: m.listen, Log: log}, nil
}

func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || sceneOf(ts).members[args[0]] == nil {
		ts.Fatalf("usage: ask NODE")
	}
	ts.Setenv("ROTA_SERVER", sceneOf(ts).members[args[0]].url)
}

// work starts a worker.
func work(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: work NAME [FLAG…] -- COMMAND [ARG…]")
	}
	flags := []string{"worker", "--name", args[0]}
	for _, n := range sceneOf(ts).nodes {
		flags = append(flags, "--server", n.url)
	}
	start(ts, args[0], append(flags, args[1:]...))
}

// begin starts a command of rota that goes on beside the story.
func begin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[1] != "rota" {
		ts.Fatalf("usage: begin NAME rota COMMAND [ARG…]")
	}
	start(ts, args[0], append(args[2:], "--server", ts.Getenv("ROTA_SERVER")))
}

func start(ts *testscript.TestScript, name string, args []string) {
	s := sceneOf(ts)
	if old := s.members[name]; old != nil {
		ts.Check(old.finish(syscall.SIGKILL))
	}
	m := &member{name: name, args: args}
	program, err := m.program(s)
	ts.Check(err)
	out, err := os.Create(filepath.Join(s.folder, name+".out"))
	ts.Check(err)
	m.files = append(m.files, out)
	m.process, err = program.Start(s.running, func(line string) {
		fmt.Fprintln(out, line)
	}, args...)
	ts.Check(err)
	s.members[name] = m
}

// finish ends a process by a signal and waits for it.
func (m *member) finish(by os.Signal) error {
	if m.process == nil {
		return nil
	}
	err := child.IgnoreDone(m.process.Process.Signal(by))
	how := m.process.Wait()
	m.process = nil
	for _, f := range m.files {
		f.Close()
	}
	m.files = nil
	if by == syscall.SIGKILL {
		how = nil
	}
	if err == nil {
		err = how
	}
	return err
}

func die(ts *testscript.TestScript, neg bool, args []string) {
	signal(ts, neg, args, syscall.SIGKILL)
}

func end(ts *testscript.TestScript, neg bool, args []string) {
	signal(ts, neg, args, os.Interrupt)
}

func freeze(ts *testscript.TestScript, neg bool, args []string) {
	signal(ts, neg, args, syscall.SIGSTOP)
}

func thaw(ts *testscript.TestScript, neg bool, args []string) {
	signal(ts, neg, args, syscall.SIGCONT)
}

func signal(ts *testscript.TestScript, neg bool, names []string, by os.Signal) {
	if neg || len(names) == 0 {
		ts.Fatalf("whom?")
	}
	for _, name := range names {
		m := sceneOf(ts).members[name]
		if m == nil || m.process == nil {
			ts.Fatalf("no %s runs", name)
		}
		if by == syscall.SIGSTOP || by == syscall.SIGCONT {
			ts.Check(m.process.Process.Signal(by))
		} else {
			ts.Check(m.finish(by))
		}
	}
}

// environment is that of a command: what the scenario began with, and what it set since.
func (s *scene) environment(ts *testscript.TestScript) []string {
	env := slices.Clone(s.base)
	for _, name := range []string{"ROTA_SERVER", "ROTA_TOKEN", "TZ"} {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "ROTA_STORE=") })
}
