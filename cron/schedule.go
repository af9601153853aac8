package cron

import (
	"iter"
	"math"
	"time"
)

// Schedule says when something is due. Make it with Parse.
type Schedule struct {
	text     string
	zone     *time.Location
	rules    []rule
	calendar *Calendar
}

// Nothing is due from the year lastYear on.
const lastYear = 2200

// String is the expression as it was given.
func (s *Schedule) String() string { return s.text }

// Zone is where the schedule's times of day are.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Next is the first due time after t, in the zone of its expression; zero when there is none before
// the year 2200.
func (s *Schedule) Next(t time.Time) time.Time {
	after := t.Unix()
	for {
		next, zone := int64(math.MaxInt64), s.zone
		for i := range s.rules {
			if at := s.rules[i].next(after); at < next {
				next, zone = at, s.rules[i].zone
			}
		}
		if next == math.MaxInt64 {
			return time.Time{}
		}
		if s.calendar == nil || s.calendar.open(s.zone, next) {
			return time.Unix(next, 0).In(zone)
		}
		if after = s.calendar.reopens(s.zone, next); after == math.MaxInt64 {
			return time.Time{}
		}
	}
}

// All yields the due times after from up to and with to.
func (s *Schedule) All(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for t := s.Next(from); !t.IsZero() && !t.After(to); t = s.Next(t) {
			if !yield(t) {
				return
			}
		}
	}
}

// next is the first due instant after another; MaxInt64 = none.
func (r *rule) next(after int64) int64 {
	switch {
	case after < -1:
		after = -1
	case after >= latest:
		return math.MaxInt64
	}
	switch {
	case r.every > 0:
		return due((floorDiv(after, r.every) + 1) * r.every)
	case r.elapsed:
		return r.nextElapsed(after)
	}
	return r.nextFixed(after)
}

// latest is the instant before which due times lie.
var latest = time.Date(lastYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// nextElapsed goes from stretch to stretch, each as if there were no other.
func (r *rule) nextElapsed(after int64) int64 {
	for t := after + 1; t < latest; {
		s := at(r.zone, t)
		local, ok := r.local(t+s.offset, lastYear+1)
		switch {
		case !ok:
			return math.MaxInt64
		case local-s.offset < s.end:
			return due(local - s.offset)
		}
		t = s.end
	}
	return math.MaxInt64
}

// nextFixed goes from local time to local time. Those that a wall clock shows again are behind it
// the second time.
func (r *rule) nextFixed(after int64) int64 {
	s := at(r.zone, after)
	local := after + s.offset + 1
	if s.start > after-2*widest {
		// clocks were changed lately; if they were set back, what comes twice is skipped at once,
		// not one by one
		local = max(local, s.start+at(r.zone, s.start-1).offset)
	}
	for {
		var ok bool
		if local, ok = r.local(local, lastYear+1); !ok {
			return math.MaxInt64
		}
		if t := instant(r.zone, local); t > after {
			return due(t)
		}
		local++
	}
}

func due(t int64) int64 {
	if t >= latest {
		return math.MaxInt64
	}
	return t
}
