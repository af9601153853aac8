//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
)

func notifyResize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }

// suspend stops this process as ctrl+z does, until somebody lets it go on.
func suspend() {
	// to the group, as the terminal would: a shell waits for all of it; refused, nothing stops
	syscall.Kill(0, syscall.SIGTSTP)
}
