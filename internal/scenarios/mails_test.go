//go:build scenarios && unix

package scenarios

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/emersion/go-smtp"
	"github.com/rogpeppe/go-internal/testscript"
)

// mailbox is a mail server that writes down what it gets.
type mailbox struct {
	mu   sync.Mutex
	file *os.File
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &delivery{mailbox: m}, nil }

// delivery is a connection to a mailbox.
type delivery struct {
	*mailbox
	to []string
}

func (d *delivery) Mail(string, *smtp.MailOptions) error { return nil }

func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	d.to = append(d.to, to)
	return nil
}

func (d *delivery) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = fmt.Fprintf(d.file, "delivered to %s\n%s\n", strings.Join(d.to, ", "), text)
	return err
}

func (d *delivery) Reset()        { d.to = nil }
func (d *delivery) Logout() error { return nil }

// mails opens a mail server; $NAME is where it listens, and what it gets is in the file NAME.
func mails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mails NAME")
	}
	file, err := os.Create(filepath.Join(sceneOf(ts).folder, args[0]))
	ts.Check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := smtp.NewServer(&mailbox{file: file})
	server.Domain = "test"
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	ts.Defer(func() {
		if err := server.Close(); err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			ts.Logf("close the mail server: %v", err)
		}
		<-ended
		file.Close()
	})
	ts.Setenv(args[0], l.Addr().String())
}
