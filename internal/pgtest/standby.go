//go:build unix

package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Standby makes a second cluster that follows this one, and ends with the test.
func (c *Cluster) Standby(t testing.TB) *Cluster {
	t.Helper()
	s := &Cluster{conf: c.conf, bin: c.bin, account: c.account}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Errorf("stop the standby: %v", err)
		}
	})
	if err := s.follow(c); err != nil {
		t.Fatalf("start a standby: %v", err)
	}
	return s
}

func (c *Cluster) follow(primary *Cluster) (err error) {
	if c.dir, err = os.MkdirTemp("", "rota-pg-"); err != nil {
		return err
	}
	if err := c.account.own(c.dir); err != nil {
		return err
	}
	backup := exec.Command(filepath.Join(c.bin, "pg_basebackup"), "-D", c.data(), "-h", "127.0.0.1",
		"-p", strconv.Itoa(primary.port), "-U", User,
		"-R", "-X", "stream", "-c", "fast", "--no-sync")
	c.account.apply(backup)
	if err := outputOf(backup); err != nil {
		return err
	}
	if c.port, err = FreePort(); err != nil {
		return err
	}
	if err := c.configure(); err != nil {
		// after the primary's own settings: the last of each counts
		return err
	}
	return c.launch()
}

// Promote makes a standby a primary of its own, on a timeline of its own.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	c.Exec(t, "SELECT pg_promote()")
}
