//go:build !windows

package blob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// syncDir makes what happened to the names in a directory durable. That it can't be opened, as with
// too many open files, is no fsync that failed: nothing was asked of the disk.
func (f *Folder) syncDir(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unsynced(d.Sync()), d.Close())
}

// syncParent makes the name of a folder durable. Who may not read the folder above it has not made
// it.
func syncParent(dir string) error {
	d, err := os.Open(filepath.Dir(dir))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
