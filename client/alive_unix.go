//go:build unix

package client

import (
	"net"
	"syscall"
)

// alive tells whether an idle connection is still good: nothing has come, and the other side has
// not closed it.
func alive(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	good := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		good = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true // whatever it was, don't wait for more
	})
	return err == nil && good
}
