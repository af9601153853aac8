package api

import (
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Caller stands in the input of calls that are done in somebody's name. It is exported for huma.
type Caller struct {
	who  principal
	from string // address
	w    *answer
}

// Resolve finds out who calls.
func (c *Caller) Resolve(ctx huma.Context) []error {
	_, w := humago.Unwrap(ctx)
	c.w = w.(*answer)
	c.who, c.from = c.w.who, c.w.from
	return nil
}

// key is what the caller is told from others by: the name of its token, or, without tokens, its
// address.
func (c *Caller) key() string {
	if c.who.Name == "" || c.who.Name == anonymous.Name {
		return c.from
	}
	return string(c.who.Role) + " " + c.who.Name
}

// addressOf is where a call comes from, without the port. Behind a proxy that is the proxy.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return host
}

// maxFollowsEach is how many of the streams of server-sent events one caller may have, so that it
// leaves some to others.
const maxFollowsEach = 64

// follows are the streams that are under way.
type follows struct {
	limit, limitEach int

	mu   sync.Mutex
	all  int
	each map[string]int // by caller; those that have one
}

// begin takes a place for a stream; refused, it says why.
func (f *follows) begin(caller string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.each[caller] >= f.limitEach:
		p := busy("this caller has too many streams open")
		p.Detail += ", when another of its streams has ended"
		return p
	case f.all >= f.limit:
		return busy("too many streams are open")
	}
	if f.each == nil {
		f.each = map[string]int{}
	}
	f.all++
	f.each[caller]++
	return nil
}

// open is how many there are.
func (f *follows) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

func (f *follows) end(caller string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	if f.each[caller]--; f.each[caller] == 0 {
		delete(f.each, caller)
	}
}
