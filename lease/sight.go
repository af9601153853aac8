package lease

import "time"

// sight is what a keeper has seen of the store: since when it has heard it without a gap, and how
// far the store's clock is ahead of the keeper's own, which lies between lo and hi: each answer was
// made between asking and answering.
type sight struct {
	// an answer that took longer says too little of the clock, and does not count
	width time.Duration
	jump  time.Duration // by how much the two clocks may part before it is called a jump
	gap   time.Duration // the longest silence that is none

	origin, store time.Time // the instant, on both clocks, from which both count
	since, last   time.Time // the first and the newest answer of an unbroken row; zero = none yet
	lo, hi        time.Duration
}

// see takes note of an answer. What breaks the row starts a new one: a gap, or a jump of the
// store's clock. Between any two instants of a row the clocks have parted by no more than jump +
// 2 × width.
func (s *sight) see(asked, answered, store time.Time) {
	if answered.Sub(asked) > s.width {
		return
	}
	if s.origin.IsZero() {
		s.origin, s.store = asked, store
	}
	went := store.Sub(s.store)
	lo, hi := went-answered.Sub(s.origin), went-asked.Sub(s.origin)
	s.lo, s.hi = max(s.lo, lo), min(s.hi, hi)
	if s.last.IsZero() || asked.Sub(s.last) > s.gap || s.lo > s.hi+s.jump {
		s.since, s.lo, s.hi = answered, lo, hi
	}
	s.last = answered
}

// calm tells whether the row has lasted for d, and has not ended.
func (s *sight) calm(now time.Time, d time.Duration) bool {
	return !s.last.IsZero() && now.Sub(s.last) <= s.gap && s.last.Sub(s.since) >= d
}

// latest is the latest time that the store's clock can read when it gets in good time what is asked
// now.
func (s *sight) latest(now time.Time) time.Time {
	return s.store.Add(now.Sub(s.origin) + s.hi + s.jump + s.width)
}
