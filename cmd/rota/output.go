package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/rotahq/rota/task"
)

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

func (a *app) wantsJSON() bool { return a.format == "json" }

// show prints doc as JSON or as the text that plain makes, as -o says.
func (a *app) show(doc any, plain func() string) error {
	if a.wantsJSON() {
		return a.printJSON(doc)
	}
	_, err := lipgloss.Fprint(a.out, plain()) // without colours when NO_COLOR says so, or in a pipe
	return err
}

// printJSON prints one document. Raw JSON inside keeps its text but for white space between values.
func (a *app) printJSON(doc any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// page is the JSON of a list.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// terminal tells whether w is a terminal, and how wide.
func terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(f.Fd()) {
		return 0, false
	}
	if width, _, err := term.GetSize(f.Fd()); err == nil && width > 0 {
		return width, true
	}
	return 80, true
}

// table is text in columns. Widths are those of a terminal, where a CJK character is two wide.
type table struct {
	heads []string
	right []bool
	rows  [][]string
	width int  // lines are cut at it; 0 = never
	below bool // where the last column, a text, does not fit, it stands below its row
}

// newTable makes a table for a.out; columns whose head begins with # hold numbers and are aligned right.
func (a *app) newTable(heads ...string) *table {
	t := &table{heads: make([]string, len(heads)), right: make([]bool, len(heads))}
	t.width, _ = terminal(a.out)
	for i, head := range heads {
		t.heads[i], t.right[i] = strings.CutPrefix(head, "#")
	}
	return t
}

// add adds a row of cells, styled or not.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	widths := make([]int, len(t.heads))
	for i, head := range t.heads {
		widths[i] = lipgloss.Width(head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i]))
		}
	}
	var b strings.Builder
	line := func(cells []string, style func(string) string) {
		var l strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-lipgloss.Width(cell))
			switch {
			case t.right[i]:
				l.WriteString(pad + style(cell))
			case i < len(cells)-1:
				l.WriteString(style(cell) + pad)
			default:
				l.WriteString(style(cell))
			}
			if i < len(cells)-1 {
				l.WriteString("  ")
			}
		}
		text := strings.TrimRight(l.String(), " ")
		if t.width > 0 {
			text = ansi.Truncate(text, t.width, "…")
		}
		b.WriteString(text + "\n")
	}
	const indent = "    "
	long := func(cells []string) bool {
		end := len(cells) - 1
		return t.below && cells[end] != "" && t.width > len(indent) && 2*end+sum(widths[:end])+lipgloss.Width(cells[end]) > t.width
	}
	line(t.heads, faint)
	for _, row := range t.rows {
		same := func(s string) string { return s }
		if !long(row) {
			line(row, same)
			continue
		}
		end := len(row) - 1
		line(append(slices.Clone(row[:end]), ""), same)
		for text := range strings.SplitSeq(ansi.Wrap(row[end], t.width-len(indent), ""), "\n") {
			b.WriteString(indent + text + "\n")
		}
	}
	return b.String()
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}

// sheet is one thing in lines of a name and a value; empty values are left out.
type sheet struct {
	strings.Builder
	indent int // columns for the names
}

func (s *sheet) line(name, value string) {
	if value != "" {
		fmt.Fprintf(s, "%s %s\n", faint(fmt.Sprintf("%-*s", s.indent, name)), value)
	}
}

func faint(s string) string { return lipgloss.NewStyle().Faint(true).Render(s) }
func bold(s string) string  { return lipgloss.NewStyle().Bold(true).Render(s) }

// The sixteen colours of the terminal's own scheme: readable on light and dark.
func red(s string) string    { return lipgloss.NewStyle().Foreground(lipgloss.Red).Render(s) }
func green(s string) string  { return lipgloss.NewStyle().Foreground(lipgloss.Green).Render(s) }
func yellow(s string) string { return lipgloss.NewStyle().Foreground(lipgloss.Yellow).Render(s) }
func cyan(s string) string   { return lipgloss.NewStyle().Foreground(lipgloss.Cyan).Render(s) }

// painted is the state's word in its colour.
func painted(s task.State) string {
	switch s {
	case task.Ready:
		return yellow(string(s))
	case task.Running:
		return cyan(string(s))
	case task.Done:
		return green(string(s))
	case task.Dead:
		return red(string(s))
	}
	return faint(string(s))
}

// oneLine is text from outside made safe for a terminal: line breaks and other control characters,
// which could move the cursor or change colours, become spaces; characters that are not seen but
// change how others are shown, as U+202E turns the rest of the line around, are written as \u202e.
// Those that join or part letters are left: scripts need them.
func oneLine(s string) string {
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

// short is t as people say it: the distance when it is near, else the local date.
func short(t, now time.Time) string { return shortIn(t, now, time.Local) }

// shortIn is short with the date of a zone.
func shortIn(t, now time.Time, zone *time.Location) string {
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

// count is a number with its thousands set apart.
func count[T ~int | ~int64](n T) string {
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

// bytesText is a size in the largest binary unit that leaves it at least 1.
func bytesText(n uint64) string {
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

// stamp is a time in JSON: RFC 3339, UTC, milliseconds; none is null.
type stamp time.Time

func (t stamp) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z"))
}
