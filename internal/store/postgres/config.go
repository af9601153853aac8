package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/internal/history"
)

// Config of a store. Only DSN is needed.
type Config struct {
	// postgres://user@host/database, or name=value pairs; several hosts may be given
	DSN    string
	Schema string // that the tables stand in; "" = rota
	// for large values: all nodes must reach the same; nil = a table of the database
	Blobs Blobs
	Log   *slog.Logger // nil = nowhere
	// Standing wants the tables to stand as this version of the program knows them: they are
	// neither made nor brought up to it
	Standing bool
	// that this process worked on until now: the same one must be found again, else
	// store.ErrBroken. nil = whichever is there
	Before *Store

	Connections int // at most; 0 = 12
	// for one transaction, from its first statement to its commit; 0 = 30 s
	Timeout time.Duration
	// how much time one partition of batch, task and step covers; 0 = 24 h
	Partition time.Duration
	// how long tasks may be kept beyond a retention four times as long, so that whole partitions
	// are dropped; 0 = Partition and an hour, < 0 = never
	Linger  time.Duration
	History history.Kept // how long the history is kept; 0 = a day and 90 days

	// What a database or a pooler in between may lack. a pooler hands connections out by the
	// transaction: nothing is kept in a session, so nothing is prepared nor listened for, and each
	// transaction sets for itself what sessions have otherwise
	Pooler       bool
	NoSkipLocked bool // rows that others have locked are waited for, not passed over
	NoNotify     bool // other nodes are not told of changes: they find out with their next beat

	// the store's clock; nil = the database's, which all nodes share. For tests
	Now func() time.Time

	tracer    pgx.QueryTracer // sees the trips. For tests
	marksFrom int             // outcomes of one pack that become a mark; 0 = 4. For tests
	// how many tasks of a store of an earlier version one transaction moves; 0 = 10,000. For tests
	repackPiece int
}

// Blobs keeps large values. The store makes up the names, and never writes one twice.
type Blobs interface {
	// Put writes a blob: durable and whole when it returns nil, absent or garbage under an unused
	// name otherwise.
	Put(ctx context.Context, name string, b []byte) error
	// Get reads a blob; fs.ErrNotExist when there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete removes a blob; a missing one is no error.
	Delete(ctx context.Context, name string) error
	// List lists at most limit names after one and before the other, in order.
	List(ctx context.Context, after, before string, limit int) ([]string, error)
}

// schemaName is what a schema may be called, so that it never needs quotes. 40 characters leave
// room for the names of partitions.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// complete fills in the defaults and says everything that is wrong.
func (c *Config) complete() (*pgxpool.Config, error) {
	var errs []error
	conf, err := pgxpool.ParseConfig(c.DSN)
	switch {
	case c.DSN == "":
		errs = append(errs,
			errors.New(
				"dsn: must name a database, like postgres://user:password@host:5432/database",
			))
	case err != nil:
		errs = append(errs, fmt.Errorf("dsn: %w", err))
	}
	if c.Schema == "" {
		c.Schema = "rota"
	}
	if !schemaName.MatchString(c.Schema) {
		errs = append(errs, fmt.Errorf("schema: %q must match %s", c.Schema, schemaName))
	}
	if c.Connections != 0 && c.Connections < 4 {
		// those who make the tables need two, and there must be room for others
		errs = append(errs, errors.New("connections: must be 4 at least"))
	}
	if c.Timeout < 0 {
		errs = append(errs, errors.New("timeout: must not be negative"))
	}
	if c.Partition != 0 && c.Partition < time.Minute {
		errs = append(errs, errors.New("partition: must be a minute at least"))
	}
	if c.History.Minutes < 0 || c.History.Hours < 0 {
		errs = append(errs, errors.New("history: must not be negative"))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Connections = orDefault(c.Connections, 12)
	c.Timeout = orDefault(c.Timeout, 30*time.Second)
	c.repackPiece = orDefault(c.repackPiece, 10_000)
	c.Partition = orDefault(c.Partition, 24*time.Hour)
	c.Linger = max(orDefault(c.Linger, c.Partition+time.Hour), 0)
	c.History = c.History.Complete()
	c.NoNotify = c.NoNotify || c.Pooler
	return conf, errors.Join(errs...)
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// modes of execution: a pooler may give every transaction another session, which knows no
// statements that were prepared in this one.
func (c *Config) mode() pgx.QueryExecMode {
	if c.Pooler {
		return pgx.QueryExecModeCacheDescribe
	}
	return pgx.QueryExecModeCacheStatement
}
