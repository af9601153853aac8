package worker

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rotahq/rota/task"
)

// The number of a group is told to have ended while nobody else can have it yet: else the guard, or
// a kill of the leash, would hit who got it meanwhile.
func TestGroupIsForgottenBeforeItsNumberIsFree(t *testing.T) {
	ended := 0
	leash := &Leash{Guard: told(func(line string) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Error(err)
		}
		if n > 0 {
			return
		}
		ended++
		if err := syscall.Kill(-n, 0); err != nil {
			t.Errorf("process %d: %v: its number is free", -n, err)
		}
	})}
	o, log := shell(t, t.Context(), `echo out`, task.Handout{}, CommandConfig{Leash: leash})
	if o.Kind != task.KindDone || strings.Join(log, "|") != "stdout: out" || ended != 1 {
		t.Errorf("outcome %+v, log %q, told of %d ends", o, log, ended)
	}
}
