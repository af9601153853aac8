package rota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/firing"
	"github.com/rotahq/rota/internal/inbound"
	"github.com/rotahq/rota/internal/notify"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store/blob"
	"github.com/rotahq/rota/internal/store/postgres"
	"github.com/rotahq/rota/internal/store/sqlite"
	"github.com/rotahq/rota/internal/supervise"
)

// backend is what a node needs of a database, whichever it is.
type backend interface {
	dispatch.Store
	scheduler.Leases
	scheduler.Chores
	notify.Store
	inbound.Store
	supervise.Reader
	supervise.Writer
	supervise.Listener
	firing.Store
	api.History
	groups
	// the same for all nodes of the store, and unknown to others: it seals tokens
	Secret() seal.Secret
	PeerKey() []byte                                // the same; what nodes know each other by
	Durability(ctx context.Context) (string, error) // what an answered commit survives
	// listen tells what other nodes did, until ctx ends: the dispatcher of tasks, jobs of what it
	// has to do with jobs.
	listen(ctx context.Context, node string, tasks *dispatch.Dispatcher, jobs func()) error
	kind() string
	Close() error
}

// place is where Config.Store says that the tasks are: a file, or a database.
type place struct {
	file     string          // of SQLite; "" = a database
	database postgres.Config // DSN and what is to be known of the database
}

// Names of the parameters in a URL that are rota's own.
const paramPrefix = "rota_"

// parseStore reads Config.Store. Errors never show a password.
func parseStore(s string) (place, error) {
	kind, rest, ok := strings.Cut(s, ":")
	switch {
	case ok && kind == "sqlite" && rest != "":
		if real, err := filepath.EvalSymlinks(rest); err == nil {
			// what stands beside the file is found by its own name
			rest = real
		}
		return place{file: filepath.Clean(rest)}, nil
	case kind == "postgres" || kind == "postgresql":
		c, err := parseDatabase(s)
		return place{database: c}, err
	}
	// What was given is not repeated: a connection string of keywords, as in host=db password=…, is
	// all secret.
	if ok && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") == "" {
		return place{},
			fmt.Errorf("store %s:…: known are sqlite:PATH and postgres://USER@HOST/DATABASE", kind)
	}
	return place{},
		errors.New(
			"store: write it as sqlite:PATH or postgres://USER@HOST/DATABASE; no other form is known",
		)
}

// errStoreURL stands for the errors of a URL that can't be read: they quote what stands around the
// fault, which may be the password.
var errStoreURL = errors.New(
	"store postgres://…: it is no URL; write what is special in its user and password as %XX",
)

// withoutSecrets is an error of the driver about a connection string, without the passwords in it.
func withoutSecrets(err error, u *url.URL, query url.Values) error {
	text := err.Error()
	hide := func(secret string) {
		for _, s := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			if s != "" {
				text = strings.ReplaceAll(text, s, "…")
			}
		}
	}
	if password, set := u.User.Password(); set {
		hide(password)
	}
	for _, name := range []string{"password", "sslpassword"} {
		for _, value := range query[name] {
			hide(value)
		}
	}
	return errors.New(text)
}

// parseDatabase takes rota's own parameters out of a URL; the rest is for the driver.
func parseDatabase(s string) (c postgres.Config, err error) {
	u, err := url.Parse(s)
	if err != nil {
		return c, errStoreURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, errStoreURL
	}
	var wrong []error
	for name, values := range query {
		if !strings.HasPrefix(name, paramPrefix) {
			continue
		}
		query.Del(name)
		if err := setParam(
			&c, strings.TrimPrefix(name, paramPrefix), values[len(values)-1],
		); err != nil {
			wrong = append(wrong,
				fmt.Errorf("store postgres://…: %s=%.40q: %w", name, values[len(values)-1], err))
		}
	}
	u.RawQuery = query.Encode()
	c.DSN = u.String()
	if u.Opaque != "" || u.Host == "" && !strings.HasPrefix(s, u.Scheme+"://") {
		wrong = append(wrong,
			errors.New("store postgres:…: write it as postgres://USER@HOST/DATABASE"))
	} else if _, err := pgx.ParseConfig(c.DSN); err != nil {
		wrong = append(wrong, fmt.Errorf("store postgres://…: %w", withoutSecrets(err, u, query)))
	}
	return c, errors.Join(wrong...)
}

func setParam(c *postgres.Config, name, value string) (err error) {
	off := func(flag *bool) error {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("must be true or false")
		}
		*flag = !on
		return nil
	}
	switch name {
	case "schema":
		c.Schema = value
	case "connections":
		if c.Connections, err = strconv.Atoi(value); err != nil || c.Connections < 4 {
			return errors.New("must be a number, 4 or more")
		}
	case "pooler":
		direct := false
		err = off(&direct)
		c.Pooler = !direct
	case "skip_locked":
		err = off(&c.NoSkipLocked)
	case "notify":
		err = off(&c.NoNotify)
	case "copy": // changes nothing any more: no statement uses COPY
		var unused bool
		err = off(&unused)
	default:
		return errors.New(
			"unknown; known are rota_schema, rota_connections, rota_pooler, rota_skip_locked, rota_notify",
		)
	}
	return err
}

// storeOf is what a node works on; nil = there is no node.
func storeOf(n *Node) backend {
	if n == nil {
		return nil
	}
	return n.store
}

// openStore opens whatever Config.Store names: the same as before, if that is not nil, or nothing.
func openStore(ctx context.Context, conf Config, before backend) (backend, error) {
	at, err := parseStore(conf.Store)
	if err != nil {
		return nil, err
	}
	return at.openWith(ctx, conf, before)
}

// openWith opens the store with the folder for large values, if it has one of its own.
func (p place) openWith(ctx context.Context, conf Config, before backend) (backend, error) {
	var blobs *blob.Folder // nil: the database keeps large values, too
	if p.file == "" && conf.Blobs != "" {
		var err error
		if blobs, err = blob.Open(conf.Blobs); err != nil {
			return nil, err
		}
	}
	opened, err := p.open(ctx, conf, blobs, before)
	if err != nil && blobs != nil {
		err = errors.Join(err, blobs.Close())
	}
	return opened, err
}

func (p place) open(
	ctx context.Context, conf Config, blobs *blob.Folder, before backend,
) (backend, error) {
	if p.file != "" {
		s, err := sqlite.Open(ctx, sqlite.Config{Path: p.file, Folder: conf.Blobs, Log: conf.Log})
		if err != nil {
			return nil, err
		}
		if before != nil && s.Secret() != before.Secret() {
			return nil, errors.Join(fmt.Errorf("open store: %w: another file stands in its place",
				ErrBroken), s.Close())
		}
		peers := make([]byte, 32) // nobody else needs to know it
		rand.Read(peers)
		return &embedded{s, peers}, nil
	}
	c := p.database
	c.Log = conf.Log
	// what takes longer the caller has lost faith in
	c.Timeout = min(max(conf.Lease, 10*time.Second), 30*time.Second)
	if was, ok := before.(*shared); ok {
		c.Before = was.Store
	}
	if blobs != nil {
		c.Blobs = blobs
	}
	s, err := postgres.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &shared{s, blobs, !c.NoNotify && !c.Pooler}, nil
}

// embedded is a SQLite file, which one process opens at a time.
type embedded struct {
	*sqlite.Store
	peers []byte
}

func (e *embedded) PeerKey() []byte { return e.peers }

func (*embedded) kind() string { return "sqlite" }

// Durability: the crash of this machine, not the loss of its disk.
func (*embedded) Durability(context.Context) (string, error) {
	return postgres.DurabilityLocal, nil
}

// listen has nobody to listen to.
func (*embedded) listen(context.Context, string, *dispatch.Dispatcher, func()) error { return nil }

// shared is a PostgreSQL database that many nodes may share.
type shared struct {
	*postgres.Store
	blobs *blob.Folder // nil = large values stand in the database
	told  bool         // other nodes' hints are heard
}

func (*shared) kind() string { return "postgres" }

func (s *shared) listen(
	ctx context.Context, node string, tasks *dispatch.Dispatcher, jobs func(),
) error {
	return s.Listen(ctx, func(h postgres.Hint) {
		switch {
		case h.Offer.Queue != "":
			tasks.HearOffer(h.Offer)
			return
		case h.Room.Node != "":
			tasks.HearRoom(h.Room.Node, h.Room.Queues)
			return
		case h.Ended != "":
			tasks.HearEnded(h.Ended)
			return
		case h.Limits:
			tasks.HearChanged()
			return
		}
		lost := h.Queue == "" && h.Node == "" // some may be
		if h.Group != "" || h.Seats || lost {
			jobs()
		}
		if h.Group != "" || h.Seats {
			return
		}
		switch {
		case h.Node != "" && h.Node != node:
		case h.Want:
			tasks.HearWanted(h.Tasks)
		default:
			tasks.Hear(h.Queue, h.Tasks)
		}
	})
}

func (s *shared) Close() error {
	err := s.Store.Close()
	if s.blobs != nil {
		err = errors.Join(err, s.blobs.Close())
	}
	return err
}
