package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/rotahq/rota/internal/story"
)

// walker is the oracle: slow, and as simple as can be. It shares no code with the package: it looks
// at every minute or second of a stretch of time and asks of each field's text whether the wall
// clock fits.
type walker struct {
	fields [6]string
	zone   *time.Location
	times  [3][60]bool // whether a second, a minute, an hour fits
}

func newWalker(text string, zone *time.Location) *walker {
	f := strings.Fields(text)
	if len(f) == 5 {
		f = append([]string{"0"}, f...)
	}
	w := &walker{fields: [6]string(f), zone: zone}
	for i, top := range []int{59, 59, 23} {
		for v := range top + 1 {
			w.times[i][v] = fits(w.fields[i], v, top)
		}
	}
	return w
}

// fits asks of a wall clock, given as a time in UTC, whether all fields match.
func (w *walker) fits(wall time.Time) bool { return w.fitsTime(wall) && w.fitsDay(wall) }

func (w *walker) fitsTime(wall time.Time) bool {
	return w.times[0][wall.Second()] && w.times[1][wall.Minute()] && w.times[2][wall.Hour()]
}

func (w *walker) fitsDay(wall time.Time) bool {
	if !fits(w.fields[4], int(wall.Month()), 12) {
		return false
	}
	anyDay, anyWeek := w.fields[3] == "*" || w.fields[3] == "?", w.fields[5] == "*" ||
		w.fields[5] == "?"
	dom, dow := fitsDayOfMonth(w.fields[3], wall), fitsDayOfWeek(w.fields[5], wall)
	switch {
	case anyDay:
		return dow
	case anyWeek:
		return dom
	}
	return dom || dow
}

var numbers = strings.NewReplacer("-SUN", "-7", "SUN", "0", "MON", "1", "TUE", "2", "WED", "3",
	"THU", "4", "FRI", "5", "SAT", "6",
	"JAN", "1", "FEB", "2", "MAR", "3", "APR", "4", "MAY", "5", "JUN", "6", "JUL", "7", "AUG", "8",
	"SEP", "9", "OCT", "10", "NOV", "11", "DEC", "12")

func fits(text string, v, top int) bool {
	return slices.ContainsFunc(strings.Split(numbers.Replace(text), ","), func(part string) bool {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			step, _ = strconv.Atoi(stepText)
		}
		loText, hiText, ranged := strings.Cut(span, "-")
		lo, _ := strconv.Atoi(loText)
		hi := lo
		switch {
		case span == "*" || span == "?":
			lo, hi = 0, top
			if top == 12 || top == 31 {
				lo = 1
			}
		case ranged:
			hi, _ = strconv.Atoi(hiText)
		case stepped:
			hi = top
		}
		return v >= lo && v <= hi && (v-lo)%step == 0
	})
}

func fitsDayOfMonth(text string, wall time.Time) bool {
	y, m, d := wall.Date()
	last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	for part := range strings.SplitSeq(text, ",") {
		switch {
		case part == "L":
			if d == last {
				return true
			}
		case part == "LW":
			e := last
			for !workday(y, m, e) {
				e--
			}
			if d == e {
				return true
			}
		case strings.HasPrefix(part, "L-"):
			k, _ := strconv.Atoi(part[2:])
			if d == last-k {
				return true
			}
		case strings.HasSuffix(part, "W"):
			k, _ := strconv.Atoi(strings.TrimSuffix(part, "W"))
			for _, e := range []int{k, k - 1, k + 1, k - 2, k + 2} {
				// the nearest first; two days away only across the month's ends
				if k <= last && e >= 1 && e <= last && workday(y, m, e) {
					if d == e {
						return true
					}
					break
				}
			}
		default:
			if fits(part, d, 31) {
				return true
			}
		}
	}
	return false
}

func workday(y int, m time.Month, d int) bool {
	w := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()
	return w != time.Saturday && w != time.Sunday
}

func fitsDayOfWeek(text string, wall time.Time) bool {
	v := int(wall.Weekday())
	for part := range strings.SplitSeq(numbers.Replace(text), ",") {
		base, nth, counted := strings.Cut(part, "#")
		switch {
		case part == "L":
			if v == 6 {
				return true
			}
		case counted:
			k, _ := strconv.Atoi(nth)
			if fits(base, v, 6) && (wall.Day()-1)/7+1 == k {
				return true
			}
		case strings.HasSuffix(part, "L"):
			if fits(strings.TrimSuffix(part, "L"), v, 6) &&
				wall.AddDate(0, 0, 7).Month() != wall.Month() {
				return true
			}
		default:
			if fits(part, v, 6) || v == 0 && fits(part, 7, 7) {
				return true
			}
		}
	}
	return false
}

// wall is what the zone's clocks show, as a time in UTC.
func (w *walker) wall(t time.Time) time.Time {
	_, offset := t.In(w.zone).Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// step is how finely time is walked.
func (w *walker) step() time.Duration {
	if w.fields[0] == "0" {
		return time.Minute
	}
	return time.Second
}

// walk finds what is due after from and up to to, both whole minutes.
func (w *walker) walk(from, to time.Time) (due []time.Time) {
	if strings.HasPrefix(w.fields[2], "*") { // elapsed time: every instant whose wall clock fits
		for t := from.Add(w.step()); !t.After(to); t = t.Add(w.step()) {
			if w.fits(w.wall(t)) {
				due = append(due, t)
			}
		}
		return due
	}
	// Times of day: every one that fits, shown or not. It is due when it is first shown; if it
	// never is, when the clocks have jumped over it.
	first := map[int64]int64{} // local time: the instant at which it is first shown
	// local times that are jumped over: from, before, and the instant of the jump
	var gaps [][3]int64
	before := w.wall(from.Add(-27 * time.Hour)).Unix()
	for t := from.Add(-50*time.Hour +
		w.step()); !t.After(to.Add(27 * time.Hour)); t = t.Add(w.step()) {
		local := w.wall(t).Unix()
		if _, shown := first[local]; !shown {
			first[local] = t.Unix()
		}
		if step := int64(w.step() / time.Second); local > before+step {
			gaps = append(gaps, [3]int64{before + step, local, t.Unix()})
		}
		before = local
	}
	seen := map[int64]bool{}
	end := w.wall(to).Add(26 * time.Hour)
	for l := w.wall(from).Add(-26 * time.Hour); l.Before(end); l = l.Add(w.step()) {
		if !w.fits(l) {
			continue
		}
		at, shown := first[l.Unix()]
		for _, g := range gaps {
			if !shown && l.Unix() >= g[0] && l.Unix() < g[1] {
				at, shown = g[2], true
			}
		}
		if t := time.Unix(at, 0); shown && t.After(from) && !t.After(to) && !seen[at] {
			seen[at] = true
			due = append(due, t)
		}
	}
	slices.SortFunc(due, time.Time.Compare)
	return due
}

// transitions are the instants at which a zone's clocks change.
func transitions(zone *time.Location, from, to time.Time) (list []time.Time) {
	_, offset := from.In(zone).Zone()
	for t := from; t.Before(to); t = t.Add(15 * time.Minute) {
		if _, now := t.In(zone).Zone(); now != offset {
			list = append(list, t)
			offset = now
		}
	}
	return list
}

var walkedZones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Dublin", "Europe/Istanbul",
	"Europe/Moscow", "Europe/Chisinau",
	"America/New_York", "America/Chicago", "America/Sao_Paulo", "America/Santiago",
	"America/Asuncion", "America/Havana", "America/St_Johns", "America/Caracas",
	"America/Nuuk", "Africa/Casablanca", "Africa/Cairo", "Asia/Tehran", "Asia/Kathmandu",
	"Asia/Pyongyang", "Asia/Beirut", "Asia/Amman", "Asia/Gaza", "Asia/Shanghai",
	"Australia/Lord_Howe", "Australia/Sydney", "Pacific/Apia", "Pacific/Chatham",
	"Pacific/Kiritimati", "Antarctica/Troll", "Atlantic/Azores",
}

var walked = []string{
	"* * * * *", "*/5 * * * *", "*/7 * * * *", "30 * * * *", "0 */2 * * *", "15,45 */3 * * *",
	"0 * * * MON", "0 */6 1 * *",
	"0 0 * * *", "59 23 * * *", "30 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *",
	"30 2,3 * * *", "0 0-5 * * *", "*/20 1-3 * * *", "45 0,1,2 * * *",
	"30 2 * 3 SUN", "30 2 * * 0", "30 2 * * 7", "0 0 * * SAT,SUN", "0 1 * * 1-5", "0 4 * * FRI-SUN",
	"0 12 * * 2/2",
	"0 0 1 * *", "0 0 31 * *", "0 0 L * *", "30 2 L-3 * *", "0 5 LW * *", "0 5 15W * *",
	"0 5 1W * *", "0 5 31W * *", "0 5 30W,2W * *",
	"0 6 * * 5L", "0 6 * * FRIL", "0 6 * * MON#1", "0 6 * * 1#5", "30 2 * * 0#2,0#5",
	"0 0 13 * FRI", "0 0 */2 * MON", "0 0 ? * 1", "0 0 5 * ?",
	"0 0 29 2 *", "0 0 1 JAN *", "30 2 25-31 3,10 *", "30 1 25-31 10,11 SUN", "0 0 1-7 */3 *",
	"0 3 1 1-12/5 *", "0 0 1,15 * 3",
	"0 22-23 * * *", "5/15 0 * * *", "10-50/10 2 * * *", "0 0,12 1 */2 *", "0 0 30 12 *",
	"30 0 * 4,9 *", "1 3 26 3 *", "59 1 * * *", "0 23 31 12 *", "*/30 2 * 3,4,10,11 *",
}

// Around every change of a zone's clocks from 2000 to 2040, and on days that are like any other,
// the schedule has the due times that the walker finds.
func TestDueTimesAreThoseOfTheWalker(t *testing.T) {
	story.Whole(t)
	from, to := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	for z, name := range walkedZones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			days := transitions(zone, from, to)
			for i, text := range walked {
				s, err := Parse(text, Options{Zone: zone})
				if err != nil {
					t.Fatal(err)
				}
				at := days
				if len(at) > 3 {
					// each change is walked with some expressions, and each expression through some
					// changes
					at = []time.Time{days[(i+z)%len(days)], days[len(days)-1-(3*i)%len(days)]}
				}
				at = append(slices.Clone(at), from.AddDate(0, 0, (i*1709+z*613)%14600),
					time.Date(2040+4*((i+z)%30), 12, 31, 12, 0, 0, 0, time.UTC))
				for _, middle := range at {
					compare(t, s, newWalker(text, zone),
						middle.Truncate(time.Hour).Add(-14*time.Hour),
						middle.Truncate(time.Hour).Add(14*time.Hour))
				}
			}
		})
	}
}

// compare holds a schedule against the walker.
func compare(t *testing.T, s *Schedule, w *walker, from, to time.Time) {
	t.Helper()
	want, got := w.walk(from, to), slices.Collect(s.All(from, to))
	if !slices.EqualFunc(want, got, time.Time.Equal) {
		t.Fatalf("%q in %s, after %s up to %s:\ngot  %s\nwant %s", s, s.Zone(), from, to,
			clocks(got), clocks(want))
	}
}

func clocks(list []time.Time) string {
	var texts []string
	for _, t := range list[:min(len(list), 40)] {
		texts = append(texts, t.UTC().Format(time.RFC3339))
	}
	return fmt.Sprint(len(list), " ", strings.Join(texts, " "))
}

// Days alone, through all of 2000 to 2040: what matches is what the walker says of each.
func TestDaysAreThoseOfTheWalker(t *testing.T) {
	story.Whole(t)
	for _, text := range walked {
		f := strings.Fields(text)
		text = "0 0 " + strings.Join(f[2:], " ")
		s, err := Parse(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := newWalker(text, time.UTC)
		at := time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)
		for d := at.Add(time.Second); d.Year() < 2040; d = d.AddDate(0, 0, 1) {
			if !w.fitsDay(d) {
				continue
			}
			if at = s.Next(at); !at.Equal(d) {
				t.Fatalf("%q: next is %s, want %s", text, at, d)
			}
		}
	}
}

func FuzzDueTimes(f *testing.F) {
	f.Add(uint8(1), uint16(30), uint8(2), uint8(0), uint8(0), int64(1_774_745_000), uint8(0))
	f.Add(uint8(28), uint16(0), uint8(24), uint8(31), uint8(7), int64(1_325_239_000), uint8(3))
	f.Fuzz(func(t *testing.T, z uint8, m uint16, h, dom, dow uint8, at int64, form uint8) {
		zone, err := time.LoadLocation(walkedZones[int(z)%len(walkedZones)])
		if err != nil {
			t.Fatal(err)
		}
		field := func(v, lo, hi int) string {
			span := hi - lo + 1
			a := lo + v%span
			switch (v / span) % 4 {
			case 1:
				return fmt.Sprintf("%d-%d", a, hi)
			case 2:
				return fmt.Sprintf("%d-%d/%d", lo, hi, 1+v%(span-1))
			case 3:
				return "*"
			}
			return strconv.Itoa(a)
		}
		text := strings.Join([]string{field(int(m), 0, 59), field(int(h), 0, 23),
			field(int(dom), 1, 28), "*", field(int(dow), 0, 6)}, " ")
		if form%5 == 1 {
			text = strings.Replace(text, " * ", " */3 ", 1)
		}
		s, err := Parse(text, Options{Zone: zone})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		from := time.Unix(946_684_800+((at%1_200_000_000)+1_200_000_000)%1_200_000_000,
			0).Truncate(time.Hour)
		compare(t, s, newWalker(text, zone), from, from.Add(60*time.Hour))
	})
}
