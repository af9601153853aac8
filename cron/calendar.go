package cron

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Calendar is a set of days on which a schedule is not due, or the only ones on which it is:
// holidays, days of work.
type Calendar struct {
	keep bool
	days []int64 // since 1970, sorted
}

// maxDates is how many days a calendar may have: more than a century of them.
const maxDates = 50_000

// Skip makes a calendar of days, as in 2026-12-25, on which nothing is due. An error names the day
// that is none.
func Skip(dates ...string) (*Calendar, error) { return newCalendar(false, dates) }

// Keep makes a calendar of the only days on which something is due.
func Keep(dates ...string) (*Calendar, error) { return newCalendar(true, dates) }

func newCalendar(keep bool, dates []string) (*Calendar, error) {
	if len(dates) > maxDates {
		return nil, fmt.Errorf("calendar of %d days: at most %d", len(dates), maxDates)
	}
	c := &Calendar{keep: keep}
	for i, date := range dates {
		t, err := time.Parse(time.DateOnly, date)
		if err != nil {
			return nil, fmt.Errorf("calendar: dates[%d] %.40q: write a day as in 2026-12-25", i,
				date)
		}
		c.days = append(c.days, floorDiv(t.Unix(), day))
	}
	slices.Sort(c.days)
	c.days = slices.Compact(c.days)
	return c, nil
}

// On is the schedule on a calendar's days only, by the date in the schedule's zone. nil = all days.
func (s *Schedule) On(c *Calendar) *Schedule {
	on := *s
	on.calendar = c
	return &on
}

// open tells whether something may be due at an instant.
func (c *Calendar) open(zone *time.Location, instant int64) bool {
	return c.allows(localDay(zone, instant))
}

func (c *Calendar) allows(day int64) bool {
	_, listed := slices.BinarySearch(c.days, day)
	return listed == c.keep
}

// reopens is the instant before the next day on which something may be due; MaxInt64 = there is
// none.
func (c *Calendar) reopens(zone *time.Location, from int64) int64 {
	next := localDay(zone, from) + 1
	if i, listed := slices.BinarySearch(c.days, next); c.keep && i == len(c.days) {
		return math.MaxInt64
	} else if c.keep {
		next = c.days[i]
	} else if listed {
		for ; i < len(c.days) && c.days[i] == next; i++ {
			next++
		}
	}
	return max(instant(zone, next*day)-1, from)
}

func localDay(zone *time.Location, instant int64) int64 {
	return floorDiv(instant+at(zone, instant).offset, day)
}
