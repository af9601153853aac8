package ptytest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is one that a program can be given. What is shown on it is kept.
type Terminal struct {
	t    *testing.T
	keys *os.File // the other end
	File *os.File // the end of the program

	mu    sync.Mutex
	shown strings.Builder
}

// New makes a terminal of so many columns and lines. It is closed at the end of the test.
func New(t *testing.T, width, height int) *Terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &Terminal{t: t, keys: keys, File: file}
	p.Resize(width, height)
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := keys.Read(b)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.shown.Write(b[:n])
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		file.Close() // the other end reads to the end then
		<-read
		keys.Close()
	})
	return p
}

// Resize gives the terminal another size.
func (p *Terminal) Resize(width, height int) {
	p.t.Helper()
	if err := unix.IoctlSetWinsize(int(p.File.Fd()), unix.TIOCSWINSZ, &unix.Winsize{
		Col: uint16(width), Row: uint16(height),
	}); err != nil {
		p.t.Fatal(err)
	}
}

// Press sends keys as a terminal does.
func (p *Terminal) Press(keys string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// Shown is all that was ever written to the terminal.
func (p *Terminal) Shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.String()
}

// Await waits until a text was written behind what had been at from, and says where it ends.
func (p *Terminal) Await(from int, text string) (end int) {
	p.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		shown := p.Shown()
		if i := strings.Index(shown[min(from, len(shown)):], text); i >= 0 {
			return from + i + len(text)
		}
		if time.Now().After(deadline) {
			const enough = 3000
			p.t.Fatalf("nothing shows %q; the terminal ends in\n%q", text,
				shown[max(len(shown)-enough, 0):])
		}
	}
}

// Raw tells whether the terminal hands over each key as it is pressed.
func (p *Terminal) Raw() bool {
	p.t.Helper()
	modes, err := unix.IoctlGetTermios(int(p.File.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return modes.Lflag&unix.ICANON == 0
}
