//go:build unix && !linux

package pgtest

import "os/exec"

// startBound starts a command. Only Linux can tie its life to this process.
func startBound(cmd *exec.Cmd) error { return cmd.Start() }
