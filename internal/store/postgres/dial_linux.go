package postgres

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialer makes connections that notice within limit when nobody is at the other end any more.
func dialer(limit time.Duration) *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: limit / 2, Interval: limit / 4, Count: 2,
		},
		Control: func(network, _ string, c syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			var refused error
			err := c.Control(func(fd uintptr) {
				refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
					int(limit.Milliseconds()))
			})
			if err != nil {
				return err
			}
			return refused
		},
	}
}
