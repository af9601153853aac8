//go:build chaos && unix

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// daemon is a child process that runs while it is wanted. A hopeful one that can't begin, as a node
// whose database is away, is started again, as an init system would do it. One that ends by itself
// otherwise fails the test.
type daemon struct {
	t       *testing.T
	name    string
	command func() *exec.Cmd
	log     *os.File // what it prints
	hopeful bool     // until it prints something on stdout it may end by itself
	served  atomic.Bool
	keeping sync.WaitGroup

	mu     sync.Mutex
	wanted bool
	cmd    *exec.Cmd // nil while it does not run
	err    error     // how it ended last
}

// newDaemon is a daemon that is killed, if nothing else ends it, with the test. Its environment is
// this program's own, without what is meant for rota, and with some more.
func newDaemon(
	t *testing.T, folder, name string, environment []string, path string, args ...string,
) *daemon {
	t.Helper()
	log, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, name: name, log: log}
	d.command = func() *exec.Cmd {
		cmd := exec.Command(path, args...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "ROTA_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, environment...)
		cmd.Stdout, cmd.Stderr = d, log
		return cmd
	}
	t.Cleanup(func() {
		d.kill()
		log.Close()
	})
	return d
}

// Write takes what the process prints on stdout.
func (d *daemon) Write(text []byte) (int, error) {
	d.served.Store(true)
	return d.log.Write(text)
}

// up makes it run.
func (d *daemon) up() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted {
		d.wanted = true
		d.keeping.Go(d.keep)
	}
}

// again is the pause before one that could not begin is started again.
const again = 500 * time.Millisecond

func (d *daemon) keep() {
	for d.start() {
		err := d.cmd.Wait() // nobody else sets cmd
		d.mu.Lock()
		d.cmd, d.err = nil, err
		wanted := d.wanted
		d.mu.Unlock()
		if wanted && (d.served.Load() || !d.hopeful) {
			d.t.Errorf("%s ended by itself: %v", d.name, err)
		}
		if wanted {
			time.Sleep(again)
		}
	}
}

// start starts the process, if it is wanted.
func (d *daemon) start() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted {
		return false
	}
	d.served.Store(false)
	cmd := d.command()
	if err := cmd.Start(); err != nil {
		d.t.Errorf("start %s: %v", d.name, err)
		return false
	}
	d.cmd = cmd
	fmt.Fprintf(d.log, "---- %s begins, process %d\n", d.name, cmd.Process.Pid)
	return true
}

// kill kills it, whatever it does, and returns when it is gone.
func (d *daemon) kill() { d.finish(syscall.SIGKILL) }

// end ends it in good order, and says how it ended.
func (d *daemon) end() error {
	d.finish(syscall.SIGINT)
	return d.err
}

func (d *daemon) finish(s syscall.Signal) {
	d.mu.Lock()
	d.wanted = false
	d.mu.Unlock()
	d.signal(s)
	d.keeping.Wait()
}

// signal sends it a signal, if it runs.
func (d *daemon) signal(s syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return
	}
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Logf("signal %v to %s: %v", s, d.name, err)
	}
}

// last is the end of what it printed.
func (d *daemon) last() string {
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}
