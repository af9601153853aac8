package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// progress is one line on a terminal that is drawn again as work goes on, a tenth of a second apart at most. Elsewhere
// it draws nothing. It belongs to one goroutine.
type progress struct {
	w       io.Writer
	width   int // of the terminal, 0 = none
	started time.Time
	drawn   time.Time
}

func (a *app) newProgress() *progress {
	width, _ := terminal(a.err)
	return &progress{w: a.err, width: width, started: a.now()}
}

// step shows that n things are done, and the share of the whole that they are (0 to 1; negative when nobody knows).
func (p *progress) step(now time.Time, n int64, share float64, what string) {
	rate := float64(n) / max(now.Sub(p.started).Seconds(), 1e-3)
	p.draw(now, share, fmt.Sprintf("%s %s, %s/s", count(n), what, count(int64(rate))))
}

// draw shows a text, behind a bar of the share unless that is negative.
func (p *progress) draw(now time.Time, share float64, text string) {
	if p.width == 0 || now.Sub(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = now
	if share >= 0 {
		text = bar(share, 24) + fmt.Sprintf(" %3.0f%% ", 100*min(share, 1)) + text
	}
	lipgloss.Fprint(p.w, "\r"+ansi.EraseLineRight+ansi.Truncate(text, p.width-1, "…"))
}

// note shows a line of text until the next step or note.
func (p *progress) note(text string) {
	if p.width > 0 {
		lipgloss.Fprint(p.w, "\r"+ansi.EraseLineRight+ansi.Truncate(text, p.width-1, "…"))
	}
}

// clear leaves the line empty for what is printed next.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprint(p.w, "\r"+ansi.EraseLineRight)
	}
}

// bar is a bar of the given width, filled by the share.
func bar(share float64, width int) string {
	full := min(max(int(share*float64(width)), 0), width)
	return green(strings.Repeat("━", full)) + faint(strings.Repeat("━", width-full))
}
