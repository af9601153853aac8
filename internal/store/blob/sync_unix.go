//go:build !windows

package blob

import "errors"

// syncDir makes what happened to the names in a directory durable.
func (f *Folder) syncDir(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
