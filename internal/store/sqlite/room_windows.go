package sqlite

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// freeBytes is the room that the volume of path has for this user.
func freeBytes(path string) (uint64, error) {
	dir, err := windows.UTF16PtrFromString(filepath.Dir(path))
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(dir, &free, nil, nil); err != nil {
		return 0, err
	}
	return free, nil
}
