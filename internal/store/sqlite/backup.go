package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store/blob"
)

// Backup says what is to be copied, and where to.
type Backup struct {
	Path    string // of the store
	Folder  string // of its large values; "" = Path.blobs
	File    string // where the backup is to stand
	Replace bool   // also when a file stands there

	// Progress is called while it works, often: what is done now, and how much of it. nil = nobody
	// asks.
	Progress func(what string, done, all int64)
}

// Backed is what a backup has.
type Backed struct {
	Time    time.Time // after which nothing of the store is in it
	Commits int64     // of the store then
	Bytes   int64     // of the file
	Values  int64     // large values
	Missing int64     // large values that the store itself has lost
}

// What a backup has besides the tables.
const (
	makeBackup = `CREATE TABLE backup (one INTEGER PRIMARY KEY CHECK (one = 1), time INTEGER NOT NULL);
CREATE TABLE backup_value (name TEXT PRIMARY KEY, content BLOB NOT NULL)`
	nameBackup  = `INSERT INTO backup (one, time) VALUES (1, ?)`
	backupTime  = `SELECT time FROM backup`
	keepValue   = `INSERT INTO backup_value (name, content) VALUES (?, ?)`
	valuesAfter = `SELECT name FROM blob WHERE name > ? GROUP BY name ORDER BY name LIMIT 1000`
	countValues = `SELECT count(DISTINCT name) FROM blob`
	keptAfter   = `SELECT name FROM backup_value WHERE name > ? ORDER BY name LIMIT 1000`
	keptValue   = `SELECT content FROM backup_value WHERE name = ?`
	countKept   = `SELECT count(*) FROM backup_value`
)

// backupPages is how many pages are copied between two looks at the context: 8 MB.
const backupPages = 2000

// Write copies the store, which another process may have open and write to, into one file, with its
// large values. It reads one snapshot, so it takes as long as reading the store once, whatever is
// written meanwhile; so long the store's log grows. The file appears under its name whole, fsynced
// and checked, or not at all.
func (b Backup) Write(ctx context.Context, now func() time.Time) (done Backed, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("back up %s: %w", b.Path, err)
		}
	}()
	if real, err := filepath.EvalSymlinks(b.Path); err == nil {
		b.Path = real
	}
	if b.Folder == "" {
		b.Folder = b.Path + ".blobs"
	}
	if b.Progress == nil {
		b.Progress = func(string, int64, int64) {}
	}
	if err := b.check(); err != nil {
		return done, err
	}
	temp, err := newPart(b.File)
	if err != nil {
		return done, err
	}
	defer func() {
		err = errors.Join(err, removeAll(temp, temp+"-wal", temp+"-shm", temp+"-journal"))
	}()
	if done, err = b.copyTo(ctx, temp, now); err != nil {
		return done, err
	}
	if err := syncFile(temp); err != nil {
		return done, err
	}
	if err := checkBackup(ctx, temp, done.Missing); err != nil {
		return done, err
	}
	info, err := os.Stat(temp)
	if err != nil {
		return done, err
	}
	done.Bytes = info.Size()
	return done, place(temp, b.File, b.Replace)
}

// check refuses what would not end well, before any work.
func (b Backup) check() error {
	f, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	if err := errors.Join(checkHeader(b.Path, f), f.Close()); err != nil {
		return err
	}
	there, err := os.Stat(b.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.IsDir():
		return fmt.Errorf("%s is a folder: name a file", b.File)
	case !b.Replace:
		return fmt.Errorf("%s: %w", b.File, ErrExists)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		if own, err := os.Stat(b.Path + suffix); err == nil && os.SameFile(own, there) {
			return fmt.Errorf("%s belongs to the store itself", b.File)
		}
	}
	return nil
}

// ErrExists is in the error of a backup or a restore that was not told to replace what stands
// there.
var ErrExists = errors.New("it exists already, and is not replaced unless told so")

// copyTo copies first the pages of one snapshot, then the large values that it refers to, which no
// process deletes meanwhile.
func (b Backup) copyTo(
	ctx context.Context, temp string, now func() time.Time,
) (done Backed, err error) {
	reading := flock.New(b.Path+readingName, flock.SetPermissions(0o600))
	if _, err := reading.TryRLockContext(ctx, 20*time.Millisecond); err != nil {
		// before the snapshot
		return done, err
	}
	defer func() { err = errors.Join(err, reading.Unlock()) }()
	noted, err := readLock(b.Path) // before the snapshot, too
	if err != nil {
		return done, err
	}
	to, err := dial(temp, sqlite.OpenReadWrite,
		[]string{"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF"})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	done.Time = now()
	if err := b.copyPages(ctx, to, noted); err != nil {
		return done, err
	}
	// a file without a log
	own := []string{
		"PRAGMA journal_mode = DELETE", "PRAGMA journal_mode = OFF",
		fmt.Sprintf("PRAGMA application_id = %d", backedUp), "BEGIN",
	}
	for _, query := range append(own, strings.Split(makeBackup, ";")...) {
		if err := to.run(query); err != nil {
			return done, err
		}
	}
	at, err := to.standing()
	if err != nil {
		return done, err
	}
	done.Commits = at.commits
	if _, err := to.exec(nameBackup, done.Time.UnixMicro()); err != nil {
		return done, err
	}
	if done.Values, done.Missing, err = b.copyValues(ctx, to); err != nil {
		return done, err
	}
	return done, to.run("COMMIT")
}

func (b Backup) copyPages(ctx context.Context, to *conn, noted lock) (err error) {
	from, err := dial(b.Path, sqlite.OpenReadOnly, []string{"BEGIN"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	// takes the snapshot, which is kept until the end: so nothing is ever copied twice
	all, err := from.standing()
	if err != nil {
		return err
	}
	if err := noted.judge(b.Path, true, all, all); err != nil {
		// of a store that lives, the file alone can't be looked at
		return err
	}
	copying, err := sqlite.NewBackup(to.Conn, "main", from.Conn, "main")
	if err != nil {
		return err
	}
	defer copying.Close()
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if more, err = copying.Step(backupPages); err != nil {
			return err
		}
		pages := int64(copying.PageCount())
		b.Progress("pages", pages-int64(copying.Remaining()), pages)
	}
	return nil
}

func (b Backup) copyValues(ctx context.Context, to *conn) (values, missing int64, err error) {
	all, err := to.number(countValues)
	if err != nil || all == 0 {
		return 0, 0, err
	}
	if _, err := os.Stat(b.Folder); err != nil {
		return 0, 0, fmt.Errorf("look at the folder of large values: %w", err)
	}
	folder, err := blob.Open(b.Folder)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	err = to.names(valuesAfter, func(name string) error {
		content, err := folder.Get(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing++
			return nil
		case err != nil:
			return err
		}
		values++
		b.Progress("large values", values, all)
		if content == nil {
			content = []byte{}
		}
		_, err = to.exec(keepValue, name, content)
		return errors.Join(err, ctx.Err())
	})
	return values, missing, err
}

// number runs a query for one number.
func (c *conn) number(query string, args ...any) (n int64, err error) {
	_, err = c.one(query, func(st *sqlite.Stmt) { n = st.ColumnInt64(0) }, args...)
	return n, err
}

// names calls do for each name that a query finds page by page.
func (c *conn) names(query string, do func(name string) error) error {
	for last := ""; ; {
		var page []string
		err := c.each(query, func(st *sqlite.Stmt) bool {
			page = append(page, st.ColumnText(0))
			return true
		}, last)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, last = range page {
			if err := do(last); err != nil {
				return err
			}
		}
	}
}

// checkBackup opens a backup and reads all of it: its pages, and whether no large value is missing
// but so many.
func checkBackup(ctx context.Context, path string, missing int64) (err error) {
	c, err := dial(fileURI(path)+"?immutable=1", sqlite.OpenReadOnly|sqlite.OpenURI, nil)
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.whole(ctx); err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	values, err := c.number(countValues)
	if err != nil {
		return err
	}
	kept, err := c.number(countKept)
	if err == nil && missing >= 0 && kept != values-missing {
		err = fmt.Errorf("check %s: it has %d large values of %d", path, kept, values-missing)
	}
	return err
}

// whole reads every page of a database and says what is wrong with it.
func (c *conn) whole(ctx context.Context) error {
	c.SetInterrupt(ctx.Done())
	defer c.SetInterrupt(nil)
	found := ""
	_, err := c.one("PRAGMA quick_check(1)", func(st *sqlite.Stmt) { found = st.ColumnText(0) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && found != "ok" {
		err = fmt.Errorf("it is damaged: %s", found)
	}
	return err
}

// readLock reads what a lock file remembers, without locking it: whoever has the store open may
// live. Without one nothing is remembered.
func readLock(path string) (lock, error) {
	l := lock{path: path + ".lock"}
	if err := l.recall(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	return l, nil
}

// partAge is how long a part that nobody writes to any more is left alone. A backup that was killed
// left it.
const partAge = 24 * time.Hour

// newPart makes an empty file beside one that is to be written, and removes what killed processes
// left of earlier ones.
func newPart(file string) (string, error) {
	pattern := "." + filepath.Base(file) + ".*.part"
	old, err := filepath.Glob(filepath.Join(filepath.Dir(file), pattern))
	if err != nil {
		old = nil // the name has characters of a pattern
	}
	for _, name := range old {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > partAge {
			os.Remove(name) // else it stays until the next
		}
	}
	f, err := os.CreateTemp(filepath.Dir(file), pattern)
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// place gives a file its name, with nothing in its place in between.
func place(temp, file string, replace bool) error {
	err := error(nil)
	if !replace {
		if err = os.Link(temp, file); err != nil && !errors.Is(err, fs.ErrExist) {
			// a file system without links
			var f *os.File
			if f, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				err = f.Close()
				replace = true
			}
		}
	}
	if err == nil && replace {
		err = os.Rename(temp, file)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", file, ErrExists)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(file))
}

func removeAll(names ...string) error {
	var errs []error
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
