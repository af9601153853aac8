//go:build unix

package guard

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestGuardKillsOnlyGroupsThatHaveNotEnded(t *testing.T) {
	for _, c := range []struct {
		name, told string
		want       []int
	}{
		{"nothing was told", "", nil},
		{"all have ended", "+20\n+30\n-30\n-20\n", nil},
		{"one has not", "+20\n+30\n-20\n", []int{30}},
		{"a number that came again", "+20\n-20\n+20\n", []int{20}},
		{"everybody, our own group, and rubbish", "+1\n+0\n-1\n\nall\n+99999999999999999999\n+7",
			[]int{7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var killed []int
			if err := watchGroups(strings.NewReader(c.told), func(group int) {
				killed = append(killed, group)
			}); err != nil {
				t.Error(err)
			}
			if !slices.Equal(killed, c.want) {
				t.Errorf("killed %v, want %v", killed, c.want)
			}
		})
	}
}

func FuzzGuardKillsNothingThatHasEnded(f *testing.F) {
	f.Add("+20\n+30\n-30\n")
	f.Add("+1\n-1\n+0\n+\n-\n+20\r\n")
	f.Fuzz(func(t *testing.T, told string) {
		newest := map[int]string{} // the last word about each group
		for line := range strings.Lines(told) {
			if n, err := strconv.Atoi(strings.TrimRight(line, "\r\n")); err == nil {
				newest[max(n, -n)] = line
			}
		}
		_ = watchGroups(strings.NewReader(told), func(group int) {
			// a line without end is an error; what was told before counts
			if group <= 1 || strings.HasPrefix(newest[group], "-") {
				t.Errorf("%q kills %d", told, group)
			}
		})
	})
}

// A guard that reads nothing any more, as when somebody has stopped it, holds nobody up for long.
func TestGuardThatIsStoppedIsKilled(t *testing.T) {
	g, err := start(exec.Command("sleep", "1000"), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	full := make(chan error, 1)
	go func() {
		for {
			if _, err := g.Write([]byte("+100000\n")); err != nil {
				full <- err
				return
			}
		}
	}()
	select {
	case err := <-full:
		if !errors.Is(err, syscall.EPIPE) {
			t.Errorf("it ended with %v", err)
		}
		g.Close()
	case <-time.After(20 * time.Second):
		t.Error("whoever tells it still waits")
		_ = g.process.Process.Kill()
	}
}
