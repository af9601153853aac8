// Package term is what a command writes, and how it looks: Output is where it writes, Table, Sheet
// and Progress are the shapes of text for people, and the functions put states, times, sizes and
// text from outside into words that are safe on a terminal.
package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"

	"github.com/rotahq/rota/task"
)

// Output is where a command writes: results to out, everything else to err.
type Output struct {
	Out    io.Writer
	Err    io.Writer
	Now    func() time.Time
	Format format // of results
	// Columns is the width of the terminal that gets what is written to Out, where Out itself is
	// none; 0 = as Out is. Then colours are left for whoever writes to that terminal.
	Columns int
}

// format is the value of -o: "" and "table" are for people, "json" is one document for programs.
type format string

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "format" }

func (f *format) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("%q is neither table nor json", s)
	}
	*f = format(s)
	return nil
}

func (o *Output) JSON() bool { return o.Format == "json" }

// Show prints doc as JSON or as the text that plain makes, as -o says.
func (o *Output) Show(doc any, plain func() string) error {
	if o.JSON() {
		return o.PrintJSON(doc)
	}
	if o.Columns > 0 {
		_, err := io.WriteString(o.Out, plain())
		return err
	}
	_, err := lipgloss.Fprint(o.Out, plain()) // without colours when NO_COLOR says so, or in a pipe
	return err
}

// PrintJSON prints one document. Raw JSON inside keeps its text but for white space between values.
func (o *Output) PrintJSON(doc any) error {
	e := json.NewEncoder(o.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// Page is the JSON of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// Terminal tells whether w is a terminal, and how wide.
func Terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || f == nil || !term.IsTerminal(f.Fd()) {
		return 0, false
	}
	if width, _, err := term.GetSize(f.Fd()); err == nil && width > 0 {
		return width, true
	}
	return 80, true
}

// Sheet is one thing in lines of a name and a value; empty values are left out.
type Sheet struct {
	strings.Builder
	Indent int // columns for the names
}

func (s *Sheet) Line(name, value string) {
	if value != "" {
		fmt.Fprintf(s, "%s %s\n", Faint(fmt.Sprintf("%-*s", s.Indent, name)), value)
	}
}

func Faint(s string) string { return lipgloss.NewStyle().Faint(true).Render(s) }
func Bold(s string) string  { return lipgloss.NewStyle().Bold(true).Render(s) }

// The sixteen colours of the terminal's own scheme: readable on light and dark.
func Red(s string) string    { return lipgloss.NewStyle().Foreground(lipgloss.Red).Render(s) }
func Green(s string) string  { return lipgloss.NewStyle().Foreground(lipgloss.Green).Render(s) }
func Yellow(s string) string { return lipgloss.NewStyle().Foreground(lipgloss.Yellow).Render(s) }
func Cyan(s string) string   { return lipgloss.NewStyle().Foreground(lipgloss.Cyan).Render(s) }

// Painted is the state's word in its colour.
func Painted(s task.State) string {
	switch s {
	case task.Ready:
		return Yellow(string(s))
	case task.Running:
		return Cyan(string(s))
	case task.Done:
		return Green(string(s))
	case task.Dead, task.Expired:
		return Red(string(s))
	}
	return Faint(string(s))
}

// OneLine is text from outside made safe for a terminal: line breaks and other control characters,
// which could move the cursor or change colours, become spaces; characters that are not seen but
// change how others are shown, as U+202E turns the rest of the line around, are written as \u202e.
// Those that join or part letters are left: scripts need them.
func OneLine(s string) string {
	const joiner, nonJoiner = '\u200d', '\u200c'
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsControl(r), unicode.In(r, unicode.Zl, unicode.Zp):
			b.WriteByte(' ')
		case unicode.Is(unicode.Cf, r) && r != joiner && r != nonJoiner:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

// Lines are those of a text from outside, each made safe as by OneLine; what it is indented by
// stays.
func Lines(s string) (lines []string) {
	for line := range strings.Lines(s) {
		rest := strings.TrimLeft(line, " ")
		lines = append(lines, line[:len(line)-len(rest)]+OneLine(rest))
	}
	return lines
}

// Short is t as people say it: the distance when it is near, else the local date.
func Short(t, now time.Time) string { return ShortIn(t, now, time.Local) }

// ShortIn is short with the date of a zone.
func ShortIn(t, now time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	span := span(d.Abs())
	switch {
	case span == "":
		return t.In(zone).Format("2006-01-02 15:04")
	case span == "0s":
		return "now"
	case d < 0:
		return "in " + span
	}
	return span + " ago"
}

// span is a duration of less than two days in one unit, else "".
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return ""
}

// Count is a number with its thousands set apart.
func Count[T ~int | ~int64](n T) string {
	digits := fmt.Sprint(int64(n))
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Plural is a number of things in words.
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Count(n) + " " + thing
}

// Enumerated is names as people list them.
func Enumerated(names []string) string {
	switch n := len(names); n {
	case 0:
		return "none"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// Number is a figure with three digits at least.
func Number(v float64) string {
	switch {
	case v >= 1000:
		return Count(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Bytes is a size in the largest binary unit that leaves it at least 1.
func Bytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n), "KMGTPE"
	i := -1
	for f >= 1<<10 {
		f /= 1 << 10
		i++
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// Round leaves three digits of a duration, enough to compare by.
func Round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// Stamp is a time in JSON: RFC 3339, UTC, milliseconds; none is null.
type Stamp time.Time

func (t Stamp) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z"))
}
