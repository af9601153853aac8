package worker

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel kill the command when we are killed.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
