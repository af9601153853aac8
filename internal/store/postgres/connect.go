package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/internal/store"
)

// sessions are the settings of connections, besides those of their transactions.
var sessions = map[string]string{
	"application_name":              "rota",
	"default_transaction_isolation": readCommitted,
	"tcp_keepalives_idle":           "10",
	"tcp_keepalives_interval":       "5",
	"tcp_keepalives_count":          "3",
}

// transactions are the settings of transactions. All statements here look few rows up by a key,
// among tables that are empty now and have millions of rows a minute later: so a plan is made once,
// and goes by index whatever the planner knows of the tables. Left to itself it hashes all spans to
// find those of five hundred reports, as long as it knows of few; or starts processes, or compiles
// for a second, for what is done before that.
var transactions = map[string]string{
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"plan_cache_mode":                     "force_generic_plan",
	"jit":                                 "off",
	"max_parallel_workers_per_gather":     "0",
	"idle_in_transaction_session_timeout": "5s",
	"lock_timeout":                        "10s",
}

// setAll sets settings for the rest of a transaction.
const setAll = `SELECT set_config(name, value, true)
FROM unnest($1::text[], $2::text[]) s (name, value)`

// settings gives transactions their settings, but for those that the DSN has. As a rule a session
// has them from the beginning. A pooler refuses those that it does not know, and gives each
// transaction another session: so they go with its first trip.
func (d *database) settings(given map[string]string) (ofSessions map[string]string) {
	set := maps.Clone(transactions)
	set["statement_timeout"] = strconv.FormatInt(d.conf.Timeout.Milliseconds(), 10)
	if !d.conf.Pooler {
		maps.Copy(set, sessions)
		maps.Copy(set, given)
		return set
	}
	var names, values []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, is := given[name]; !is {
			names = append(names, name)
			values = append(values, set[name])
		}
	}
	d.opening = []query{tell(setAll, names, values)}
	return given
}

// readCommitted is the level at which the rules of the protocol hold: a later statement of a
// transaction sees what was committed meanwhile.
const readCommitted = "read committed"

// unacknowledged is how long sent bytes may stay so before the kernel gives a connection up.
const unacknowledged = 20 * time.Second

// prepare completes the configuration of the pool.
func (d *database) prepare(pool *pgxpool.Config) {
	pool.MaxConns = int32(d.conf.Connections)
	pool.MaxConnIdleTime = 5 * time.Minute
	pool.MaxConnLifetime = time.Hour
	pool.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		registerArrays(c.TypeMap())
		return nil
	}
	conn := pool.ConnConfig
	conn.DefaultQueryExecMode = d.conf.mode()
	conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 512, 512
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = 5 * time.Second
	}
	conn.RuntimeParams = d.settings(conn.RuntimeParams)
	conn.DialFunc = dialer(unacknowledged).DialContext
	conn.OnNotice = notice
	conn.Tracer = d.conf.tracer
	next := conn.ValidateConnect
	conn.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if next != nil {
			if err := next(ctx, c); err != nil {
				return err
			}
		}
		if err := d.server.admit(ctx, c); err != nil {
			return err
		}
		return d.server.recognise(ctx, c, d.in(storeHere))
	}
}

// doubtful is the mark of a connection whose last commit may be lost.
const doubtful = "rota: doubtful"

// notice looks for the warning that stands in place of an error: a commit whose wait for a
// synchronous standby was cancelled is reported as a success, and lost if the standby takes over.
// No other warning of these codes comes with a commit.
func notice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" && (n.Code == "01000" || n.Code == "57P01") {
		c.CustomData()[doubtful] = true
	}
}

// server remembers which database server this is, and which store: after a failover a host of the
// DSN may be the old one, which still answers, and a database may stand where another one stood.
type server struct {
	mu       sync.Mutex
	system   string // identifier of the cluster; "" = not known yet, or the server has none
	timeline int64  // the greatest seen: each promotion begins another
	version  int    // of the server, like 150004
	identity string // of the store; "" = not known yet
}

// inherit is what another store of this process knew, so that the same one is found again or none.
func (v *server) inherit(old *server) {
	old.mu.Lock()
	defer old.mu.Unlock()
	v.system, v.timeline, v.identity = old.system, old.timeline, old.identity
}

// name sets what the store is known by from here on.
func (v *server) name(identity string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.identity = identity
}

// Reasons to refuse a connection.
var (
	errServer  = errors.New("not the right server") // or not any longer
	errForeign = fmt.Errorf("%w: it belongs to another cluster", errServer)
)

// identify asks a server who it is. Only a primary has a timeline to write on.
const identify = `SELECT system_identifier::text, CASE WHEN pg_is_in_recovery() THEN ''
ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
  current_setting('server_version_num') FROM pg_control_system()`

// admit checks a new connection. An error makes the driver try the next host.
func (v *server) admit(ctx context.Context, c *pgconn.PgConn) error {
	result := c.ExecParams(ctx, identify, nil, nil, nil, nil).Read()
	var pg *pgconn.PgError
	if errors.As(result.Err, &pg) && (pg.Code == "42883" || pg.Code == "42501") {
		return nil // another database that speaks the protocol, or one whose owner hides who it is
	}
	if result.Err != nil {
		return result.Err
	}
	row := result.Rows[0]
	system, timeline, version := string(row[0]), string(row[1]), string(row[2])
	if timeline == "" {
		return fmt.Errorf(
			"%w: it is a standby, which can't be written to; is there another host in the DSN that should have been promoted?",
			errServer,
		)
	}
	line, err := strconv.ParseInt(timeline, 16, 64)
	if err != nil {
		return fmt.Errorf("read timeline %q: %w", timeline, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.system != "" && v.system != system:
		return fmt.Errorf(
			"%w: to %s, this node works on %s; the hosts of the DSN must be one primary and its standbys",
			errForeign, system, v.system,
		)
	case line < v.timeline:
		return fmt.Errorf(
			"%w: it is a former primary (timeline %d, the present one is %d): it must be rebuilt as a standby",
			errServer, line, v.timeline,
		)
	}
	v.system, v.timeline = system, line
	v.version, _ = strconv.Atoi(strings.TrimSpace(version))
	return nil
}

// storeHere names the store that a database has.
const storeHere = `SELECT identity FROM rota.store`

// recognise refuses a new connection to a database that has another store, or none, where there was
// one: a statement there would find nothing of what was stored, and write where nobody will look.
func (v *server) recognise(ctx context.Context, c *pgconn.PgConn, statement string) error {
	v.mu.Lock()
	want := v.identity
	v.mu.Unlock()
	if want == "" {
		return nil
	}
	result := c.ExecParams(ctx, statement, nil, nil, nil, nil).Read()
	switch {
	case noTables(result.Err) || result.Err == nil && len(result.Rows) == 0:
		return fmt.Errorf("%w: the database has no store any more", errServer)
	case result.Err != nil:
		return result.Err
	case string(result.Rows[0][0]) != want:
		return fmt.Errorf("%w: %w", store.ErrBroken, errReplaced)
	}
	return nil
}

// errReplaced: to go on would serve another store as if it were the first.
var errReplaced = errors.New("another store stands in its place")

// noTables tells whether an error says that there are no such tables.
func noTables(err error) bool {
	code := codeOf(err)
	return code == codeNoTable || code == codeNoSchema
}

// line is the timeline of the newest connection.
func (v *server) line() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.timeline
}
