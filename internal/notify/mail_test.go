package notify

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http/httptest"
	"net/mail"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/rotahq/rota/internal/store"
)

const password = "hunter2-pässword"

// mailbox is a mail server in this process.
type mailbox struct {
	mu      sync.Mutex
	letters []letter
	logins  []string
	refuse  error
	unknown map[string]error // whom it takes no letters for, and why
}

type letter struct {
	from string
	to   []string
	text string
}

// got are the letters that arrived, and who logged in.
func (m *mailbox) got() ([]letter, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.letters), slices.Clone(m.logins)
}

// session is one connection to a mailbox.
type session struct {
	*mailbox
	letter
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{mailbox: m}, nil }

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, word string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logins = append(s.logins, user)
		if user != "rota" || word != password {
			return &smtp.SMTPError{Code: 535, Message: "wrong password " + word}
		}
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuse
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unknown[to]; err != nil {
		return err
	}
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	s.text = string(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letters = append(s.letters, s.letter)
	return err
}

func (s *session) Reset()        { s.to = nil }
func (s *session) Logout() error { return nil }

// certificate is one for 127.0.0.1, and what to check it against.
func certificate() (tls.Certificate, *x509.CertPool) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.TLS.Certificates[0], roots
}

// openMailbox starts a mail server that speaks as tls says: starttls, implicit, or none.
func openMailbox(
	t *testing.T, protection string,
) (m *mailbox, server string, roots *x509.CertPool) {
	t.Helper()
	m = &mailbox{}
	s := smtp.NewServer(m)
	s.Domain, s.AllowInsecureAuth = "test", true
	cert, roots := certificate()
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	switch protection {
	case tlsStart:
		s.TLSConfig = conf
	case tlsImplicit:
		l = tls.NewListener(l, conf)
	}
	var group sync.WaitGroup
	group.Go(func() { s.Serve(l) })
	t.Cleanup(func() {
		l.Close() // s knows it only when Serve has begun
		s.Close()
		group.Wait()
	})
	return m, address, roots
}

func mailTo(server, protection string) store.Notifier {
	return store.Notifier{
		Name: "ops", Kind: kindEmail, On: []string{"*"}, Server: server, TLS: protection,
		User: "rota", From: "Rota <rota@example.com>",
		To:      []string{"ann@example.com", "Bob <bob@example.com>"},
		Secrets: store.Secrets{Password: password},
	}
}

func deliverMail(
	t *testing.T, n store.Notifier, e store.Event, roots *x509.CertPool, private []netip.Prefix,
) error {
	t.Helper()
	o := newOutgoing(private, roots, 5*time.Second)
	defer o.close()
	return o.mail(t.Context(), &n, n.To, messageOf(&n, &e, moment))
}

func TestMailIsDeliveredUnderEachProtection(t *testing.T) {
	for _, protection := range []string{tlsStart, tlsImplicit, tlsNone} {
		t.Run(protection, func(t *testing.T) {
			box, server, roots := openMailbox(t, protection)
			n := mailTo(server, protection)
			if protection == tlsNone { // no password goes over an open connection
				n.User, n.Secrets.Password = "", ""
			}
			if err := deliverMail(t, n, offline(), roots, loopback); err != nil {
				t.Fatal(err)
			}
			letters, _ := box.got()
			if len(letters) != 1 {
				t.Fatalf("%d letters", len(letters))
			}
			got := letters[0]
			if got.from != "rota@example.com" ||
				!slices.Equal(got.to, []string{"ann@example.com", "bob@example.com"}) {
				t.Errorf("envelope %+v", got)
			}
			parsed, err := mail.ReadMessage(strings.NewReader(got.text))
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{
				"Subject": "[rota] node.offline n2", "Message-Id": "<evt-42.ops@example.com>",
				"Auto-Submitted": "auto-generated",
				"Date":           "Sat, 21 Nov 2026 08:30:00 +0000",
				"To":             `<ann@example.com>, "Bob" <bob@example.com>`,
			} {
				if got := parsed.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			body, err := io.ReadAll(parsed.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`node n2 <went> away & said "nothing" its lease ended`,
				"event: 42, node.offline", "about: n2", "time: 2026-11-21T08:30:00.123Z",
				"token: 7"} {
				if !strings.Contains(string(body), want) {
					t.Errorf("%q is not in %s", want, body)
				}
			}
		})
	}
}

func TestHeadersOfMailAreASCIIWhateverThingsAreCalled(t *testing.T) {
	box, server, roots := openMailbox(t, tlsStart)
	n := mailTo(server, tlsStart)
	n.Name = "值班@夜"
	e := offline()
	e.Subject = "邮件 طلبات"
	if err := deliverMail(t, n, e, roots, loopback); err != nil {
		t.Fatal(err)
	}
	letters, _ := box.got()
	head, _, _ := strings.Cut(letters[0].text, "\r\n\r\n")
	if i := strings.IndexFunc(head, func(r rune) bool { return r > unicode.MaxASCII }); i >= 0 {
		t.Errorf("the header is not ASCII at %d: %q", i, head)
	}
	parsed, err := mail.ReadMessage(strings.NewReader(letters[0].text))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if err != nil || subject != "[rota] node.offline 邮件 طلبات" {
		t.Errorf("the subject is read as %q, %v", subject, err)
	}
	if id := parsed.Header.Get("Message-Id"); strings.Count(id, "@") != 1 {
		t.Errorf("message id %q", id)
	}
}

func TestNothingIsSentOverAnOpenConnectionUnlessToldSo(t *testing.T) {
	open, server, roots := openMailbox(t, tlsNone)
	for _, protection := range []string{tlsStart, tlsImplicit} {
		n := mailTo(server, protection)
		n.User, n.Secrets.Password = "", "" // it would not be the password that fails
		if err := deliverMail(t, n, offline(), roots, loopback); err == nil {
			t.Errorf("%s: delivered", protection)
		}
	}
	if err := deliverMail(t, mailTo(server, tlsNone), offline(), roots, loopback); err == nil {
		t.Error("a password went over an open connection")
	}
	foreign, server, _ := openMailbox(t, tlsStart)
	if err := deliverMail(t, mailTo(server, tlsStart), offline(), nil, loopback); err == nil {
		t.Error("a certificate that nobody vouches for was believed")
	}
	for _, box := range []*mailbox{open, foreign} {
		if letters, logins := box.got(); len(letters) != 0 || len(logins) != 0 {
			t.Errorf("letters %v, logins %v", letters, logins)
		}
	}
}

func TestMailServersOnPrivateAddressesAreNotReachedUnlessAllowed(t *testing.T) {
	box, server, roots := openMailbox(t, tlsStart)
	err := deliverMail(t, mailTo(server, tlsStart), offline(), roots, nil)
	if letters, _ := box.got(); err == nil || !strings.Contains(err.Error(), "no public address") ||
		len(letters) != 0 {
		t.Errorf("%v, letters %v", err, letters)
	}
}

func TestNoMailErrorShowsThePassword(t *testing.T) {
	box, server, roots := openMailbox(t, tlsStart)
	n := mailTo(server, tlsStart)
	box.mu.Lock()
	box.refuse = errors.New("no " + password)
	box.mu.Unlock()
	err := deliverMail(t, n, offline(), roots, loopback)
	if err == nil || strings.Contains(err.Error(), password) ||
		strings.Contains(fmt.Sprintf("%#v", err), password) {
		t.Errorf("%v", err)
	}
	n.Secrets.Password = "wrong-password" // this server repeats it
	err = deliverMail(t, n, offline(), roots, loopback)
	if err == nil || strings.Contains(err.Error(), "wrong-password") ||
		!strings.Contains(err.Error(), "535") {
		t.Errorf("%v", err)
	}
}

func FuzzNoEventAddsALineToAMailsHeader(f *testing.F) {
	f.Add("node.offline", "n2\r\nBcc: eve@example.com", "text\r\n.\r\nMAIL FROM:<eve>",
		"field\r\nX: y")
	f.Add("=?utf-8?q?x?=", "☃\x00\u2028", "\xff", "")
	f.Fuzz(func(t *testing.T, kind, subject, text, field string) {
		e := store.Event{
			Seq: 1, Time: 1, Kind: kind, Subject: subject, Text: text, Fields: map[string]string{
				field: text,
			},
		}
		n := mailTo("mail:25", tlsStart)
		l, err := letterOf(&n, n.To, messageOf(&n, &e, moment))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if _, err := l.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		parsed, err := mail.ReadMessage(strings.NewReader(b.String()))
		if err != nil {
			t.Fatalf("%v: %s", err, b.String())
		}
		known := []string{
			"Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From",
			"Message-Id", "Mime-Version", "Subject", "To", "User-Agent", "X-Mailer",
		}
		for name := range parsed.Header {
			if !slices.Contains(known, name) {
				t.Errorf("header %q", name)
			}
		}
		title, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
		if err != nil || strings.ContainsFunc(title, unicode.IsControl) || len(title) > 200 {
			t.Errorf("subject %q, %v", title, err)
		}
	})
}

// A Message-ID is an address: what stands before the address of the sender is no part of it.
func TestMessageIDsEndWithTheSendersDomain(t *testing.T) {
	for from, want := range map[string]string{
		"ann@example.com": "example.com", "Ann <ann@example.com>": "example.com",
		`"ann@home" <ann@example.com>`: "example.com", `"a@b"@example.com`: "example.com",
		"ann@example.com (Ann)": "example.com",
	} {
		if got := domainOf(from); got != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
}

// curtServer takes letters, and closes the connection once it has one, or is told a verb.
func curtServer(t *testing.T, end string, letters *atomic.Int32) (server string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(c net.Conn) {
		defer c.Close()
		fmt.Fprint(c, "220 test\r\n")
		for in := bufio.NewScanner(c); in.Scan(); {
			switch verb, _, _ := strings.Cut(in.Text(), " "); verb {
			case end:
				return
			case "DATA":
				fmt.Fprint(c, "354 go on\r\n")
				for in.Scan() && in.Text() != "." {
				}
				letters.Add(1)
				fmt.Fprint(c, "250 taken\r\n")
				return
			default:
				fmt.Fprint(c, "250 fine\r\n")
			}
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		group.Wait()
	})
	return l.Addr().String()
}

func TestLetterThatWasTakenIsNotSentAgain(t *testing.T) {
	var letters atomic.Int32
	n := mailTo(curtServer(t, "", &letters), tlsNone)
	n.User, n.Secrets.Password = "", ""
	if err := deliverMail(t, n, offline(), nil, loopback); err != nil || letters.Load() != 1 {
		t.Errorf("%v, %d letters", err, letters.Load())
	}
}
