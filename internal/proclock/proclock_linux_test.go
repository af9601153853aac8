package proclock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// In a process of its own the test binary holds a lock, says where, runs a command that outlives
// it, and waits.
func TestMain(m *testing.M) {
	name := os.Getenv("PROCLOCK_TEST_HOLD")
	if name == "" {
		os.Exit(m.Run())
	}
	place, err := New(name).Hold()
	if err == nil {
		err = exec.Command("sleep", "60").Start()
	}
	fmt.Println(place, err)
	select {}
}

// holder is another process that has the lock.
func holder(t *testing.T, name string) (place string, process *os.Process) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCLOCK_TEST_HOLD="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var failed string
	if _, err := fmt.Sscan(line, &place, &failed); err != nil || failed != "<nil>" {
		t.Fatalf("the other process says %q; %v", line, err)
	}
	return place, cmd.Process
}

func TestLockOutlivesNeitherItsProcessNorAStop(t *testing.T) {
	name := t.Name() + fmt.Sprint(os.Getpid())
	place, process := holder(t, name)
	l := New(name)
	defer l.Close()
	if _, err := l.Hold(); !errors.Is(err, ErrHeld) {
		t.Errorf("while another process has it: %v", err)
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Hold(); !errors.Is(err, ErrHeld) {
		t.Errorf("while another process that has it is stopped: %v", err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	got, err := l.Hold() // the command that it ran is alive
	if err != nil || got != place {
		t.Errorf("after its death: place %q, want %q; %v", got, place, err)
	}
}

func TestLockIsHeldOnceAndGivenBackByClose(t *testing.T) {
	name := t.Name() + fmt.Sprint(os.Getpid())
	a, b, other := New(name), New(name), New(name+"2")
	defer other.Close()
	place, err := a.Hold()
	if err != nil || place == "" {
		t.Fatal(place, err)
	}
	if again, err := a.Hold(); err != nil || again != place {
		t.Errorf("held already: %q, %v", again, err)
	}
	if _, err := b.Hold(); !errors.Is(err, ErrHeld) {
		t.Errorf("held by another: %v", err)
	}
	if there, err := other.Hold(); err != nil || there != place {
		t.Errorf("of another name: %q, %v", there, err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if _, err := a.Hold(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := b.Hold(); err != nil {
		t.Errorf("given back: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestPlacesDifferByBootMachineAndNamespace(t *testing.T) {
	type part struct {
		boot, machine string
		device, inode uint64
	}
	seen := map[string]part{}
	for _, p := range []part{{"b", "m", 4, 1}, {"c", "m", 4, 1}, {"b", "n", 4, 1}, {"b", "", 4, 1},
		{"b", "m", 5, 1}, {"b", "m", 4, 2}, {"b", "m4", 1, 0}} {
		got, err := place(p.boot+"\n", p.machine+"\n", p.device, p.inode)
		if other, ok := seen[got]; ok || err != nil {
			t.Errorf("%v and %v are one place; %v", p, other, err)
		}
		seen[got] = p
	}
	if _, err := place("\n", "m", 4, 1); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a boot id: %v", err)
	}
}
