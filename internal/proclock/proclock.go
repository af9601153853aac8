package proclock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Errors of Hold.
var (
	ErrHeld        = errors.New("another process on this machine has the lock")
	ErrUnsupported = errors.New("this system has no lock that lasts as long as a process")
	ErrClosed      = errors.New("lock is closed")
)

// Lock is a name that one process of a place holds at a time. Its methods may be called at the same
// time.
type Lock struct {
	name string

	mu     sync.Mutex
	place  string       // "" = not held
	let    func() error // gives the name back
	closed bool
}

// New makes a lock that is not held. The kernel sees a hash of the name.
func New(name string) *Lock { return &Lock{name: digest("name", name)} }

// Hold gets the lock, unless this process has it already, and says at which place it is held. It
// waits for nobody: ErrHeld, ErrUnsupported, ErrClosed, or what the system says. After an error it
// may be called again.
func (l *Lock) Hold() (place string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return "", ErrClosed
	case l.place != "":
		return l.place, nil
	}
	if l.place, l.let, err = hold(l.name); err != nil {
		return "", fmt.Errorf("hold the lock of this process: %w", err)
	}
	return l.place, nil
}

// Close gives the lock back; it can't be held again. Whoever gets it next takes what this process
// did under it for ended, so Close comes when all of that has ended.
func (l *Lock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.place == "" {
		return nil
	}
	l.place = ""
	if err := l.let(); err != nil {
		return fmt.Errorf("give back the lock of this process: %w", err)
	}
	return nil
}

// digest is a short text that differs when any of the words does.
func digest(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00"))) // none of them has one
	return hex.EncodeToString(sum[:16])
}
