package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/story"
)

func parse(t testing.TB, text string, o Options) *Schedule {
	t.Helper()
	s, err := Parse(text, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// dues are the due times from a date on, as its zone's clocks show them.
func dues(s *Schedule, from time.Time, n int) string {
	var list []string
	for t := range s.All(from, from.AddDate(400, 0, 0)) {
		if list = append(list, t.Format("01-02 15:04:05 -07")); len(list) == n {
			break
		}
	}
	return strings.Join(list, ", ")
}

func TestClocksThatChange(t *testing.T) {
	for _, test := range []struct{ name, text, zone, from, want string }{
		{"a missing time is due at the end of the gap", "30 2 * * *", "Europe/Berlin",
			"2026-03-28 12:00", "03-29 03:00:00 +02, 03-30 02:30:00 +02"},
		{"several in one gap are due once", "*/10 2 29 * *", "Europe/Berlin", "2026-03-28 12:00",
			"03-29 03:00:00 +02, 04-29 02:00:00 +02"},
		{"and once with one that is there", "30 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00",
			"03-29 03:00:00 +02, 03-29 03:30:00 +02, 03-30 02:30:00 +02"},
		{"the end of the gap itself is no second time", "0,30 2,3 * * *", "Europe/Berlin",
			"2026-03-28 12:00", "03-29 03:00:00 +02, 03-29 03:30:00 +02, 03-30 02:00:00 +02"},
		{"a doubled time is due at the first", "30 2 * * *", "Europe/Berlin", "2026-10-24 12:00",
			"10-25 02:30:00 +02, 10-26 02:30:00 +01"},
		{"also asked for between the two", "30 2 * * *", "Europe/Berlin", "2026-10-25 03:00",
			"10-26 02:30:00 +01"},
		{"each hour follows elapsed time", "30 * * * *", "Europe/Berlin", "2026-10-25 01:00",
			"10-25 01:30:00 +02, 10-25 02:30:00 +02, 10-25 02:30:00 +01, 10-25 03:30:00 +01"},
		{"and skips what is missing", "30 * * * *", "Europe/Berlin", "2026-03-29 01:00",
			"03-29 01:30:00 +01, 03-29 03:30:00 +02"},
		{"every second hour by the wall clock", "0 */2 * * *", "Europe/Berlin", "2026-10-25 01:00",
			"10-25 02:00:00 +02, 10-25 02:00:00 +01, 10-25 04:00:00 +01"},
		{"half an hour forward", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00",
			"10-04 02:30:00 +11, 10-05 02:15:00 +11"},
		{"half an hour back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00",
			"04-05 01:45:00 +11, 04-06 01:45:00 +10"},
		{"a day that never was", "0 9 30 12 *", "Pacific/Apia", "2011-12-01 00:00",
			"12-31 00:00:00 +14, 12-30 09:00:00 +14"},
		{"daily over it", "0 9 * * *", "Pacific/Apia", "2011-12-29 00:00",
			"12-29 09:00:00 -10, 12-31 00:00:00 +14, 12-31 09:00:00 +14"},
		{"two hours forward", "30 1 * * *", "Antarctica/Troll", "2026-03-28 12:00",
			"03-29 03:00:00 +02, 03-30 01:30:00 +02"},
		{"two hours back", "30 1 * * *", "Antarctica/Troll", "2026-10-24 12:00",
			"10-25 01:30:00 +02, 10-26 01:30:00 +00"},
		{"a gap at midnight", "0 0 * * *", "America/Havana", "2026-03-07 12:00",
			"03-08 01:00:00 -04, 03-09 00:00:00 -04"},
		{"@every takes no notice", "@every 1h", "Europe/Berlin", "2026-10-25 01:30",
			"10-25 02:00:00 +02, 10-25 02:00:00 +01, 10-25 03:00:00 +01"},
	} {
		t.Run(test.name, func(t *testing.T) {
			z := zone(t, test.zone)
			from, err := time.ParseInLocation("2006-01-02 15:04", test.from, z)
			if err != nil {
				t.Fatal(err)
			}
			if got := dues(
				parse(t, test.text, Options{Zone: z}), from, strings.Count(test.want, ",")+1,
			); got != test.want {
				t.Errorf("%q in %s:\ngot  %s\nwant %s", test.text, z, got, test.want)
			}
		})
	}
}

func TestExpressionsAreReadAsMeant(t *testing.T) {
	from := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // a Saturday
	for text, want := range map[string]string{
		"*/20 * * * * *":                       "11-21 12:00:20 +00, 11-21 12:00:40 +00, 11-21 12:01:00 +00",
		"10-14/2 0 13 * * *":                   "11-21 13:00:10 +00, 11-21 13:00:12 +00, 11-21 13:00:14 +00, 11-22 13:00:10 +00",
		"5/20 12 * * *":                        "11-21 12:05:00 +00, 11-21 12:25:00 +00, 11-21 12:45:00 +00, 11-22 12:05:00 +00",
		"0 0 * dec Mon-Wed":                    "12-01 00:00:00 +00, 12-02 00:00:00 +00, 12-07 00:00:00 +00",
		"0 0 * * 7":                            "11-22 00:00:00 +00",
		"0 0 * * sat-sun":                      "11-22 00:00:00 +00, 11-28 00:00:00 +00",
		"0 0 * * L":                            "11-28 00:00:00 +00",
		"@hourly":                              "11-21 13:00:00 +00",
		"@Daily":                               "11-22 00:00:00 +00",
		"@weekly":                              "11-22 00:00:00 +00, 11-29 00:00:00 +00",
		"@monthly":                             "12-01 00:00:00 +00",
		"@annually":                            "01-01 00:00:00 +00",
		"@every 90s":                           "11-21 12:01:30 +00, 11-21 12:03:00 +00",
		"0 13 * * *; 30 12 * * *;@every 6h":    "11-21 12:30:00 +00, 11-21 13:00:00 +00, 11-21 18:00:00 +00",
		"CRON_TZ=Asia/Tokyo 0 9 * * *":         "11-22 09:00:00 +09",
		"TZ=Asia/Tokyo 0 9 * * *; 0 1 22 11 *": "11-22 09:00:00 +09, 11-22 01:00:00 +00",
		"\t0  0 1 * ? ":                        "12-01 00:00:00 +00",
		"0 0 29 2 *":                           "02-29 00:00:00 +00",
		"0 9,13 1 * *":                         "12-01 09:00:00 +00, 12-01 13:00:00 +00, 01-01 09:00:00 +00",
		"0 0 */10 * MON":                       "11-23 00:00:00 +00, 11-30 00:00:00 +00, 12-01 00:00:00 +00",
	} {
		if got := dues(parse(t, text, Options{}), from, strings.Count(want, ",")+1); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestFaultsAreLocated(t *testing.T) {
	for _, test := range []struct{ text, field, part, message string }{
		{"", "", "", "nothing stands here"},
		{"   ", "", "", "nothing stands here"},
		{"* * * *", "", "* * * *", "4 fields: five are needed"},
		{"* * * * * * *", "", "*", "none for years"},
		{"60 * * * *", "minute", "60", "must be 0 to 59"},
		{"0 24 * * *", "hour", "24", "must be 0 to 23"},
		{"0 0 0 * *", "day of month", "0", "must be 1 to 31"},
		{"0 0 32 * *", "day of month", "32", "must be 1 to 31"},
		{"0 0 1 13 *", "month", "13", "one of JAN"},
		{"0 0 * * 8", "day of week", "8", "one of SUN"},
		{"0 0 * FOO *", "month", "FOO", "must be 1 to 12, or one of JAN FEB"},
		{"61 0 * * * *", "second", "61", "must be 0 to 59"},
		{"30-10 * * * *", "minute", "30-10", "the range is reversed: write it as two, 30-59,0-10"},
		{"0 0 * * FRI-MON", "day of week", "FRI-MON", "reversed"},
		{"*/0 * * * *", "minute", "0", "a step is a number from 1 on"},
		{"*/-1 * * * *", "minute", "-1", "a step is a number"},
		{"*/60 * * * *", "minute", "60", "a step of 60 leads past the end"},
		{"*/x * * * *", "minute", "x", "a step is a number"},
		{"1,,2 * * * *", "minute", "", "something must stand here"},
		{"1, * * * *", "minute", "", "something must stand here"},
		{"1-2-3 * * * *", "minute", "2-3", "must be 0 to 59"},
		{"+1 * * * *", "minute", "+1", "must be 0 to 59"},
		{"000 * * * *", "minute", "000", "must be 0 to 59"},
		{"? * * * *", "minute", "?", "write *"},
		{"0 0 L-31 * *", "day of month", "L-31", "1 to 30"},
		{"0 0 0W * *", "day of month", "0", "must be 1 to 31"},
		{"0 0 LW-1 * *", "day of month", "LW", "must be 1 to 31"},
		{"0 0 * * MON#6", "day of week", "MON#6", "1 to 5 times"},
		{"0 0 * * #2", "day of week", "", "must be 0 to 7"},
		{"0 0 30 2 *", "", "0 0 30 2 *", "never due"},
		{"0 0 31 4,6,9,11 *", "", "0 0 31 4,6,9,11 *", "never due"},
		{"H * * * *", "minute", "H", "chosen by the schedule's name"},
		{"@every", "", "", "@every needs a duration"},
		{"@every 1.5s", "", "1.5s", "whole seconds"},
		{"@every 0s", "", "0s", "1s to 8784h"},
		{"@every -1h", "", "-1h", "1s to"},
		{"@every 999999h", "", "999999h", "1s to"},
		{"@every 8784h1s", "", "8784h1s", "1s to 8784h"},
		{"@every 9999999999999h", "", "9999999999999h", "needs a duration"},
		{"@every 1h x", "", "x", "nothing may stand behind"},
		{"@daily 5", "", "5", "nothing may stand behind @daily"},
		{"@reboot", "", "@reboot", "no reboot"},
		{"@never", "", "@never", "known are"},
		{"CRON_TZ=Mars/Base 0 0 * * *", "", "Mars/Base", "unknown time zone"},
		{"CRON_TZ=../etc/passwd 0 0 * * *", "", "../etc/passwd", "unknown time zone"},
		{"TZ=Local 0 0 * * *", "", "Local", "unknown time zone"},
		{"TZ= 0 0 * * *", "", "", "unknown time zone"},
		{"CRON_TZ=UTC", "", "", "nothing stands here"},
		{"0 0 * * *; ", "", "", "nothing stands here"},
		{"0 0 * * *;0 25 * * *", "hour", "25", "must be 0 to 23"},
		{strings.Repeat("1,", 5000) + "1 * * * *", "", "", "at most 1000"},
		{"0 0 ü * *", "day of month", "ü", "must be 1 to 31"},
	} {
		_, err := Parse(test.text, Options{})
		var e *SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%.60q: got %v", test.text, err)
			continue
		}
		if e.Field != test.field || e.Text[e.At:e.At+e.Len] != test.part ||
			!strings.Contains(e.Message, test.message) {
			t.Errorf("%.60q: got %v (field %q, part %q), want field %q, part %q: %s", test.text,
				err, e.Field, e.Text[e.At:e.At+e.Len], test.field, test.part, test.message)
		}
		if test.field != "" &&
			!strings.Contains(err.Error(),
				fmt.Sprintf("%s %q (at %d)", test.field, test.part, e.At+1)) {
			t.Errorf("%.60q: the text does not point: %v", test.text, err)
		}
	}
	for text, want := range map[string]string{
		"":                           "cron expression: nothing stands here",
		"0 0 * * *;":                 "cron expression (at 11): nothing stands here",
		"CRON_TZ=UTC":                "cron expression (at 12): nothing stands here",
		"0 0 * * *; @every":          "cron expression (at 18): @every needs a duration",
		"0 0 * * *;;0 0 * * *":       "cron expression (at 11): nothing stands here",
		"0 0 * * *;CRON_TZ= * * * *": "cron expression (at 19): unknown time zone",
	} {
		if _, err := Parse(text, Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestHashChoosesByName(t *testing.T) {
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	minutes, days, first60 := uint64(0), uint64(0), uint64(0)
	times := map[int]bool{}
	for i := range 2000 {
		name := fmt.Sprintf("backup-%d", i)
		a, b := parse(t, "H H(2-4) H * *", Options{Name: name}), parse(t, "H H(2-4) H * *", Options{
			Name: name,
		})
		due := a.Next(from)
		if !due.Equal(b.Next(from)) {
			t.Fatalf("%s: %s, then %s", name, due, b.Next(from))
		}
		if due.Hour() < 2 || due.Hour() > 4 || due.Day() > 28 {
			t.Fatalf("%s: due %s", name, due)
		}
		minutes |= 1 << due.Minute()
		days |= 1 << due.Day()
		if times[due.Hour()*60+due.Minute()] = true; i < 60 {
			first60 = minutes
		}
	}
	if bits.OnesCount64(minutes) != 60 || bits.OnesCount64(days) != 28 {
		t.Errorf("2000 names share %d minutes and %d days", bits.OnesCount64(minutes),
			bits.OnesCount64(days))
	}
	if len(times) != 180 {
		t.Errorf("2000 names share %d times of day of 180: fields are chosen by each other",
			len(times))
	}
	if n := bits.OnesCount64(first60); n < 30 {
		t.Errorf("60 names that differ in their last figures share %d minutes", n)
	}
	if got := dues(
		parse(t, "H H H * *", Options{Name: "nightly"}), from, 1,
	); got != "12-19 11:46:00 +00" {
		t.Errorf("nightly is due %s: what a name chooses is to stay so for ever", got)
	}
	s := parse(t, "H/15 * * * *", Options{Name: "x"})
	first := s.Next(from)
	if first.Minute() >= 15 || s.Next(first).Sub(first) != 15*time.Minute {
		t.Errorf("H/15: %s, then %s", first, s.Next(first))
	}
}

func TestCalendarSkipsOrKeepsDays(t *testing.T) {
	z := zone(t, "Europe/Berlin")
	s := parse(t, "0 0,12 * * *; */5 * 26 12 *", Options{Zone: z})
	from := time.Date(2026, 12, 24, 12, 0, 0, 0, z)
	skip, err := Skip("2026-12-26", "2026-12-25")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dues(s.On(skip), from, 2),
		"12-27 00:00:00 +01, 12-27 12:00:00 +01"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	keep, err := Keep("2026-12-31", "2027-01-02")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dues(s.On(keep), from, 9),
		"12-31 00:00:00 +01, 12-31 12:00:00 +01, 01-02 00:00:00 +01, 01-02 12:00:00 +01"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := dues(s.On(nil), from, 1); got != "12-25 00:00:00 +01" {
		t.Errorf("without a calendar: %s", got)
	}
	if _, err := Keep(make([]string, maxDates+1)...); err == nil ||
		!strings.Contains(err.Error(), "50001 days: at most 50000") {
		t.Errorf("of too many days: %v", err)
	}
	if _, err := Skip("2026-12-25", "2026-02-30"); err == nil ||
		!strings.Contains(err.Error(), `dates[1] "2026-02-30"`) {
		t.Errorf("got %v", err)
	}
}

func TestNothingIsDueFromTheYear2200On(t *testing.T) {
	end := time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, text := range []string{"* * * * * *", "0 0 1 1 *", "@every 1s", "59 59 23 31 12 *"} {
		s := parse(t, text, Options{})
		for _, from := range []time.Time{end, end.Add(time.Second), end.AddDate(5000, 0, 0)} {
			if got := s.Next(from); !got.IsZero() {
				t.Errorf("%q after %s: %s", text, from, got)
			}
		}
	}
	if got := parse(t, "59 59 23 31 12 *", Options{}).Next(end.Add(-time.Second)); !got.Equal(end) {
		t.Errorf("the last second: %s", got)
	}
	if got := parse(t, "0 0 1 1 *", Options{}).Next(time.Time{}); got.Year() != 1970 {
		t.Errorf("after the year 1: %s", got)
	}
}

func TestNotesSayWhatClocksDo(t *testing.T) {
	z := zone(t, "Europe/Berlin")
	for _, test := range []struct{ text, at, want string }{
		{"30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-29 02:30 does not exist"},
		{"30 2 * * *", "2026-10-25T00:30:00Z",
			"2026-10-25 02:30 comes twice in Europe/Berlin, and it is due at the first"},
		{"30 * * * *", "2026-10-25T00:30:00Z", "this is the first"},
		{"30 * * * *", "2026-10-25T01:30:00Z", "this is the second"},
		{"0 3 * * *", "2026-03-29T01:00:00Z", ""},
		{"0 * * * *", "2026-03-29T01:00:00Z", ""},
		{"30 2 * * *", "2026-03-30T00:30:00Z", ""},
		{"30 2 * * *", "2026-03-30T00:31:00Z", ""},
	} {
		at, err := time.Parse(time.RFC3339, test.at)
		if err != nil {
			t.Fatal(err)
		}
		got := parse(t, test.text, Options{Zone: z}).Note(at)
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%q at %s: %q, want %q", test.text, test.at, got, test.want)
		}
	}
}

func TestDescriptions(t *testing.T) {
	for _, test := range []struct{ text, english, chinese string }{
		{"30 2 * * *", "at 02:30 every day, UTC time", "每天 02:30（UTC 时间）"},
		{"0 9,17 * * MON-FRI", "at 09:00 and 17:00 on Monday to Friday, UTC time",
			"周一至周五 09:00、17:00（UTC 时间）"},
		{"*/5 * * * *", "every 5 minutes, UTC time", "每 5 分钟（UTC 时间）"},
		{"* * * * *", "every minute, UTC time", "每分钟（UTC 时间）"},
		{"*/10 * * * * *", "every 10 seconds, UTC time", "每 10 秒（UTC 时间）"},
		{"15 * * * *", "at minute 15 of every hour, UTC time", "每小时的第 15 分钟（UTC 时间）"},
		{"*/5 9-17 * * 1-5", "every 5 minutes in the hours 9 to 17 on Monday to Friday, UTC time",
			"周一至周五，9 至 17 点的每 5 分钟（UTC 时间）"},
		{"0 */2 * * *", "at minute 0 of every 2nd hour, UTC time", "每 2 小时的第 0 分钟（UTC 时间）"},
		{"0 6 L 1,7 *", "at 06:00 on the last day of the month in January and July, UTC time",
			"1 月、7 月，每月最后一天 06:00（UTC 时间）"},
		{"0 6 1-7,15W * MON#2",
			"at 06:00 on day 1 to 7 of the month, the weekday nearest to the 15th or the 2nd Monday of the month, UTC time",
			"每月 1 至 7 日或每月最接近 15 日的工作日或每月第 2 个周一 06:00（UTC 时间）"},
		{"0 6 * * FRIL", "at 06:00 on the last Friday of the month, UTC time",
			"每月最后一个周五 06:00（UTC 时间）"},
		{"@every 90m; CRON_TZ=Asia/Tokyo 0 0 LW * *",
			"every 1h30m; and at 00:00 on the last weekday of the month, Asia/Tokyo time",
			"每隔 1h30m；以及每月最后一个工作日 00:00（Asia/Tokyo 时间）"},
		{"@every 2h;@every 45s;@every 3m;@every 1h5s",
			"every 2h; and every 45s; and every 3m; and every 1h0m5s",
			"每隔 2h；以及每隔 45s；以及每隔 3m；以及每隔 1h0m5s"},
		// not every 45 minutes
		{"*/45 * * * *", "at minutes 0 and 45 of every hour, UTC time", "每小时的第 0、45 分钟（UTC 时间）"},
		{"*/30 */9 * * *", "at 00:00, 00:30, 09:00, 09:30, 18:00 and 18:30 every day, UTC time",
			"每天 00:00、00:30、09:00、09:30、18:00、18:30（UTC 时间）"},
		{"* */10 * * *", "every minute in the hours 0, 10 and 20, UTC time",
			"0、10、20 点的每分钟（UTC 时间）"},
		{"* 5 * * *", "every minute in hour 5, UTC time", "5 点的每分钟（UTC 时间）"},
		{"5 * * * * *", "at second 5 of every minute, UTC time", "每分钟的第 5 秒（UTC 时间）"},
		{"*/5 */10 * * * *", "every 5 seconds of every 10th minute, UTC time",
			"每 10 分钟的每 5 秒（UTC 时间）"},
		{"0/30 7 * * * *", "at seconds 0 and 30 at minute 7 of every hour, UTC time",
			"每小时的第 7 分钟的第 0、30 秒（UTC 时间）"},
		{"* 5 * * * *", "every second at minute 5 of every hour, UTC time",
			"每小时的第 5 分钟的每秒（UTC 时间）"},
		{"0 6 1,15 */5 1-5/2",
			"at 06:00 on day 1 and 15 of the month, Monday, Wednesday or Friday in January, June and November, UTC time",
			"1 月、6 月、11 月，每月 1、15 日或周一、周三、周五 06:00（UTC 时间）"},
	} {
		s := parse(t, test.text, Options{})
		if got := s.Describe(English); got != test.english {
			t.Errorf("%q: got %q, want %q", test.text, got, test.english)
		}
		if got := s.Describe(Chinese); got != test.chinese {
			t.Errorf("%q: got %q, want %q", test.text, got, test.chinese)
		}
	}
}

// Whatever is written, Parse answers with a schedule or with a place; and a schedule goes forward.
func FuzzParse(f *testing.F) {
	for _, text := range walked {
		f.Add(text)
	}
	for _, text := range []string{"H(1-5)/2 H * * *", "@every 1h",
		"CRON_TZ=Europe/Berlin 0 0 * * *;@daily", "0 0 L-3,LW,15W * 1#2,5L", "*/0", "1-", "H(",
		"L-", "#"} {
		f.Add(text)
	}
	at := time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, Options{Name: "x"})
		if err != nil {
			var e *SyntaxError
			if !errors.As(err, &e) || e.At < 0 || e.Len < 0 || e.At+e.Len > len(e.Text) ||
				e.Error() == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		if s.Describe(English) == "" || s.Describe(Chinese) == "" {
			t.Errorf("%q has no description", text)
		}
		last := at
		for range 5 {
			next := s.Next(last)
			if next.IsZero() {
				return
			}
			if !next.After(last) {
				t.Fatalf("%q: after %s comes %s", text, last, next)
			}
			if between := s.Next(next.Add(-time.Second)); !between.Equal(next) {
				t.Fatalf("%q: after a second before %s comes %s", text, next, between)
			}
			last = next
		}
	})
}

func TestNextAllocatesNothing(t *testing.T) {
	s := parse(t, "30 2 * * MON-FRI; CRON_TZ=Asia/Tokyo */5 9-17 L * *", Options{
		Zone: zone(t, "Europe/Berlin"),
	})
	at := time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)
	if n := testing.AllocsPerRun(100, func() { at = s.Next(at) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDatesGoThereAndBack(t *testing.T) {
	for d := int64(-800_000); d < 800_000; d += 13 {
		y, m, dom := civil(d)
		want := time.Unix(d*day, 0).UTC()
		if y != int64(want.Year()) || m != int(want.Month()) || dom != want.Day() ||
			dayOf(y, m, dom) != d || weekday(d) != int(want.Weekday()) {
			t.Fatalf("day %d: %d-%d-%d, weekday %d, back %d, want %s", d, y, m, dom, weekday(d),
				dayOf(y, m, dom), want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	z := zone(b, "Europe/Berlin")
	for _, text := range []string{"* * * * *", "*/5 9-17 * * MON-FRI", "30 2 * * *", "0 0 29 2 *",
		"0 6 L-3,15W * FRI#2", "@every 90s"} {
		b.Run(text, func(b *testing.B) {
			s := parse(b, text, Options{Zone: z})
			start := time.Date(2026, 11, 21, 12, 0, 0, 0, z)
			at := start
			b.ReportAllocs()
			for b.Loop() {
				if at = s.Next(at); at.IsZero() {
					at = start
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("*/5 9-17 * * MON-FRI", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEveryDayUntilTheYear2200IsDueOnce(t *testing.T) {
	story.Whole(t)
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/New_York",
		"UTC"} {
		z := zone(t, name)
		want := time.Date(2026, 11, 22, 12, 30, 0, 0, z)
		for at := range parse(t, "30 12 * * *", Options{Zone: z}).All(want.AddDate(0, 0, -1),
			want.AddDate(1000, 0, 0)) {
			if !at.Equal(want) {
				t.Fatalf("%s: due %s, want %s", name, at, want)
			}
			want = want.AddDate(0, 0, 1)
		}
		if want.Year() != 2200 {
			t.Errorf("%s: the last is before %s", name, want)
		}
	}
}

func TestAllEndsWithItsRange(t *testing.T) {
	from := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	got := slices.Collect(parse(t, "0 * * * *", Options{}).All(from, from.Add(2*time.Hour)))
	if len(got) != 2 || !got[0].Equal(from.Add(time.Hour)) || !got[1].Equal(from.Add(2*time.Hour)) {
		t.Errorf("got %v: from is not in it, to is", got)
	}
}
