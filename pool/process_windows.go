package pool

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup keeps Ctrl-C in our console from the program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills the process alone: Windows knows no groups in this sense.
func killGroup(p *os.Process) { p.Kill() }

// readNow finds nothing: on Windows a pipe can't be asked without waiting.
func readNow(*os.File, []byte) (int, error) { return 0, nil }

const hasLimits = false

func (*process) confine(*Command) error       { return nil }
func (*process) limitCPU(time.Duration) error { return errors.ErrUnsupported }

// awaitEnd can't wait for the end of a process without taking it from the system.
func awaitEnd(*os.Process) bool { return false }
