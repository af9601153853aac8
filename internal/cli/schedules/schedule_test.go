package schedules

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

func TestDistancesAreSaidInTwoUnits(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 900 * time.Millisecond: "now", 90 * time.Second: "in 1m 30s",
		2 * time.Minute: "in 2m", 26*time.Hour + 59*time.Minute: "in 1d 2h",
		-90 * time.Minute: "1h 30m ago", 400 * 24 * time.Hour: "in 400d",
		3*time.Hour + 5*time.Second: "in 3h",
	} {
		if got := distance(now.Add(d), now); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// drawn is the picture of an expression's week.
func drawn(t *testing.T, expression, zone, from string, most int) string {
	t.Helper()
	begin, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cron.Parse(expression, cron.Options{Zone: ZoneOf(zone)})
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Time
	for at := s.Next(begin); len(times) < most; at = s.Next(at) {
		times = append(times, at)
	}
	return ansi.Strip(weekPicture(times, begin, ZoneOf(zone), false))
}

func TestPictureShowsTheDaysOfAWeekByTheHalfHour(t *testing.T) {
	const head = "\n           0     3     6     9     12    15    18    21\n"
	empty := strings.Repeat("·", pictureCells)
	for _, c := range []struct {
		expression, zone, from string
		most                   int
		want                   string
	}{
		{
			"30 2 * * *", "Europe/Berlin", "2026-03-27T23:00:00Z", 1000, head + // the 28th there
				"Sat Mar 28 ·····1··········································\n" +
				// no 02:30 that day
				"Sun Mar 29 ······1·········································\n" +
				"Mon Mar 30 ·····1··········································\n" +
				"Tue Mar 31 ·····1··········································\n" +
				"Wed Apr 01 ·····1··········································\n" +
				"Thu Apr 02 ·····1··········································\n" +
				"Fri Apr 03 ·····1··········································\n",
		},
		{
			// 250 reach 08:50 of the next day
			"*/5 * * * *", "UTC", "2026-11-21T12:00:00Z", 250, head +
				"Sat Nov 21 ························566666666666666666666666\n" +
				"Sun Nov 22 666666666666666665\n",
		},
		{"* * 0 * * *", "UTC", "2026-11-21T12:00:00Z", 4000,
			head + "Sat Nov 21 " + empty + "\nSun Nov 22 ##" + strings.Repeat("·", 46) +
				"\nMon Nov 23 #\n"},
		{"* * * * * *", "UTC", "2026-11-21T12:00:00Z", 1000, ""},
		{"0 12 27 11 *", "UTC", "2026-11-21T12:00:00Z", 2, head + strings.Join([]string{
			"Sat Nov 21 " + empty, "Sun Nov 22 " + empty, "Mon Nov 23 " + empty,
			"Tue Nov 24 " + empty, "Wed Nov 25 " + empty, "Thu Nov 26 " + empty,
			"Fri Nov 27 ························1·······················", "",
		}, "\n")},
		{"0 12 28,30 11 *", "UTC", "2026-11-21T12:00:00Z", 3, head + strings.Join([]string{
			// not in the week: from the first on
			"Sat Nov 28 ························1·······················", "Sun Nov 29 " + empty,
			"Mon Nov 30 ························1·······················",
			"Tue Dec 01 " + empty, "Wed Dec 02 " + empty, "Thu Dec 03 " + empty,
			"Fri Dec 04 " + empty, "",
		}, "\n")},
		{"* * * 28 11 *", "UTC", "2026-11-21T12:00:00Z", 1000, ""},
	} {
		if got := drawn(t, c.expression, c.zone, c.from, c.most); got != c.want {
			t.Errorf("%s:%s\nwant%s", c.expression, got, c.want)
		}
	}
	if got := weekPicture(nil, time.Now(), time.UTC, true); got != "" {
		t.Errorf("of nothing: %s", got)
	}
}

func TestComingTimesStandBesideTheirNotes(t *testing.T) {
	now := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
	a := commands{&app.App{Output: term.Output{Out: new(bytes.Buffer), Now: func() time.Time {
		return now
	}}}}
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	got := ansi.Strip(a.comingTable(&previewDoc{
		Times: []time.Time{first, first.Add(25 * time.Hour)},
		Notes: []noteDoc{{At: first, Text: "twice\nthat day"}}, Sentence: "at 02:30",
		Zone: "Europe/Berlin",
	}))
	want := `at 02:30

DUE (Europe/Berlin)             FROM NOW    NOTE
Sun 2026-10-25 02:30:00 +02:00  in 12h 30m  twice that day
Mon 2026-10-26 02:30:00 +01:00  in 1d 13h
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestEndsOfDeadTasksSaySo(t *testing.T) {
	for word, want := range map[string]string{
		"": "", "fired": "fired", "done": "done", "cancelled": "cancelled", "removed": "removed",
		"fail": "dead (fail)", "retry": "dead (retry)", "lost": "dead (lost)",
	} {
		if got := EndedText(word); got != want {
			t.Errorf("%q is said as %q, want %q", word, got, want)
		}
	}
}

func TestLatenessIsSaidAsExactlyAsItMatters(t *testing.T) {
	for d, want := range map[time.Duration]string{
		405_123 * time.Microsecond: "405ms", 4798 * time.Millisecond: "4.8s",
		74_798 * time.Millisecond: "1m15s", 25*time.Hour + 400*time.Millisecond: "25h0m0s",
	} {
		if got := lateText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestScheduleStandsInOneWord(t *testing.T) {
	for want, s := range map[string]client.Schedule{
		"paused":  {Schedule: task.Schedule{Paused: true, After: "a"}},
		"follows": {Schedule: task.Schedule{After: "a"}},
		"over":    {},
		"active":  {Next: time.Now()},
	} {
		if got := ansi.Strip(State(&s)); got != want {
			t.Errorf("%+v is %s, want %s", s, got, want)
		}
	}
}
