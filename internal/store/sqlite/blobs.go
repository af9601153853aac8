package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/blob"
	"github.com/rotahq/rota/task"
)

// valueCalls keeps large values beside the file: the folder of blobs, and table blob, which says
// which rows refer to them. A blob is on the disk before its row, and its row is gone before it is
// deleted.
type valueCalls struct {
	*database

	blobs  Blobs
	folder *blob.Folder // that Open made, to be closed; or nil

	reading   sync.Mutex  // while large values are deleted
	leftBlobs atomic.Bool // some were to be deleted while a backup read them

	// passed is how much time has passed since the store was opened, whatever its clock was set to.
	passed func() time.Duration

	naming sync.Mutex
	named  map[string]time.Duration // by days of names: when Keep gave the last name of it

	// of pruneBlobs, which one call of Prune at a time makes
	swept string // the last blob that was looked at
	sweep int64  // no look at blobs before
}

// valueWrites notes in a transaction which rows refer to blobs.
type valueWrites struct{ *tx }

func (t *tx) values() valueWrites { return valueWrites{t} }

// open opens the folder of large values. One that is missing is made, unless there are such
// values.
func (s *valueCalls) open(dir string) error {
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

// check says whether the folder is still the one that was opened: nil or store.ErrBroken.
func (s *valueCalls) check() error {
	if f, ok := s.blobs.(interface{ Check() error }); ok {
		if err := f.Check(); err != nil {
			return s.breakWith(err)
		}
	}
	return nil
}

// close closes the folder that open opened.
func (s *valueCalls) close() error {
	if s.folder == nil {
		return nil
	}
	return s.folder.Close()
}

// Keep returns short values themselves, and the reference to a blob for long ones. The blob is on
// the disk before the row that will refer to it; if that row never comes, it is removed by the call
// that was refused, or by Prune a day later.
func (s *valueCalls) Keep(ctx context.Context, v []byte) (store.Value, error) {
	if len(v) <= store.InlineLimit {
		return bytes.Clone(v), nil
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	name := s.newName()
	if err := s.blobs.Put(ctx, name, v); err != nil {
		switch {
		case errors.Is(err, blob.ErrSync):
			return nil, s.breakWith(err)
		case errors.Is(err, syscall.ENOSPC):
			return nil, fmt.Errorf("%w: %w", store.ErrFull, err)
		}
		// too many open files, or a folder that is gone: Check sees to that
		return nil, fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return store.Ref(name), nil
}

// newName names a blob, and notes when, so that it has time until its row comes also when the clock
// is set ahead meanwhile.
func (s *valueCalls) newName() string {
	s.naming.Lock()
	defer s.naming.Unlock()
	now := s.now()
	s.named[blob.Day(now)] = s.passed()
	return blob.NewName(now)
}

// rowsCame is the day before which, of the days before one, all blobs have their rows, if those
// ever come: none was named within blobGrace.
func (s *valueCalls) rowsCame(before string) string {
	s.naming.Lock()
	defer s.naming.Unlock()
	for day, at := range s.named {
		if s.passed()-at >= blobGrace {
			delete(s.named, day)
		} else {
			before = min(before, day)
		}
	}
	return before
}

// Value resolves what Keep returned.
func (s *valueCalls) Value(ctx context.Context, v store.Value) ([]byte, error) {
	name, ok := v.Blob()
	if !ok {
		return bytes.Clone(v), nil
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	b, err := s.blobs.Get(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // trying again finds no more
		return nil, err
	case err != nil:
		// the task is there: only this part of it can't be read
		return nil, fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return b, nil
}

// dropUnused deletes the blobs among values that no row refers to: their submission or report was
// refused.
func (s *valueCalls) dropUnused(ctx context.Context, values []store.Value) {
	var names []string
	ctx = context.WithoutCancel(ctx)
	err := s.read(ctx, func(c *conn) error {
		for _, v := range values {
			if name, ok := v.Blob(); ok {
				if known, err := c.has(blobKnown, name); err != nil {
					return err
				} else if !known {
					names = append(names, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		s.log.Warn("blobs stay behind", "error", err)
		return
	}
	s.deleteBlobs(ctx, names)
}

// readingName is behind the store's path in the name of a file that a backup locks before its
// snapshot, as long as it copies large values: those that its snapshot refers to are not deleted
// meanwhile.
const readingName = ".reading"

// deleteBlobs deletes what no row refers to any more. What can't be deleted now is an orphan, found
// by a sweep.
func (s *valueCalls) deleteBlobs(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	reading := s.path + readingName
	if _, err := os.Stat(reading); !errors.Is(err, fs.ErrNotExist) {
		// no backup was ever made: no need to look further
		l := flock.New(reading, flock.SetPermissions(0o600))
		if free, err := l.TryLock(); err != nil || !free {
			s.leftBlobs.Store(true)
			return
		}
		defer l.Unlock() // the end of the descriptor does it in any case
	}
	for _, name := range names {
		if err := s.blobs.Delete(context.WithoutCancel(ctx), name); err != nil {
			s.log.Warn("blob stays behind", "error", err)
		}
	}
}

const (
	blobGrace     = 24 * time.Hour // from a blob to the row that refers to it
	blobsExamined = 200            // by one call
)

const blobKnown = `SELECT 1 FROM blob WHERE name = ?`

// pruneBlobs removes blobs that no row refers to, a day after they were written: their process died
// in between. Each is looked at once in a life of the store, because later ones are removed
// together with their task, unless a backup was made meanwhile. Prune calls it, one call at a time;
// after the last of them it rests for an hour.
func (s *valueCalls) pruneBlobs(ctx context.Context, now int64) error {
	if now < s.sweep {
		return nil
	}
	if s.leftBlobs.Swap(false) {
		s.swept = ""
	}
	before := s.rowsCame(blob.Day(time.UnixMicro(now).Add(-blobGrace)))
	names, err := s.blobs.List(ctx, s.swept, before, blobsExamined)
	if err != nil {
		return err
	}
	var orphans []string
	err = s.read(ctx, func(c *conn) error {
		for _, name := range names {
			known, err := c.has(blobKnown, name)
			if err != nil {
				return err
			}
			if !known {
				orphans = append(orphans, name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.deleteBlobs(ctx, orphans)
	if len(names) > 0 {
		s.swept = names[len(names)-1]
	}
	if len(names) < blobsExamined {
		s.sweep = now + time.Hour.Microseconds()
	}
	return nil
}

const insertBlob = `INSERT OR IGNORE INTO blob (batch, n, name) VALUES (?, ?, ?)`

// noteBlobs remembers which task the blobs among values belong to.
func (t valueWrites) noteBlobs(id task.ID, values ...store.Value) error {
	for _, v := range values {
		if name, ok := v.Blob(); ok {
			if _, err := t.exec(insertBlob, id.Batch, id.N, name); err != nil {
				return err
			}
		}
	}
	return nil
}
