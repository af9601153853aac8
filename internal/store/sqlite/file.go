package sqlite

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
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver that migrations use
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// application marks our files, so that another program's database is refused: "rota".
const application = 0x726f7461

// backedUp marks backups, which are no stores until they are restored: "rotb".
const backedUp = 0x726f7462

//go:embed migrations/*.sql
var migrations embed.FS

// schema is what all migrations together make of an empty file. New files are made by it: opening
// one takes a quarter of the time then. A test writes it, and holds both to be the same.
//
//go:embed schema.sql
var schema string

// lock is PATH.lock: held as long as the store is open. It remembers which database stands at PATH,
// so that one that vanished or was replaced is not taken for a new one, and how many commits it
// had, so that a lost log is told from one that was moved into the file.
type lock struct {
	flock    *flock.Flock
	path     string
	identity string // of the database; "" = there never was one
	commits  int64  // that were noted; 0 = none, or a program before counting
	open     bool   // a program before counting did not close it
	file     os.FileInfo
	notes    *os.File // the same file, to be written; nil = nothing is remembered yet
	inode    *os.File // the database, locked under whatever name
	log      *slog.Logger
	failed   bool         // a note could not be written; said once
	crash    func(string) // for tests: called between steps
}

// step is where a test may look at what a process that dies here leaves.
func (l *lock) step(name string) {
	if l.crash != nil {
		l.crash(name)
	}
}

// lockFile makes this process the only one that has the store at path open.
func lockFile(path string) (*lock, error) {
	l := &lock{path: path + ".lock", log: slog.New(slog.DiscardHandler)}
	l.flock = flock.New(l.path, flock.SetPermissions(0o600))
	switch ok, err := l.flock.TryLock(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("lock %s: make its folder first: %w", l.path, err)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", l.path, err)
	case !ok:
		return nil, fmt.Errorf("%s is in use by another process (it holds %s): stop that one, or "+
			"take another store; several nodes share one on PostgreSQL", path, l.path)
	}
	if err := l.recall(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// nameAt is where the identity begins in the lock file. Windows locks the first byte against every
// other handle, ours included.
const nameAt = 1

// recall reads what the lock file remembers: the identity, and behind it the number of commits.
// Programs before counting wrote "open" or "closed" there.
func (l *lock) recall() error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, nameAt, 128))
	name, rest, _ := strings.Cut(string(b), "\n")
	state, _, _ := strings.Cut(rest, "\n")
	l.identity, l.open = strings.TrimSpace(name), strings.HasPrefix(state, "open")
	if n, e := strconv.ParseInt(state, 10, 64); e == nil {
		l.commits = n
	}
	if err == nil {
		l.file, err = f.Stat()
	}
	return errors.Join(err, f.Close())
}

// note remembers how many commits there are. It is called between a commit and its answer: so the
// note never says more than the database has, and never less than was acknowledged by a process
// that lives. It needs no fsync: after a power cut a lost note only means less suspicion.
func (l *lock) note(commits int64) {
	l.commits = commits
	_, err := l.notes.WriteAt(fmt.Appendf(nil, "%020d\n", commits), nameAt+int64(len(l.identity))+1)
	if err != nil && !l.failed {
		l.failed = true
		l.log.Warn("commits can't be noted: a lost log would not be noticed", "file", l.path,
			"error", err)
	}
}

// check says whether the lock file is still the one that is locked. If not, another process may
// have the database open.
func (l *lock) check() error {
	if now, err := os.Stat(l.path); err != nil || !os.SameFile(now, l.file) {
		return fmt.Errorf("%s is gone or was replaced: another process may have the file open",
			l.path)
	}
	return nil
}

// release gives everything up. SQLite's connections must be closed before: its locks end when the
// process closes any descriptor of the same file.
func (l *lock) release() error {
	var errs []error
	for _, f := range []*os.File{l.notes, l.inode} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, l.flock.Unlock())...)
}

// settle sees to it that the right database stands at path: made if there never was one, migrated
// if it is older, and with nothing in its log that the file lacks.
func (l *lock) settle(ctx context.Context, path string) (counter, error) {
	n := counter{lock: l}
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) && l.identity != "":
		return n, fmt.Errorf(
			"%s is gone, but %s says that it existed: put it back (or a backup), or move %s away to begin with an empty store",
			path, l.path, l.path,
		)
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path); err != nil {
			return n, fmt.Errorf("create %s: %w", path, err)
		}
	case err != nil:
		return n, err
	}
	l.step("there")
	var err error
	if l.inode, err = onlyName(path); err != nil {
		return n, err
	}
	if err := checkHeader(path, l.inode); err != nil {
		return n, err
	}
	all, err := l.inspect(path)
	if err != nil {
		return n, err
	}
	l.step("inspected")
	if err := l.remember(all); err != nil {
		return n, err
	}
	l.step("remembered")
	n.commits, n.emptied = all.commits, all.emptied
	return n, n.bringHome(ctx, path)
}

// onlyName opens the database and locks it under whatever name. A second name (a hard link) is
// refused even while nobody has it open: lock file and log stand beside one name, and a process
// that goes by the other would not see what they hold.
func onlyName(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	n, err := names(f)
	if err == nil && n > 1 {
		err = fmt.Errorf(
			"%s has %d names (hard links), and its lock and its log stand beside only one of them: keep that name and remove the others",
			path, n,
		)
	}
	if err == nil {
		var free bool
		if free, err = lockInode(f); err == nil && !free {
			err = fmt.Errorf("%s is in use by another process, under another name", path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// bringHome moves into the file what a killed process left in the log, and brings the tables up to
// this version of the program. SQLite would move and delete the log with its last connection, in
// its own order: so the log is empty before that, or a connection stays open.
func (n *counter) bringHome(ctx context.Context, path string) (err error) {
	pragmas := []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 0",
	}
	writer, err := dial(path, sqlite.OpenReadWrite, pragmas)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	reader, err := dial(path, sqlite.OpenReadWrite, pragmas)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := n.settleLog(writer, reader); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := migrate(
		ctx, fileURI(path)+"?_pragma=wal_autocheckpoint(0)", n.lock.telling(),
	); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), reader.Close())
	}
	n.lock.step("migrated")
	if err := n.settleLog(writer, reader); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return reader.Close()
}

// settleLog empties the log if it has anything. Tables that do not count yet are those of an older
// program; it is moved as it is.
func (n *counter) settleLog(writer, reader *conn) error {
	logged, err := pages(writer)
	if err != nil {
		return err
	}
	if logged == 0 {
		n.emptied = n.commits
		return nil
	}
	at, err := writer.standing()
	if err != nil {
		return err
	}
	if at.counted {
		_, err = n.empty(writer, reader)
	} else {
		_, err = move(writer)
	}
	return err
}

// remember writes down which database this is, and how many commits it has. The file stays the same
// one: it is what is locked.
func (l *lock) remember(at standing) (err error) {
	if l.notes, err = os.OpenFile(l.path, os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if l.identity == at.identity && !l.open {
		return nil // the count is at most as great as it says, and is noted with the next commit
	}
	if _, err = l.notes.WriteAt([]byte(at.identity+"\n"), nameAt); err != nil {
		return err
	}
	l.step("named")
	l.identity, l.open = at.identity, false
	l.note(at.commits)
	return errors.Join(l.notes.Sync(), syncDir(filepath.Dir(l.path)))
}

// create makes the database beside path, and moves it there when it is complete and on the disk:
// one fsync for all of it.
func create(path string) error {
	if orphaned, err := logged(path); err != nil {
		return err
	} else if orphaned {
		return fmt.Errorf(
			"%s-wal is a log without its file: put the file back beside it, or move the log away to begin with an empty store",
			path,
		)
	}
	temp := path + ".new"
	for _, name := range []string{temp, temp + "-wal", temp + "-shm", temp + "-journal",
		path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.WriteFile(temp, nil, 0o600); err != nil {
		// contexts may hold secrets; SQLite gives -wal and -shm the same mode
		return err
	}
	c, err := dial(temp, sqlite.OpenReadWrite, []string{
		"PRAGMA synchronous = OFF", "PRAGMA journal_mode = MEMORY",
		fmt.Sprintf("PRAGMA application_id = %d", application),
	})
	if err != nil {
		return err
	}
	if err := sqlitex.ExecuteScript(c.Conn, schema, nil); err != nil {
		return errors.Join(err, c.Close())
	}
	_, err = c.exec("INSERT INTO store (one, identity, secret) VALUES (1, ?, ?)",
		strings.ToLower(rand.Text()), newSecret())
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

// checkHeader refuses what is not one of our databases, before SQLite touches it. The layout of the
// header: https://www.sqlite.org/fileformat.html#the_database_header.
func checkHeader(path string, f io.ReaderAt) error {
	var h [100]byte
	switch n, err := f.ReadAt(h[:], 0); {
	case n == 0 && err == io.EOF:
		return fmt.Errorf(
			"%s is empty: put it back (or a backup); or move it, %s-wal and %s.lock away to begin with an empty store",
			path, path, path,
		)
	case err == io.EOF, err == nil && !bytes.HasPrefix(h[:], []byte("SQLite format 3\x00")):
		return fmt.Errorf("%s is not a SQLite database, or damaged: put it back (or a backup)",
			path)
	case err != nil:
		return err
	}
	switch id := binary.BigEndian.Uint32(h[68:]); id {
	case application:
		return nil
	case backedUp:
		return fmt.Errorf("%s is a backup: make a store of it with rota restore", path)
	default:
		return fmt.Errorf("%s is the database of another program (application id %#x)", path, id)
	}
}

// telling logs how far long work has come, every few seconds.
func (l *lock) telling() telling {
	last := time.Now()
	return func(what string, done, all int64) {
		if now := time.Now(); now.Sub(last) >= toldEvery || done == all {
			last = now
			l.log.Info("migrate", "moved", done, "of", all, "what", what)
		}
	}
}

const toldEvery = 2 * time.Second

// migrate brings the tables up to this version of the program. name is the database's, as the
// driver takes it. tell hears of what takes long.
func migrate(ctx context.Context, name string, tell telling) error {
	return migrateBy(ctx, name, repackPiece, renumberPiece, tell)
}

// migrateBy moves so many tasks at once, and so many rows.
func migrateBy(ctx context.Context, name string, tasks, rows int, tell telling) error {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return err
	}
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithGoMigrations(repacking(tasks, tell), renumbering(rows, tell)))
	if err != nil {
		return err
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the tables: %w", err)
	}
	if current > target {
		return fmt.Errorf("its tables have version %d, this program knows %d: use a newer rota",
			current, target)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate from version %d to %d: %w", current, target, err)
	}
	return nil
}
