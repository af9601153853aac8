package notify

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/rotahq/rota/internal/store"
)

func TestOwnersAreOfWhatTheEventIsAbout(t *testing.T) {
	worker := map[string]string{"worker": "w1"}
	for _, c := range []struct {
		kind, subject string
		fields        map[string]string
		want          Owned
	}{
		{"queue.unserved", "mail", nil, Owned{OwnedQueue, "mail"}},
		{"audit.queue.pause", "mail", nil, Owned{OwnedQueue, "mail"}},
		{"schedule.dead", "nightly", map[string]string{"worker": "w1", "queue": "mail"},
			Owned{OwnedSchedule, "nightly"}},
		{"audit.schedule.run", "nightly", nil, Owned{OwnedSchedule, "nightly"}},
		{"capacity.short", "mail", map[string]string{"queue": "mail"}, Owned{OwnedQueue, "mail"}},
		{"capacity.short", "feeds", map[string]string{"group": "feeds"}, Owned{OwnedGroup, "feeds"}},
		{"group.short", "feeds", nil, Owned{OwnedGroup, "feeds"}},
		{"source.failed", "feeds", nil, Owned{OwnedGroup, "feeds"}},
		{"workers.silent", "feeds", nil, Owned{OwnedGroup, "feeds"}},
		{"job.quiet", "feeds", worker, Owned{OwnedGroup, "feeds"}},
		{"audit.jobs.put", "feeds", nil, Owned{OwnedGroup, "feeds"}},
		{"audit.job.delete", "j1", map[string]string{"group": "feeds"}, Owned{OwnedGroup, "feeds"}},
		{"worker.dead", "feeds", worker, Owned{OwnedGroup, "feeds"}},
		{"worker.left", "feeds", worker, Owned{OwnedGroup, "feeds"}},
		{"worker.left", "w1", worker, Owned{}},
		{"worker.silent", "w1", worker, Owned{}},
		{"audit.worker.drain", "w1", nil, Owned{}},
		{"audit.tasks.cancel", "", nil, Owned{}},
		{"node.offline", "n2", nil, Owned{}},
		{"notifier.test", "post", nil, Owned{}},
	} {
		e := store.Event{Kind: c.kind, Subject: c.subject, Fields: c.fields}
		if got := ownedBy(&e); got != c.want {
			t.Errorf("%s about %q: %v, want %v", c.kind, c.subject, got, c.want)
		}
	}
}

func TestMailGoesToTheOwner(t *testing.T) {
	gone := &smtp.SMTPError{Code: 550, Message: "no such user"}
	busy := &smtp.SMTPError{Code: 450, Message: "try again later"}
	for name, c := range map[string]struct {
		to      string // of the notifier
		owner   string
		kind    string // of the event
		unknown map[string]error
		failing time.Duration // for so long the notifier could not deliver
		want    string        // who gets a letter
		err     string
		log     string // what is said of the owner
	}{
		"an address":  {to: "owner", owner: "ana@example.com", want: "ana@example.com"},
		"with a name": {to: "owner", owner: "Ана <ana@example.com>", want: "ana@example.com"},
		"several": {to: "owner", owner: "ana@example.com, bo@example.com",
			want: "ana@example.com bo@example.com"},
		"besides others": {to: "ops@example.com owner", owner: "ana@example.com",
			want: "ops@example.com ana@example.com"},
		"who is named anyway": {to: "Ana@example.com owner", owner: "A <ana@example.com>",
			want: "Ana@example.com"},
		"a name": {to: "owner", owner: "Ана", err: "nobody to send to"},
		"nobody": {to: "owner", err: "nobody to send to"},
		"a name, besides others": {to: "ops@example.com owner", owner: "Ана",
			want: "ops@example.com"},
		"of nothing": {to: "owner", owner: "ana@example.com", kind: "node.offline",
			err: "nobody to send to"},
		"a second line": {to: "owner", owner: "ana@example.com\r\nBcc: eve@example.com",
			err: "nobody to send to"},
		"not asked for": {to: "ops@example.com", owner: "ana@example.com",
			want: "ops@example.com"},
		"refused": {to: "owner", owner: "ana@example.com",
			unknown: map[string]error{"ana@example.com": gone}, log: "owner gets no mail"},
		"refused, besides others": {to: "ops@example.com owner", owner: "ana@example.com",
			unknown: map[string]error{"ana@example.com": gone}, want: "ops@example.com",
			log: "owner gets no mail"},
		"refused for a while": {to: "ops@example.com owner", owner: "ana@example.com",
			unknown: map[string]error{"ana@example.com": busy}, err: "450"},
		"refused for too long": {to: "ops@example.com owner", owner: "ana@example.com",
			unknown: map[string]error{"ana@example.com": busy}, failing: time.Hour,
			want: "ops@example.com", log: "owner gets no mail"},
		"another is refused": {to: "ops@example.com owner", owner: "ana@example.com",
			unknown: map[string]error{"ops@example.com": gone}, err: "550"},
		"the look-up fails": {to: "ops@example.com owner", owner: "!", err: "look up the owner"},
	} {
		t.Run(name, func(t *testing.T) {
			box, server, _ := openMailbox(t, tlsNone)
			box.unknown = c.unknown
			var log strings.Builder
			s := &Sender{conf: Config{Dead: time.Hour,
				Log: slog.New(slog.NewTextHandler(&log, nil))}}
			s.conf, _ = s.conf.withDefaults()
			s.conf.Owner = func(_ context.Context, of Owned) (string, error) {
				if c.owner == "!" {
					return "", errors.New("the store is away")
				}
				return c.owner, nil
			}
			s.out = newOutgoing(loopback, nil, 5*time.Second)
			defer s.out.close()
			n := mailTo(server, tlsNone)
			n.User, n.Secrets.Password = "", ""
			n.To = strings.Fields(c.to)
			if c.failing > 0 {
				n.Served.Failing = time.Now().Add(-c.failing).UnixMicro()
			}
			e := store.Event{Seq: 7, Kind: "queue.unserved", Subject: "mail"}
			if c.kind != "" {
				e.Kind = c.kind
			}
			err := s.transmit(t.Context(), &n, messageOf(&n, &e, moment))
			if (err == nil) != (c.err == "") ||
				err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			letters, _ := box.got()
			var got []string
			for _, l := range letters {
				got = append(got, l.to...)
			}
			if len(letters) > 1 || !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("%d letters, to %v, want %q", len(letters), got, c.want)
			}
			if (log.Len() > 0) != (c.log != "") || !strings.Contains(log.String(), c.log) {
				t.Errorf("the log says %q, want %q", log.String(), c.log)
			}
		})
	}
}

// A notice that goes nowhere holds up none behind it, and a test of the notifier says why.
func TestNoticeToNobodyIsServed(t *testing.T) {
	nobody := func(context.Context, *store.Notifier, message) error { return errNobody }
	s := &Sender{conf: Config{}, send: nobody}
	s.conf, _ = s.conf.withDefaults()
	n := store.Notifier{Name: "owners", Kind: kindEmail, To: []string{toOwner}}
	if err := s.deliver(t.Context(), &n, store.Event{Seq: 1, Kind: "node.offline"}); err != nil {
		t.Error(err)
	}
}

// A connection that breaks when the recipients are named is no refusal: an owner whose address is
// good would get no letter.
func TestOwnerIsNotPassedOverWhenTheConnectionBreaks(t *testing.T) {
	for _, to := range []string{"owner", "ops@example.com owner"} {
		var letters atomic.Int32
		s := &Sender{out: newOutgoing(loopback, nil, 5*time.Second)}
		s.conf, _ = s.conf.withDefaults()
		s.conf.Owner = func(context.Context, Owned) (string, error) {
			return "ana@example.com", nil
		}
		n := mailTo(curtServer(t, "RCPT", &letters), tlsNone)
		n.User, n.Secrets.Password, n.To = "", "", strings.Fields(to)
		e := store.Event{Seq: 7, Kind: "queue.unserved", Subject: "mail"}
		err := s.transmit(t.Context(), &n, messageOf(&n, &e, moment))
		var refused *recipientError
		if err == nil || errors.As(err, &refused) {
			t.Errorf("to %s: %v", to, err)
		}
		s.out.close()
	}
}
