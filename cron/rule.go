package cron

import (
	"math/bits"
	"time"
)

// rule is one expression of a schedule. Sets are bits: bit k = k is in it.
type rule struct {
	every   int64 // seconds, of @every; then the rest is empty
	zone    *time.Location
	elapsed bool // it follows elapsed time, as its hour field begins with *

	second, minute, hour, month uint64
	days                        days

	fields [6]field // as they were read, for people
}

// days are the days of a month that match.
type days struct {
	ofMonth     uint64 // 1 to 31
	beforeLast  uint64 // bit k: k days before the last
	nearest     uint64 // bit k: the weekday nearest to k
	lastWeekday bool
	anyOfMonth  bool // the field is not restricted

	ofWeek    uint64    // 0 to 6
	last      uint64    // bit k: the last such day of the month
	nth       [6]uint64 // [i] bit k: the i-th such day
	anyOfWeek bool
}

// in is the set of days of a month that match.
func (d *days) in(year int64, month int) uint64 {
	n := daysIn(year, month)
	all := uint64(1)<<(n+1) - 2
	switch {
	case d.anyOfMonth && d.anyOfWeek:
		return all
	case d.anyOfMonth:
		return d.byWeek(weekday(dayOf(year, month, 1)), n) & all
	case d.anyOfWeek:
		return d.byMonth(year, month, n) & all
	}
	return (d.byMonth(year, month, n) | d.byWeek(weekday(dayOf(year, month, 1)), n)) & all
}

func (d *days) byMonth(year int64, month, n int) uint64 {
	set := d.ofMonth
	for rest := d.beforeLast; rest != 0; rest &= rest - 1 {
		if k := n - bits.TrailingZeros64(rest); k >= 1 {
			set |= 1 << k
		}
	}
	if d.nearest == 0 && !d.lastWeekday {
		return set
	}
	first := weekday(dayOf(year, month, 1))
	for rest := d.nearest; rest != 0; rest &= rest - 1 {
		if k := bits.TrailingZeros64(rest); k <= n {
			set |= 1 << nearestWeekday(k, first, n)
		}
	}
	if d.lastWeekday {
		set |= 1 << nearestWeekday(n, first, n)
	}
	return set
}

// nearestWeekday is the Monday to Friday nearest to day k of a month of n days that begins on the
// given day of the week.
func nearestWeekday(k, first, n int) int {
	switch (first + k - 1) % 7 {
	case 6: // Saturday
		if k == 1 {
			return 3
		}
		return k - 1
	case 0: // Sunday
		if k == n {
			return k - 2
		}
		return k + 1
	}
	return k
}

// weekly are the 1st, 8th, 15th, 22nd and 29th.
const weekly = 1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29

func (d *days) byWeek(first, n int) (set uint64) {
	for k := range 7 {
		ahead := (k - first + 7) % 7 // days from the 1st to the first such day
		bit := uint64(1) << k
		if d.ofWeek&bit != 0 {
			set |= weekly << ahead
		}
		if d.last&bit != 0 {
			set |= 1 << (1 + ahead + (n-1-ahead)/7*7)
		}
		for i := 1; i < len(d.nth); i++ {
			if d.nth[i]&bit != 0 {
				set |= 1 << (1 + ahead + (i-1)*7)
			}
		}
	}
	return set
}

// from is the first member of a set that is k or greater; 64 when there is none.
func from(set uint64, k int) int { return bits.TrailingZeros64(set >> k << k) }

// timeOfDay is the first matching second of the day from s on.
func (r *rule) timeOfDay(s int) (int, bool) {
	h, m, c := s/3600, s/60%60, s%60
	if r.hour>>h&1 == 1 {
		if r.minute>>m&1 == 1 {
			if c = from(r.second, c); c < 60 {
				return h*3600 + m*60 + c, true
			}
		}
		if m = from(r.minute, m+1); m < 60 {
			return h*3600 + m*60 + from(r.second, 0), true
		}
	}
	if h = from(r.hour, h+1); h < 24 {
		return h*3600 + from(r.minute, 0)*60 + from(r.second, 0), true
	}
	return 0, false
}

// local is the first matching local time from l on, before the year limit.
func (r *rule) local(l, limit int64) (int64, bool) {
	today := floorDiv(l, day)
	s, ok := r.timeOfDay(int(l - today*day))
	if !ok {
		today++
		s, _ = r.timeOfDay(0)
	}
	year, month, dom := civil(today)
	for year < limit {
		if r.month>>month&1 == 1 {
			if d := from(r.days.in(year, month), dom); d < 32 {
				if d != dom || !ok {
					s, _ = r.timeOfDay(0)
				}
				return dayOf(year, month, d)*day + int64(s), true
			}
		}
		ok, dom = false, 1
		if month = from(r.month, month+1); month > 12 {
			year, month = year+1, from(r.month, 1)
		}
	}
	return 0, false
}
