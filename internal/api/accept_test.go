package api

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// exhausted is a listener of a process that has no file descriptors left, until it is closed.
type exhausted struct{ closed bool }

func (e *exhausted) Accept() (net.Conn, error) {
	if e.closed {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
}

func (e *exhausted) Close() error   { e.closed = true; return nil }
func (e *exhausted) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7700} }

func TestConnectionsThatCannotBeAcceptedAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := Listener(&exhausted{}, slog.New(slog.NewTextHandler(&log, nil)))
		for range 105 { // ten seconds and a bit
			if _, err := l.Accept(); err == nil {
				t.Fatal("a connection was accepted")
			}
			time.Sleep(101 * time.Millisecond)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l.Accept()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "127.0.0.1:7700") ||
			!strings.Contains(lines[0], syscall.EMFILE.Error()) ||
			!strings.Contains(lines[1], `"not logged before"=99`) {
			t.Errorf("the log says %q", lines)
		}
	})
}
