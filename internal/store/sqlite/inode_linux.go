package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockInode locks the file itself, whatever it is called, as under a bind mount. The byte lies in
// the page that SQLite keeps free for locks, beside those that it locks. The lock belongs to the
// descriptor and ends with it.
func lockInode(f *os.File) (bool, error) {
	const afterSQLite = 0x40000000 + 1024
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{
		Type: unix.F_WRLCK, Start: afterSQLite, Len: 1,
	})
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return false, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		// a file system without such locks
		return true, nil
	}
	return err == nil, err
}
