package history

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A body that was cut, or is of nobody's, is an error and adds nothing; a later version's may have
// more counts.
func TestBodiesThatMakeNoSenseAddNothing(t *testing.T) {
	var c Changes
	c.Submitted(noon.UnixMicro(), "q", []store.Task{{Stage: "s"}})
	c.Settled("q", 1, &store.Step{
		Kind: task.KindDone, Base: store.Final, Started: noon.UnixMicro(),
		Finished: noon.UnixMicro() + 1e6,
	})
	whole := c.Encode()
	for cut := range whole {
		f := NewFold(Kept{}.Complete(), noon.UnixMicro())
		err := f.Add(whole[:cut])
		rows := 0
		for range f.Rows() {
			rows++
		}
		if cut > 1 && err == nil && rows == 0 || err != nil && rows > 0 {
			t.Errorf("cut at %d of %d: %v, and %d rows", cut, len(whole), err, rows)
		}
	}
	for _, body := range []string{"", "x", "{", "\x02", "\x01\x00\xff"} {
		if err := NewFold(Kept{}, 0).Add([]byte(body)); err == nil {
			t.Errorf("%q was taken", body)
		}
		if _, err := Decode([]byte(body)); err == nil {
			t.Errorf("%q is a record", body)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var r Record
	r.Done, r.Ready = 3, 4
	r.Wait.Add(70)
	r.Wait.Add(1e9)
	f.Add(r.Encode())
	f.Add(drawn(rand.New(rand.NewPCG(1, 2))).Encode())
	f.Add([]byte(`{"queue":"q","at":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, err := Decode(body); err == nil {
			again, err := Decode(got.Encode())
			if err != nil || again.String() != got.String() {
				t.Errorf("%q: %v, written and read again %v, %v", body, got, again, err)
			}
		}
		// neither panics, nor takes memory that the body does not pay for
		_ = NewFold(Kept{}.Complete(), noon.UnixMicro()).Add(body)
		_ = NewAnswer(Question{From: 0, To: 60e6, Step: time.Minute}).Changes(body)
	})
}
