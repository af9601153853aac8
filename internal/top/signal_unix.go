//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func notifyResize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }

// stopsWithin is how long a process that was told to stop may go on: the signal reaches it a
// moment after it was sent. Without anybody who could let it go on it never stops.
const stopsWithin = 300 * time.Millisecond

// suspend stops this process as ctrl+z does, and returns when somebody has let it go on.
func suspend() {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	// to the group, as the terminal would: a shell waits for all of it
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-goesOn:
	case <-time.After(stopsWithin):
	}
}
