package lease

import (
	"testing"
	"time"
)

func TestRowOfSightsBreaksWithAGapOrAJump(t *testing.T) {
	const ms = time.Millisecond
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		// Of each answer: when it was asked for, how long it took, and how far the store was ahead.
		answers [][3]time.Duration
		calm    bool
	}{
		{"none", nil, false},
		{"one", [][3]time.Duration{{0, 0, 0}}, false},
		{"regular", [][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, 0},
			{900 * ms, 0, 0}, {1000 * ms, 0, 0}}, true},
		{"too short",
			[][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, 0}, {900 * ms, 0, 0}},
			false},
		{"gap", [][3]time.Duration{{0, 0, 0}, {400 * ms, 0, 0}, {700 * ms, 0, 0},
			{1000 * ms, 0, 0}}, false},
		{"slow answers are none",
			[][3]time.Duration{{0, 0, 0}, {200 * ms, 90 * ms, 0}, {400 * ms, 0, 0},
				{700 * ms, 0, 0}, {1000 * ms, 0, 0}}, false},
		{"small steps",
			[][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 40 * ms}, {600 * ms, 0, 0},
				{900 * ms, 0, 40 * ms}, {1000 * ms, 0, 0}}, true},
		{"steps add up",
			[][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 30 * ms}, {600 * ms, 0, 60 * ms},
				{900 * ms, 0, 90 * ms}, {1000 * ms, 0, 120 * ms}}, false},
		{"jump ahead",
			[][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, 51 * ms},
				{900 * ms, 0, 51 * ms}, {1000 * ms, 0, 51 * ms}}, false},
		{"jump back",
			[][3]time.Duration{{0, 0, 0}, {300 * ms, 0, 0}, {600 * ms, 0, -51 * ms},
				{900 * ms, 0, -51 * ms}, {1000 * ms, 0, -51 * ms}}, false},
		{"answers on their way",
			[][3]time.Duration{{0, 50 * ms, 0}, {300 * ms, 50 * ms, 50 * ms}, {600 * ms, 0, 0},
				{900 * ms, 50 * ms, 50 * ms}, {1100 * ms, 0, 0}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sight{width: 50 * ms, jump: 50 * ms, gap: 350 * ms}
			now := begin
			for _, a := range c.answers {
				now = begin.Add(a[0])
				s.see(now, now.Add(a[1]), now.Add(a[2]))
			}
			if got := s.calm(now, time.Second); got != c.calm {
				t.Errorf("calm %v, want %v: %+v", got, c.calm, s)
			}
			if c.calm && s.calm(now.Add(360*ms), time.Second) {
				t.Error("calm after a silence")
			}
		})
	}
}
