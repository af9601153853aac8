package hook

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// request is a call with these headers.
func request(body string, headers map[string]string) Request {
	return Request{Body: []byte(body), Header: func(name string) string {
		for k, v := range headers {
			if strings.EqualFold(k, name) {
				return v
			}
		}
		return ""
	}}
}

// made is a hook as it stands in a store.
func made(h store.Hook) *store.Hook {
	Complete(&h)
	return &h
}

// vector is a call that its sender's own documentation, or its library's test, has with its
// signature.
type vector struct {
	name    string
	hook    store.Hook
	headers map[string]string
	body    string
	at      int64
}

var vectors = []vector{
	{
		name: "GitHub's documentation",
		hook: store.Hook{
			Scheme: "github", Secrets: []store.Secret{"It's a Secret to Everybody"},
		},
		headers: map[string]string{
			"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		},
		body: "Hello, World!",
	},
	{
		name: "Slack's documentation",
		hook: store.Hook{
			Scheme: "slack", Secrets: []store.Secret{"8f742231b10e8888abcd99yyyzzz85a5"},
		},
		headers: map[string]string{
			"X-Slack-Request-Timestamp": "1531420618",
			"X-Slack-Signature":         "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
		},
		body: "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow" +
			"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner" +
			"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F" +
			"commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=" +
			"398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
		at: 1531420618,
	},
	{
		name: "the reference libraries of Standard Webhooks",
		hook: store.Hook{
			Scheme: Standard, Secrets: []store.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		},
		headers: map[string]string{
			"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
			"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		},
		body: `{"test": 2432232314}`, at: 1614265330,
	},
	{
		name: "Svix's libraries, of several signatures",
		hook: store.Hook{
			Scheme: Standard, Secrets: []store.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		},
		headers: map[string]string{
			"svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp": "1614265330",
			"svix-signature": "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= " +
				"v2,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= " +
				"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		},
		body: `{"test": 2432232314}`, at: 1614265330,
	},
	{
		name: "RFC 4231, test case 2",
		hook: store.Hook{Scheme: plain, Header: "X-Mac", Secrets: []store.Secret{"Jefe"}},
		headers: map[string]string{
			"X-Mac": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		},
		body: "what do ya want for nothing?",
	},
	{
		name: "the same in base64, with a prefix",
		hook: store.Hook{
			Scheme: plain, Prefix: "HMAC ", Header: "Authorization", Secrets: []store.Secret{"Jefe"},
		},
		headers: map[string]string{
			"Authorization": "HMAC W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
		},
		body: "what do ya want for nothing?",
	},
	{
		name: "the same in the base64 of URLs",
		hook: store.Hook{Scheme: plain, Secrets: []store.Secret{"Jefe"}},
		headers: map[string]string{
			"X-Signature": "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM",
		},
		body: "what do ya want for nothing?",
	},
}

func TestVectorsOfSendersAreRight(t *testing.T) {
	for _, v := range vectors {
		if !Verify(made(v.hook), request(v.body, v.headers), time.Unix(v.at, 0)) {
			t.Errorf("that of %s is wrong", v.name)
		}
	}
}

const body = `{"id":"evt_1","order":{"id":7},"event_id":"Ev1"}`

var (
	now    = time.Unix(1790000000, 0)
	secret = store.Secret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24)))
	other  = store.Secret("whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 24)))
)

// each calls f with a hook of each scheme, and the headers of a call that is right.
func each(t *testing.T, f func(t *testing.T, h *store.Hook, set map[string]string)) {
	for _, scheme := range Schemes() {
		t.Run(scheme, func(t *testing.T) {
			h := made(store.Hook{Scheme: scheme, Secrets: []store.Secret{secret}})
			set, err := Sign(h, secret, "id-1", []byte(body), now)
			if err != nil {
				t.Fatal(err)
			}
			if !Verify(h, request(body, set), now) {
				t.Fatalf("what was signed is wrong: %v", set)
			}
			f(t, h, set)
		})
	}
}

func TestOnlyWhatASecretHasSignedIsRight(t *testing.T) {
	each(t, func(t *testing.T, h *store.Hook, set map[string]string) {
		wrong := func(what string, h *store.Hook, r Request, at time.Time) {
			t.Helper()
			if Verify(h, r, at) {
				t.Errorf("%s: it is right", what)
			}
		}
		with := func(secrets ...store.Secret) *store.Hook {
			c := *h
			c.Secrets = secrets
			return &c
		}
		wrong("another secret", with(other), request(body, set), now)
		wrong("no secret", with(), request(body, set), now)
		wrong("an empty secret", with(""), request(body, set), now)
		wrong("nothing signed", h, request(body, nil), now)
		for i := range 8 * len(body) {
			b := []byte(body)
			b[i/8] ^= 1 << (i % 8)
			wrong("a bit of the body", h, request(string(b), set), now)
		}
		wrong("a longer body", h, request(body+" ", set), now)
		wrong("a shorter body", h, request(body[1:], set), now)
		proof := slices.Concat(schemes[h.Scheme].proof, []string{h.Header})
		for name, value := range set {
			if !slices.Contains(proof, name) {
				continue
			}
			for i := range value {
				c := maps.Clone(set)
				c[name] = value[:i] + value[i+1:]
				wrong("without a character of "+name, h, request(body, c), now)
			}
			c := maps.Clone(set)
			c[name] = ""
			wrong("without "+name, h, request(body, c), now)
		}
		for _, secrets := range [][]store.Secret{{other, secret}, {secret, other}} {
			if !Verify(with(secrets...), request(body, set), now) {
				t.Error("one of two secrets: it is wrong")
			}
		}
	})
}

func TestATimeThatIsSignedIsNear(t *testing.T) {
	each(t, func(t *testing.T, h *store.Hook, set map[string]string) {
		dated := schemes[h.Scheme].dated
		for _, c := range []struct {
			at   time.Time
			want bool
		}{
			{now.Add(5 * time.Minute), true}, {now.Add(-5 * time.Minute), true},
			{now.Add(5*time.Minute + time.Millisecond), !dated},
			{now.Add(-5*time.Minute - time.Millisecond), !dated},
			{now.Add(20 * 365 * 24 * time.Hour), !dated}, {time.Unix(0, 0), !dated},
		} {
			if got := Verify(h, request(body, set), c.at); got != c.want {
				t.Errorf("%v later: %v", c.at.Sub(now), got)
			}
		}
	})
}

// A time that is signed and no number must not be taken for now, nor one that wraps around.
func TestATimeThatIsNoneIsWrong(t *testing.T) {
	h := made(store.Hook{Scheme: "slack", Secrets: []store.Secret{secret}})
	for _, at := range []string{"", "x", "-1", "1e9", "9223372036854775807", "18446744073709551616"} {
		set := map[string]string{}
		schemes["slack"].write(h, set, "", at, macOf([]byte(secret), "v0:"+at+":", []byte(body)))
		for _, now := range []time.Time{now, {}, time.Unix(-1<<40, 0)} {
			if Verify(h, request(body, set), now) {
				t.Errorf("the time %q is right", at)
			}
		}
	}
}

func TestNobodySignsForTheDecoy(t *testing.T) {
	for _, v := range vectors {
		if Verify(Decoy(), request(v.body, v.headers), time.Unix(v.at, 0)) {
			t.Errorf("%s: a call of a hook that there is not is let in", v.name)
		}
	}
	set, at := map[string]string{}, "1790000000"
	mac := macOf(nil, "id."+at+".", []byte(body))
	schemes[Standard].write(Decoy(), set, "id", at, mac)
	d := Decoy()
	d.Tolerance = time.Hour
	if Verify(d, request(body, set), now) {
		t.Error("the empty key is one")
	}
}

func FuzzVerify(f *testing.F) {
	for i, v := range vectors {
		for _, value := range v.headers {
			f.Add(uint8(i), value, v.headers["webhook-timestamp"], "id", []byte(v.body))
		}
	}
	f.Add(uint8(3), "t=1,v1=,v1", "", "", []byte("{"))
	f.Fuzz(func(t *testing.T, n uint8, signature, at, id string, body []byte) {
		scheme := Schemes()[int(n)%len(schemes)]
		h := made(store.Hook{
			Scheme: scheme, Secrets: []store.Secret{secret}, Name: "h", Queue: "q",
			GroupKey: "/a/0", Headers: []string{"X-Id"},
		})
		r := Request{Body: body, Header: func(name string) string {
			switch {
			case strings.HasSuffix(name, "Timestamp"):
				return at
			case strings.HasSuffix(name, "Id"), strings.HasSuffix(name, "Delivery"):
				return id
			}
			return signature
		}}
		if Verify(h, r, now) {
			t.Errorf("%q of %q is right", signature, body)
		}
		checkDelivery(t, h, r)
	})
}

func BenchmarkVerify(b *testing.B) {
	h := made(store.Hook{Scheme: "github", Secrets: []store.Secret{secret}})
	text := strings.Repeat("x", 8<<10)
	set, err := Sign(h, secret, "id", []byte(text), now)
	if err != nil {
		b.Fatal(err)
	}
	r := request(text, set)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !Verify(h, r, now) {
			b.Fatal("it is wrong")
		}
	}
}
