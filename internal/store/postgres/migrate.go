package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// oldest is the first version of PostgreSQL that has all that is used here.
const oldest = 140000

// schema makes the tables and brings them up to this version of the program, once, when a store is
// opened. All tables are its own until then; the others find them as they are to be.
type schema struct{ *database }

// setUp sees to it that the tables are there, as this version of the program knows them.
func (s *schema) setUp(ctx context.Context) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	conn.Release()
	if v := s.server.version; v != 0 && v < oldest {
		return fmt.Errorf(
			"the server has version %d.%d of PostgreSQL: %d is the oldest that will do", v/10000,
			v%10000, oldest/10000,
		)
	}
	r, err := s.rights(ctx)
	if err != nil {
		return err
	}
	if err := r.refusal(); err != nil {
		return err
	}
	if s.conf.Standing {
		if err := s.stands(ctx); err != nil {
			return err
		}
		return s.identify(ctx)
	}
	if err := s.migrate(ctx); err != nil {
		if codeOf(err) == codeNoRight {
			return fmt.Errorf("%w: %s", err, r.grant())
		}
		return err
	}
	return s.identify(ctx)
}

// migrateLock is the advisory lock of nodes that start at the same time: the first one makes the
// tables, the others find them. It ends with its transaction, so a pooler does no harm.
const migrateLock = 0x726f7461 // "rota"

const (
	// patient lets a transaction wait for locks, and idle, for as long as another connection needs
	// for the tables.
	patient = `SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0',
true),
  set_config('idle_in_transaction_session_timeout', '0', true)`
	tryMigrate   = `SELECT pg_try_advisory_xact_lock($1)`
	awaitMigrate = `SELECT pg_advisory_xact_lock($1)`
)

// alone waits until no other node makes the tables, and keeps others from it until leave is called.
func (s *schema) alone(ctx context.Context) (leave func(), err error) {
	guard, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	leave = func() { guard.Rollback(context.WithoutCancel(ctx)) } // it has nothing to commit
	free := false
	if _, err = guard.Exec(ctx, patient); err == nil {
		err = guard.QueryRow(ctx, tryMigrate, int64(migrateLock)).Scan(&free)
	}
	if err == nil && !free {
		s.conf.Log.Info("another node makes the tables: waiting for it")
		_, err = guard.Exec(ctx, awaitMigrate, int64(migrateLock))
	}
	if err != nil {
		leave()
		return nil, fmt.Errorf("wait for another node that makes the tables: %w", err)
	}
	return leave, nil
}

// migrate brings the tables up to this version of the program.
func (s *schema) migrate(ctx context.Context) (err error) {
	leave, err := s.alone(ctx)
	if err != nil {
		return err
	}
	defer leave()
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(
		ctx, "CREATE SCHEMA IF NOT EXISTS "+s.conf.Schema,
	); err != nil && codeOf(err) != codeNoRight {
		return fmt.Errorf("make schema %s: %w", s.conf.Schema, err)
	}
	fresh := false // one line is enough then
	steps, err := s.migrations(func(version int64) {
		if !fresh {
			s.conf.Log.Info("migrate", "version", version)
		}
	})
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithGoMigrations(steps...),
		goose.WithTableName(s.conf.Schema+".version"),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the tables: %w", err)
	}
	fresh = current == 0
	if current > target {
		return fmt.Errorf("%w: use a newer rota", s.versions(current, target))
	}
	for {
		switch done, err := p.UpByOne(ctx); {
		case errors.Is(err, goose.ErrNoNextVersion):
			if fresh {
				s.conf.Log.Info("made the tables", "schema", s.conf.Schema, "version", target)
			}
			return nil
		case codeOf(err) == codeLocked:
			// a table is in use, and others must not queue up behind this for long
			s.conf.Log.Warn("the tables are in use: trying again", "error", err)
		case errors.Is(err, errMeanwhile):
			s.conf.Log.Warn("another node makes the tables, too: going on behind it")
		case err != nil:
			return fmt.Errorf("migrate from version %d to %d: %w", current, target, err)
		case !fresh:
			s.conf.Log.Info("migrated", "version", done.Source.Version, "of", target, "took",
				done.Duration)
		}
	}
}

// versionHere is the version of the tables that stand.
const versionHere = `SELECT coalesce(max(version_id), 0) FROM rota.version WHERE is_applied`

// stands says what is wrong with the tables, if they are not those of this version of the program.
func (s *schema) stands(ctx context.Context) error {
	steps, err := s.migrations(func(int64) {})
	if err != nil {
		return err
	}
	current, target := int64(0), steps[len(steps)-1].Version
	err = s.glance(ctx, ask(versionHere, func(r row) error { return r.Scan(&current) }))
	switch {
	case noTables(err), err == nil && current == 0:
		return fmt.Errorf("schema %s has no tables of rota: start a node on it first",
			s.conf.Schema)
	case err != nil:
		return fmt.Errorf("read the version of the tables: %w", err)
	case current < target:
		return fmt.Errorf("%w: start a node of this version first", s.versions(current, target))
	case current > target:
		return fmt.Errorf("%w: use a newer rota", s.versions(current, target))
	}
	return nil
}

// versions says which version the tables have, and which one this program knows.
func (s *schema) versions(current, target int64) error {
	return fmt.Errorf("the tables in schema %s have version %d, this program knows %d",
		s.conf.Schema, current, target)
}

// migrations are the files, in the configured schema, and what moves tasks into packs. begin is
// called with each that begins.
func (s *schema) migrations(begin func(version int64)) (list []*goose.Migration, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := migrations.ReadFile(file)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(path.Base(file), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		up := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			begin(version)
			if err := s.step(ctx, tx, version); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, s.in(string(text)))
			return err
		}}
		list = append(list, goose.NewGoMigration(version, up, nil))
	}
	// its own transaction only has the step's lock, and tells at the end that the step is made
	up := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		begin(repackVersion)
		if err := s.step(ctx, tx, repackVersion); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, patient); err != nil {
			return err
		}
		return s.repack(ctx)
	}}
	list = append(list, goose.NewGoMigration(repackVersion, up, nil))
	slices.SortFunc(list, func(a, b *goose.Migration) int {
		return cmp.Compare(a.Version, b.Version)
	})
	return list, nil
}

// stepLock makes nodes wait for one another that make the same step: the connection that has
// migrateLock may be lost while its node goes on.
const stepLock = migrateLock + 4

const (
	lockStep = `SELECT pg_advisory_xact_lock($1)`
	stepMade = `SELECT EXISTS (SELECT FROM rota.version WHERE version_id = $1 AND is_applied)`
)

// errMeanwhile: another node has made the step.
var errMeanwhile = errors.New("another node made this step")

// step begins the transaction of a step, unless it was made meanwhile.
func (s *schema) step(ctx context.Context, tx *sql.Tx, version int64) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, lockStep, int64(stepLock)); err != nil {
		return err
	}
	made := false
	err := tx.QueryRowContext(ctx, s.in(stepMade), version).Scan(&made)
	if err == nil && made {
		err = errMeanwhile
	}
	return err
}

const (
	nameStore = `INSERT INTO rota.store (one, identity) VALUES (1, $1) ON CONFLICT DO NOTHING`
	storeName = `SELECT identity, peers, secret, secret_since,
current_setting('synchronous_commit'), current_setting('default_transaction_isolation')
FROM rota.store`
)

// identify gives the store a name when it has none.
func (s *schema) identify(ctx context.Context) error {
	var commit, isolation string
	var key []byte
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(nameStore, newIdentity()))
	})
	if err == nil {
		err = s.glance(ctx, ask(storeName, func(r row) error {
			return r.Scan(&s.identity, &s.peers, &key, &s.secret.Since, &commit, &isolation)
		}))
	}
	if err == nil && len(key) != len(s.secret.Key) {
		err = fmt.Errorf("its secret has %d bytes", len(key))
	}
	if err != nil {
		return fmt.Errorf("read the identity: %w", err)
	}
	copy(s.secret.Key[:], key)
	if s.secret.Since != 0 { // an earlier version sealed with a hash of the identity
		h := fnv.New64a()
		h.Write([]byte(s.identity))
		s.secret.Old = h.Sum64()
	}
	s.server.name(s.identity)
	if commit == "off" {
		return errors.New("synchronous_commit is off, so a crash of the database would lose what was answered: " +
			"ALTER ROLE … SET synchronous_commit = on, or add synchronous_commit=on to the DSN")
	}
	if isolation != readCommitted { // behind a pooler, or by the DSN
		return fmt.Errorf("default_transaction_isolation is %s, with which nodes hinder each other: ALTER ROLE … SET default_transaction_isolation = '%s'",
			isolation, readCommitted)
	}
	return nil
}
