package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// packagedPostgres is where Debian and its kin install initdb, which they keep off PATH.
const packagedPostgres = "/usr/lib/postgresql/*/bin/initdb"

// postgresPrograms is the folder of initdb and postgres: the one on PATH, or the newest of those
// packaged.
func postgresPrograms(packaged string) (string, error) {
	found, err := exec.LookPath("initdb")
	if err == nil {
		found, err = filepath.EvalSymlinks(found) // postgres stands beside the program itself
	}
	if err == nil {
		return filepath.Dir(found), nil
	}
	all, err := filepath.Glob(packaged)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", errors.New(
			"find PostgreSQL: no initdb; install it with: apt-get install postgresql",
		)
	}
	major := func(path string) int { // of …/15/bin/initdb
		// 0 = none, older than all
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(all, func(a, b string) int {
		return major(a) - major(b)
	})), nil
}

// postgresVersion is the version of the server, as 15.18.
func postgresVersion(ctx context.Context) (string, error) {
	programs, err := postgresPrograms(packagedPostgres)
	if err != nil {
		return "", err
	}
	// postgres (PostgreSQL) 15.18 (Debian …)
	line, err := firstLine(ctx, filepath.Join(programs, "postgres"), "--version")
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(line, ") ")
	version, _, _ = strings.Cut(version, " ")
	return version, nil
}

// cluster is a PostgreSQL server of the benchmark's own, which is gone after it. Commits are on
// disk when they are answered.
type cluster struct {
	*process
	folder string
	port   string
	made   int // databases, so far
}

// clusterUser is its superuser. There are no passwords: it listens on loopback and lives for
// minutes.
const clusterUser = "bench"

// startCluster makes a cluster in a folder of its own below parent, and waits until it answers.
func startCluster(ctx context.Context, parent string) (_ *cluster, err error) {
	programs, err := postgresPrograms(packagedPostgres)
	if err != nil {
		return nil, err
	}
	as, err := clusterAccount()
	if err != nil {
		return nil, err
	}
	// the server has a working folder of its own
	parent, err = filepath.Abs(cmp.Or(parent, os.TempDir()))
	if err != nil {
		return nil, err
	}
	c := new(cluster)
	if c.folder, err = os.MkdirTemp(parent, "rota-compare-postgres-*"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if as != nil {
		if err := os.Chown(c.folder, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(c.folder, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(programs, "initdb"),
		"-D", data, "-U", clusterUser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	actAs(initdb, as)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a PostgreSQL cluster: %w: %s", err, out)
	}
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	args := []string{"-D", data}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", "port=" + c.port, "unix_socket_directories=",
		"max_connections=200", "shared_buffers=512MB", "max_wal_size=4GB",
	} {
		args = append(args, "-c", setting)
	}
	if c.process, err = spawn(func(string) {}, as, filepath.Join(programs, "postgres"),
		args...); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return c, c.await(ctx)
}

// clusterAccount is whom the server runs as; nil = whoever runs this. It refuses to run as root.
func clusterAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf(
			"PostgreSQL does not run as root: %w; run this as another user, or: useradd --system postgres",
			err,
		)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// await returns when the server answers.
func (c *cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.url("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.ended:
			return c.err
		case <-ctx.Done():
			return fmt.Errorf("wait for PostgreSQL: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// close ends the server and deletes its files.
func (c *cluster) close() (err error) {
	if c.process != nil {
		err = c.end()
	}
	return errors.Join(err, os.RemoveAll(c.folder))
}

func (c *cluster) url(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", clusterUser,
		net.JoinHostPort("127.0.0.1", c.port), database)
}

// database is one of a cluster.
type database struct {
	cluster *cluster
	name    string
}

func (d *database) url() string { return d.cluster.url(d.name) }

// create makes an empty database. What its predecessors left to be written is written before.
func (c *cluster) create(ctx context.Context) (*database, error) {
	c.made++
	d := &database{c, fmt.Sprintf("run_%d", c.made)}
	return d, execute(ctx, c.url("postgres"), "CREATE DATABASE "+d.name, "CHECKPOINT")
}

// drop deletes the database, whoever is still connected.
func (d *database) drop() error {
	// not the run's, which may be over before its time
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return execute(ctx, d.cluster.url("postgres"), "DROP DATABASE "+d.name+" WITH (FORCE)")
}

// tidy does what autovacuum does for tables that are older than a run: its planner knows them, and
// nothing dead is left.
func (d *database) tidy(ctx context.Context) error {
	return execute(ctx, d.url(), "VACUUM (ANALYZE)")
}

// execute runs statements, each in a transaction of its own.
func execute(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s, err), conn.Close(ctx))
		}
	}
	return conn.Close(ctx)
}
