//go:build unix && !linux

package pool

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup makes the program the leader of a process group, so that what it starts is killed with
// it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// hasLimits: only Linux sets the limits of a process that runs already.
const hasLimits = false

func (*process) confine(*Command) error       { return nil }
func (*process) limitCPU(time.Duration) error { return errors.ErrUnsupported }

// awaitEnd can't wait for the end of a process without taking it from the system.
func awaitEnd(*os.Process) bool { return false }
