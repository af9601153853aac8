package api

import (
	"net"
	"net/http"
	"net/netip"

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
