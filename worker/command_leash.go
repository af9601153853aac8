package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// Leash holds the commands that run on it, so that a process that must end at once leaves none of
// them behind. On Linux they are killed even when the process is: by the kernel, each when the
// thread that started it ends. (So a program that ends threads of its own, by goroutines that end
// while locked to one, may lose commands on a leash.) The zero value is ready. Its methods may be
// called at the same time.
type Leash struct {
	// Guard, when not nil, is told of the commands' process groups, for somebody who outlives this
	// process and then kills what it left behind: a line +N before the group N begins, and -N when
	// it has ended. Its errors change nothing, but commands wait for it to be told. Set it first.
	Guard io.Writer
	// Starter, when not empty, is a program with its first arguments that stands where a command
	// is to run until Guard was told of it, in place of the shell that does so else: a shell does
	// not hand on variables whose names are none of its own, as a.b, so a command that has some
	// gets this one. It is given the command's path and arguments, waits for a line on file
	// descriptor 3, closes it and becomes the command (execve), or ends when there is no line. Set
	// it first.
	Starter []string

	telling sync.Mutex // held while Guard is told, for its order; not with mu: it may take long

	mu      sync.Mutex
	killed  bool
	running map[*os.Process]struct{}
}

// errKilled is why a command did not start.
var errKilled = errors.New("the worker is being killed")

// Kill kills the process groups of all commands on the leash (SIGKILL; on Windows the commands
// alone), and lets no other start. Their handlers return as soon as they notice; nobody need wait
// for them.
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
	dieWithUs(cmd)
	begin := func() {}
	if l.Guard != nil { // what a command starts before its group is known would outlive us
		var err error
		if begin, err = held(cmd, l.Starter); err != nil {
			return err
		}
	}
	defer begin()
	if err := l.hold(cmd); err != nil {
		return err
	}
	l.tell(cmd.Process.Pid)
	return nil
}

// hold starts cmd unless Kill was called, which kills it from then on.
func (l *Leash) hold(cmd *exec.Cmd) error {
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

// end waits until cmd ends, kills what is left of its group, and takes it from the leash. Where the
// system lets us, that is before its number is free for others: a group that has it then is not
// ours.
func (l *Leash) end(cmd *exec.Cmd) {
	early := awaitEnd(cmd.Process)
	if !early {
		cmd.Wait() // its error repeats what ProcessState says
	}
	killGroup(cmd.Process)
	l.drop(cmd.Process)
	if early {
		cmd.Wait()
	}
}

// drop takes a command that has ended from the leash.
func (l *Leash) drop(p *os.Process) {
	if l == nil {
		return
	}
	l.mu.Lock()
	delete(l.running, p)
	l.mu.Unlock()
	l.tell(-p.Pid)
}

// tell tells the guard of a group. It waits for as long as the guard does not read.
func (l *Leash) tell(group int) {
	if l.Guard == nil {
		return
	}
	l.telling.Lock()
	defer l.telling.Unlock()
	fmt.Fprintf(l.Guard, "%+d\n", group)
}
