//go:build !linux

package worker

import "os/exec"

// dieWithUs does nothing: only Linux kills a process when its parent dies.
func dieWithUs(*exec.Cmd) {}
