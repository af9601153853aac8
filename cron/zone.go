package cron

import (
	"math"
	"time"
)

// stretch is a time during which a zone's clocks are apart from UTC by the same amount: from start
// until before end.
type stretch struct {
	start, end int64 // instants, seconds since 1970
	offset     int64 // of wall clocks to UTC
}

// at is the stretch around an instant.
func at(zone *time.Location, instant int64) stretch {
	t := time.Unix(instant, 0).In(zone)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	s := stretch{math.MinInt64, math.MaxInt64, int64(offset)}
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= instant {
		// package time's bounds leave out the last day of leap years for which a zone has a rule
		// and no table
		s.end = instant - instant%3600 + 3600
	}
	return s
}

// widest is more than any zone was ever apart from UTC.
const widest = 16 * 3600

// instant is when a wall clock shows a local time: the first time if it does twice, the end of the
// gap if it never does. It never goes back when local times go on.
func instant(zone *time.Location, local int64) int64 {
	for s := at(zone, local-widest); ; s = at(zone, s.end) {
		switch {
		case local-s.offset < s.start:
			return s.start
		case local-s.offset < s.end:
			return local - s.offset
		}
	}
}
