package pool

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAChildHasNoMoreMemoryThanItMay(t *testing.T) {
	c := startChild(t, Command{
		Argv: []string{
			"sh", "-c", `while read -r n; do x=$(head -c "$n" /dev/zero | tr '\0' x); echo "{\"result\": ${#x}}"; done`,
		},
		Memory: 32 << 20,
	})
	for range 2 { // and its successor
		var n int
		if err := c.Call(t.Context(), 1<<20, &n); err != nil || n != 1<<20 {
			t.Errorf("a mebibyte of 32: %d, %v", n, err)
		}
		if err := c.Call(t.Context(), 100<<20, &n); !errors.Is(err, ErrDied) {
			t.Errorf("100 mebibytes of 32: %d, %v", n, err)
		}
	}
}

func TestARequestTakesNoMoreProcessorTimeThanItMay(t *testing.T) {
	c := startChild(t, Command{
		Argv: []string{
			"sh", "-c", `while read -r n; do while [ "$n" -gt 0 ]; do :; done; echo '{"result": 0}'; done`,
		},
		CPU: time.Millisecond, // a second, as the kernel counts
	})
	err := c.Call(t.Context(), 1, nil)
	if !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), syscall.SIGXCPU.String()) {
		t.Errorf("an endless loop: %v", err)
	}
	if err := c.Call(t.Context(), 0, nil); err != nil {
		t.Errorf("its successor: %v", err)
	}
}

func TestProcessorTimeIsLimitedByRequest(t *testing.T) {
	command := program(t)
	command.CPU = time.Second
	c := startChild(t, command)
	pid := mustAnswer(t, c)
	var used unix.Timespec
	if err := unix.ClockGettime(cpuClock(pid), &used); err != nil {
		t.Fatal(err)
	}
	mustAnswer(t, c)
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &limit); err != nil {
		t.Fatal(err)
	}
	if least := time.Duration(used.Nano()) +
		command.CPU; time.Duration(limit.Cur)*time.Second < least || limit.Cur > 9 {
		t.Errorf("after %v the limit is %d s", time.Duration(used.Nano()), limit.Cur)
	}
}

func TestAChildThatSpokeUnaskedIsNotBelieved(t *testing.T) {
	meet := newArrivals(t)
	c := startChild(t, program(t))
	before := mustAnswer(t, c)
	if err := c.Call(t.Context(), order{Do: "mutter", Addr: meet.addr()}, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := meet.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for waiting := 0; waiting == 0; {
		raw, err := c.process.out.file.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		if err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if err := c.Call(
		t.Context(), order{Do: "echo", N: 42}, nil,
	); !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "unasked") {
		t.Errorf("Call() = %v", err)
	}
	if mustAnswer(t, c) == before {
		t.Error("it was not replaced")
	}
}

func TestChildrenLeaveNothingBehind(t *testing.T) {
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	p, err := New(Config{Runners: 2, Penalty: -1}, program(t).Start)
	if err != nil {
		t.Fatal(err)
	}
	before := files()
	for range 10 {
		Ask[int](t.Context(), p, 1, order{Do: "die"})
		for range 2 {
			if _, err := Ask[int](t.Context(), p, 1, order{Do: "echo"}); err != nil {
				t.Error(err)
			}
		}
	}
	if after := files(); after > before {
		t.Errorf("%d open files became %d", before, after)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a process is left: %d, %v", pid, err)
	}
	if after := files(); after > before-6 {
		t.Errorf("%d open files, %d after Close", before, after)
	}
}

func TestAChildIsKilledWithItsMaker(t *testing.T) {
	meet := newArrivals(t)
	maker := startChild(t, program(t))
	asked := make(chan error, 1)
	go func() { asked <- maker.Call(t.Context(), order{Do: "employ", Addr: meet.addr()}, nil) }()
	childGone := meet.next(t)
	if err := syscall.Kill(maker.Pid(), syscall.SIGKILL); err != nil {
		// the child is the leader of another group
		t.Error(err)
	}
	childGone()
	if err := <-asked; !errors.Is(err, ErrDied) {
		t.Errorf("Call() = %v", err)
	}
}

func TestAChildOutlivesTheThreadOfItsMaker(t *testing.T) {
	var c *Child
	var thread int
	var making sync.WaitGroup
	var mayEnd func()
	mayEnd = func() {
		runtime.LockOSThread() // not unlocked, so that the thread ends with the goroutine
		if thread = unix.Gettid(); thread == os.Getpid() {
			defer runtime.UnlockOSThread() // the first one never does
			var next sync.WaitGroup
			next.Go(mayEnd)
			next.Wait()
			return
		}
		c = startChild(t, program(t))
		mustAnswer(t, c)
	}
	making.Go(mayEnd)
	making.Wait()
	for unix.Tgkill(os.Getpid(), thread, 0) == nil {
		runtime.Gosched()
	}
	before := c.Pid()
	if after := mustAnswer(t, c); after != before {
		t.Errorf("process %d became %d", before, after)
	}
}

// leaving is a program that leaves a process behind which has left its group and holds all its
// pipes, until the test is over.
func leaving(t *testing.T, program string) Command {
	stay := filepath.Join(t.TempDir(), "stay")
	if err := os.WriteFile(stay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return Command{
		Argv: []string{
			"sh", "-c", `exec 3<&0; setsid sh -c 'while [ -e "$0" ]; do sleep 0.05; done' "$0" <&3 & ` +
				program, stay,
		},
	}
}

func TestADeadChildIsNotWrittenTo(t *testing.T) {
	c := startChild(t, leaving(t, `head -c 1 >/dev/null; exit 3`))
	if err := c.Call(t.Context(), strings.Repeat("x", 1<<19), nil); !errors.Is(err, ErrDied) {
		// more than a pipe holds
		t.Errorf("Call() = %v", err)
	}
}

func TestADeadChildIsNotListenedTo(t *testing.T) {
	c := startChild(t, leaving(t, `read -r n; exit 3`))
	if err := c.Call(t.Context(), 1, nil); !errors.Is(err, ErrDied) ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Call() = %v", err)
	}
}

func TestADeadChildIsNotAskedThoughItsPipesAreHeld(t *testing.T) {
	c := startChild(t, leaving(t, `read -r n; echo '{"result": 1}'`))
	for range 2 {
		if err := c.Call(t.Context(), 1, nil); err != nil {
			t.Errorf("Call() = %v", err)
		}
		for !c.process.gone() {
			runtime.Gosched()
		}
	}
}

func TestAnIdleChildThatDiesIsNoZombie(t *testing.T) {
	c := startChild(t, program(t))
	pid := mustAnswer(t, c)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.process.ended
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}
