package pgtest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startBound starts a command that ends with this process, however this ends: a test binary that
// runs into its timeout leaves no server behind. The kernel ties the command to the thread that
// started it, so that thread is kept.
func startBound(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {} // never unlocked: the thread would be used for others, and may end
	}()
	return <-started
}
