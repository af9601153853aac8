package app

import (
	"strings"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
)

// WhyNot is an explanation as text.
func (a *App) WhyNot(e view.Explanation) string {
	var b strings.Builder
	b.WriteString(term.Bold(e.State))
	if !e.Starts.IsZero() {
		if e.Starts.After(a.Now()) {
			b.WriteString(", probably begins " + term.Short(e.Starts.Time, a.Now()))
		} else {
			b.WriteString(", about to begin")
		}
	}
	if !e.Expires.IsZero() {
		b.WriteString(", expires " + term.Short(e.Expires.Time, a.Now()) + " unless it is begun before")
	}
	b.WriteByte('\n')
	for _, r := range e.Reasons {
		b.WriteString("  " + term.OneLine(r.Text) + "\n")
		if r.Change != "" {
			b.WriteString("    " + term.OneLine(r.Change) + "\n")
		}
	}
	return b.String()
}
