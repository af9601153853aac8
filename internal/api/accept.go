package api

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// acceptLoggedEvery bounds how often connections that could not be accepted are logged.
const acceptLoggedEvery = 10 * time.Second

// Listener is a listener whose failures to accept connections are logged, as when the process has
// no file descriptors left: net/http tries again in silence, and callers only see that nobody
// answers.
func Listener(l net.Listener, log *slog.Logger) net.Listener {
	return &listener{Listener: l, log: log}
}

type listener struct {
	net.Listener
	log *slog.Logger

	mu       sync.Mutex
	logged   time.Time
	unlogged int // failures since then
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.note(err, time.Now())
	}
	return c, err
}

func (l *listener) note(err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.logged.IsZero() && now.Sub(l.logged) < acceptLoggedEvery {
		l.unlogged++
		return
	}
	l.log.Error("can't accept connections", "address", l.Addr().String(), "error", err,
		"not logged before", l.unlogged)
	l.logged, l.unlogged = now, 0
}
