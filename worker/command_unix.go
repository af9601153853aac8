//go:build unix

package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// ownGroup makes the command the leader of a process group, so that what it starts can be stopped
// with it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// terminate asks the command's group to end.
func terminate(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// killGroup kills what is left of the command's group; often nothing is.
func killGroup(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
}

// held has a program stand where the command is to run, which becomes the command when begin is
// called, and ends when we do before: a shell, which starts soonest, or what is given to start
// commands that a shell would take variables from.
func held(cmd *exec.Cmd, starter []string) (begin func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if cmd.Err == nil { // the program was found
		stand := []string{"/bin/sh", "-c", `read -r rota_begin <&3 && exec "$0" "$@" 3<&-`}
		if len(starter) > 0 && slices.ContainsFunc(cmd.Env, noShellVariable) {
			stand = starter
		}
		cmd.Args = slices.Concat(stand, []string{cmd.Path}, cmd.Args[1:])
		cmd.Path, cmd.ExtraFiles = stand[0], []*os.File{r}
	}
	return func() {
		r.Close()
		w.WriteString("\n") // in vain when it did not start, or is dead already
		w.Close()
	}, nil
}

// noShellVariable tells whether a shell would not hand a variable on: the name of one has letters,
// digits and underscores only, and no digit first.
func noShellVariable(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	for i, c := range []byte(name) {
		digit := '0' <= c && c <= '9'
		if c != '_' && !('a' <= c|0x20 && c|0x20 <= 'z') && (!digit || i == 0) {
			return true
		}
	}
	return name == ""
}
