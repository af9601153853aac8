package worker

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownGroup makes the command the leader of a console process group, so that Ctrl-Break reaches it
// and not us.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// terminate asks the command's group to end.
func terminate(p *os.Process) error {
	if err := windows.GenerateConsoleCtrlEvent(
		windows.CTRL_BREAK_EVENT, uint32(p.Pid),
	); err != nil {
		return p.Kill() // no console to ask through
	}
	return nil
}

// killGroup does nothing: Windows knows no signal for what a process left behind.
func killGroup(*os.Process) {}

// held does nothing: a guard could end nothing here but the command itself.
func held(*exec.Cmd, []string) (begin func(), err error) { return func() {}, nil }
