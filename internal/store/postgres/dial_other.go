//go:build !linux

package postgres

import (
	"net"
	"time"
)

// dialer makes connections that notice, idle ones within limit, when nobody is at the other end any
// more.
func dialer(limit time.Duration) *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: limit / 2, Interval: limit / 4, Count: 2,
		},
	}
}
