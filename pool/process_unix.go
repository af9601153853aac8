//go:build unix

package pool

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// killGroup kills the process and all of its group.
func killGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

// readNow reads what a pipe holds, without waiting for more. At the end of the pipe the error is
// io.EOF.
func readNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failure error
	err = raw.Read(func(fd uintptr) bool {
		n, failure = syscall.Read(int(fd), b)
		return true
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(failure, syscall.EAGAIN), errors.Is(failure, syscall.EINTR):
		return 0, nil
	case failure != nil:
		return 0, failure
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
