// Package proclock is a lock that lasts exactly as long as its process: the kernel gives a name to
// one process at a time, and takes it back when that process is dead, however it died. So whoever
// gets the name knows that all who had it before are gone.
//
//	l := proclock.New("node/a")
//	place, err := l.Hold()
//
// # What it proves
//
// A process that holds the lock says so, together with its place, where a later process can read it
// (a row in a database). The later process reads the row and tries for the lock. If it gets it, and
// the row names its own place, then the process that wrote the row is dead, or has closed the lock.
// In every other case it knows nothing, and must wait as if there were no lock.
//
// A place is where the name can be held only once: one boot of one machine, and one network
// namespace of it. It is a hash of the kernel's boot id, the machine's id and the namespace's
// inode, so that two places never compare equal:
//
//   - Another machine has another boot id, and so has the same machine after a restart. A restart
//     leaves no process alive, but whoever sees two different boot ids can't tell it from another
//     machine.
//   - Two containers of one machine have different network namespaces, unless they share one; then
//     they share the lock, too.
//   - A namespace's inode is not used again while a process lives in it, so a process of an older
//     namespace with the same inode is dead.
//
// A process that is stopped (SIGSTOP, a debugger, a frozen container), or that hangs in the kernel
// while it dies, keeps the lock. The lock is not inherited by commands that the process runs.
//
// It is an abstract Unix socket that is bound and never listens, because a file can be copied,
// deleted or stand on a network's disk; a socket's name stands in the kernel alone. Anybody on the
// machine may take a free name first, which makes others wait and no more. A machine that is copied
// while it runs (a snapshot of its memory that is started twice) has two processes in one place: no
// lock of a kernel tells them apart.
//
// On systems other than Linux nobody ever holds it: Hold answers ErrUnsupported.
package proclock
