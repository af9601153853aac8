package notify

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/rotahq/rota/internal/store"
)

// toOwner stands among a notifier's addresses for the owner of what an event is about.
const toOwner = "owner"

// Owned names what may have an owner.
type Owned struct {
	Kind OwnedKind
	Name string
}

// OwnedKind is a kind of what may have an owner.
type OwnedKind string

// What may have an owner.
const (
	OwnedQueue    OwnedKind = "queue"
	OwnedGroup    OwnedKind = "group"
	OwnedSchedule OwnedKind = "schedule"
)

// ownedBy is what an event is about, of what may have an owner; a zero Owned is nothing.
func ownedBy(e *store.Event) Owned {
	kind, _, _ := strings.Cut(strings.TrimPrefix(e.Kind, "audit."), ".")
	switch kind {
	case "queue":
		return Owned{OwnedQueue, e.Subject}
	case "schedule":
		return Owned{OwnedSchedule, e.Subject}
	case "group", "jobs", "source", "workers":
		return Owned{OwnedGroup, e.Subject}
	case "capacity": // of a queue or of a group
		if group := e.Fields["group"]; group != "" {
			return Owned{OwnedGroup, group}
		}
		return Owned{OwnedQueue, e.Fields["queue"]}
	case "job": // of a group: what a caller did to one names the job, and its group beside it
		if group := e.Fields["group"]; group != "" {
			return Owned{OwnedGroup, group}
		}
		return Owned{OwnedGroup, e.Subject}
	case "worker": // what its loss is for a group is about the group
		if worker := e.Fields["worker"]; worker != "" && worker != e.Subject {
			return Owned{OwnedGroup, e.Subject}
		}
	}
	return Owned{}
}

// errNobody is why a message went nowhere, which is no trouble: a notifier of owners only, and what
// the event is about has none that mail can be sent to.
var errNobody = errors.New("nobody to send to: nothing that the event is about has an owner with " +
	"a mail address")

// mail sends a message to a notifier's addresses and, if it says so, to the owner of what it is
// about: in one letter, so that a failure repeats it for none of them. An owner's address that the
// server refuses is passed over: at once, or, if the server may take it later, when it has not done
// so for as long as a notifier may fail untold. Whoever wrote it must not keep other owners from
// theirs.
func (s *Sender) mail(ctx context.Context, n *store.Notifier, m message) error {
	to := slices.DeleteFunc(slices.Clone(n.To), func(a string) bool { return a == toOwner })
	var owners []string
	if len(to) < len(n.To) {
		var err error
		if owners, err = s.owners(ctx, &m.event); err != nil {
			return err
		}
		owners = slices.DeleteFunc(owners, func(o string) bool {
			return slices.ContainsFunc(to, func(a string) bool { return sameMailbox(a, o) })
		})
	}
	if len(to)+len(owners) == 0 {
		return errNobody
	}
	err := s.out.mail(ctx, n, slices.Concat(to, owners), m)
	var refused *recipientError
	if len(owners) == 0 || !errors.As(err, &refused) || refused.later && !s.overdue(n) {
		return err
	}
	if len(to) > 0 { // perhaps it was one of these that was refused
		if err := s.out.mail(ctx, n, to, m); err != nil {
			return err
		}
	}
	s.conf.Log.Warn("owner gets no mail", "notifier", n.Name, "event", m.event.Seq, "about",
		m.event.Subject, "error", err)
	return nil
}

// sameMailbox tells whether two addresses lead to the same place, whatever names stand before them.
func sameMailbox(a, b string) bool {
	x, err := mail.ParseAddress(a)
	y, err2 := mail.ParseAddress(b)
	return err == nil && err2 == nil && strings.EqualFold(x.Address, y.Address)
}

// overdue tells whether the notifier's message could not be delivered for so long that it is told.
func (s *Sender) overdue(n *store.Notifier) bool {
	return n.Served.Failing > 0 &&
		time.Now().UnixMicro()-n.Served.Failing >= s.conf.Dead.Microseconds()
}

// owners are the addresses of the owner of what an event is about: a text in which people write one
// address, several, or only a name.
func (s *Sender) owners(ctx context.Context, e *store.Event) ([]string, error) {
	of := ownedBy(e)
	if of.Name == "" || s.conf.Owner == nil {
		return nil, nil
	}
	text, err := s.conf.Owner(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("look up the owner of %s %q: %w", of.Kind, of.Name, err)
	}
	list, err := mail.ParseAddressList(text)
	if err != nil { // a name
		return nil, nil
	}
	var addresses []string
	for _, a := range list[:min(len(list), maxRecipients)] {
		addresses = append(addresses, a.String())
	}
	return addresses, nil
}

// recipientError says that a mail server takes the letter, but not for all whom it is to.
type recipientError struct {
	text  string
	later bool // it may take it later
}

func (e *recipientError) Error() string { return e.text }

// recipient is the error that shows text if err is a server's answer about whom a letter is to,
// else nil: a connection that broke when they were named says nothing of them.
func recipient(err error, text string) error {
	var of *gomail.SendError
	if !errors.As(err, &of) || of.Reason != gomail.ErrSMTPRcptTo ||
		of.ErrorCode() == 0 {
		return nil
	}
	return &recipientError{text, of.IsTemp()}
}
