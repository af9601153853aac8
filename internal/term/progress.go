package term

import (
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Progress is one line on a terminal that is drawn again as work goes on, a tenth of a second apart
// at most. Elsewhere it draws nothing. It belongs to one goroutine.
type Progress struct {
	w       io.Writer
	Width   int // of the terminal, 0 = none
	Started time.Time
	drawn   time.Time
}

// Progress begins a line on err.
func (o *Output) Progress() *Progress {
	width, _ := Terminal(o.Err)
	return &Progress{w: o.Err, Width: width, Started: o.Now()}
}

// Step shows that n things are done, and the share of the whole that they are (0 to 1; negative
// when nobody knows).
func (p *Progress) Step(now time.Time, n int64, share float64, what string) {
	rate := float64(n) / max(now.Sub(p.Started).Seconds(), 1e-3)
	p.Draw(now, share, fmt.Sprintf("%s %s, %s/s", Count(n), what, Count(int64(rate))))
}

// Draw shows a text, behind a bar of the share unless that is negative.
func (p *Progress) Draw(now time.Time, share float64, text string) {
	if p.Width == 0 || now.Sub(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = now
	if share >= 0 {
		text = bar(share, 24) + fmt.Sprintf(" %3.0f%% ", 100*min(share, 1)) + text
	}
	lipgloss.Fprint(p.w, "\r"+ansi.EraseLineRight+ansi.Truncate(text, p.Width-1, "…"))
}

// Note shows a line of text until the next step or note.
func (p *Progress) Note(text string) {
	if p.Width > 0 {
		lipgloss.Fprint(p.w, "\r"+ansi.EraseLineRight+ansi.Truncate(text, p.Width-1, "…"))
	}
}

// Clear leaves the line empty for what is printed next.
func (p *Progress) Clear() {
	if p.Width > 0 {
		fmt.Fprint(p.w, "\r"+ansi.EraseLineRight)
	}
}

// bar is a bar of the given width, filled by the share.
func bar(share float64, width int) string {
	full := min(max(int(share*float64(width)), 0), width)
	return Green(strings.Repeat("━", full)) + Faint(strings.Repeat("━", width-full))
}
