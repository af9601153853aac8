package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver that migrations use
	"zombiezen.com/go/sqlite"
)

// application marks our files, so that another program's database is refused: "rota".
const application = 0x726f7461

//go:embed migrations/*.sql
var migrations embed.FS

// lock is PATH.lock: held as long as the store is open, and remembering which database stands at PATH. So a database
// that vanished, or was replaced, is not taken for a new one.
type lock struct {
	flock    *flock.Flock
	path     string
	identity string // of the database; "" = there never was one
	open     bool   // the process that had it last did not close it, so its log must be there
	file     os.FileInfo
}

// lockFile makes this process the only one that has the store at path open.
func lockFile(path string) (*lock, error) {
	l := &lock{path: path + ".lock"}
	l.flock = flock.New(l.path, flock.SetPermissions(0o600))
	switch ok, err := l.flock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", l.path, err)
	case !ok:
		return nil, fmt.Errorf("%s is in use by another process (it holds %s)", path, l.path)
	}
	if err := l.recall(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// nameAt is where the identity begins in the lock file. Windows locks the first byte against every other handle, ours included.
const nameAt = 1

// recall reads the identity.
func (l *lock) recall() error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, nameAt, 64))
	name, state, _ := strings.Cut(string(b), "\n")
	l.identity, l.open = strings.TrimSpace(name), strings.HasPrefix(state, markOpen)
	if err == nil {
		l.file, err = f.Stat()
	}
	return errors.Join(err, f.Close())
}

// What stands behind the identity: whether a process has the database open.
const (
	markOpen   = "open  \n"
	markClosed = "closed\n"
)

// mark notes that the database is open, or closed in good order. It needs no fsync: a lost mark only means less suspicion.
func (l *lock) mark(open bool) error {
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	text := markClosed
	if open {
		text = markOpen
	}
	_, err = f.WriteAt([]byte(text), nameAt+int64(len(l.identity))+1)
	return errors.Join(err, f.Close())
}

// check says whether the lock file is still the one that is locked. If not, another process may have the database open.
func (l *lock) check() error {
	if now, err := os.Stat(l.path); err != nil || !os.SameFile(now, l.file) {
		return fmt.Errorf("%s is gone or was replaced: another process may have the file open", l.path)
	}
	return nil
}

func (l *lock) release() error { return l.flock.Unlock() }

// settle sees to it that the right database stands at path: made if there never was one, migrated if it is older.
func (l *lock) settle(ctx context.Context, path string) error {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) && l.identity != "":
		return fmt.Errorf("%s is gone, but %s says that it existed: put it back (or a backup), or delete %s to begin with an empty store", path, l.path, l.path)
	case errors.Is(err, fs.ErrNotExist):
		if err := create(ctx, path); err != nil {
			return fmt.Errorf("create %s: %w", path, err)
		}
	case err != nil:
		return err
	}
	if err := checkHeader(path); err != nil {
		return fmt.Errorf("%s %w", path, err)
	}
	if _, err := os.Stat(path + "-wal"); l.open && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s-wal is gone, and what was committed last with it: put it back, or the whole store from a backup, or delete %s to go on without", path, l.path)
	}
	identity, err := l.recover(path)
	if err != nil {
		return err
	}
	if err := migrate(ctx, fileURI(path)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if l.identity == "" {
		return l.remember(identity)
	}
	return nil
}

// recover brings home what a killed process left in the log, and says which database it is. The log may be missed after that:
// SQLite deletes it with the last connection, and whoever is killed before the next one has made it anew lost nothing.
func (l *lock) recover(path string) (identity string, err error) {
	c, err := dial(path, sqlite.OpenReadWrite, nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	found, err := c.one("SELECT identity FROM store", func(st *sqlite.Stmt) { identity = st.ColumnText(0) })
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", path, err)
	case !found:
		return "", fmt.Errorf("%s: the database has no identity: it is damaged", path)
	case l.identity != "" && l.identity != identity:
		return "", fmt.Errorf("%s is another database than the one that %s names: put the right one back, or delete %s to go on with this one", path, l.path, l.path)
	case !l.open:
		return identity, nil
	}
	return identity, l.markEmptied(c)
}

// markEmptied moves all that the log has into the database, and notes that nothing would be lost with the log. c writes
// nothing afterwards. Where another program is still reading, the log keeps what it has, and its mark.
func (l *lock) markEmptied(c *conn) error {
	var logged, moved int64 // pages
	_, err := c.one("PRAGMA wal_checkpoint(PASSIVE)", func(st *sqlite.Stmt) { logged, moved = st.ColumnInt64(1), st.ColumnInt64(2) })
	if err != nil {
		return fmt.Errorf("move the log into the database: %w", err)
	}
	if moved < logged {
		return nil
	}
	return l.mark(false)
}

// remember writes the identity down. The file stays the same one: it is what is locked.
func (l *lock) remember(identity string) error {
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(identity+"\n"), nameAt)
	if err == nil {
		err = f.Sync()
	}
	l.identity = identity
	return errors.Join(err, f.Close(), syncDir(filepath.Dir(l.path)))
}

// create makes the database beside path, and moves it there when it is complete and on the disk: one fsync for all of it.
func create(ctx context.Context, path string) error {
	temp := path + ".new"
	for _, name := range []string{temp, temp + "-wal", temp + "-shm", temp + "-journal", path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.WriteFile(temp, nil, 0o600); err != nil { // contexts may hold secrets; SQLite gives -wal and -shm the same mode
		return err
	}
	if err := migrate(ctx, fileURI(temp)+"?_pragma=synchronous(OFF)&_pragma=journal_mode(MEMORY)"); err != nil {
		return err
	}
	c, err := dial(temp, sqlite.OpenReadWrite, []string{"PRAGMA synchronous = OFF", fmt.Sprintf("PRAGMA application_id = %d", application)})
	if err != nil {
		return err
	}
	_, err = c.exec("INSERT INTO store (one, identity) VALUES (1, ?)", strings.ToLower(rand.Text()))
	if err := errors.Join(err, c.Close(), syncFile(temp)); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// fileURI names a file whose path may have any characters, a question mark included.
func fileURI(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// checkHeader refuses what is not one of our databases, before SQLite touches it. The layout of the header:
// https://www.sqlite.org/fileformat.html#the_database_header.
func checkHeader(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var h [100]byte
	switch n, err := io.ReadFull(f, h[:]); {
	case n == 0 && err == io.EOF:
		return errors.New("is empty: put a backup back, or delete it and its lock file to begin with an empty store")
	case err == io.ErrUnexpectedEOF, err == nil && !bytes.HasPrefix(h[:], []byte("SQLite format 3\x00")):
		return errors.New("is not a SQLite database, or damaged: put a backup back")
	case err != nil:
		return err
	}
	if id := binary.BigEndian.Uint32(h[68:]); id != application {
		return fmt.Errorf("is the database of another program (application id %#x)", id)
	}
	return nil
}

// migrate brings the tables up to this version of the program. name is the database's, as the driver takes it.
func migrate(ctx context.Context, name string) error {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return err
	}
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return err
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the tables: %w", err)
	}
	if current > target {
		return fmt.Errorf("its tables have version %d, this program knows %d: use a newer rota", current, target)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate from version %d to %d: %w", current, target, err)
	}
	return nil
}
