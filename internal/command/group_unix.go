//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command the leader of a process group, which is killed with it. What is left of
// the group is killed by the function that is returned.
func ownGroup(cmd *exec.Cmd) (killRest func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	return func() {
		if cmd.Process != nil {
			_ = kill() // often nothing is left
		}
	}
}
