package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
)

// database is one schema of a PostgreSQL database, and all that talks to it: every part of the
// store makes its trips by it (tx.go). It knows no tables but the one that says which store this
// is, and the sequence of span ids.
type database struct {
	conf    Config // complete; nobody changes it once the store is open
	pool    *pgxpool.Pool
	started time.Time // what stopwatch counts from
	// opening goes with the first trip of each transaction; nil = sessions have the settings.
	// Set with the pool
	opening []query

	// plain says that statements go out as they are written; else texts has them as they go out, by
	// how they are written
	plain  bool
	texts  sync.Map
	server server // which one answers; it refuses connections to any other

	// Who the store is, as its row says. Set before Open returns, and the same from then on.
	identity string
	peers    []byte // the key that nodes know each other by
	secret   seal.Secret

	commits atomic.Int64 // that were asked for; only grows
	full    atomic.Int64 // when the disk was last full, by stopwatch; 0 = never
	theirs  atomic.Int64 // what the store's clock showed with the newest beat, in µs; 0 = none yet
	// closed never becomes false again; by then who asks for a connection gets store.ErrClosed
	closed atomic.Bool
	crowd  chan struct{} // has room for one of those that the server refused a connection

	// ids are span ids that this process has reserved: several parts make spans, and a transaction
	// that makes one asks for the id by its own connection
	ids spanIDs

	// works is what takes longer than a call. Each has life for its context, which ends with Close,
	// and is begun under the lock of upkeep.pruner, which Close takes before it waits.
	works sync.WaitGroup
	life  context.Context
	die   context.CancelFunc
}

// newDatabase has no connections yet. The configuration is complete.
func newDatabase(conf Config) *database {
	d := &database{
		conf: conf, started: time.Now(),
		plain: conf.Schema == "rota" && !conf.NoSkipLocked,
		crowd: make(chan struct{}, 1),
	}
	d.life, d.die = context.WithCancel(context.Background())
	if conf.Before != nil {
		d.server.inherit(&conf.Before.server)
		d.conf.Before = nil
	}
	return d
}

// Schema is where the tables stand.
func (d *database) Schema() string { return d.conf.Schema }

// PeerKey is what nodes of this store know each other by: 256 bits that are the same for everybody
// who opens it, and unknown to others.
func (d *database) PeerKey() []byte { return d.peers }

// Secret is the same for everybody who opens this store, and unknown to others. It seals tokens.
func (d *database) Secret() seal.Secret { return d.secret }

// Commits counts the commits that were asked for.
func (d *database) Commits() int64 { return d.commits.Load() }

// clock is the time that a test gives; nil = the database is to look at its own clock.
func (d *database) clock() any {
	if d.conf.Now == nil {
		return nil
	}
	return d.conf.Now().UnixMicro()
}

// stopwatch is the time since the store was opened, in microseconds, on a clock that never jumps.
// It is never 0.
func (d *database) stopwatch() int64 { return time.Since(d.started).Microseconds() + 1 }

// fullFor is how long a full disk is remembered: then submissions are let through to find out.
const fullFor = 2 * time.Second

// Check says whether the database answers, can be written to, and has room: nil, store.ErrFull, or
// why not.
func (d *database) Check(ctx context.Context) error {
	identity := ""
	readOnly := false
	err := d.glance(ctx,
		ask(`SELECT identity, current_setting('transaction_read_only')::boolean FROM rota.store`,
			func(r row) error { return r.Scan(&identity, &readOnly) }))
	switch {
	case err != nil:
		return fmt.Errorf("check the store: %w", err)
	case identity != d.identity:
		return fmt.Errorf("check the store: %w: %w", store.ErrBroken, errReplaced)
	case readOnly:
		d.pool.Reset()
		return fmt.Errorf("check the store: %w: the database is read-only: a failover?",
			store.ErrOutOfReach)
	}
	if at := d.full.Load(); at > 0 && d.stopwatch()-at < fullFor.Microseconds() {
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
func (d *database) Durability(ctx context.Context) (string, error) {
	var level string
	var named, safe, followed bool
	if err := d.glance(ctx, ask(durability, func(r row) error {
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
