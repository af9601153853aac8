package api

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// What one address may get wrong: so often at once, and then once in so long. And how many
// addresses are told apart: the others share one allowance.
const (
	wrongAtOnce   = 20
	wrongEvery    = time.Second
	mostAddresses = 4096
	loggedEvery   = 10 * time.Second // at most one line in so long
)

// throttle counts what callers get wrong (access tokens, seals), by the address that they come
// from. It slows down who guesses and keeps the log short; it decides over nothing that is right,
// so nobody is locked out because of others behind the same address.
type throttle struct {
	mu     sync.Mutex
	wrongs map[netip.Addr]*allowance
	others allowance // of addresses that the table has no room for
	swept  time.Time // when those that have all of their allowance were last looked for

	said   time.Time // when the log was last told
	unsaid int       // how often it was not told since
}

// allowance is a token bucket, kept as the time at which it is full again.
type allowance struct{ full time.Time }

func (l *allowance) take(now time.Time) bool {
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Add(wrongEvery).Sub(now) > wrongAtOnce*wrongEvery {
		return false
	}
	l.full = l.full.Add(wrongEvery)
	return true
}

// mayErr counts something wrong from an address ("host:port") and tells whether that was within
// what it may get wrong.
func (t *throttle) mayErr(remote string) bool { return t.mayErrAt(networkOf(remote), time.Now()) }

func (t *throttle) mayErrAt(from netip.Addr, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.wrongs[from]
	if l == nil && len(t.wrongs) >= mostAddresses && now.Sub(t.swept) >= wrongEvery {
		t.swept = now // not for each call of many addresses: all others wait meanwhile
		for other, o := range t.wrongs {
			if !o.full.After(now) {
				delete(t.wrongs, other)
			}
		}
	}
	switch {
	case l == nil && len(t.wrongs) >= mostAddresses:
		l = &t.others
	case l == nil:
		l = &allowance{}
		if t.wrongs == nil {
			t.wrongs = map[netip.Addr]*allowance{}
		}
		t.wrongs[from] = l
	}
	return l.take(now)
}

// note logs what an address got wrong, unless the log was told a moment ago; then the next line
// says how often it was not.
func (t *throttle) note(log *slog.Logger, what, remote string, more ...any) {
	now := time.Now()
	t.mu.Lock()
	quiet := now.Sub(t.said) < loggedEvery && !t.said.IsZero()
	unsaid := t.unsaid
	if quiet {
		t.unsaid++
	} else {
		t.said, t.unsaid = now, 0
	}
	t.mu.Unlock()
	if !quiet {
		log.Warn(what,
			append([]any{"from", networkOf(remote).String(), "not logged before", unsaid},
				more...)...)
	}
}

// networkOf is where a call comes from, for counting; of IPv6 the network, since a caller has all
// of its addresses. Zero when it is unknown.
func networkOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		network, _ := a.Prefix(64) // an address of IPv6 has one
		a = network.Addr()
	}
	return a
}
