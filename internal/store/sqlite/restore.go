package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store/blob"
)

// Restore says what store is to be made of a backup.
type Restore struct {
	File         string // the backup
	Path         string // of the store
	Folder       string // of its large values; "" = Path.blobs
	Replace      bool   // also when a store stands there: it is moved aside
	RunSchedules bool   // schedules go on by themselves, from the time of the backup

	// Progress is called while it works, often: what is done now, and how much of it. nil = nobody
	// asks.
	Progress func(what string, done, all int64)

	crash func(step string) // for tests: called between steps
}

// Restored is what came of it.
type Restored struct {
	Time   time.Time // of the backup
	Values int64     // large values
	Paused int64     // schedules that were paused
	Aside  string    // where the store stands that was replaced; "" = there was none
}

// leap is by how much counters go on higher: further than the store came after the backup.
const leap = 1 << 32

// A restored store goes on from the time of the backup, and what was done since is forgotten. So
// nothing of that time may be taken for something of the store's new life:
//
//   - Its identity and its secret are new: no token of a hand-out is good any more, also not one
//     that the same task got after the backup. What was handed out goes out again, uncharged.
//   - Tokens of leases, spans, groups and so of replicas go on higher than the lost ones: what
//     others fence with them stays fenced.
//   - Events go on higher, with one that says so: who has read further than the backup misses none.
//   - Schedules are paused: what was fired since the backup is not fired again by itself.
const (
	newIdentity = `UPDATE store SET identity = ?1, tokens = max(tokens, coalesce((SELECT max(token)
FROM lease), 0)) + ?2, spans = spans + ?2,
  commits = commits + 1, emptied = commits + 1`
	renewSecret   = `UPDATE store SET secret = ?, secret_since = 0`
	forgetRunning = `DELETE FROM running`
	freeAllSpans  = `UPDATE span SET holder = NULL, htok = 0 WHERE holder IS NOT NULL`
	raiseSpans    = `UPDATE span SET token = token + ? WHERE token > 0`
	raiseLeases   = `UPDATE lease SET token = token + ?,
  until = CASE WHEN name LIKE 'node/%' OR name LIKE 'claim/%' OR name LIKE 'chore/%' THEN 0
  ELSE until END`
	raiseGroups  = `UPDATE job_group SET version = version + ?1, horizon = version + ?1`
	raiseJobHead = `UPDATE job_head SET past = past + ?1, seats = seats + ?1`
	raiseEvents  = `UPDATE event_head SET last = last + ?1, time = max(time, ?2)`
	tellRestored = `INSERT INTO event (seq, time, key, kind, subject, text)
SELECT last + 1, time, 'store.restored/' || ?, 'store.restored', 'store', ? FROM event_head`
	countRestored  = `UPDATE event_head SET last = last + 1`
	pauseSchedules = `UPDATE schedule SET spec = json_set(spec, '$.paused', json('true'))
WHERE NOT coalesce(json_extract(spec, '$.paused'), 0)`
)

// Write makes a store of a backup. It stands there whole, fsynced and checked, or not at all. A
// store that another process has open is never replaced.
func (r Restore) Write(ctx context.Context, now func() time.Time) (done Restored, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %s: %w", r.File, err)
		}
	}()
	if real, err := filepath.EvalSymlinks(r.Path); err == nil {
		r.Path = real
	}
	if r.Folder == "" {
		r.Folder = r.Path + ".blobs"
	}
	if r.Progress == nil {
		r.Progress = func(string, int64, int64) {}
	}
	if err := r.check(); err != nil {
		return done, err
	}
	l, err := lockFile(r.Path)
	if err != nil {
		return done, err
	}
	l.crash = r.crash
	defer func() { err = errors.Join(err, l.release()) }()
	there, err := r.there()
	if err != nil || there && !r.Replace {
		if err == nil {
			err = fmt.Errorf("the store %s: %w", r.Path, ErrExists)
		}
		return done, err
	}
	if err := notInUse(r.Path); err != nil {
		return done, err
	}
	temp, folder := r.Path+".restoring", r.Folder+".restoring"
	clear := func() error {
		return errors.Join(removeAll(temp, temp+"-wal", temp+"-shm", temp+"-journal"),
			os.RemoveAll(folder))
	}
	if err := clear(); err != nil { // of a restore that was killed
		return done, err
	}
	defer func() { err = errors.Join(err, clear()) }()
	identity := strings.ToLower(rand.Text())
	if done, err = r.build(ctx, temp, folder, identity, now()); err != nil {
		return done, err
	}
	if there {
		if done.Aside, err = r.moveAside(l, now()); err != nil {
			return done, err
		}
	} else if err := removeAll(r.moving()); err != nil {
		return done, err
	}
	l.step("moved aside")
	if err := r.place(l, temp, folder, identity); err != nil {
		if there {
			err = fmt.Errorf("%w; the store that was to be replaced stands at %s", err, done.Aside)
		}
		return done, err
	}
	return done, nil
}

// check refuses what is no backup, before any work.
func (r Restore) check() error {
	f, err := os.Open(r.File)
	if err != nil {
		return err
	}
	defer f.Close()
	var h [100]byte
	if _, err := f.ReadAt(h[:], 0); err != nil && err != io.EOF {
		return err
	}
	if !strings.HasPrefix(string(h[:]), "SQLite format 3\x00") || string(h[68:72]) != "rotb" {
		return fmt.Errorf("%s is no backup: rota backup makes them", r.File)
	}
	return nil
}

// there tells whether anything of a store stands where the restored one is to stand.
func (r Restore) there() (bool, error) {
	for _, name := range []string{r.Path, r.Path + "-wal"} {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	list, err := os.ReadDir(r.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(list) > 0, err
}

// notInUse refuses a store that a process has open under another name, which the lock file beside
// this name does not tell. That there is no store is no error.
func notInUse(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil // whoever moves it says what is wrong with it
	}
	free, err := lockInode(f)
	if err == nil && !free {
		err = fmt.Errorf("%s is in use by another process, under another name", path)
	}
	return errors.Join(err, f.Close())
}

// build makes the file and the folder beside where they are to stand.
func (r Restore) build(
	ctx context.Context, temp, folder, identity string, now time.Time,
) (done Restored, err error) {
	if err := r.copyFile(ctx, temp); err != nil {
		return done, err
	}
	c, err := dial(temp, sqlite.OpenReadWrite,
		[]string{"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF"})
	if err != nil {
		return done, err
	}
	open := true
	defer func() {
		if open {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.whole(ctx); err != nil {
		return done, err
	}
	at, err := c.number(backupTime)
	if err != nil {
		return done, err
	}
	done.Time = time.UnixMicro(at)
	if done.Values, err = r.unpack(ctx, c, folder); err != nil {
		return done, err
	}
	for _, query := range []string{"DROP TABLE backup_value", "DROP TABLE backup",
		fmt.Sprintf("PRAGMA application_id = %d", application)} {
		if err := c.run(query); err != nil {
			return done, err
		}
	}
	open = false
	if err := c.Close(); err != nil {
		return done, err
	}
	if err := migrate(
		ctx, fileURI(temp)+"?_pragma=synchronous(OFF)&_pragma=journal_mode(MEMORY)",
		telling(r.Progress),
	); err != nil {
		return done, err
	}
	if done.Paused, err = r.renew(ctx, temp, identity, done, now); err != nil {
		return done, err
	}
	return done, syncFile(temp)
}

// renew makes a store with a life of its own of what was another one's.
func (r Restore) renew(
	ctx context.Context, temp, identity string, done Restored, now time.Time,
) (paused int64, err error) {
	c, err := dial(temp, sqlite.OpenReadWrite,
		[]string{"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "BEGIN"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	text := fmt.Sprintf("restored from the backup of %s: what was done after it is forgotten",
		done.Time.UTC().Format(time.RFC3339))
	for _, s := range []struct {
		query string
		args  []any
	}{
		{newIdentity, []any{identity, leap}}, {renewSecret, []any{newSecret()}},
		{forgetRunning, nil}, {freeAllSpans, nil}, {raiseSpans, []any{leap}},
		{raiseLeases, []any{leap}},
		{raiseGroups, []any{leap}}, {raiseJobHead, []any{leap}},
		{raiseEvents, []any{leap, now.UnixMicro()}},
		{tellRestored, []any{identity, text}}, {countRestored, nil},
	} {
		if _, err := c.exec(s.query, s.args...); err != nil {
			return 0, err
		}
	}
	if !r.RunSchedules {
		n, err := c.exec(pauseSchedules)
		if err != nil {
			return 0, err
		}
		paused = int64(n)
	}
	if err := c.run("COMMIT"); err != nil {
		return 0, err
	}
	if done.Values > 0 { // what they took in the file is given back
		if err := c.run("VACUUM"); err != nil {
			return 0, err
		}
	}
	return paused, c.whole(ctx)
}

func (r Restore) copyFile(ctx context.Context, temp string) (err error) {
	from, err := os.Open(r.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	for copied := int64(0); ; {
		n, err := io.CopyN(to, from, 8<<20)
		copied += n
		r.Progress("bytes", copied, info.Size())
		if err == io.EOF {
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
}

// unpack writes the large values of a backup into a folder.
func (r Restore) unpack(ctx context.Context, c *conn, dir string) (values int64, err error) {
	folder, err := blob.Open(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	all, err := c.number(countKept)
	if err != nil {
		return 0, err
	}
	err = c.names(keptAfter, func(name string) error {
		var content []byte
		if _, err := c.one(keptValue, func(st *sqlite.Stmt) {
			content = bytesOf(st, 0)
		}, name); err != nil {
			return err
		}
		values++
		r.Progress("large values", values, all)
		return errors.Join(folder.Put(ctx, name, content), ctx.Err())
	})
	return values, err
}

// moving names the file that says, while a store is moved aside, which suffix its files get.
func (r Restore) moving() string { return r.Path + ".moving" }

// suffix is what the names of the store that is moved aside end with, and is written down before
// the first file has it. When a move was killed that had moved the file, which is the first, what
// is left gets the same one: without its log the file would open and lack what was committed last.
func (r Restore) suffix(now time.Time) (string, error) {
	if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
		b, err := os.ReadFile(r.moving())
		if !errors.Is(err, fs.ErrNotExist) {
			return string(b), err
		}
	}
	suffix := ".before-" + now.UTC().Format("20060102T150405Z")
	if err := os.WriteFile(r.moving(), []byte(suffix), 0o600); err != nil {
		return "", err
	}
	return suffix, errors.Join(syncFile(r.moving()), syncDir(filepath.Dir(r.Path)))
}

// moveAside keeps the store that is replaced, with its log: all of it, or it stands as before.
func (r Restore) moveAside(l *lock, now time.Time) (aside string, err error) {
	suffix, err := r.suffix(now)
	if err != nil {
		return "", err
	}
	var moved [][2]string // from, to
	defer func() {
		for _, m := range slices.Backward(moved) {
			if err != nil {
				err = errors.Join(err, os.Rename(m[1], m[0]))
			}
		}
		if _, gone := os.Stat(r.Path); err != nil && gone == nil {
			err = errors.Join(err, removeAll(r.moving()))
		}
	}()
	for _, from := range []string{r.Path, r.Path + "-wal", r.Folder} {
		to := r.Path + suffix + strings.TrimPrefix(from, r.Path)
		if from == r.Folder {
			to = r.Folder + suffix
			if r.Folder == r.Path+".blobs" {
				to = r.Path + suffix + ".blobs"
			}
		}
		switch _, err := os.Stat(from); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		}
		if _, err := os.Stat(to); err == nil {
			return "", fmt.Errorf("%s exists already", to)
		}
		if err := os.Rename(from, to); err != nil {
			return "", err
		}
		moved = append(moved, [2]string{from, to})
		l.step("moving " + from)
	}
	for _, dir := range []string{filepath.Dir(r.Folder), filepath.Dir(r.Path)} {
		if err := syncDir(dir); err != nil {
			return "", err
		}
	}
	return r.Path + suffix, removeAll(r.Path+"-shm", r.moving())
}

// place gives folder and file their names, the file last: before that there is no store, and the
// lock file says that there should be one. The folder may stand elsewhere: its name is on the disk
// before the file has one, so that no store loses its large values to a power cut.
func (r Restore) place(l *lock, temp, folder, identity string) error {
	if err := os.Remove(r.Folder); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	if err := os.Rename(folder, r.Folder); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(r.Folder)); err != nil {
		return err
	}
	l.step("folder placed")
	// The new name is written over the old one, so that there is a name at every moment.
	l.identity, l.commits, l.open = "", 0, false
	if err := l.remember(standing{identity: identity}); err != nil {
		return err
	}
	l.step("remembered")
	if err := os.Rename(temp, r.Path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(r.Path))
}
