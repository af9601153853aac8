//go:build unix

package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rotahq/rota/task"
)

func TestCommandIsToldWhatItsTaskWaitedFor(t *testing.T) {
	id := task.ID{Batch: 5, N: 1}
	prior := func(n int) (list []task.Prior) {
		for i := range n {
			list = append(list, task.Prior{ID: id, Ref: fmt.Sprint("r", i), If: task.IfDone,
				State: task.Done, Result: json.RawMessage(`"x"`)})
		}
		return list
	}
	large := prior(1)
	large[0].Context = json.RawMessage(`"` + strings.Repeat("x", maxAfterText) + `"`)
	one := `[{"state":"done","id":"000000000000511","ref":"r0","if":"done",`
	for _, c := range []struct {
		after []task.Prior
		text  string
		file  int // bytes
	}{
		{nil, "", 0},
		{prior(1), one + `"result":"x"}]`, len(one) + len(`"result":"x"}]`)},
		{large, one + `"left_out":true}]`, len(one) + len(`"context":"",`+`"result":"x"}]`) +
			maxAfterText},
		{prior(1000), "", 1 + 1000*(len(one)+len(`"result":"x"}`)) + 1890},
	} {
		_, log := shell(t, t.Context(),
			`echo "$ROTA_AFTER"; cat ${ROTA_AFTER_FILE:-/dev/null} | wc -c | tr -d " "`,
			task.Handout{After: c.after}, CommandConfig{Env: []string{"ROTA_AFTER=another's"}})
		want := fmt.Sprintf("stdout: %s stdout: %d", c.text, c.file)
		if got := strings.Join(log, " "); got != want {
			t.Errorf("%d tasks: %.300q, want %.300q", len(c.after), got, want)
		}
	}
}
