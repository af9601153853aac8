package view

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTimeIsRFC3339InUTCWithMilliseconds(t *testing.T) {
	at := time.Date(2026, 3, 29, 2, 30, 0, 7_999_999, time.FixedZone("", 2*60*60))
	for _, c := range []struct {
		at    time.Time
		text  string
		again time.Time
	}{
		{time.Time{}, `null`, time.Time{}},
		{at, `"2026-03-29T00:30:00.007Z"`, at.Truncate(time.Millisecond)},
		{at.Truncate(time.Second), `"2026-03-29T00:30:00.000Z"`, at.Truncate(time.Second)},
	} {
		got, err := json.Marshal(struct{ T Time }{Time{c.at}})
		if err != nil || string(got) != `{"T":`+c.text+`}` {
			t.Errorf("%v is written as %s, want %s (%v)", c.at, got, c.text, err)
		}
		var again struct{ T Time }
		if err := json.Unmarshal(got, &again); err != nil || !again.T.Equal(c.again) {
			t.Errorf("%s is read as %v, want %v (%v)", got, again.T, c.again, err)
		}
	}
}
