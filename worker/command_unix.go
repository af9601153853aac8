//go:build unix

package worker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group, so that what it starts can be stopped with it.
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
