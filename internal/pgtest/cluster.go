//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config of a cluster. The zero value is a fast one, that forgets what it knew when its machine
// stops.
type Config struct {
	Durable  bool     // commits are fsynced; otherwise not, which is several times faster
	Settings []string // "name = value" for postgresql.conf
}

// Cluster is a running server and its files.
type Cluster struct {
	conf    Config
	bin     string
	dir     string // has data, the socket and the server's log
	port    int
	account account
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended

	databases atomic.Int64
}

// Start makes a cluster that ends with the test.
func Start(t testing.TB, conf Config) *Cluster {
	t.Helper()
	wanted(t)
	c, err := start(conf)
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := c.remove(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return c
}

// shared is the cluster of the test binary.
var shared struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// Shared is the cluster that all tests of a binary share; the first one that asks for it starts it.
// Its TestMain is Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	wanted(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = start(Config{})
	}
	if shared.err != nil {
		t.Fatalf("start PostgreSQL: %v", shared.err)
	}
	return shared.cluster
}

// Main runs the tests of a binary and then stops the shared cluster. It answers the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.remove(); err != nil {
		fmt.Fprintf(os.Stderr, "stop PostgreSQL: %v\n", err)
		return max(code, 1)
	}
	return code
}

// start makes a cluster and waits until it answers.
func start(conf Config) (_ *Cluster, err error) {
	c := &Cluster{conf: conf}
	if c.bin, err = programs(); err != nil {
		return nil, err
	}
	if c.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "rota-pg-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove())
		}
	}()
	if err := c.account.own(c.dir); err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(c.bin, "initdb"), "-D", c.data(), "-U", User, "-A",
		"trust", "-E", "UTF8", "--locale=C", "--no-sync")
	c.account.apply(initdb)
	if err := outputOf(initdb); err != nil {
		return nil, err
	}
	if c.port, err = FreePort(); err != nil {
		return nil, err
	}
	if err := c.configure(); err != nil {
		return nil, err
	}
	return c, c.launch()
}

// outputOf runs a program, and makes what it wrote part of the error.
func outputOf(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}

// User is the superuser of every cluster. There are no passwords.
const User = "rota"

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) configure() error {
	settings := []string{
		"listen_addresses = '127.0.0.1'", fmt.Sprintf("port = %d", c.port),
		fmt.Sprintf("unix_socket_directories = '%s'", c.dir),
		"max_connections = 200", "shared_buffers = '128MB'", "max_wal_size = '4GB'",
	}
	if !c.conf.Durable {
		settings = append(settings, "fsync = off", "full_page_writes = off")
	}
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + strings.Join(append(settings, c.conf.Settings...), "\n") + "\n")
	return errors.Join(err, f.Close())
}

// Ports that FreePort tries: systems give out none of them by themselves.
const (
	firstPort = 10_000
	manyPorts = 20_000
)

// ports are those that FreePort gave: each is kept from others, by its UDP port of the same number,
// until this process ends.
var ports struct {
	sync.Mutex
	tried int
	kept  []net.PacketConn
}

// FreePort is a port of this machine on which nobody listens. It stays free while the server for
// which it is has not started, or is started again: nobody else gets it by asking for any port, nor
// from FreePort in this process or another one.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range manyPorts {
		ports.tried++ // each process begins elsewhere
		port := firstPort + (100*os.Getpid()+ports.tried)%manyPorts
		address := fmt.Sprintf("127.0.0.1:%d", port)
		kept, err := net.ListenPacket("udp", address)
		if err == nil {
			ports.kept = append(ports.kept, kept)
			var l net.Listener
			if l, err = net.Listen("tcp", address); err == nil {
				return port, l.Close()
			}
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, err
		}
	}
	return 0, errors.New("no port is free")
}

// patience is how long a server may take to start or stop.
const patience = time.Minute

// launch starts the server and waits until it answers. After Kill9 it may find that processes of
// its predecessor still end.
func (c *Cluster) launch() error {
	deadline := time.Now().Add(patience)
	for {
		err := c.launchOnce(deadline)
		if err == nil || time.Now().After(deadline) || !errors.Is(err, errEnded) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

var errEnded = errors.New("the server ended")

func (c *Cluster) launchOnce(deadline time.Time) error {
	out, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	c.cmd = exec.Command(filepath.Join(c.bin, "postgres"), "-D", c.data())
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.account.apply(c.cmd)
	if err := startBound(c.cmd); err != nil {
		return err
	}
	ended := make(chan struct{})
	c.ended = ended
	cmd := c.cmd
	go func() { // ends with the server, which every path of this package waits for
		defer close(ended)
		cmd.Wait() // how it ended is in its log
	}()
	for {
		select {
		case <-ended:
			return fmt.Errorf("%w:\n%s", errEnded, c.Log())
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, c.DSN("postgres"))
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		switch {
		case err == nil:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("wait for the server: %w\n%s", err, c.Log())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// remove stops the server and deletes its files.
func (c *Cluster) remove() error {
	var errs []error
	if c.cmd != nil {
		errs = append(errs, c.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// DSN names a database of the cluster by its TCP address.
func (c *Cluster) DSN(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", User, c.port, database)
}

// Addr is where the server listens.
func (c *Cluster) Addr() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }

// Socket is the folder of its unix socket.
func (c *Cluster) Socket() string { return c.dir }

// Log is what the server wrote to its log.
func (c *Cluster) Log() string {
	b, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Database makes an empty database that goes with the test, and answers its DSN.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", c.databases.Add(1))
	c.Exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { c.Exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return c.DSN(name)
}

// Program runs a client program of PostgreSQL, as pg_dump, against the cluster.
func (c *Cluster) Program(t testing.TB, name string, args ...string) {
	t.Helper()
	path := filepath.Join(c.bin, name)
	if !isFile(path) {
		var err error
		if path, err = exec.LookPath(name); err != nil {
			t.Fatalf("find %s, which comes with PostgreSQL: %v", name, err)
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "PGHOST=127.0.0.1", fmt.Sprintf("PGPORT=%d", c.port),
		"PGUSER="+User)
	if err := outputOf(cmd); err != nil {
		t.Fatal(err)
	}
}

// Exec runs statements in the database postgres as the superuser.
func (c *Cluster) Exec(t testing.TB, statements ...string) {
	t.Helper()
	// not the test's: it has ended when its databases go
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.DSN("postgres"))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
