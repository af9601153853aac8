// Package blob keeps large values as files in a folder. A blob is written once, under a name of its
// own, and never changed; whoever wrote it remembers the name.
//
// [Folder.Put] answers once the file and its directory are fsynced, and a file appears under its
// name whole or not at all. A process that dies between writing a blob and remembering its name
// leaves an orphan: names begin with the day ([NewName]), so whoever looks after the folder can
// tell old orphans from blobs that are about to be remembered.
package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// ErrName is what every method answers to a name that NewName never gives.
var ErrName = errors.New("not a blob name")

// day is the layout of the directory that a blob's name begins with.
const day = "2006-01-02"

const randomChars = 26 // × 5 bits = 130 bits of luck: names never meet

// NewName makes a name for a blob that is written now: 2026-11-21/ and 26 characters of luck.
func NewName(now time.Time) string { return Day(now) + "/" + strings.ToLower(rand.Text()) }

// Day is what the names of blobs written at t begin with. Days sort by time.
func Day(t time.Time) string { return t.UTC().Format(day) }

// valid tells whether NewName could have given name: nothing else ever becomes a path.
func valid(name string) bool {
	d, rest, ok := strings.Cut(name, "/")
	if !ok || len(rest) != randomChars {
		return false
	}
	return isDay(d) && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// isDay tells whether Day could have given a name.
func isDay(name string) bool {
	t, err := time.Parse(day, name)
	return err == nil && t.Format(day) == name
}

// Folder is a folder of blobs. Its methods may be called at the same time.
type Folder struct {
	root *os.Root
	// sync makes what happened to the names in a directory durable. An fsync that failed is ErrSync
	sync func(dir string) error

	mu    sync.Mutex
	known string // the day whose directory's own name is known to be on the disk
}

// Open opens the folder, and makes it when it is missing; not the folders above it: one that is
// missing there is more likely a mistake, or a disk that is not mounted.
func Open(dir string) (*Folder, error) {
	err := os.Mkdir(dir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		// else a power cut could take the folder, with all that was put into it: one that is there
		// may be that of a process that was killed when it had made it
		err = syncParent(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open blob folder: %w", err)
	}
	f := &Folder{root: root}
	f.sync = f.syncDir
	return f, nil
}

// Close releases the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Put writes a blob. It is on the disk, whole, when Put returns nil.
func (f *Folder) Put(_ context.Context, name string, b []byte) error {
	if !valid(name) {
		return fmt.Errorf("put blob %q: %w", name, ErrName)
	}
	if err := f.put(name, b); err != nil {
		return fmt.Errorf("put blob %q: %w", name, err)
	}
	return nil
}

func (f *Folder) put(name string, b []byte) error {
	dir := path.Dir(name)
	if err := f.makeDay(dir); err != nil {
		return err
	}
	temp := name + ".part"
	if err := f.write(temp, b); err != nil {
		f.root.Remove(temp)
		return err
	}
	if err := f.root.Rename(temp, name); err != nil {
		f.root.Remove(temp)
		return err
	}
	return f.sync(dir)
}

// makeDay makes the directory of a day. One that is there already may not be on the disk yet:
// another call may have just made it, or a process that was killed.
func (f *Folder) makeDay(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.root.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err == nil || f.known != dir {
		f.known = ""
		if err := f.sync("."); err != nil {
			return err
		}
		f.known = dir
	}
	return nil
}

func (f *Folder) write(name string, b []byte) error {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	if err == nil {
		err = unsynced(file.Sync())
	}
	return errors.Join(err, file.Close())
}

// ErrSync is in the error of a Put whose fsync failed. What the disk has afterwards is unknown, of
// other files too: the process should stop, not try again.
var ErrSync = errors.New("fsync failed")

func unsynced(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	return nil
}

// Check says whether the folder is still there under its name: nil, or what is wrong.
func (f *Folder) Check() error {
	here, err := f.root.Stat(".")
	if err != nil {
		return fmt.Errorf("look at blob folder: %w", err)
	}
	there, err := os.Stat(f.root.Name())
	switch {
	case err != nil:
		return fmt.Errorf("blob folder is gone: %w", err)
	case !os.SameFile(here, there):
		return fmt.Errorf("blob folder %s: another folder stands in its place", f.root.Name())
	}
	return nil
}

// Get reads a blob. A missing one is fs.ErrNotExist.
func (f *Folder) Get(_ context.Context, name string) ([]byte, error) {
	if !valid(name) {
		return nil, fmt.Errorf("get blob %q: %w", name, ErrName)
	}
	b, err := f.root.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("get blob %q: %w", name, err)
	}
	return b, nil
}

// Delete removes a blob, and its day's directory with the last one. A missing one is no error.
func (f *Folder) Delete(_ context.Context, name string) error {
	if !valid(name) {
		return fmt.Errorf("delete blob %q: %w", name, ErrName)
	}
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete blob %q: %w", name, err)
	}
	if path.Dir(name) < Day(time.Now()) { // today's may be about to get another
		f.root.Remove(path.Dir(name)) // fails, as it should, unless it is empty
	}
	return nil
}

// List lists at most limit names after the given one ("" = from the first), in order, of days
// before the given one. What a dying process left half written is removed on the way; what others
// left beside the days is passed over.
func (f *Folder) List(ctx context.Context, after, before string, limit int) ([]string, error) {
	days, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	var names []string
	for _, d := range days {
		if !isDay(d.Name()) || d.Name() < path.Dir(after) && after != "" || d.Name() >= before {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		files, err := fs.ReadDir(f.root.FS(), d.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // its last blob was deleted just now
		}
		if err != nil {
			return nil, fmt.Errorf("list blobs of %s: %w", d.Name(), err)
		}
		for _, e := range files {
			name := d.Name() + "/" + e.Name()
			switch {
			case strings.HasSuffix(name, ".part") && valid(strings.TrimSuffix(name, ".part")):
				if err := f.root.Remove(name); err != nil {
					return nil, fmt.Errorf("remove unfinished blob %q: %w", name, err)
				}
			case name > after && valid(name):
				if names = append(names, name); len(names) == limit {
					return names, nil
				}
			}
		}
	}
	return names, nil
}
