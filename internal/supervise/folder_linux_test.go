package supervise_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/supervise"
)

// The kernel's log is a regular file that has no end: reading it waits for the next message. Who
// may not open it is told so.
func TestFilesWithoutAnEndHangNobody(t *testing.T) {
	c := supervise.Sources{Folder: folder(t, "/proc"), Timeout: 300 * time.Millisecond}
	if err := readFile(t, c, "/proc/kmsg"); err == nil {
		t.Error("the kernel's log was read to its end")
	}
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readFile(t, supervise.Sources{Folder: folder(t, dir)}, pipe); err == nil {
		t.Error("a pipe was read")
	}
}
