package proclock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// hold binds the name. The namespace is that of the thread, so the thread stays the same between
// looking and binding.
func hold(name string) (where string, let func() error, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if where, err = here(); err != nil {
		return "", nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("make a socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@rota/" + name}); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			err = ErrHeld
		}
		return "", nil, errors.Join(err, unix.Close(fd))
	}
	return where, func() error { return unix.Close(fd) }, nil
}

// here is the place of this thread.
func here() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	var space unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &space); err != nil {
		return "", fmt.Errorf("%w: look at the network namespace: %w", ErrUnsupported, err)
	}
	return place(string(boot), string(machine), space.Dev, space.Ino)
}

// place is made of what tells it from all others. A boot without an id is no place.
func place(boot, machine string, device, inode uint64) (string, error) {
	if boot = strings.TrimSpace(boot); boot == "" {
		return "", fmt.Errorf("%w: the kernel's boot id is empty", ErrUnsupported)
	}
	return digest(boot, strings.TrimSpace(machine), fmt.Sprint(device), fmt.Sprint(inode)), nil
}
