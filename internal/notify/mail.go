package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	netmail "net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/rotahq/rota/internal/store"
)

// How a connection to a mail server is protected.
const (
	tlsStart    = "starttls" // required: without it nothing is sent
	tlsImplicit = "implicit" // from the first byte, as on port 465
	tlsNone     = "none"     // not at all; a password is sent only by methods that do not show it
)

// mail sends a message by e-mail, in one letter to all who are named.
func (o *outgoing) mail(ctx context.Context, n *store.Notifier, to []string, m message) error {
	letter, err := letterOf(n, to, m)
	if err != nil {
		return hide(n, err)
	}
	client, err := o.mailer(ctx, n)
	if err != nil {
		return hide(n, fmt.Errorf("reach %s: %w", n.Server, err))
	}
	// What goes wrong once the server has taken the letter, as when it closes the connection before
	// it is told goodbye, is no reason to send it again.
	if err := client.DialAndSendWithContext(ctx, letter); err != nil && !letter.IsDelivered() {
		hidden := hide(n, fmt.Errorf("send by %s: %w", n.Server, err))
		return cmp.Or(recipient(err, hidden.Error()), hidden)
	}
	return nil
}

// mailer is a client of the notifier's mail server, whose connections end with ctx.
func (o *outgoing) mailer(ctx context.Context, n *store.Notifier) (*mail.Client, error) {
	host, service, err := net.SplitHostPort(n.Server)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, err
	}
	protection := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: o.roots}
	policy := map[string]mail.TLSPolicy{tlsStart: mail.TLSMandatory,
		tlsImplicit: mail.TLSOpportunistic, tlsNone: mail.NoTLS}[n.TLS]
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(o.dialer.Timeout), mail.WithTLSPolicy(policy),
		mail.WithTLSConfig(protection), mail.WithoutNoop(),
		mail.WithDialContextFunc(func(dialling context.Context, network, address string) (net.Conn,
			error) {
			conn, err := o.dialer.DialContext(dialling, network, address)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, func() { conn.Close() }) // whatever it is at
			if n.TLS != tlsImplicit {
				return conn, nil
			}
			secured := tls.Client(conn, protection)
			return secured, secured.HandshakeContext(dialling)
		}),
	}
	if n.User != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(n.User), mail.WithPassword(string(n.Secrets.Password)))
	}
	return mail.NewClient(host, options...)
}

// letterOf writes the e-mail of an event.
func letterOf(n *store.Notifier, to []string, m message) (*mail.Msg, error) {
	letter := mail.NewMsg()
	if err := letter.From(n.From); err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if err := letter.To(to...); err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	letter.Subject("[rota] " + cut(printable([]byte(m.title())), 150))
	letter.SetDateWithValue(m.now)
	letter.SetMessageIDWithValue(fmt.Sprintf("%s.%s@%s", m.id, url.QueryEscape(n.Name),
		domainOf(n.From)))
	// so that nothing answers by itself: RFC 3834
	letter.SetGenHeader("Auto-Submitted", "auto-generated")
	letter.SetBodyString(mail.TypeTextPlain, letterText(&m.event))
	return letter, nil
}

func letterText(e *store.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\r\n\r\n", printable([]byte(e.Text)))
	line := func(name, value string) {
		fmt.Fprintf(&b, "%s: %s\r\n", printable([]byte(name)), printable([]byte(value)))
	}
	line("event", fmt.Sprintf("%d, %s", e.Seq, e.Kind))
	line("about", e.Subject)
	line("time", time.UnixMicro(e.Time).UTC().Format(timeForm))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		line(name, e.Fields[name])
	}
	return b.String()
}

// domainOf is the domain of an address; an at sign in the name before it, or in what it quotes, is
// not the one that counts.
func domainOf(address string) string {
	if a, err := netmail.ParseAddress(address); err == nil {
		address = a.Address
	}
	return cmp.Or(address[strings.LastIndexByte(address, '@')+1:], "rota")
}
