package worker

import (
	"errors"
	"os"
	"os/exec"
	"sync"
)

// Leash holds the commands that run on it, so that a process that must end at once leaves none of them behind. The zero value
// is ready. Its methods may be called at the same time.
type Leash struct {
	mu      sync.Mutex
	killed  bool
	running map[*os.Process]struct{}
}

// errKilled is why a command did not start.
var errKilled = errors.New("the worker is being killed")

// Kill kills the process groups of all commands on the leash (SIGKILL; on Windows the commands alone), and lets no other start.
// Their handlers return as soon as they notice; nobody need wait for them.
func (l *Leash) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed = true
	for p := range l.running {
		killGroup(p)
		p.Kill() // where there are no groups; elsewhere it is dead already
	}
}

// start starts cmd on the leash; without one it just starts it.
func (l *Leash) start(cmd *exec.Cmd) error {
	if l == nil {
		return cmd.Start()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killed {
		return errKilled
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if l.running == nil {
		l.running = make(map[*os.Process]struct{})
	}
	l.running[cmd.Process] = struct{}{}
	return nil
}

// drop takes a command that has ended from the leash.
func (l *Leash) drop(p *os.Process) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, p)
}
