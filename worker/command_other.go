//go:build !linux

package worker

import (
	"os"
	"os/exec"
)

// dieWithUs does nothing: only Linux kills a process when its parent dies.
func dieWithUs(*exec.Cmd) {}

// awaitEnd can't wait for the end of a process without taking it from the system.
func awaitEnd(*os.Process) bool { return false }
