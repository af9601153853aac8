package notify

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
)

var loopback = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
}

// taken is a request as a receiver saw it.
type taken struct {
	header http.Header
	url    string
	body   string
}

// receive starts a server that notes requests and answers as it is told.
func receive(t *testing.T, answer http.HandlerFunc) (address string, got func() []taken) {
	t.Helper()
	var list []taken
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		list = append(list, taken{r.Header, r.URL.String(), string(b)})
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []taken {
		server.Close() // whoever writes to list is done
		return list
	}
}

func sendTo(t *testing.T, n store.Notifier, private []netip.Prefix) error {
	t.Helper()
	o := newOutgoing(private, nil, 5*time.Second)
	defer o.close()
	e := offline()
	return o.post(t.Context(), &n, messageOf(&n, &e, moment))
}

func TestWebhookCarriesWhatItsReceiverChecks(t *testing.T) {
	raw := strings.Repeat("k", 32)
	address, got := receive(t, nil)
	n := store.Notifier{
		Name: "ops", Format: "generic", Secrets: store.Secrets{
			URL: store.Secret(address + "/in?x=1"),
			Key: store.Secret("whsec_" + base64.StdEncoding.EncodeToString([]byte(raw))),
		},
	}
	for range 2 { // the same event twice
		if err := sendTo(t, n, loopback); err != nil {
			t.Fatal(err)
		}
	}
	n.Secrets.Key = ""
	if err := sendTo(t, n, loopback); err != nil {
		t.Fatal(err)
	}
	all := got()
	r := all[0]
	want := "v1," + mac([]byte(raw), fmt.Sprintf("evt-42.%d.%s", moment.Unix(), r.body))
	if h := r.header; h.Get("webhook-id") != "evt-42" ||
		h.Get("webhook-timestamp") != fmt.Sprint(moment.Unix()) ||
		h.Get("webhook-signature") != want ||
		h.Get("content-type") != "application/json; charset=utf-8" || r.url != "/in?x=1" ||
		r.body != string(bodyOf(t, "generic", offline(), "")) {
		t.Errorf("got %+v, want signature %s", r, want)
	}
	if all[1].header.Get("webhook-id") != "evt-42" {
		t.Errorf("the same event comes again as %s", all[1].header.Get("webhook-id"))
	}
	if s := all[2].header.Get("webhook-signature"); s != "" {
		t.Errorf("signed %q without a key", s)
	}
}

func TestChatsGetTheSignaturesTheyDocument(t *testing.T) {
	address, got := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"errcode":0,"code":0}`)
	})
	for _, format := range []string{"dingtalk", "feishu"} {
		n := store.Notifier{
			Format: format, Secrets: store.Secrets{
				URL: store.Secret(address + "/robot/send?access_token=t"), Key: "SECabc",
			},
		}
		if err := sendTo(t, n, loopback); err != nil {
			t.Fatal(err)
		}
	}
	all := got()
	u, err := url.Parse(all[0].url)
	if err != nil {
		t.Fatal(err)
	}
	millis := fmt.Sprint(moment.UnixMilli())
	if q := u.Query(); q.Get("access_token") != "t" || q.Get("timestamp") != millis ||
		q.Get("sign") != mac([]byte("SECabc"), millis+"\nSECabc") {
		t.Errorf("dingtalk: %s", all[0].url)
	}
	seconds := fmt.Sprint(moment.Unix())
	if want := fmt.Sprintf(
		`{"timestamp":"%s","sign":"%s",`, seconds, mac([]byte(seconds+"\nSECabc"), ""),
	); !strings.HasPrefix(all[1].body, want) {
		t.Errorf("feishu: %s, want %s", all[1].body, want)
	}
}

func TestRefusalsSayWhyAndHowLongToWait(t *testing.T) {
	const token = "T00/B00/secret-token"
	for _, c := range []struct {
		format string
		status int
		answer string
		want   string
	}{
		{"slack", 403, "no_service", "it answered 403 Forbidden: no_service"},
		{"slack", 500, "", "it answered 500 Internal Server Error"},
		{"slack", 404, "nothing at /" + token + "?q=secret-query here",
			"it answered 404 Not Found: nothing at … here"},
		{"slack", 400, "a\x1b[31m\r\nb\xff", "it answered 400 Bad Request: a [31m  b�"},
		{"slack", 302, "", "it answered 302 Found: redirects are not followed"},
		{"generic", 429, strings.Repeat("x", 1000),
			"it answered 429 Too Many Requests: " + strings.Repeat("x", 200) + "…"},
		{"dingtalk", 200, `{"errcode":310000,"errmsg":"sign not match"}`,
			"it answered errcode 310000: sign not match"},
		{"wecom", 200, `{"errcode":93000,"errmsg":"invalid webhook url"}`,
			"it answered errcode 93000: invalid webhook url"},
		{"feishu", 200, `{"code":19021,"msg":"sign match fail"}`,
			"it answered code 19021: sign match fail"},
		{"feishu", 200, `{}`, "it answered code <nil>: <nil>"},
		{"wecom", 200, `hello`, "its answer is no JSON"},
		{"dingtalk", 200, `{"errcode":0,"errmsg":"ok"}`, ""},
		{"feishu", 200, `{"code":0}`, ""},
		{"telegram", 204, ``, ""},
	} {
		address, got := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			io.WriteString(w, c.answer)
		})
		err := sendTo(t,
			store.Notifier{Format: c.format,
				Secrets: store.Secrets{URL: store.Secret(address + "/" + token +
					"?q=secret-query")}}, loopback)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s %d %.40q: got %q, want %q", c.format, c.status, c.answer, text, c.want)
		}
		var refused *refusedError
		if errors.As(err, &refused) && c.status/100 != 2 && c.status != 302 &&
			refused.after != 7*time.Second {
			t.Errorf("%s %d: waits %v", c.format, c.status, refused.after)
		}
		if n := len(got()); n != 1 {
			t.Errorf("%s %d: %d calls", c.format, c.status, n)
		}
	}
}

func TestWhatAReceiverCallsItsStatusIsMadeHarmless(t *testing.T) {
	const token = "secret-token"
	for status, want := range map[string]string{
		"302 to /" + token + " \x1b[2J": "it answered 302 to …  [2J: redirects are not followed",
		"500 to /" + token + " \x1b[2J": "it answered 500 to …  [2J",
	} {
		address, _ := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
		})
		err := sendTo(t, store.Notifier{Format: "slack", Secrets: store.Secrets{
			URL: store.Secret(address + "/" + token),
		}}, loopback)
		if err == nil || err.Error() != want {
			t.Errorf("answered %q: got %q, want %q", status, err, want)
		}
	}
}

// Many servers repeat the path that they do not know. It may stand where what they say is cut.
func TestNoPartOfASecretStandsWhereAnAnswerIsCut(t *testing.T) {
	const token = "secret-token-0123456789-0123456789"
	for before := range 220 {
		for format, answer := range map[string]string{
			"slack": "%s/hooks/%s", "wecom": `{"errcode":1,"errmsg":"%s/hooks/%s"}`,
		} {
			address, _ := receive(t, func(w http.ResponseWriter, _ *http.Request) {
				if format == "slack" {
					w.WriteHeader(http.StatusNotFound)
				}
				fmt.Fprintf(w, answer, strings.Repeat("x", before), token)
			})
			err := sendTo(t, store.Notifier{Format: format, Secrets: store.Secrets{
				URL: store.Secret(address + "/hooks/" + token),
			}}, loopback)
			if err == nil || strings.Contains(err.Error(), "/h") {
				t.Fatalf("%s, behind %d bytes: %v", format, before, err)
			}
		}
	}
}

func TestNoErrorShowsTheURL(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, to := range map[string]string{
		"refused":      "http://127.0.0.1:1/secret-token?secret-query",
		"no such host": "http://nowhere.invalid/secret-token?secret-query",
		"private":      "http://10.1.2.3/secret-token?secret-query",
		"no answer":    "http://" + silent.Addr().String() + "/secret-token?secret-query",
		"no TLS":       "https://" + silent.Addr().String() + "/secret-token?secret-query",
		"no port":      "http://127.0.0.1:99999/secret-token",
		"unreadable":   "http://127.0.0.1/%zzsecret-token",
	} {
		o := newOutgoing(loopback, nil, 300*time.Millisecond)
		e := offline()
		n := store.Notifier{Format: "generic", Secrets: store.Secrets{URL: store.Secret(to)}}
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		err := o.post(ctx, &n, messageOf(&n, &e, moment))
		cancel()
		o.close()
		if err == nil || strings.HasPrefix(err.Error(), "Post ") ||
			strings.Contains(err.Error(), "secret") ||
			strings.Contains(fmt.Sprintf("%#v", err), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyPublicAddressesAreReachedUnlessAllowed(t *testing.T) {
	for _, c := range []struct {
		address string
		public  bool
	}{
		{"8.8.8.8", true}, {"1.1.1.1", true}, {"172.32.0.1", true}, {"2606:4700::1111", true},
		{"2a00:1450:4001:800::200e", true},
		{"127.0.0.1", false}, {"127.9.9.9", false}, {"10.0.0.1", false}, {"172.16.5.4", false},
		{"192.168.1.1", false}, {"169.254.169.254", false},
		{"0.0.0.0", false}, {"0.1.2.3", false}, {"100.64.0.1", false}, {"192.0.0.8", false},
		{"198.18.0.1", false}, {"224.0.0.1", false}, {"239.1.1.1", false},
		{"255.255.255.255", false}, {"240.0.0.1", false}, {"203.0.113.9", false},
		{"::1", false}, {"::", false}, {"fe80::1", false}, {"fe80::1%eth0", false},
		{"fd00::1", false}, {"fc00::1", false}, {"ff02::1", false}, {"fec0::1", false},
		{"::ffff:127.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"::ffff:8.8.8.8", true},
		{"::127.0.0.1", false}, {"64:ff9b::7f00:1", false},
		{"64:ff9b:1::a00:1", false}, {"2002:7f00:1::", false}, {"2001:0:4136:e378::1", false},
		{"2001:db8::1", false},
	} {
		network := "tcp4"
		if strings.Contains(c.address, ":") {
			network = "tcp6"
		}
		at := net.JoinHostPort(c.address, "443")
		if err := newOutgoing(nil, nil, time.Second).check(t.Context(), network, at,
			nil); (err == nil) != c.public {
			t.Errorf("%s: %v", c.address, err)
		}
		all := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		if err := newOutgoing(all, nil, time.Second).check(t.Context(), network, at,
			nil); err != nil {
			t.Errorf("%s is allowed: %v", c.address, err)
		}
	}
	for network, address := range map[string]string{"unix": "/run/x", "udp4": "8.8.8.8:53",
		"tcp4": "example.com:80"} {
		if err := newOutgoing(nil, nil, time.Second).check(
			t.Context(), network, address, nil,
		); err == nil {
			t.Errorf("%s %s is reached", network, address)
		}
	}
}

// What counts is the address that a name has when it is dialled.
func TestNamesOfPrivateAddressesAreNotReached(t *testing.T) {
	address, got := receive(t, nil)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]",
		"[::]"} {
		n := store.Notifier{
			Format: "generic", Secrets: store.Secrets{
				URL: store.Secret("http://" + host + ":" + port + "/"),
			},
		}
		if err := sendTo(t, n, nil); err == nil ||
			!strings.Contains(err.Error(), "no public address") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := len(got()); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
}

func TestHugeAnswersAreNotRead(t *testing.T) {
	address, _ := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for i := 0; i < 1<<10; i++ {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		t.Error("a gigabyte was read")
	})
	if err := sendTo(t,
		store.Notifier{Format: "generic", Secrets: store.Secrets{URL: store.Secret(address)}},
		loopback); err == nil {
		t.Error("no error")
	}
}

func TestMessageThatWasTakenIsNotSentAgainForItsAnswer(t *testing.T) {
	address, got := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.Write([]byte("fin")) // and the connection breaks
	})
	n := store.Notifier{
		Name: "ops", Format: "generic", Secrets: store.Secrets{URL: store.Secret(address)},
	}
	if err := sendTo(t, n, loopback); err != nil {
		t.Error(err)
	}
	n.Format = "wecom" // where the answer says what became of it
	if err := sendTo(t, n, loopback); err == nil || len(got()) != 2 {
		t.Errorf("%v, %d messages", err, len(got()))
	}
}
