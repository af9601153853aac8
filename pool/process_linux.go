package pool

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownGroup makes the program the leader of a process group, so that what it starts is killed with
// it, and has the kernel kill it when we are killed: precisely, when the thread ends that started
// it, so that must not end before.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until a process has ended, and leaves it to be waited for: until then nobody else
// gets its number. It says whether it could.
func awaitEnd(p *os.Process) bool {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

const hasLimits = true

// confine sets the limits that stay as they are. They hold before the first request, not before the
// program's first steps.
func (p *process) confine(c *Command) error {
	var memory, core error
	if c.Memory > 0 {
		memory = p.limit(unix.RLIMIT_DATA, uint64(c.Memory), uint64(c.Memory))
	}
	if c.CPU > 0 {
		core = p.limit(unix.RLIMIT_CORE, 0, 0) // that is how SIGXCPU would end it
	}
	return errors.Join(memory, core)
}

// limitCPU bounds the processor time of the next request, in whole seconds of the process's own.
// The kernel ends it by SIGXCPU. Only the soft limit moves, since the hard one could not be raised
// again.
func (p *process) limitCPU(d time.Duration) error {
	var used unix.Timespec
	if err := unix.ClockGettime(cpuClock(p.cmd.Process.Pid), &used); err != nil {
		return err
	}
	limit := math.Ceil(time.Duration(used.Nano()).Seconds() + d.Seconds())
	return p.limit(unix.RLIMIT_CPU, uint64(limit), math.MaxUint64)
}

// cpuClock is the clock of a process's processor time, clock_getcpuclockid(3).
func cpuClock(pid int) int32 { return int32(^pid<<3 | 2) }

// limit lowers limits, within those that the process was born with.
func (p *process) limit(resource int, soft, hard uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil // the next step will find it dead
	}
	var born unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, resource, nil, &born); err != nil {
		return err
	}
	return unix.Prlimit(p.cmd.Process.Pid, resource,
		&unix.Rlimit{Cur: min(soft, born.Max), Max: min(hard, born.Max)}, nil)
}
