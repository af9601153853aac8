package forecast

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/rotahq/rota/internal/history"
)

// says is what a store says of some queues, minute by minute. It may say more of the last minutes
// later.
type says map[string]map[int64]*history.Record

func (s says) minutes(from, whole int64) (list []history.QueueMinute) {
	for queue, by := range s {
		for at, r := range by {
			if at < from {
				continue
			}
			m := history.QueueMinute{Queue: queue, Minute: at}
			m.Counts = r.Counts
			if at >= whole {
				m.Record = *r
			}
			list = append(list, m)
		}
	}
	return list
}

func (s says) come(queue string, at int64, n int64) {
	if s[queue] == nil {
		s[queue] = map[int64]*history.Record{}
	}
	r := s[queue][at]
	if r == nil {
		r = new(history.Record)
		s[queue][at] = r
	}
	r.Submitted += n
	for range n {
		r.Run.Add(2e6)
		r.Wait.Add(1e6)
	}
}

// A past that is read piece by piece is the one that is read at once, whatever was added to the
// last minutes meanwhile.
func TestThePastDoesNotDependOnHowItIsRead(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	there := map[string]bool{"a": true, "b": true}
	for range 20 {
		s, bit := says{}, NewPast()
		now := int64(base)
		for range 30 {
			now += int64(r.IntN(4))
			if r.IntN(20) == 0 {
				now += int64(r.IntN(100))
			}
			for range 4 { // a minute may be added to while it is unsettled
				s.come([]string{"a", "b", "gone"}[r.IntN(3)], now-int64(r.IntN(unsettled)), 1)
			}
			bit.Add(now, s.minutes(bit.From(now), bit.Whole(now, 2)), there)
			once := NewPast()
			once.Add(now, s.minutes(once.From(now), once.Whole(now, 2)), there)
			for queue := range there {
				if a, b := bit.Of(queue, now), once.Of(queue, now); !reflect.DeepEqual(a, b) {
					t.Fatalf("%s at %d: by pieces\n%+v, at once\n%+v", queue, now-base, a, b)
				}
			}
			if got := bit.Of("gone", now); got.Arrived != nil || got.Runs != 0 {
				t.Fatalf("a queue that is not there: %+v", got)
			}
		}
	}
}

func TestTheRecordBeginsWhereAnythingCame(t *testing.T) {
	s, there := says{}, map[string]bool{"q": true}
	s.come("q", base-70, 5) // beyond the hour
	s.come("q", base-20, 7)
	s.come("q", base, 9) // of a minute that is not over
	p := NewPast()
	p.Add(base, s.minutes(p.From(base), p.Whole(base, 1)), there)
	rec := p.Of("q", base)
	if len(rec.Arrived) != 20 || rec.Arrived[0] != 7 || sum(rec.Arrived) != 7 || rec.Runs != 16 ||
		rec.Mean < 1.9 || rec.Mean > 2.1 || rec.Second < 3.7 || rec.Second > 4.3 {
		t.Errorf("%+v", rec)
	}
	if rec.Waited[0] < 0.9 || rec.Waited[0] > 1.1 || rec.Waited[1] >= 0 || rec.Slots[0] >= 0 {
		t.Errorf("waited %v, slots %v", rec.Waited, rec.Slots)
	}
	s = says{}
	s.come("q", base, 9) // its first minute
	p = NewPast()
	p.Add(base, s.minutes(p.From(base), p.Whole(base, 1)), there)
	if rec = p.Of("q", base); len(rec.Arrived) != 10 || sum(rec.Arrived) != 9 {
		t.Errorf("a new queue: %+v", rec)
	}
}

func TestThePastKnowsTheFewestSlotsOfAMinute(t *testing.T) {
	s, there := says{}, map[string]bool{"q": true}
	s.come("q", base, 1)
	p := NewPast()
	for _, at := range []struct {
		minute int64
		slots  float64
	}{{base, 8}, {base, 4}, {base, 6}, {base + 1, 0}, {base + 3, 5}} {
		p.Add(at.minute, s.minutes(p.From(at.minute), 0), there)
		p.Saw(at.minute, "q", at.slots)
		p.Saw(at.minute, "other", 1) // nobody knows it
	}
	p.Add(base+4, s.minutes(p.From(base+4), 0), there)
	rec := p.Of("q", base+4)
	if got := rec.Slots[len(rec.Slots)-4:]; !reflect.DeepEqual(got, []float64{4, 0, -1, 5}) {
		t.Errorf("slots %v", got)
	}
}

// What was said of minutes that are yet to come, by a clock that was set back since, is forgotten,
// and so is what a store that was restored says no more.
func TestThePastForgetsTheFuture(t *testing.T) {
	there := map[string]bool{"q": true, "p": true}
	for _, back := range []int64{1, 2, 10, 30} {
		s := says{}
		for at := range int64(Window) {
			s.come("q", base+at+1, 1)
		}
		s.come("p", base+Window-1, 1)
		p := NewPast()
		p.Add(base+Window, s.minutes(p.From(base+Window), 0), there)
		now := base + Window - back
		delete(s, "p")
		p.Add(now, s.minutes(p.From(now), 0), there)
		if got := p.Of("q", now).Arrived; sum(got) != float64(Window-back-1) {
			t.Errorf("%d minutes back: %v", back, got)
		}
		if got := p.Of("p", now).Arrived; sum(got) != 0 {
			t.Errorf("%d minutes back: %v of a queue that never was", back, got)
		}
	}
}

// With many queues a past that begins reads few durations, later what is new.
func TestAPastThatBeginsReadsABoundedNumberOfDurations(t *testing.T) {
	p := NewPast()
	if got := p.Whole(base, 100); got != base-Window {
		t.Errorf("of 100 queues from %d on", got-base)
	}
	if got := p.Whole(base, 1000); got != base-15 {
		t.Errorf("of 1,000 queues from %d on", got-base)
	}
	if got := p.Whole(base, 1_000_000); got != base-unsettled {
		t.Errorf("of a million from %d on", got-base)
	}
	p.Add(base, nil, nil)
	if got := p.Whole(base+1, 1); got != base-unsettled || p.From(base+1) != got {
		t.Errorf("later from %d on", got-base)
	}
	if p.From(base+Window+unsettled+5) != base+unsettled+5 || p.From(base-10) != base-10-Window {
		t.Error("after a gap, and after a clock that went back, it begins anew")
	}
}
