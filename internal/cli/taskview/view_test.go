package taskview

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

func TestJSONKeepsContexts(t *testing.T) {
	const raw = `{"n":9007199254740993,"e":1e400,"u":"\u2028 <&>","a":1,"a":2}`
	a := &term.Output{Out: new(bytes.Buffer), Format: "json"}
	view := Of(task.View{
		ID: task.ID{Batch: 1 << 40}, State: task.Done, Context: json.RawMessage(raw),
	})
	if err := a.Show(view, nil); err != nil {
		t.Fatal(err)
	}
	got := new(bytes.Buffer)
	if err := json.Compact(got, a.Out.(*bytes.Buffer).Bytes()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), raw) || !strings.Contains(got.String(), `"result":null,`) {
		t.Errorf("document = %s, want %s in it", got, raw)
	}
}
