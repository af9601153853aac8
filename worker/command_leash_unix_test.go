//go:build unix

package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

func TestKilledLeashLeavesNoProcessBehindAndStartsNone(t *testing.T) {
	dir := t.TempDir()
	leash := new(Leash)
	over := make(chan task.Outcome, 1)
	go func() {
		o, _ := shell(t, t.Context(), `trap '' TERM; sleep 1000 & echo $! >pid; wait`,
			task.Handout{}, CommandConfig{Dir: dir, Leash: leash})
		over <- o
	}()
	for readPid(dir) == 0 {
		time.Sleep(5 * time.Millisecond) // a real process
	}
	leash.Kill()
	if o := <-over; o.Kind != task.KindRetry || o.Error != "signal: killed" {
		t.Errorf("outcome %+v", o)
	}
	for pid := readPid(dir); alive(pid); {
		time.Sleep(5 * time.Millisecond) // killed, not yet reaped by init
	}
	if len(leash.running) != 0 {
		t.Errorf("%d commands are still on the leash", len(leash.running))
	}
	o, log := shell(t, t.Context(), `echo started`, task.Handout{}, CommandConfig{Leash: leash})
	if o.Kind != task.KindRetry || len(log) != 0 {
		t.Errorf("after the kill: %+v, log %q", o, log)
	}
}

// told is a guard that is slow to hear, and looks whether the command has begun by then.
type told func(line string)

func (f told) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestCommandBeginsWhenItsGuardKnowsOfItsGroup(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	leash := &Leash{Guard: told(func(line string) {
		if lines = append(lines, strings.TrimSpace(line)); len(lines) == 1 {
			time.Sleep(200 * time.Millisecond) // a real process could begin meanwhile
			if readPid(dir) != 0 {
				t.Error("it has begun")
			}
		}
	})}
	o, log := shell(t, t.Context(),
		`echo $$ >pid; env | grep -c rota_begin; [ -e /dev/fd/3 ] || echo none; cat`,
		task.Handout{}, CommandConfig{Dir: dir, Leash: leash})
	pid := readPid(dir)
	if want := []string{fmt.Sprintf("+%d", pid), fmt.Sprintf("-%d", pid)}; pid == 0 ||
		!slices.Equal(lines, want) {
		t.Errorf("the guard was told %q, want %q", lines, want)
	}
	if o.Kind != task.KindDone || strings.Join(log, "|") != "stdout: 0|stdout: none|stdout: null" {
		t.Errorf("outcome %+v, log %q", o, log)
	}
}

// A guard that was stopped holds up what it is to be told of, not the end of everything.
func TestKilledLeashWaitsForNoGuard(t *testing.T) {
	stuck, release := make(chan struct{}), make(chan struct{})
	leash := &Leash{Guard: told(func(line string) {
		if strings.HasPrefix(line, "+") {
			close(stuck)
			<-release
		}
	})}
	over := make(chan task.Outcome, 1)
	go func() {
		o, _ := shell(t, t.Context(), `sleep 1000`, task.Handout{}, CommandConfig{Leash: leash})
		over <- o
	}()
	<-stuck
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		leash.Kill()
	}()
	select {
	case <-killed:
	case <-time.After(20 * time.Second):
		t.Error("Kill waits for the guard")
	}
	close(release)
	<-killed
	if o := <-over; o.Error != "signal: killed" {
		t.Errorf("outcome %+v", o)
	}
}
