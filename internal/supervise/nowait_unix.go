//go:build unix

package supervise

import "syscall"

// noWait keeps what is opened from waiting: for the other end of a pipe, or for what a device has
// to say.
const noWait = syscall.O_NONBLOCK
