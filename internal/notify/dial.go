package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// outgoing is the way out: every connection is checked when it is dialled.
type outgoing struct {
	dialer  net.Dialer
	http    http.Client
	private []netip.Prefix
	roots   *x509.CertPool
}

func newOutgoing(private []netip.Prefix, roots *x509.CertPool, timeout time.Duration) *outgoing {
	o := &outgoing{private: private, roots: roots}
	o.dialer = net.Dialer{Timeout: timeout, ControlContext: o.check}
	o.http = http.Client{
		Transport: &http.Transport{
			DialContext:           o.dialer.DialContext,
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSHandshakeTimeout:   timeout,
			ResponseHeaderTimeout: timeout, IdleConnTimeout: time.Minute,
			// and no proxy: it would resolve names unchecked
			MaxResponseHeaderBytes: 16 << 10, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return o
}

// Client makes connections to public addresses, and to private ones in the networks that are
// allowed. It follows no redirection, and no answer may take longer to begin than the timeout.
func Client(private []netip.Prefix, timeout time.Duration) *http.Client {
	return &newOutgoing(private, nil, timeout).http
}

func (o *outgoing) close() { o.http.CloseIdleConnections() }

// forbiddenError is a connection that may not be made.
type forbiddenError struct{ addr netip.Addr }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("%v is no public address, which the node does not allow (--allow-private)",
		e.addr)
}

// check is asked by the dialer for each address that it is about to connect to: names are resolved
// by then, so that none can lead elsewhere than it did when somebody looked.
func (o *outgoing) check(_ context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%s %s is no TCP address", network, address)
	}
	if addr := to.Addr().Unmap().WithZone(""); !public(addr) &&
		!slices.ContainsFunc(o.private, func(p netip.Prefix) bool {
			return p.Contains(addr)
		}) {
		return &forbiddenError{addr}
	}
	return nil
}

// special are the networks that lead to no host of the public internet, or hide another address,
// besides those that package netip knows:
// https://www.iana.org/assignments/iana-ipv4-special-registry, …/iana-ipv6-special-registry.
var special = func() (list []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

// public tells whether an address is one of the public internet.
func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool {
			return p.Contains(a)
		})
}
