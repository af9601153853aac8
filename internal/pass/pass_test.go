package pass

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestPassIsGoodForOneCallAtOneNodeForAMoment(t *testing.T) {
	key, other := []byte("0123456789abcdef0123456789abcdef"),
		[]byte("0123456789abcdef0123456789abcdeg")
	now := time.UnixMilli(1_800_000_000_000)
	from, at := Pass{"a", key}, Pass{"b", key}
	const body = `{"force":false}`
	for name, c := range map[string]struct {
		change func(r *http.Request)
		by     Pass
		late   time.Duration
		want   bool
	}{
		"the call":               {want: true},
		"a clock that is behind": {late: -Window, want: true},
		"the end of the window":  {late: Window, want: true},
		"after it":               {late: Window + time.Millisecond},
		"before it":              {late: -Window - time.Millisecond},
		"another node":           {by: Pass{"c", key}},
		"another store":          {by: Pass{"b", other}},
		"another method":         {change: func(r *http.Request) { r.Method = "DELETE" }},
		"another call": {change: func(r *http.Request) {
			r.RequestURI = "/v1/nodes/n2/drain?here=true"
		}},
		"another query": {change: func(r *http.Request) {
			r.RequestURI = "/v1/nodes/n1/drain?here=false"
		}},
		"another body":          {change: carrying(`{"force":true}`)},
		"no body":               {change: carrying("")},
		"a longer body":         {change: carrying(body + " ")},
		"a body without an end": {change: carrying(body + strings.Repeat(" ", maxBody))},
		"another sender":        {change: edited("Rota-Node a ", "Rota-Node c ")},
		"another time":          {change: edited(" 1800000000000 ", " 1800000000001 ")},
		"another scheme":        {change: edited("Rota-Node", "Bearer")},
		"a MAC that is cut": {change: func(r *http.Request) {
			h := r.Header["Authorization"]
			h[0] = h[0][:len(h[0])-2]
		}},
		"no number": {change: edited(" 1800000000000 ", " ")},
		"a MAC that is no base64": {change: func(r *http.Request) {
			r.Header.Set("Authorization", "Rota-Node a 1800000000000 x ===")
		}},
		"nothing": {change: func(r *http.Request) {
			r.Header.Del("Authorization")
		}},
	} {
		r := httptest.NewRequest("POST", "/v1/nodes/n1/drain?here=true", strings.NewReader(body))
		from.Show(r, "b", []byte(body), now)
		if c.change != nil {
			c.change(r)
		}
		if c.by.Node == "" {
			c.by = at
		}
		node, _, ok := c.by.Check(r, now.Add(c.late))
		if ok != c.want || ok && node != "a" {
			t.Errorf("%s: %q, %v, want %v", name, node, ok, c.want)
		}
		if rest, _ := io.ReadAll(r.Body); ok && string(rest) != body {
			t.Errorf("%s: the handler reads %q", name, rest)
		}
	}
}

func TestPassOfANodeWhoseNameIsNotASCIIIsSentInASCII(t *testing.T) {
	key, now := []byte("0123456789abcdef0123456789abcdef"), time.UnixMilli(1_800_000_000_000)
	for _, name := range []string{"节点-1", "عقدة", "a:b@c+d", "café"} {
		r := httptest.NewRequest("GET", "/v1/workers/%E9%82%AE", nil)
		Pass{name, key}.Show(r, "邮", nil, now)
		for _, c := range []byte(r.Header.Get("Authorization")) {
			if c <= ' '-1 || c > '~' {
				t.Fatalf("the header is %q", r.Header.Get("Authorization"))
			}
		}
		if node, _, ok := (Pass{"邮", key}).Check(r, now); !ok || node != name {
			t.Errorf("%q is read as %q, %v", name, node, ok)
		}
	}
}

func carrying(body string) func(*http.Request) {
	return func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(body)) }
}

func edited(old, now string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, now, 1))
	}
}

func TestUsedPassesAreRememberedAsLongAsTheyAreGood(t *testing.T) {
	mac := func(n int) (m [sha256.Size]byte) {
		binary.LittleEndian.PutUint64(m[:], uint64(n))
		return m
	}
	var u Used
	at := time.Now()
	const step = Window / 10
	for i := range 200 {
		if !u.First(mac(i), at) {
			t.Fatalf("pass %d was used before", i)
		}
		for back := range min(i, 20) { // 2 windows
			if u.First(mac(i-back), at) {
				t.Fatalf("pass %d is taken again %v later", i-back, time.Duration(back)*step)
			}
		}
		at = at.Add(step)
	}
	if n := len(u.now) + len(u.old); n > 50 {
		t.Errorf("%d passes are remembered", n)
	}
	for i := range 2 * maxUsed {
		u.First(mac(1000+i), at)
	}
	if n := len(u.now) + len(u.old); n > 2*maxUsed || u.First(mac(-1), at) {
		t.Errorf("%d passes are remembered", n)
	}
	if !u.First(mac(-1), at.Add(3*Window)) {
		t.Error("none is taken any more")
	}
}

func FuzzPassOfStrangersIsRefused(f *testing.F) {
	f.Add("Rota-Node a 1800000000000 AAAA AAAA", "/v1/nodes")
	f.Add("Rota-Node  ", "")
	f.Fuzz(func(t *testing.T, header, target string) {
		r := &http.Request{
			Method: "GET", RequestURI: target, Header: http.Header{"Authorization": {header}},
		}
		if node, _, ok := (Pass{"b", []byte("key")}).Check(
			r, time.UnixMilli(1_800_000_000_000),
		); ok {
			t.Errorf("%q passed as %q", header, node)
		}
	})
}
