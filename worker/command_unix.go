//go:build unix

package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// held has a shell stand where the command is to run, which becomes the command when begin is
// called, and ends when we do before.
func held(cmd *exec.Cmd) (begin func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if cmd.Err == nil { // the program was found
		cmd.Args = append([]string{"sh", "-c", `read -r rota_begin <&3 && exec "$0" "$@" 3<&-`,
			cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.ExtraFiles = "/bin/sh", []*os.File{r}
	}
	return func() {
		r.Close()
		w.WriteString("\n") // in vain when it did not start, or is dead already
		w.Close()
	}, nil
}
