package term

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

func TestTableAlignsWideCharactersAndNumbers(t *testing.T) {
	a := &Output{Out: new(bytes.Buffer)}
	table := a.Table("QUEUE", "#DONE", "WORKER")
	table.Add("邮件", "7", "w1")
	table.Add("mail", "1,234", Red("w2"))
	table.Add("x", "0", "")
	want := "" +
		"QUEUE   DONE  WORKER\n" +
		"邮件       7  w1\n" +
		"mail   1,234  w2\n" +
		"x          0\n"
	if err := a.Show(nil, table.String); err != nil {
		t.Fatal(err)
	}
	if got := a.Out.(*bytes.Buffer).String(); got != want {
		t.Errorf("table =\n%s\nwant\n%s", got, want)
	}
}

func TestTableWrapsWhatDoesNotFitAndCutsNothing(t *testing.T) {
	table := new(Output).Table("A", "NOTE", "#N", "STATE")
	table.Add("aaaa", "邮件邮件邮件 and words", "1,234", Red("dead"))
	table.Width = 28
	want := "" +
		"A     NOTE          N  STATE\n" +
		"aaaa  邮件邮件  1,234  dead\n" +
		"      邮件 and\n" +
		"      words\n"
	if got := ansi.Strip(table.String()); got != want {
		t.Errorf("table =\n%s\nwant\n%s", got, want)
	}
	table.Width = 14 // there is room for two columns
	want = "" +
		"A     NOTE\n" +
		"aaaa  邮件邮件\n" +
		"      邮件 and\n" +
		"      words\n" +
		"    N 1,234\n" +
		"    STATE dead\n"
	if got := ansi.Strip(table.String()); got != want {
		t.Errorf("table =\n%s\nwant\n%s", got, want)
	}
}

// Whatever stands in a table and however narrow it is: no line is too long, and no character is
// lost.
func FuzzTablesFitAndKeepEverything(f *testing.F) {
	f.Add("mail", "连接被拒绝 refused", "12", 20, true)
	f.Fuzz(func(t *testing.T, a, b, n string, width int, below bool) {
		if width = max(width, 20); width > 200 || len(a)+len(b)+len(n) > 2000 {
			return
		}
		a, b, n = OneLine(a), OneLine(b), OneLine(n)
		if ansi.StringWidth(n) > 8 || !utf8.ValidString(a+b+n) {
			return
		}
		table := new(Output).Table("ONE", "#N", "ANOTHER")
		table.Add(a, n, b)
		table.Width, table.Below = width, below
		got := ansi.Strip(table.String())
		for line := range strings.Lines(got) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d wide: %q", w, line)
			}
		}
		for _, r := range a + b + n {
			if !unicode.IsSpace(r) && !strings.ContainsRune(got, r) {
				t.Errorf("%q is lost:\n%s", r, got)
			}
		}
	})
}

func TestTextThatDoesNotFitStandsBelowItsRow(t *testing.T) {
	table := new(Output).Table("AT", "#LATE", "REASON")
	table.Below, table.Width = true, 20
	table.Add("12:00", "1ms", "short")
	table.Add("12:01", "12ms", "the task of 12:00 is not final, 任务还没有结束")
	table.Add("12:02", "3ms", "")
	want := "" +
		"AT     LATE  REASON\n" +
		"12:00   1ms  short\n" +
		"12:01  12ms\n" +
		"    the task of\n" +
		"    12:00 is not\n" +
		"    final,\n" +
		"    任务还没有结束\n" +
		"12:02   3ms\n"
	if got := ansi.Strip(table.String()); got != want {
		t.Errorf("table =\n%s\nwant\n%s", got, want)
	}
	table.Width = 0
	if got := table.String(); !strings.Contains(got,
		"12ms  the task of 12:00 is not final, 任务还没有结束\n") {
		t.Errorf("without a width it is\n%s", got)
	}
}

func TestTextFromOutsideCannotSteerTheTerminal(t *testing.T) {
	if got := OneLine(
		"a\x1b[2J\nb\tc\r\u009bX \u2028",
	); strings.ContainsFunc(got, func(r rune) bool {
		return r < ' ' || r == 0x9b
	}) {
		t.Errorf("oneLine left control characters in %q", got)
	}
	for text, want := range map[string]string{
		"a\u202egpj.exe":         `a\u202egpj.exe`,
		"a\u2066b\u2069\ufeff":   `a\u2066b\u2069\ufeff`,
		"a\u2028b\u2029c":        "a b c",
		"می\u200cخواهم 👩\u200d🔬": "می\u200cخواهم 👩\u200d🔬",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("oneLine(%+q) = %+q, want %+q", text, got, want)
		}
	}
}

func TestShortTimes(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Time{}, "-"},
		{now, "now"},
		{now.Add(-999 * time.Millisecond), "now"},
		{now.Add(-59 * time.Second), "59s ago"},
		{now.Add(-3 * time.Minute), "3m ago"},
		{now.Add(-47 * time.Hour), "47h ago"},
		{now.Add(90 * time.Second), "in 1m"},
		{now.AddDate(0, 0, -3), "2026-11-18 12:00"},
		{now.AddDate(0, 0, 3), "2026-11-24 12:00"},
	} {
		if got := Short(c.at, now); got != c.want {
			t.Errorf("short(%v) = %q, want %q", c.at, got, c.want)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567",
		-1000: "-1,000", -999: "-999"} {
		if got := Count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB",
		3 << 29: "1.5 GiB", 1<<64 - 1: "16.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{0.456: "0.46", 9.5: "9.50", 45.67: "45.7", 456.7: "457",
		150000.4: "150,000"} {
		if got := Number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{361234: "361µs", 8210999: "8.21ms",
		999: "999ns"} {
		if got := Round(d).String(); got != want {
			t.Errorf("round(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestStampIsRFC3339InUTC(t *testing.T) {
	at := time.Date(2026, 11, 21, 14, 3, 2, 1_999_999, time.FixedZone("", 3600))
	for _, c := range []struct {
		at   time.Time
		want string
	}{{at, `"2026-11-21T13:03:02.001Z"`}, {time.Time{}, "null"}} {
		got, err := json.Marshal(Stamp(c.at))
		if err != nil || string(got) != c.want {
			t.Errorf("stamp = %s (%v), want %s", got, err, c.want)
		}
	}
}

func TestBarFillsByItsShare(t *testing.T) {
	for share, full := range map[float64]int{-1: 0, 0: 0, 0.5: 12, 1: 24, 7: 24} {
		if got := strings.Count(bar(share, 24), "━"); got != 24 {
			t.Errorf("bar(%v) is %d wide", share, got)
		}
		if full < 24 && !strings.Contains(bar(share, 24), Faint(strings.Repeat("━", 24-full))) {
			t.Errorf("bar(%v) does not leave %d of 24 empty", share, 24-full)
		}
	}
}

// Columns stand below each other on a terminal, where a wide character takes two cells and a mark
// none, and no line is wider than it.
func TestTablesOfAllScriptsLineUp(t *testing.T) {
	o := &Output{Out: io.Discard}
	for _, width := range []int{0, 80} {
		table := o.Table("QUEUE", "#N", "STATE", "TEXT")
		table.Width = width
		for _, name := range []string{"mail", "邮件队列", "cafe\u0301", "Очередь", "हिन्दी", "𠮷野"} {
			table.Add(name, "7", "open", strings.Repeat("字", 60))
		}
		for i, line := range strings.Split(strings.TrimSpace(ansi.Strip(table.String())), "\n") {
			mark := "open"
			if i == 0 {
				mark = "STATE"
			}
			before, _, found := strings.Cut(line, mark)
			if width > 0 && !found && strings.Trim(line, " 字") == "" {
				continue // the text goes on below itself
			}
			const third = 8 + 2 + 1 + 2 // the widest name, the numbers, and the gaps behind both
			if got := ansi.StringWidth(before); got != third {
				t.Errorf("line %d begins its third column at %d: %q", i, got, line)
			}
			if width > 0 && ansi.StringWidth(line) > width {
				t.Errorf("line %d is %d wide", i, ansi.StringWidth(line))
			}
		}
	}
}
