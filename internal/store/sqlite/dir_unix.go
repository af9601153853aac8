//go:build !windows

package sqlite

import (
	"errors"
	"os"
)

// syncDir makes what happened to the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
