package api

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// Server is an HTTP server for Handler with every limit set; whoever calls it serves, and shuts it
// down.
func (a *API) Server() *http.Server {
	s := &http.Server{
		Handler:           a.Handler(),
		ReadHeaderTimeout: a.conf.HeaderWithin,
		IdleTimeout:       a.conf.Idle,
		MaxHeaderBytes:    maxHeader - 4096, // net/http reads 4 KiB more than it is told
		ErrorLog:          slog.NewLogLogger(a.conf.Log.Handler(), slog.LevelDebug),
	}
	fresh := &fresh{conns: map[net.Conn]struct{}{}}
	s.ConnState = fresh.note
	s.RegisterOnShutdown(a.close)
	s.RegisterOnShutdown(fresh.close)
	return s
}

// fresh are connections on which nothing was asked yet. A server that shuts down would wait five
// seconds for their first request, and clients often open one more than they use.
type fresh struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (f *fresh) note(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state == http.StateNew {
		f.conns[c] = struct{}{}
	} else {
		delete(f.conns, c)
	}
}

func (f *fresh) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close() // nobody waits on it
	}
}
