package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/task"
)

func TestHandoutsKeepTheirDeadlinesAndContextsHoweverTheyAreWritten(t *testing.T) {
	first, second := time.Unix(1.8e9, 1e6).UTC(), time.Unix(1.9e9, 0).UTC()
	answer := task.HoldAnswer{PollInterval: time.Second}
	for i, deadline := range []time.Time{first, first, second, second, {}, {}, first} {
		answer.Tasks = append(answer.Tasks, task.Handout{
			ID: task.ID{Batch: 7 << 10, N: int32(i)}, Queue: "q", Token: "5.1.0.9", Attempt: 1, Deadline: deadline,
			Context: json.RawMessage(`"` + strings.Repeat("x", 10*i) + `"`),
		})
	}
	whole := AppendHandouts(nil, answer)
	got, err := ParseHandouts(whole)
	if diff := cmp.Diff(answer, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	for long, want := range map[int]int{0: 7, 11: 6, 12: 5, 61: 1, 62: 0} {
		b, cuts := CutHandouts([]byte("before"), answer, long)
		if len(cuts) != want {
			t.Errorf("%d contexts of more than %d bytes are cut, want %d", len(cuts), long, want)
		}
		joined, from := "", 0
		for _, c := range cuts {
			joined += string(b[from:c.At]) + string(c.Value)
			from = c.At
		}
		if joined += string(b[from:]); joined != "before"+string(whole) {
			t.Errorf("cut above %d bytes and joined: %s", long, joined)
		}
	}
}
