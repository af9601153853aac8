//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// account is whom the server runs as; nil = whoever runs the test.
type account struct{ *syscall.Credential }

// serverAccount is the user postgres for root, who may not run a server.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return account{},
			fmt.Errorf(
				"PostgreSQL does not run as root: %w; run the tests as another user, or: useradd --system postgres",
				err,
			)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, err
	}
	return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// own gives a file to the account.
func (a account) own(path string) error {
	if a.Credential == nil {
		return nil
	}
	return os.Chown(path, int(a.Uid), int(a.Gid))
}

// apply lets a command run as the account, in a folder that it may enter.
func (a account) apply(cmd *exec.Cmd) {
	cmd.Dir = "/"
	// no Ctrl-C: the test stops it
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.Credential, Setpgid: true}
}

// Stop ends the server in good order, as a shutdown of its machine would.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
}

// stop asks the server to disconnect everybody and end, and kills it when it does not.
func (c *Cluster) stop() error {
	if c.over() {
		return nil
	}
	_, err := c.signal(syscall.SIGCONT) // it may be paused
	if e := c.cmd.Process.Signal(syscall.SIGINT); e != nil && !errors.Is(e, os.ErrProcessDone) {
		err = errors.Join(err, e)
	}
	select {
	case <-c.ended:
		return err
	case <-time.After(patience):
		c.kill()
		return errors.Join(err, fmt.Errorf("the server did not stop within %v", patience))
	}
}

// over tells whether the server has ended.
func (c *Cluster) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Kill9 kills all processes of the server at once, as a power cut would, but for what the disk has.
func (c *Cluster) Kill9(t testing.TB) {
	t.Helper()
	c.kill()
}

func (c *Cluster) kill() {
	if !c.over() {
		c.signal(syscall.SIGKILL) // those that are gone already are what is wanted
		<-c.ended
	}
}

// Restart starts the server again. One that runs is stopped first.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.launch(); err != nil {
		t.Fatalf("restart PostgreSQL: %v", err)
	}
}

// Pause makes all processes of the server stand still: connections stay, nothing answers.
func (c *Cluster) Pause(t testing.TB) {
	t.Helper()
	for stopped := []int(nil); ; {
		// until nobody is left out whom the server begot before it stopped
		family, err := c.signal(syscall.SIGSTOP)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(family, stopped) {
			return
		}
		stopped = family
	}
}

// Resume lets them go on.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	if _, err := c.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// family lists the server's process and its children.
func (c *Cluster) family() ([]int, error) {
	server := c.cmd.Process.Pid
	list := []int{server}
	out, err := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(server)).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) { // no children
		err = nil
	}
	for field := range strings.FieldsSeq(string(out)) {
		pid, e := strconv.Atoi(field)
		if e != nil {
			return list, fmt.Errorf("read the list of processes: %w", e)
		}
		list = append(list, pid)
	}
	return list, err
}

// signal sends a signal to the server and its children, each of which leads a process group of its
// own, and says who they were.
func (c *Cluster) signal(sig syscall.Signal) ([]int, error) {
	family, err := c.family()
	errs := []error{err}
	for _, pid := range family {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("signal %v to %d: %w", sig, pid, err))
		}
	}
	return family, errors.Join(errs...)
}

// Remove kills the server and deletes its files before the test ends: one that was replaced needs
// no room.
func (c *Cluster) Remove(t testing.TB) {
	t.Helper()
	c.kill()
	if err := os.RemoveAll(c.dir); err != nil {
		t.Fatal(err)
	}
}
