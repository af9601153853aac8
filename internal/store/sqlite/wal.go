package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"
)

// standing is what a database says of itself.
type standing struct {
	identity string
	counted  bool  // its tables count commits; those of an older program do not
	commits  int64 // transactions that were ever committed
	// commits when the log was last emptied into the file, so that the log has all after it
	emptied int64
}

const (
	readIdentity = `SELECT identity FROM store`
	countsStand  = `SELECT 1 FROM pragma_table_info('store') WHERE name = 'commits'`
	readCounts   = `SELECT commits, emptied FROM store`
	putCounts    = `UPDATE store SET commits = ?, emptied = ?`
)

// standing reads what the database says of itself.
func (c *conn) standing() (at standing, err error) {
	found, err := c.one(readIdentity, func(st *sqlite.Stmt) { at.identity = st.ColumnText(0) })
	if err == nil && !found {
		return at, errors.New("the database has no identity: it is damaged")
	}
	if err == nil {
		at.counted, err = c.has(countsStand)
	}
	if err == nil && at.counted {
		_, err = c.one(readCounts, func(st *sqlite.Stmt) {
			at.commits, at.emptied = st.ColumnInt64(0), st.ColumnInt64(1)
		})
	}
	return at, err
}

// look opens a database, changes nothing in any of its files, and reads what it says of itself.
func look(name string, flags sqlite.OpenFlags) (at standing, err error) {
	c, err := dial(name, flags, nil)
	if err != nil {
		return at, err
	}
	at, err = c.standing()
	return at, errors.Join(err, c.Close())
}

// lookAlone reads what the file says of itself without its log.
func lookAlone(path string) (standing, error) {
	return look(fileURI(path)+"?immutable=1", sqlite.OpenReadOnly|sqlite.OpenURI)
}

// logged tells whether a log with anything in it stands beside the file.
func logged(path string) (bool, error) {
	info, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

// inspect says what the file and its log hold together, or why they must not be opened. It changes
// nothing: what is refused can be put right by hand.
func (l *lock) inspect(path string) (all standing, err error) {
	withLog, err := logged(path)
	if err != nil {
		return all, err
	}
	alone, torn := standing{}, error(nil)
	if withLog {
		alone, torn = lookAlone(path)
	}
	// whose end leaves the log alone, as that of a connection that may write does not
	all, err = look(path, sqlite.OpenReadOnly)
	if err != nil {
		return all, fmt.Errorf("%s: %w", path, err)
	}
	if !withLog || torn != nil {
		// a process died while it moved the log into the file: the log has it all
		alone = all
	}
	return all, l.judge(path, withLog, alone, all)
}

// judge compares what the lock file remembers with what the file alone and the file with its log
// say of themselves. The table in doc.go has every case.
func (l *lock) judge(path string, withLog bool, alone, all standing) error {
	switch {
	case l.identity != "" && l.identity != all.identity:
		return fmt.Errorf("%s is another database than the one that %s names: put the right one back, or move %s away to go on with this one",
			path, l.path, l.path)
	case alone.identity != all.identity, alone.commits > all.commits, alone.commits < all.emptied:
		return fmt.Errorf("%s-wal is not the log of this file, which is an older or newer copy (%d commits; the log goes from %d to %d): "+
			"put the file back that belongs to it; or, if this copy is the one you want, move %s-wal and %s-shm away. Nothing was changed",
			path, alone.commits, all.emptied, all.commits, path, path)
	case all.commits < l.commits:
		return fmt.Errorf("%s with its log %s-wal has %d commits, and %s knows of %d: the log is gone, or was cut, or an older copy of the file "+
			"stands here. Put back what is missing; if that is lost, keep a copy of what is here, then move %s away to go on with it. Nothing was changed",
			path, path, all.commits, l.path, l.commits, l.path)
	case l.open && !withLog && !all.counted:
		return fmt.Errorf("%s-wal is gone, and an older rota that did not end cleanly left no trace of whether it held anything: put the log back if "+
			"it is anywhere; if not, keep a copy of the file, then move %s away to go on with it. Nothing was changed",
			path, l.path)
	}
	return nil
}

// counter counts the commits, in the database and in the lock file. Whoever writes owns it.
type counter struct {
	lock    *lock
	commits int64 // as in the row
	emptied int64
}

// put writes the next commit's number, inside its transaction.
func (n *counter) put(c *conn) error {
	_, err := c.exec(putCounts, n.commits+1, n.emptied)
	return err
}

// done notes a commit, before anybody is told of it.
func (n *counter) done() {
	n.commits++
	n.lock.note(n.commits)
}

// empty moves all that the log has into the file. SQLite copies pages in the order of their
// numbers, so a process that dies on the way leaves a file that has some of what the log has; if
// the log were lost then, nothing but the count could tell. Hence two moves: first everything but a
// last commit that changes nothing but the count, which the reader keeps SQLite from copying; then
// that one page. So the file has the newest count only after everything else.
//
// It is not done, and no error, while somebody reads an older state of the log.
func (n *counter) empty(writer, reader *conn) (done bool, err error) {
	if err := reader.run("BEGIN"); err != nil {
		return false, err
	}
	defer func() {
		if !reader.AutocommitEnabled() {
			err = errors.Join(err, reader.run("ROLLBACK"))
		}
	}()
	if _, err := reader.has(readIdentity); err != nil { // from here on it sees this state
		return false, err
	}
	if err := n.put(writer); err != nil {
		return false, err
	}
	n.lock.step("counted")
	n.done()
	n.lock.step("noted")
	left, err := move(writer)
	if err != nil || left > 1 {
		return false, err
	}
	n.lock.step("moved")
	if err := reader.run("ROLLBACK"); err != nil {
		return false, err
	}
	if left, err = move(writer); err != nil || left > 0 {
		return false, err
	}
	n.emptied = n.commits
	n.lock.step("emptied")
	return true, nil
}

// move moves what nobody reads any more from the log into the file, fsyncs it, and says how many
// pages are left.
func move(c *conn) (left int64, err error) {
	_, err = c.one("PRAGMA wal_checkpoint(PASSIVE)", func(st *sqlite.Stmt) {
		left = st.ColumnInt64(1) - st.ColumnInt64(2)
	})
	if err != nil {
		return 0, fmt.Errorf("move the log into the database: %w", err)
	}
	return left, nil
}

// pages is how many pages the log has, moved or not.
func pages(c *conn) (n int64, err error) {
	_, err = c.one("PRAGMA wal_checkpoint(NOOP)", func(st *sqlite.Stmt) { n = st.ColumnInt64(1) })
	return n, err
}
