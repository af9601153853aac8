package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/task"
)

func TestHandoutsKeepTheirTimesAndContextsHoweverTheyAreWritten(t *testing.T) {
	first, second := time.Unix(1.8e9, 1e6).UTC(), time.Unix(1.9e9, 0).UTC()
	answer := task.HoldAnswer{PollInterval: time.Second}
	ready := []time.Time{first, second, second, {}, first, first, second}
	for i, deadline := range []time.Time{first, first, second, second, {}, {}, first} {
		answer.Tasks = append(answer.Tasks, task.Handout{
			ID: task.ID{Batch: 7 << 10, N: int32(i)}, Queue: "q", Token: "5.1.0.9", Attempt: 1,
			Deadline: deadline, Ready: ready[i],
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

func TestHandoutThatCannotBeReadFailsAlone(t *testing.T) {
	good := task.Handout{
		ID: task.ID{Batch: 7 << 10, N: 1}, Queue: "q", Token: "5.1.0.9", Attempt: 1,
		Deadline: time.Unix(1.8e9, 0).UTC(), Context: json.RawMessage(`{"a":1}`),
	}
	const end = `},{"id":"`
	for name, context := range map[string]string{
		"a word":              `hello`,
		"an open string":      `"hello`,
		"closed too often":    `{"a":1}}`,
		"no UTF-8":            "\"\xff\"",
		"nothing in a list":   `[,]`,
		"what looks like one": `{"x":"` + strings.ReplaceAll(end, `"`, `\"`) + end + `"`,
		"depth":               strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	} {
		for at := range 3 {
			answer := task.HoldAnswer{
				Tasks: []task.Handout{good, good, good}, PollInterval: time.Second,
			}
			bad := &answer.Tasks[at]
			bad.ID.N, bad.Token, bad.Context = 9, "6.2.1.8", json.RawMessage(context)
			got, err := ParseHandouts(AppendHandouts(nil, answer))
			if err != nil || len(got.Tasks) != 3 || got.PollInterval != time.Second {
				t.Errorf("%s at %d: %d hand-outs, %v", name, at, len(got.Tasks), err)
				continue
			}
			for i, h := range got.Tasks {
				switch {
				case i == at &&
					(h.Fault == "" || h.ID != bad.ID || h.Token != bad.Token || h.Context != nil):
					t.Errorf("%s at %d is read as %+v", name, at, h)
				case i != at && !cmp.Equal(h, good):
					t.Errorf("%s at %d: its neighbour %d is read as %+v", name, at, i, h)
				}
			}
		}
	}
	for _, other := range []string{`{"tasks":[{"id":7}],"poll_interval":"1s"}`, `{"tasks":[{"id":"`,
		`{"tasks":[{"id":"x","token":"1"}],"poll_interval":"1s"}`} {
		if _, err := ParseHandouts([]byte(other)); err == nil {
			t.Errorf("%s was read", other)
		}
	}
}

// A hold that asks for more than one answer has room for asks for as much as it has, at either end.
func TestLimitOfAHoldIsCappedOnTheWayInAndOut(t *testing.T) {
	for limit, want := range map[string]int{
		"0": 0, "7": 7, "1000": 1000, "1001": 1000, "9007199254740993": 1000,
	} {
		got, err := ParseHold([]byte(`{"worker":"w","queues":["q"],"limit":` + limit + `}`))
		if err != nil || got.Limit != want {
			t.Errorf("%s is read as %d, %v, want %d", limit, got.Limit, err, want)
		}
	}
	b := AppendHold(nil, task.HoldRequest{Worker: "w", Queues: []string{"q"}, Limit: 5000})
	if !strings.Contains(string(b), `"limit":1000`) {
		t.Errorf("5000 is written as %s", b)
	}
}
