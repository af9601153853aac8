package api

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/task"
)

func TestWrongSealsAreThrottledAndLogged(t *testing.T) {
	f := newFake()
	var log bytes.Buffer
	secret := seal.Secret{Key: [32]byte{1}}
	a := newAPI(t, f, func(c *Config) {
		c.Tokens, c.Secret, c.Log = testTokens(t), secret, slog.New(slog.NewTextHandler(&log, nil))
	})
	report := func(token task.Token) string {
		body := fmt.Sprintf(`{"worker":"w1","reports":[{"id":%q,"token":%q,"outcome":"done"}]}`,
			idOf(1), token)
		_, text := ask(t, a, "POST /v1/tasks/report", body, "Authorization: Bearer worker-token")
		return text
	}
	for i := range 3 * wrongAtOnce {
		report(task.Token{Span: 5, SpanToken: 1, Seal: uint64(i), Owner: 1})
	}
	if asked := len(f.changed()); asked < wrongAtOnce || asked > 2*wrongAtOnce {
		// the engine answers as it would otherwise
		t.Errorf("the engine was asked of %d made-up tokens", asked)
	}
	if n := strings.Count(
		log.String(), "never given out",
	); n != 1 || !strings.Contains(log.String(), "caller=w1") {
		t.Errorf("%d lines in the log: %s", n, &log)
	}
	if text := report(
		seal.NewSealer(secret).Seal(task.Token{Span: 5, SpanToken: 1}, idOf(1), "w1"),
	); !strings.Contains(text, "recorded") {
		t.Errorf("a good one is answered %s", text)
	}
}

func TestWrongTokensAreThrottledAndLoggedAndLockNobodyOut(t *testing.T) {
	var log bytes.Buffer
	a := newAPI(t, newFake(), func(c *Config) {
		c.Tokens, c.Log = testTokens(t), slog.New(slog.NewTextHandler(&log, nil))
	})
	got := map[int]int{}
	for range 5 * wrongAtOnce {
		response, _ := ask(t, a, "GET /v1/tasks", "", "Authorization: Bearer guess")
		got[response.StatusCode]++
		if response.StatusCode == 429 && response.Header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
	}
	if got[401] < wrongAtOnce || got[401] > 2*wrongAtOnce || got[429] != 5*wrongAtOnce-got[401] {
		t.Errorf("answered %v", got)
	}
	if response, _ := ask(
		t, a, "GET /v1/tasks", "", "Authorization: Bearer viewer-token",
	); response.StatusCode != 200 {
		t.Errorf("a good token from the same address: %d", response.StatusCode)
	}
	if response, _ := ask(t, a, "GET /v1/tasks", ""); response.StatusCode != 401 {
		t.Errorf("no token at all: %d", response.StatusCode)
	}
	if n := strings.Count(log.String(), "calls refused"); n != 2 ||
		strings.Contains(log.String(), "guess") {
		t.Errorf("%d lines in the log: %s", n, &log)
	}
}

func TestThrottleIsBounded(t *testing.T) {
	var x throttle
	now := moment
	address := func(i int) netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	for i := range mostAddresses {
		if !x.mayErrAt(address(i), now) {
			t.Fatalf("the first of address %d is one too many", i)
		}
	}
	for i := range 2 * wrongAtOnce { // they share one
		if may := x.mayErrAt(address(mostAddresses+i), now); may != (i < wrongAtOnce) {
			t.Errorf("of the others the %dth: %v", i, may)
		}
	}
	if len(x.wrongs) != mostAddresses {
		t.Errorf("%d addresses are kept", len(x.wrongs))
	}
	if x.mayErrAt(address(1<<19), now.Add(time.Millisecond)); !x.swept.Equal(now) {
		t.Error("the table is gone over for each call of an address that has no place in it")
	}
	if now = now.Add(2 * wrongEvery); !x.mayErrAt(address(1<<20), now) || len(x.wrongs) != 1 {
		t.Errorf("%d addresses are kept when all had time", len(x.wrongs))
	}
	for range wrongAtOnce {
		x.mayErrAt(address(7), now)
	}
	if x.mayErrAt(address(7), now) || !x.mayErrAt(address(7), now.Add(wrongEvery)) ||
		x.mayErrAt(address(7), now.Add(wrongEvery)) {
		t.Error("an address is not given one a second")
	}
	for remote, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "[::ffff:10.0.0.1]:80": "10.0.0.1",
		"[2001:db8:1:2:3::4]:80": "2001:db8:1:2::", "[fe80::1%eth0]:1": "fe80::", "@": "invalid IP",
	} {
		if got := networkOf(remote).String(); got != want {
			t.Errorf("%s comes from %s, want %s", remote, got, want)
		}
	}
}
