//go:build !windows

package blob

import (
	"errors"
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

// syncParent makes the name of a folder durable that was just made.
func syncParent(dir string) error {
	d, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
