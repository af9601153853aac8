package notify

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

func webhook() store.Notifier {
	return store.Notifier{
		Name: "ops", Kind: kindWebhook, On: []string{"*"}, Secrets: store.Secrets{
			URL: "https://hooks.example.com/secret-token",
		},
	}
}

func email() store.Notifier {
	return store.Notifier{
		Name: "ops", Kind: kindEmail, On: []string{"node.*"}, Server: "mail.example.com:587",
		User: "u", From: "rota@example.com", To: []string{"ann@example.com"},
		Secrets: store.Secrets{Password: "secret-password"},
	}
}

func TestWrongNotifiersAreRefusedWithAllThatIsWrong(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		name   string
		n      store.Notifier
		change func(*store.Notifier)
		want   string // locations
	}{
		{"webhook", webhook(), func(*store.Notifier) {}, ""},
		{"email", email(), func(*store.Notifier) {}, ""},
		{"nothing", store.Notifier{}, func(*store.Notifier) {}, "path.name body.on body.kind"},
		{"kind", webhook(), func(n *store.Notifier) { n.Kind = "sms" }, "body.kind"},
		{"on", webhook(), func(n *store.Notifier) {
			n.On = []string{"", "a*b", "a**", "x\n", "node.*", "*"}
		}, "body.on[0] body.on[1] body.on[2] body.on[3]"},
		{"many", webhook(), func(n *store.Notifier) {
			n.Subjects = make([]string, 101)
			n.Subjects[0] = "x"
		}, "body.subjects" + manyAt(" body.subjects", 1, 100)},
		{"no url", webhook(), func(n *store.Notifier) { n.Secrets.URL = "" }, "body.url"},
		{"scheme", webhook(), func(n *store.Notifier) { n.Secrets.URL = "ftp://x/" }, "body.url"},
		{"no host", webhook(), func(n *store.Notifier) {
			n.Secrets.URL = "https:///x"
		}, "body.url"},
		{"user", webhook(), func(n *store.Notifier) {
			n.Secrets.URL = "https://u:p@x/"
		}, "body.url"},
		{"port", webhook(), func(n *store.Notifier) {
			n.Secrets.URL = "https://x:99999/"
		}, "body.url"},
		{"unreadable", webhook(), func(n *store.Notifier) {
			n.Secrets.URL = "https://x/%zz"
		}, "body.url"},
		{"long url", webhook(), func(n *store.Notifier) {
			n.Secrets.URL = store.Secret("https://x/" + long)
		}, "body.url"},
		{"format", webhook(), func(n *store.Notifier) { n.Format = "irc" }, "body.format"},
		{"key", webhook(), func(n *store.Notifier) { n.Secrets.Key = "secret-key" }, "body.secret"},
		{"short key", webhook(), func(n *store.Notifier) {
			n.Secrets.Key = "whsec_c2hvcnQ="
		}, "body.secret"},
		{"dingtalk's key", webhook(), func(n *store.Notifier) {
			n.Format, n.Secrets.Key = "dingtalk", "SEC1"
		}, ""},
		{"long key", webhook(), func(n *store.Notifier) {
			n.Format, n.Secrets.Key = "feishu", store.Secret(long)
		}, "body.secret"},
		{"no chat", webhook(), func(n *store.Notifier) { n.Format = "telegram" }, "body.chat"},
		{"chat", webhook(), func(n *store.Notifier) { n.Chat = "1" }, "body.chat"},
		{"template", webhook(), func(n *store.Notifier) {
			n.Template = "{{.Text}}"
		}, "body.template"},
		{"long template", webhook(), func(n *store.Notifier) {
			n.Template = `"` + strings.Repeat(long, 6) + `"`
		}, "body.template"},
		{"mail's fields", webhook(), func(n *store.Notifier) {
			e := email()
			n.Server = e.Server
			n.TLS = tlsNone
			n.User = e.User
			n.Secrets.Password = e.Secrets.Password
			n.From = e.From
			n.To = e.To
		}, "body.from body.password body.server body.tls body.to body.user"},
		{"webhook's fields", email(), func(n *store.Notifier) {
			n.Secrets.URL = "https://secret-token/"
			n.Secrets.Key = "secret-key"
			n.Format = "slack"
			n.Template = "1"
			n.Chat = "2"
		}, "body.chat body.format body.secret body.template body.url"},
		{"no server", email(), func(n *store.Notifier) { n.Server = "" }, "body.server"},
		{"server", email(), func(n *store.Notifier) {
			n.Server = "mail.example.com"
		}, "body.server"},
		{"server's port", email(), func(n *store.Notifier) {
			n.Server = "mail.example.com:0"
		}, "body.server"},
		{"server with a line", email(), func(n *store.Notifier) {
			n.Server = "mail\r\nx:25"
		}, "body.server"},
		{"tls", email(), func(n *store.Notifier) { n.TLS = "perhaps" }, "body.tls"},
		{"no password", email(), func(n *store.Notifier) {
			n.Secrets.Password = ""
		}, "body.password"},
		{"addresses", email(), func(n *store.Notifier) {
			n.From, n.To = "nobody", []string{"a@b", "x", "a@b\r\nBcc: c@d"}
		}, "body.from body.to[1] body.to[2]"},
		{"nobody", email(), func(n *store.Notifier) { n.To = nil }, "body.to"},
	} {
		c.change(&c.n)
		complete(&c.n)
		err := check(&c.n, rendered(&c.n))
		var invalid *task.InvalidError
		var got []string
		if errors.As(err, &invalid) {
			for _, f := range invalid.Fields {
				got = append(got, f.Location)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret-") {
			t.Errorf("%s: a secret stands in %v", c.name, err)
		}
	}
}

func manyAt(at string, from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(at + "[" + string(rune('0'+i/10)) + string(rune('0'+i%10)) + "]")
	}
	return strings.NewReplacer("[0", "[").Replace(b.String())
}

func TestProtectionOfMailIsRequiredUnlessTheServerIsThisMachine(t *testing.T) {
	for server, want := range map[string]string{
		"mail.example.com:587": tlsStart, "mail.example.com:25": tlsStart,
		"mail.example.com:465": tlsImplicit, "localhost:25": tlsNone, "127.0.0.1:465": tlsNone,
		"[::1]:25": tlsNone, "localhost.example.com:25": tlsStart,
	} {
		n := email()
		n.Server = server
		if complete(&n); n.TLS != want {
			t.Errorf("%s: %s, want %s", server, n.TLS, want)
		}
	}
}

func TestSecretsStayWhereTheyBelong(t *testing.T) {
	key := store.Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	hook, mail := webhook(), email()
	hook.Secrets.Key = key
	for _, c := range []struct {
		name   string
		old    store.Notifier
		change func(*store.Notifier)
		want   store.Secrets
	}{
		{"nothing given", hook, func(n *store.Notifier) {
			n.Secrets = store.Secrets{}
		}, hook.Secrets},
		{"the same URL", hook, func(n *store.Notifier) { n.Secrets.Key = "" }, hook.Secrets},
		{"another URL", hook, func(n *store.Notifier) {
			n.Secrets = store.Secrets{URL: "https://eve/"}
		}, store.Secrets{URL: "https://eve/"}},
		{"another key", hook, func(n *store.Notifier) {
			n.Secrets = store.Secrets{Key: "k"}
		}, store.Secrets{URL: hook.Secrets.URL, Key: "k"}},
		{"other recipients", mail, func(n *store.Notifier) {
			n.Secrets, n.To = store.Secrets{}, []string{"b@c"}
		}, mail.Secrets},
		{"another server", mail, func(n *store.Notifier) {
			n.Secrets, n.Server = store.Secrets{}, "eve:25"
		}, store.Secrets{}},
		{"another user", mail, func(n *store.Notifier) {
			n.Secrets, n.User = store.Secrets{}, "eve"
		}, store.Secrets{}},
		{"no protection", mail, func(n *store.Notifier) {
			n.Secrets, n.TLS = store.Secrets{}, tlsNone
		}, store.Secrets{}},
		{"more protection", mail, func(n *store.Notifier) {
			n.Secrets, n.TLS = store.Secrets{}, tlsImplicit
		}, mail.Secrets},
		{"another kind", hook, func(n *store.Notifier) {
			*n = mail
			n.Secrets = store.Secrets{}
		}, store.Secrets{}},
	} {
		n := c.old
		complete(&c.old)
		c.change(&n)
		complete(&n)
		if got := kept(&c.old, &n); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q %q %q", c.name, string(got.URL), string(got.Key), string(got.Password))
		}
	}
}

func TestTestsAreSentAtOnceAndSayWhatIsWrong(t *testing.T) {
	s, p := model.New(time.Now), newPost()
	h, err := New(Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	var got message
	h.send = func(ctx context.Context, n *store.Notifier, m message) error {
		got = m
		return p.send(ctx, n, m)
	}
	if _, err := h.TestNotifier(t.Context(), "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
	put(t, s, "x", "nothing.that.happens")
	if trouble, err := h.TestNotifier(t.Context(), "x"); trouble != "" || err != nil ||
		got.event.Kind != "notifier.test" || !strings.HasPrefix(got.id, "test-") {
		t.Errorf("%q, %v, %+v", trouble, err, got)
	}
	p.set("x", errors.New("no route"))
	if trouble, err := h.TestNotifier(t.Context(), "x"); trouble != "no route" || err != nil {
		t.Errorf("%q, %v", trouble, err)
	}
	if at := served(t, s, "x"); at != (store.Progress{}) {
		t.Errorf("a test left %+v", at)
	}
}
