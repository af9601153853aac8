package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// weather is the state of the line through a proxy.
type weather struct {
	cut      bool          // connections end, new ones at once
	holdUp   bool          // what clients send does not arrive
	holdDown bool          // what the server answers does not arrive
	slow     time.Duration // every piece takes so much longer, each way
}

// proxy stands before a server on an address that stays, whatever server is behind it, and makes
// the line between bad.
type proxy struct {
	net.Listener
	wg sync.WaitGroup

	mu      sync.Mutex
	server  string
	now     weather
	changed chan struct{} // closed when now changes
	conns   map[net.Conn]bool
}

// newProxy is a proxy that ends with the test.
func newProxy(t testing.TB) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.set(weather{cut: true})
		p.wg.Wait()
	})
	return p
}

// lead makes a server the one behind it. Connections to another one stay.
func (p *proxy) lead(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// set makes the line good (the zero weather) or bad. What was held arrives when it is held no
// longer.
func (p *proxy) set(w weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = w
	close(p.changed)
	p.changed = make(chan struct{})
	if w.cut {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	}
}

func (p *proxy) state() (weather, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.changed
}

func (p *proxy) accept() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// join notes connections that a cut will end. It says no when the line is cut already.
func (p *proxy) join(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.now.cut {
			c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.now.cut
}

func (p *proxy) leave(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

// serve connects a client. One that comes while its bytes are held is accepted, and waits.
func (p *proxy) serve(client net.Conn) {
	gone := make(chan struct{})
	defer close(gone)
	if !p.join(client) || !p.wait(gone, func(w weather) bool { return w.holdUp }) {
		p.leave(client)
		return
	}
	p.mu.Lock()
	address := p.server
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		p.leave(client)
		return
	}
	defer p.leave(client, server)
	if !p.join(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.carry(server, client, func(w weather) bool { return w.holdUp }) })
	both.Go(func() { p.carry(client, server, func(w weather) bool { return w.holdDown }) })
	both.Wait()
}

// wait returns when the line no longer holds; false when it is cut, or done is closed.
func (p *proxy) wait(done <-chan struct{}, holds func(weather) bool) bool {
	for {
		now, changed := p.state()
		if now.cut || !holds(now) {
			return !now.cut
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// carry brings what comes from one end to the other, as the line allows, and then ends both.
func (p *proxy) carry(to, from net.Conn, holds func(weather) bool) {
	defer p.leave(to, from)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return
		}
		if !p.wait(nil, holds) {
			return
		}
		if now, _ := p.state(); now.slow > 0 {
			time.Sleep(now.slow)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// echo is a server that says all that it hears.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

const (
	moment = 100 * time.Millisecond // enough to see that nothing comes
	ample  = 10 * time.Second       // enough for what must come
)

// says tells whether a word comes back in time.
func says(c net.Conn, word string, patience time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(patience))
	if word != "" {
		if _, err := io.WriteString(c, word); err != nil {
			return false
		}
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err == nil
}

func TestProxyMakesTheLineBadAndGoodAgain(t *testing.T) {
	p := newProxy(t)
	p.lead(echo(t))
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := dial()
	if !says(c, "good", ample) {
		t.Fatal("a good line carries nothing")
	}
	for name, w := range map[string]weather{"up": {holdUp: true}, "down": {holdDown: true},
		"both": {holdUp: true, holdDown: true}} {
		p.set(w)
		if says(c, "held", moment) {
			t.Errorf("%s: it was not held", name)
		}
		late := dial()
		if says(late, "late", moment) {
			t.Errorf("%s: a new connection was not held", name)
		}
		p.set(weather{})
		if !says(c, "", ample) || !says(late, "", ample) {
			t.Errorf("%s: what was held did not arrive afterwards", name)
		}
	}
	p.set(weather{slow: 50 * time.Millisecond})
	if began := time.Now(); !says(c, "slow", ample) || time.Since(began) < 100*time.Millisecond {
		t.Errorf("it took %v there and back", time.Since(began))
	}
	p.set(weather{cut: true})
	if says(c, "gone", moment) || says(dial(), "gone", moment) {
		t.Error("a line that is cut carries something")
	}
	p.set(weather{})
	if says(c, "dead", moment) || !says(dial(), "good", ample) {
		t.Error("after a cut only new connections work")
	}
	p.lead(echo(t))
	if !says(dial(), "good", ample) {
		t.Error("another server is not reached")
	}
}
