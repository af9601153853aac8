package view

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDurationIsTextAsGoWritesIt(t *testing.T) {
	for d, text := range map[time.Duration]string{
		0: `"0s"`, 90 * time.Second: `"1m30s"`, -1500 * time.Microsecond: `"-1.5ms"`,
	} {
		got, err := json.Marshal(Duration(d))
		if err != nil || string(got) != text {
			t.Errorf("%v is written as %s, want %s (%v)", d, got, text, err)
		}
		var again Duration
		if err := json.Unmarshal(got, &again); err != nil || again != Duration(d) {
			t.Errorf("%s is read as %v (%v)", got, time.Duration(again), err)
		}
	}
	again := Duration(time.Second)
	if err := json.Unmarshal([]byte(`"soon"`), &again); err == nil ||
		again != Duration(time.Second) {
		t.Errorf("read %v, %v", time.Duration(again), err)
	}
}
