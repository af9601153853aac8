package sqlite

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/blob"
)

// Store is the tables in one SQLite file. Its methods may be called at the same time.
type Store struct {
	path     string
	log      *slog.Logger
	now      func() time.Time
	reserve  int64
	examined int // rows that one page of a list looks at before it is cut short
	kept     history.Kept
	blobs    Blobs
	secret   seal.Secret  // read once
	folder   *blob.Folder // that Open made, to be closed; or nil
	lock     *lock
	file     os.FileInfo // as it was opened: what stands at path must stay the same file
	wal      os.FileInfo // likewise its log, which has what was committed last

	commits atomic.Int64
	cause   atomic.Pointer[error] // why the store is broken

	checking sync.Mutex
	seen     int64 // the greatest size of the file; it never shrinks
	logged   int64 // the last size of its log; it shrinks to logKept at most

	reading   sync.Mutex  // while large values are deleted
	leftBlobs atomic.Bool // some were to be deleted while a backup read them

	mu      sync.RWMutex
	closed  bool
	closing chan struct{}   // closed together with it
	ops     chan *operation // closed with it, too
	wg      sync.WaitGroup

	writer  *conn // owned by writeAll
	pin     *conn // likewise: keeps a state of the log while the rest is moved into the file
	count   counter
	walSize walSize
	readers chan *conn
	dialled int     // readers, wherever they are
	settler settler // owned by writeAll
	spans   spans   // owned by writeAll
	packing packing // owned by writeAll
	pruner  pruner
}

// Open opens the store, and makes it when there is none. It refuses a file that another process has
// open, that is no database of this program or of a newer version of it, or that is not the one
// that its lock file names.
func Open(ctx context.Context, conf Config) (_ *Store, err error) {
	if err := conf.complete(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if real, err := filepath.EvalSymlinks(conf.Path); err == nil {
		// one file has one lock, whatever it is called
		conf.Path = real
	}
	s := &Store{
		path: conf.Path, log: conf.Log, now: conf.Now, reserve: conf.Reserve,
		examined: listing.Examined, kept: conf.History, blobs: conf.Blobs, walSize: walSize{
			limit: conf.logPages,
		},
		closing: make(chan struct{}), ops: make(chan *operation, conf.Waiting),
		readers: make(chan *conn, conf.Readers), settler: settler{together: conf.together},
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open store: %w", errors.Join(err, s.release()))
		}
	}()
	if s.lock, err = lockFile(conf.Path); err != nil {
		return nil, err
	}
	s.lock.log, s.lock.crash = conf.Log, conf.crash
	if s.count, err = s.lock.settle(ctx, conf.Path); err != nil {
		return nil, err
	}
	if err := s.connect(conf); err != nil {
		return nil, fmt.Errorf("%s: %w", conf.Path, err)
	}
	if err := s.readSecret(); err != nil {
		return nil, fmt.Errorf("%s: %w", conf.Path, err)
	}
	if s.file, err = os.Stat(conf.Path); err != nil {
		return nil, err
	}
	if s.wal, err = os.Stat(conf.Path + "-wal"); err != nil {
		return nil, err
	}
	if err := s.openBlobs(cmp.Or(conf.Folder, conf.Path+".blobs")); err != nil {
		return nil, err
	}
	s.lock.step("open")
	s.wg.Go(s.writeAll)
	return s, nil
}

// logKept is how many bytes of its log SQLite keeps for use again.
const logKept = 64 << 20

// Secret is the same for everybody who opens this store, and unknown to others. It seals tokens.
func (s *Store) Secret() seal.Secret { return s.secret }

// readSecret reads the secret, or makes it in a store of an earlier version, which sealed with a
// hash of the identity.
func (s *Store) readSecret() error {
	var key []byte
	read := func() error {
		_, err := s.writer.one("SELECT secret, secret_since FROM store", func(st *sqlite.Stmt) {
			key, s.secret.Since = bytesOf(st, 0), st.ColumnInt64(1)
		})
		return err
	}
	err := read()
	if err == nil && len(key) == 0 {
		now := time.Now()
		if s.now != nil {
			now = s.now()
		}
		if _, err = s.writer.exec(
			"UPDATE store SET secret = ?, secret_since = ? WHERE secret IS NULL", newSecret(),
			now.UnixMicro(),
		); err == nil {
			err = read()
		}
	}
	if err == nil && len(key) != len(s.secret.Key) {
		err = fmt.Errorf("it has %d bytes: the file is damaged", len(key))
	}
	if err != nil {
		return fmt.Errorf("read the secret: %w", err)
	}
	copy(s.secret.Key[:], key)
	if s.secret.Since != 0 {
		h := fnv.New64a()
		h.Write([]byte(s.lock.identity))
		s.secret.Old = h.Sum64()
	}
	return nil
}

func newSecret() []byte {
	key := make([]byte, 32)
	rand.Read(key) // it never fails
	return key
}

// connect opens the writer and the readers.
func (s *Store) connect(conf Config) (err error) {
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
	if s.writer, err = dial(s.path, sqlite.OpenReadWrite, pragmas); err != nil {
		return err
	}
	if s.pin, err = dial(s.path, sqlite.OpenReadWrite,
		[]string{"PRAGMA cache_size = -64", "PRAGMA wal_autocheckpoint = 0"}); err != nil {
		return err
	}
	for range conf.Readers {
		c, err := dial(s.path, sqlite.OpenReadWrite, []string{
			"PRAGMA cache_size = -4000", "PRAGMA query_only = ON",
			"SELECT identity FROM store", // opens the log, so that no file need be opened later
		})
		if err != nil {
			return err
		}
		s.readers <- c
		s.dialled++
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

// Close ends what was begun, answers what waits, and closes the file. Later calls get
// store.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	close(s.ops)
	s.mu.Unlock()
	s.wg.Wait()
	if err := s.release(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// release closes whatever is open. A store that is broken leaves its files as they are: what an
// fsync that failed left is known only to the log's checksums, and at path another store may stand
// by now. But SQLite would move the log into the file and delete it with the last connection, so
// one is left open; the process is to end.
func (s *Store) release() error {
	var errs []error
	for ; s.dialled > 0; s.dialled-- {
		errs = append(errs, (<-s.readers).Close()) // waits for calls that read
	}
	whole := errors.Join(errs...) == nil && s.broken() == nil
	if whole && s.wal != nil {
		if err := s.count.settleLog(s.writer, s.pin); err != nil {
			errs = append(errs, s.judge(err))
			whole = s.broken() == nil
		}
		s.lock.step("settled")
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	if s.pin != nil && whole {
		errs = append(errs, s.pin.Close())
	}
	if s.folder != nil {
		errs = append(errs, s.folder.Close())
	}
	if s.lock != nil {
		s.lock.step("closed")
		errs = append(errs, s.lock.release())
	}
	return errors.Join(errs...)
}

// openBlobs opens the folder of large values. One that is missing is made, unless there are such
// values.
func (s *Store) openBlobs(dir string) error {
	if s.blobs != nil {
		return nil
	}
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		var needed bool
		if needed, err = s.writer.has(anyBlob); needed {
			return fmt.Errorf(
				"%s, the folder of large values, is gone, and tasks need it: put it back", dir,
			)
		}
	}
	if err != nil {
		return err
	}
	if s.folder, err = blob.Open(dir); err == nil {
		s.blobs = s.folder
	}
	return err
}

const anyBlob = `SELECT 1 FROM blob LIMIT 1`

// Commits counts the write transactions that changed something: each is one fsync.
func (s *Store) Commits() int64 { return s.commits.Load() }

func (s *Store) clock() int64 { return s.now().UnixMicro() }

// Check says whether the file is still the one that was opened, whole, and has room: nil,
// store.ErrFull or store.ErrBroken.
func (s *Store) Check(context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.checking.Lock() // sizes are compared in the order in which they were read
	defer s.checking.Unlock()
	now, err := os.Stat(s.path)
	switch {
	case err != nil:
		return s.breakWith(fmt.Errorf("the file is gone: %w", err))
	case !os.SameFile(now, s.file):
		return s.breakWith(errors.New("another file stands in its place"))
	case now.Size() < s.seen:
		return s.breakWith(fmt.Errorf("the file shrank from %d to %d bytes", s.seen, now.Size()))
	}
	s.seen = now.Size()
	wal, err := os.Stat(s.path + "-wal")
	if err != nil || !os.SameFile(wal, s.wal) || wal.Size() < min(s.logged, logKept) {
		return s.breakWith(errors.New("its log (-wal) is gone, was replaced or cut"))
	}
	s.logged = wal.Size()
	if err := s.lock.check(); err != nil {
		return s.breakWith(err)
	}
	if f, ok := s.blobs.(interface{ Check() error }); ok {
		if err := f.Check(); err != nil {
			return s.breakWith(err)
		}
	}
	return s.room()
}

// room is store.ErrFull when the disk has less room than is kept for what runs.
func (s *Store) room() error {
	if s.reserve < 0 {
		return nil
	}
	free, err := freeBytes(s.path)
	if err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	if free < uint64(s.reserve) {
		return fmt.Errorf("%w: %d MiB free, %d are kept for what runs", store.ErrFull, free>>20,
			s.reserve>>20)
	}
	return nil
}
