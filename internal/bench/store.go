package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/rotahq/rota/internal/usage"
	"github.com/shirou/gopsutil/v4/process"
)

// database is a PostgreSQL that a run of a benchmark stands on: a schema of its own, and the
// server's processes if they run on this machine.
type database struct {
	url    *url.URL
	schema string
	conn   *pgx.Conn
	server *process.Process // the parent of all backends; nil = on another machine
}

// openDatabase names a schema that does not exist yet, after the run's folder.
func openDatabase(ctx context.Context, dsn, folder string) (*database, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, usage.Errorf("--store: write it as postgres://USER@HOST/DATABASE")
	}
	d := &database{
		url: u, schema: strings.ToLower(strings.ReplaceAll(filepath.Base(folder), "-", "_")),
	}
	if d.conn, err = connect(ctx, u); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	var backend int32
	var address *string
	if err := d.conn.QueryRow(ctx,
		"SELECT pg_backend_pid(), host(inet_client_addr())").Scan(&backend, &address); err != nil {
		return nil, errors.Join(fmt.Errorf("ask who answers: %w", err), d.conn.Close(ctx))
	}
	if address == nil || *address == "127.0.0.1" || *address == "::1" {
		if p, err := process.NewProcess(backend); err == nil {
			d.server, _ = p.Parent()
		}
	}
	return d, nil
}

// connect connects without the parameters that are for rota: the server refuses what it doesn't
// know. Nothing is prepared, as a pooler may give each statement another session.
func connect(ctx context.Context, u *url.URL) (*pgx.Conn, error) {
	plain, query := *u, u.Query()
	for name := range query {
		if strings.HasPrefix(name, "rota_") {
			query.Del(name)
		}
	}
	plain.RawQuery = query.Encode()
	conf, err := pgx.ParseConfig(plain.String())
	if err != nil {
		return nil, err
	}
	conf.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, conf)
}

// store is how a node is told where its store is.
func (d *database) store() string {
	u := *d.url
	q := u.Query()
	q.Set("rota_schema", d.schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// processes are the server's, as far as they are to be seen.
func (d *database) processes() []int32 {
	if d.server == nil {
		return nil
	}
	pids := []int32{d.server.Pid}
	children, _ := d.server.Children() // an error means that there are none
	for _, c := range children {
		pids = append(pids, c.Pid)
	}
	return pids
}

// wal is how many bytes of log the server has written so far.
func (d *database) wal(ctx context.Context) (n float64, err error) {
	if err = d.conn.QueryRow(ctx,
		"SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&n); err != nil {
		return 0, fmt.Errorf("ask for the position in the log: %w", err)
	}
	return n, nil
}

// close drops the schema.
func (d *database) close() error {
	ctx := context.Background()
	_, err := d.conn.Exec(ctx,
		"DROP SCHEMA IF EXISTS "+pgx.Identifier{d.schema}.Sanitize()+" CASCADE")
	if err != nil {
		err = fmt.Errorf("drop the benchmark's tables: %w", err)
	}
	return errors.Join(err, d.conn.Close(ctx))
}
