package notify

import (
	"fmt"
	"maps"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Kinds of notifiers.
const (
	kindEmail   = "email"
	kindWebhook = "webhook"
	kindSubmit  = "submit"
	kindRun     = "run"
)

// Limits of a notifier.
const (
	maxPatterns   = 100 // kinds, and subjects
	maxRecipients = 50
	maxTemplate   = 16 << 10 // bytes
	maxSecret     = 2048     // bytes of each
)

// complete fills in what was left out.
func complete(n *store.Notifier) {
	if n.Kind == kindWebhook && n.Format == "" {
		n.Format = "generic"
	}
	if n.Kind == kindEmail && n.TLS == "" {
		host, port, _ := net.SplitHostPort(n.Server)
		switch {
		case local(host):
			n.TLS = tlsNone
		case port == "465":
			n.TLS = tlsImplicit
		default:
			n.TLS = tlsStart
		}
	}
}

// local tells whether a host is this machine.
func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// check says everything that is wrong with a notifier, with what rendered answers for it. It shows
// no secret. Stores call it inside a transaction, so it renders nothing.
func check(n *store.Notifier, body error) error {
	var e task.InvalidError
	if !limits.ValidName(n.Name) {
		e.Add("path.name", "%.40q %s", n.Name, limits.NameRule)
	}
	checkPatterns(&e, "body.on", n.On)
	checkPatterns(&e, "body.subjects", n.Subjects)
	if len(n.On) == 0 {
		e.Add("body.on", `must name kinds of events, as in "node.*"; "*" means all`)
	}
	switch n.Kind {
	case kindWebhook:
		checkWebhook(&e, n, body)
	case kindEmail:
		checkEmail(&e, n)
	case kindSubmit:
		if !limits.ValidName(n.Queue) {
			e.Add("body.queue", "%.40q %s", n.Queue, limits.NameRule)
		}
	case kindRun:
		limits.CheckCommand(&e, "body.command", n.Command)
	default:
		e.Add("body.kind", "must be %s, %s, %s or %s", kindEmail, kindWebhook, kindSubmit, kindRun)
		return e.Err()
	}
	unused(&e, n)
	return e.Err()
}

// unused says what was given that means nothing for the notifier's kind.
func unused(e *task.InvalidError, n *store.Notifier) {
	given := map[string]struct {
		kind string
		is   bool
	}{
		"server": {kindEmail, n.Server != ""}, "tls": {kindEmail, n.TLS != ""},
		"user":     {kindEmail, n.User != ""},
		"password": {kindEmail, n.Secrets.Password != ""},
		"from":     {kindEmail, n.From != ""}, "to": {kindEmail, len(n.To) > 0},
		"url":      {kindWebhook, n.Secrets.URL != ""},
		"secret":   {kindWebhook, n.Secrets.Key != ""},
		"format":   {kindWebhook, n.Format != ""},
		"template": {kindWebhook, n.Template != ""}, "chat": {kindWebhook, n.Chat != ""},
		"queue":   {kindSubmit, n.Queue != ""},
		"command": {kindRun, len(n.Command) > 0},
	}
	for _, field := range slices.Sorted(maps.Keys(given)) {
		if f := given[field]; f.is && f.kind != n.Kind {
			e.Add("body."+field, "means nothing for kind %s", n.Kind)
		}
	}
}

func checkPatterns(e *task.InvalidError, at string, list []string) {
	if len(list) > maxPatterns {
		e.Add(at, "must be at most %d", maxPatterns)
	}
	for i, p := range list[:min(len(list), maxPatterns)] {
		if start := strings.TrimSuffix(p, "*"); p == "" || !limits.ValidText(p, limits.MaxKey) ||
			strings.Contains(start, "*") {
			e.Add(fmt.Sprintf("%s[%d]", at, i), "must be a name, or the beginning of one and a *")
		}
	}
}

func checkWebhook(e *task.InvalidError, n *store.Notifier, body error) {
	to, err := url.Parse(string(n.Secrets.URL))
	switch {
	case n.Secrets.URL == "":
		e.Add("body.url", "is missing")
	case err != nil, to.Scheme != "https" &&
		to.Scheme != "http", to.Hostname() == "", to.User != nil, to.Fragment != "",
		len(n.Secrets.URL) > maxSecret:
		e.Add("body.url",
			"must be an http or https URL with a host, without user and fragment, of at most %d bytes",
			maxSecret)
	case !validPort(to.Port(), true):
		e.Add("body.url", "has a port that is none")
	}
	f, known := formats[n.Format]
	if !known {
		e.Add("body.format", "must be one of %s",
			strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
		return
	}
	if n.Secrets.Key != "" {
		switch {
		case f.sign != signHeaders:
			if len(n.Secrets.Key) > maxSecret {
				e.Add("body.secret", "must be at most %d bytes", maxSecret)
			}
		default:
			if _, err := hook.ParseKey(string(n.Secrets.Key)); err != nil {
				e.Add("body.secret", "%v", err)
			}
		}
	}
	if !limits.ValidText(n.Chat, limits.MaxKey) || (n.Chat != "") != (n.Format == "telegram") {
		e.Add("body.chat", "must be the chat's id for format telegram, and left out for others")
	}
	switch {
	case len(n.Template) > maxTemplate:
		e.Add("body.template", "must be at most %d bytes", maxTemplate)
	case body != nil:
		e.Add("body.template", "%v", body)
	}
}

// rendered tries a notifier's template, which needs none of its secrets.
func rendered(n *store.Notifier) error {
	f, known := formats[n.Format]
	if n.Kind != kindWebhook || !known || len(n.Template) > maxTemplate {
		return nil
	}
	_, err := f.render(n, sample(n), "", "")
	return err
}

// sample is a message with everything in it that could break out of a template.
func sample(n *store.Notifier) message {
	return messageOf(n, &store.Event{
		Seq: 1, Time: 1, Kind: "node.offline", Subject: `a"b\c`, Text: "\"}\n\\<&>\u2028",
		Fields: map[string]string{`k"`: `v"`},
	}, time.Unix(0, 0))
}

func checkEmail(e *task.InvalidError, n *store.Notifier) {
	host, port, err := net.SplitHostPort(n.Server)
	if err != nil || host == "" || !limits.ValidText(host, 255) ||
		strings.ContainsAny(host, " /@") ||
		!validPort(port, false) {
		e.Add("body.server", "must be HOST:PORT, as in mail.example.com:587")
	}
	switch n.TLS {
	case tlsStart, tlsImplicit, tlsNone:
	default:
		e.Add("body.tls", "must be %s, %s or %s", tlsStart, tlsImplicit, tlsNone)
	}
	if !limits.ValidText(n.User, limits.MaxKey) {
		e.Add("body.user", "must be at most %d bytes of printable UTF-8", limits.MaxKey)
	}
	if (n.User == "") != (n.Secrets.Password == "") {
		e.Add("body.password",
			"comes with a user, and a user with a password; for another server or user it must be given again")
	}
	if len(n.Secrets.Password) > maxSecret {
		e.Add("body.password", "must be at most %d bytes", maxSecret)
	}
	checkAddress(e, "body.from", n.From)
	if len(n.To) == 0 || len(n.To) > maxRecipients {
		e.Add("body.to", "must be 1 to %d addresses, or %q", maxRecipients, toOwner)
	}
	for i, to := range n.To[:min(len(n.To), maxRecipients)] {
		if to == toOwner {
			continue
		}
		checkAddress(e, fmt.Sprintf("body.to[%d]", i), to)
	}
}

func checkAddress(e *task.InvalidError, at, address string) {
	if _, err := mail.ParseAddress(address); err != nil || !limits.ValidText(address, 320) {
		e.Add(at, "must be an e-mail address, as in ann@example.com or Ann <ann@example.com>")
	}
}

func validPort(port string, optional bool) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" && optional || err == nil && n > 0
}
