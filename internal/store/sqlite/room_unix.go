//go:build linux || darwin

package sqlite

import "syscall"

// freeBytes is the room that the file system of path has for an ordinary user.
func freeBytes(path string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
