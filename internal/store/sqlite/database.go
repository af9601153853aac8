package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
)

// database is the file: what opens, locks, checks, reads and writes it. All parts of a store share
// one. What the tables mean it does not know.
type database struct {
	path    string
	log     *slog.Logger
	now     func() time.Time
	reserve int64
	secret  seal.Secret // read once
	lock    *lock
	file    os.FileInfo // as it was opened: what stands at path must stay the same file
	wal     os.FileInfo // likewise its log, which has what was committed last

	commits atomic.Int64
	cause   atomic.Pointer[error] // why the store is broken; set once

	checking sync.Mutex
	seen     int64 // the greatest size of the file; it never shrinks
	logged   int64 // the last size of its log; it shrinks to logKept at most

	mu      sync.RWMutex // held for reading while something is sent to ops
	closed  bool
	closing chan struct{}   // closed together with it
	ops     chan *operation // closed with it, too
	wg      sync.WaitGroup  // of writeAll

	// readers has those connections that nobody reads with. Whoever takes one puts it back; dialled
	// is how many there are, wherever they are.
	readers chan *conn
	dialled int

	// owned by writeAll, from when it starts until it ends
	writer   *conn
	pin      *conn // keeps a state of the log while the rest is moved into the file
	count    counter
	walSize  walSize
	reserved spans
	packing  packing
}

// openDatabase opens the file that conf names, or makes it. What it answers is to be released, also
// with an error.
func openDatabase(ctx context.Context, conf Config) (d *database, err error) {
	d = &database{
		path: conf.Path, log: conf.Log, now: conf.Now, reserve: conf.Reserve,
		walSize: walSize{limit: conf.logPages}, closing: make(chan struct{}),
		ops: make(chan *operation, conf.Waiting), readers: make(chan *conn, conf.Readers),
	}
	if d.lock, err = lockFile(conf.Path); err != nil {
		return d, err
	}
	d.lock.log, d.lock.crash = conf.Log, conf.crash
	if d.count, err = d.lock.settle(ctx, conf.Path); err != nil {
		return d, err
	}
	if err := d.connect(conf); err != nil {
		return d, fmt.Errorf("%s: %w", conf.Path, err)
	}
	if err := d.readSecret(); err != nil {
		return d, fmt.Errorf("%s: %w", conf.Path, err)
	}
	if d.file, err = os.Stat(conf.Path); err != nil {
		return d, err
	}
	d.wal, err = os.Stat(conf.Path + "-wal")
	return d, err
}

// logKept is how many bytes of its log SQLite keeps for use again.
const logKept = 64 << 20

// Secret is the same for everybody who opens this store, and unknown to others. It seals tokens.
func (d *database) Secret() seal.Secret { return d.secret }

// readSecret reads the secret, or makes it in a store of an earlier version, which sealed with a
// hash of the identity.
func (d *database) readSecret() error {
	var key []byte
	read := func() error {
		_, err := d.writer.one("SELECT secret, secret_since FROM store", func(st *sqlite.Stmt) {
			key, d.secret.Since = bytesOf(st, 0), st.ColumnInt64(1)
		})
		return err
	}
	err := read()
	if err == nil && len(key) == 0 {
		now := time.Now()
		if d.now != nil {
			now = d.now()
		}
		if _, err = d.writer.exec(
			"UPDATE store SET secret = ?, secret_since = ? WHERE secret IS NULL", newSecret(),
			now.UnixMicro(),
		); err == nil {
			err = read()
		}
	}
	if err == nil && len(key) != len(d.secret.Key) {
		err = fmt.Errorf("it has %d bytes: the file is damaged", len(key))
	}
	if err != nil {
		return fmt.Errorf("read the secret: %w", err)
	}
	copy(d.secret.Key[:], key)
	if d.secret.Since != 0 {
		h := fnv.New64a()
		h.Write([]byte(d.lock.identity))
		d.secret.Old = h.Sum64()
	}
	return nil
}

func newSecret() []byte {
	key := make([]byte, 32)
	rand.Read(key) // it never fails
	return key
}

// connect opens the writer and the readers.
func (d *database) connect(conf Config) (err error) {
	pragmas := []string{
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = FULL",     // the log is fsynced before a commit returns
		"PRAGMA wal_autocheckpoint = 0", // the writer does it, see walSize
		fmt.Sprintf("PRAGMA journal_size_limit = %d", logKept),
		"PRAGMA cache_size = -4000", // KiB
		"PRAGMA temp_store = MEMORY",
	}
	if conf.maxPages > 0 {
		pragmas = append(pragmas, fmt.Sprintf("PRAGMA max_page_count = %d", conf.maxPages))
	}
	if d.writer, err = dial(d.path, sqlite.OpenReadWrite, pragmas); err != nil {
		return err
	}
	if d.pin, err = dial(d.path, sqlite.OpenReadWrite,
		[]string{"PRAGMA cache_size = -64", "PRAGMA wal_autocheckpoint = 0"}); err != nil {
		return err
	}
	for range conf.Readers {
		c, err := dial(d.path, sqlite.OpenReadWrite, []string{
			"PRAGMA cache_size = -4000", "PRAGMA query_only = ON",
			"SELECT identity FROM store", // opens the log, so that no file need be opened later
		})
		if err != nil {
			return err
		}
		d.readers <- c
		d.dialled++
	}
	return nil
}

func dial(path string, flags sqlite.OpenFlags, pragmas []string) (*conn, error) {
	raw, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw}
	c.SetBusyTimeout(10 * time.Second) // nobody else writes; a checkpoint may be in the way
	if err := c.addFunctions(); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	for _, p := range pragmas {
		if err := c.run(p); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
	}
	return c, nil
}

// end lets nothing begin any more, and waits for what was begun. It says whether it is the first
// call.
func (d *database) end() (first bool) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return false
	}
	d.closed = true
	close(d.closing)
	close(d.ops)
	d.mu.Unlock()
	d.wg.Wait()
	return true
}

// hangUp closes the connections. A store that is broken leaves its files as they are: what an fsync
// that failed left is known only to the log's checksums, and at path another store may stand by
// now. But SQLite would move the log into the file and delete it with the last connection, so one
// is left open; the process is to end.
func (d *database) hangUp() error {
	var errs []error
	for ; d.dialled > 0; d.dialled-- {
		errs = append(errs, (<-d.readers).Close()) // waits for calls that read
	}
	whole := errors.Join(errs...) == nil && d.broken() == nil
	if whole && d.wal != nil {
		if err := d.count.settleLog(d.writer, d.pin); err != nil {
			errs = append(errs, d.judge(err))
			whole = d.broken() == nil
		}
		d.lock.step("settled")
	}
	if d.writer != nil {
		errs = append(errs, d.writer.Close())
	}
	if d.pin != nil && whole {
		errs = append(errs, d.pin.Close())
	}
	return errors.Join(errs...)
}

// unlock lets another process open the file.
func (d *database) unlock() error {
	if d.lock == nil {
		return nil
	}
	d.lock.step("closed")
	return d.lock.release()
}

// Commits counts the write transactions that changed something: each is one fsync.
func (d *database) Commits() int64 { return d.commits.Load() }

func (d *database) clock() int64 { return d.now().UnixMicro() }

// check says whether the file is still the one that was opened, and whole: nil or store.ErrBroken.
func (d *database) check() error {
	if err := d.usable(); err != nil {
		return err
	}
	d.checking.Lock() // sizes are compared in the order in which they were read
	defer d.checking.Unlock()
	now, err := os.Stat(d.path)
	switch {
	case err != nil:
		return d.breakWith(fmt.Errorf("the file is gone: %w", err))
	case !os.SameFile(now, d.file):
		return d.breakWith(errors.New("another file stands in its place"))
	case now.Size() < d.seen:
		return d.breakWith(fmt.Errorf("the file shrank from %d to %d bytes", d.seen, now.Size()))
	}
	d.seen = now.Size()
	wal, err := os.Stat(d.path + "-wal")
	if err != nil || !os.SameFile(wal, d.wal) || wal.Size() < min(d.logged, logKept) {
		return d.breakWith(errors.New("its log (-wal) is gone, was replaced or cut"))
	}
	d.logged = wal.Size()
	if err := d.lock.check(); err != nil {
		return d.breakWith(err)
	}
	return nil
}

// room is store.ErrFull when the disk has less room than is kept for what runs.
func (d *database) room() error {
	if d.reserve < 0 {
		return nil
	}
	free, err := freeBytes(d.path)
	if err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	if free < uint64(d.reserve) {
		return fmt.Errorf("%w: %d MiB free, %d are kept for what runs", store.ErrFull, free>>20,
			d.reserve>>20)
	}
	return nil
}
