package view

import (
	"encoding/json"
	"testing"

	"github.com/rotahq/rota/task"
)

func TestTaskIDIsEmptyWhereThereIsNone(t *testing.T) {
	id, err := task.ParseID("1jwrrkvpcj00713")
	if err != nil {
		t.Fatal(err)
	}
	for text, id := range map[string]TaskID{`""`: {}, `"1jwrrkvpcj00713"`: {id}} {
		got, err := json.Marshal(id)
		if err != nil || string(got) != text {
			t.Errorf("%v is written as %s, want %s (%v)", id, got, text, err)
		}
		again := TaskID{task.ID{Batch: 1, N: 1}}
		if err := json.Unmarshal(got, &again); err != nil || again != id {
			t.Errorf("%s is read as %v, want %v (%v)", got, again, id, err)
		}
	}
	var none TaskID
	if err := json.Unmarshal([]byte(`"nonsense"`), &none); err == nil {
		t.Errorf("nonsense is read as %v", none)
	}
}
