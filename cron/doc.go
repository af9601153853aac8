// Package cron reads cron expressions and finds the times at which they are due. It is pure: no
// clock, no goroutines, no state; a [Schedule] never changes and may be used by all.
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//		"time"
//
//		"github.com/rotahq/rota/cron"
//	)
//
//	func main() {
//		berlin, err := time.LoadLocation("Europe/Berlin")
//		if err != nil {
//			log.Fatal(err)
//		}
//		s, err := cron.Parse("30 2 * * MON-FRI", cron.Options{Zone: berlin})
//		if err != nil {
//			log.Fatal(err) // says which field, and what may stand there
//		}
//		fmt.Println(s.Describe(cron.English))
//		next := s.Next(time.Now())
//		fmt.Println(next, s.Note(next)) // a note when the clocks change then
//	}
//
// An expression has five fields, or six with seconds in front:
//
//	second  0-59            minute  0-59            hour   0-23
//	day of month  1-31      month   1-12, JAN-DEC   day of week  0-7, SUN-SAT; 0 and 7 are Sunday
//
// A field is * (any), a value, a range a-b, a step a/n, a-b/n or */n, or several of them joined by
// commas. Besides:
//
//	?               any; for the two fields of days
//	L  L-3  LW      day of month: the last day, the third before the last, the last weekday (Monday to Friday)
//	15W             day of month: the weekday nearest to the 15th, in the same month
//	5L  FRIL        day of week: the last Friday of the month
//	MON#2           day of week: the second Monday of the month
//	H  H(0-7)  H/5  a value, chosen by the schedule's name: the same for that name always, spread evenly over all names
//
// When both fields of days are restricted, that is neither * nor ?, either will do. @yearly,
// @monthly, @weekly, @daily, @midnight and @hourly stand for what they say; @every 90s is due at
// each multiple of 90 s since 1970, whatever the zone. Expressions joined by ; are due when any of
// them is. CRON_TZ=Europe/Berlin in front of one puts it into another zone than the schedule's.
//
// # When clocks change
//
// An expression whose hour field begins with * (as *, */2) follows elapsed time: it is due at every
// instant whose wall clock matches, so a doubled hour has its times twice and a missing one has
// none. Every other expression names times of day: one that comes twice is due once, at the first;
// one that is missing is due at the end of the gap. Several in one gap are due once, and so are
// those of a day that is missing as a whole. No instant is ever due twice. [Schedule.Note] says of
// a time when it is one of these.
//
// # Cost
//
// Next takes well below a microsecond and allocates nothing; a Schedule takes a few hundred bytes.
// Times are whole seconds, from 1970 up to the year 2200, after which nothing is due.
//
// The calendar arithmetic is that of Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"
// (https://howardhinnant.github.io/date_algorithms.html). The special characters are those of
// Quartz and Jenkins.
package cron
