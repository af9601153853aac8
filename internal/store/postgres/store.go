package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
)

// Store is the tables in one schema of a PostgreSQL database. Its methods may be called at the same
// time, by many processes.
type Store struct {
	conf     Config
	pool     *pgxpool.Pool
	blobs    Blobs
	identity string
	peers    []byte // the key that nodes know each other by
	secret   seal.Secret
	examined int // rows that one page of a list looks at before it is cut short
	started  time.Time

	plain  bool     // statements go out as they are written
	texts  sync.Map // statements as they go out, by how they are written
	server server

	commits atomic.Int64
	full    atomic.Int64 // when the disk was last full, by stopwatch; 0 = never
	// behind which row of unseen its next look begins
	unseenAt atomic.Int64
	self     atomic.Pointer[store.Holder]
	closed   atomic.Bool
	crowd    chan struct{} // has room for one of those that the server refused a connection

	covered struct{ from, to atomic.Int64 } // batch ids that have partitions, as far as is known

	ids     spanIDs
	widths  widths
	pruner  pruner
	works   sync.WaitGroup  // what takes longer than a call
	life    context.Context // of that; ends with Close
	die     context.CancelFunc
	notices *notices // nil without notifications
}

// Open opens the store. It makes the tables when there are none, and brings older ones up to this
// version of the program. It refuses a database that it has no rights in, that has newer tables, or
// that can't be written to; the error says what to do.
func Open(ctx context.Context, conf Config) (_ *Store, err error) {
	pool, err := conf.complete()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		conf: conf, blobs: conf.Blobs, examined: listing.Examined, started: time.Now(),
		plain: conf.Schema == "rota" && !conf.NoSkipLocked,
		crowd: make(chan struct{}, 1),
	}
	if s.blobs == nil {
		s.blobs = table{s}
	}
	s.life, s.die = context.WithCancel(context.Background())
	if conf.Before != nil {
		s.server.inherit(&conf.Before.server)
		s.conf.Before = nil
	}
	s.prepare(pool)
	if s.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	defer func() {
		if err != nil {
			s.die()
			s.pool.Close()
			if conf.Before != nil && errors.Is(err, errForeign) {
				err = fmt.Errorf("%w: %w", store.ErrBroken, err)
			}
			err = fmt.Errorf("open store: %w", err)
		}
	}()
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	if err := s.coverNow(ctx); err != nil {
		return nil, err
	}
	if !conf.NoNotify {
		s.notices = newNotices(s)
	}
	return s, nil
}

// Close ends what was begun, and the connections. Later calls get store.ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.notices != nil {
		s.notices.close()
	}
	s.die()
	s.pruner.mu.Lock() // whoever is in there may begin something
	s.works.Wait()
	s.pruner.mu.Unlock()
	s.pool.Close()
	return nil
}

// Schema is where the tables stand.
func (s *Store) Schema() string { return s.conf.Schema }

// PeerKey is what nodes of this store know each other by: 256 bits that are the same for everybody
// who opens it, and unknown to others.
func (s *Store) PeerKey() []byte { return s.peers }

// Secret is the same for everybody who opens this store, and unknown to others. It seals tokens.
func (s *Store) Secret() seal.Secret { return s.secret }

// Commits counts the commits that were asked for.
func (s *Store) Commits() int64 { return s.commits.Load() }

// clock is the time that a test gives; nil = the database is to look at its own clock.
func (s *Store) clock() any {
	if s.conf.Now == nil {
		return nil
	}
	return s.conf.Now().UnixMicro()
}

// stopwatch is the time since the store was opened, in microseconds, on a clock that never jumps.
// It is never 0.
func (s *Store) stopwatch() int64 { return time.Since(s.started).Microseconds() + 1 }

// fullFor is how long a full disk is remembered: then submissions are let through to find out.
const fullFor = 2 * time.Second

// Check says whether the database answers, can be written to, and has room: nil, store.ErrFull, or
// why not.
func (s *Store) Check(ctx context.Context) error {
	identity := ""
	readOnly := false
	err := s.glance(ctx,
		ask(`SELECT identity, current_setting('transaction_read_only')::boolean FROM rota.store`,
			func(r row) error { return r.Scan(&identity, &readOnly) }))
	switch {
	case err != nil:
		return fmt.Errorf("check the store: %w", err)
	case identity != s.identity:
		return fmt.Errorf("check the store: %w: %w", store.ErrBroken, errReplaced)
	case readOnly:
		s.pool.Reset()
		return fmt.Errorf("check the store: %w: the database is read-only: a failover?",
			store.ErrOutOfReach)
	}
	if at := s.full.Load(); at > 0 && s.stopwatch()-at < fullFor.Microseconds() {
		return fmt.Errorf("check the store: %w", store.ErrFull)
	}
	return nil
}

// What a commit that was answered survives.
const (
	DurabilitySync = "sync" // the loss of the primary: a synchronous standby has it
	// a crash of the primary, not its loss: standbys may lack what came last
	DurabilityAsync = "async"
	DurabilityLocal = "local" // a crash of the database's machine; there are no standbys
	// nothing: the database does not sync its files (fsync or full_page_writes is off)
	DurabilityNone = "none"
)

const durability = `SELECT current_setting('synchronous_commit'),
current_setting('synchronous_standby_names') <> '',
  current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
  EXISTS (SELECT FROM pg_stat_replication)`

// Durability says what an answered commit survives.
func (s *Store) Durability(ctx context.Context) (string, error) {
	var level string
	var named, safe, followed bool
	if err := s.glance(ctx, ask(durability, func(r row) error {
		return r.Scan(&level, &named, &safe, &followed)
	})); err != nil {
		return "", fmt.Errorf("ask for durability: %w", err)
	}
	switch {
	case !safe:
		return DurabilityNone, nil
	case named && level != "off" && level != "local":
		return DurabilitySync, nil
	case named || followed || level == "off":
		return DurabilityAsync, nil
	}
	return DurabilityLocal, nil
}

// newIdentity is a name that no other store has.
func newIdentity() string { return strings.ToLower(rand.Text()) }
