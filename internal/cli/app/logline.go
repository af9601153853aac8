package app

import (
	"encoding/json"
	"io"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// PrintLine prints one line of a log. On a terminal without its control sequences: they come from
// somewhere else and could do more than colour the text.
func (a *App) PrintLine(line task.LogLine) error {
	if a.JSON() {
		e := json.NewEncoder(a.Out)
		e.SetEscapeHTML(false)
		return e.Encode(struct {
			Time   term.Stamp `json:"time"`
			Stream string     `json:"stream"`
			Text   string     `json:"text"`
		}{term.Stamp(line.Time), line.Stream, line.Text})
	}
	w := a.Out
	if line.Stream != "stdout" {
		w = a.Err
	}
	if _, ok := term.Terminal(w); ok {
		text := term.OneLine(ansi.Strip(line.Text))
		if line.Stream == "stderr" {
			text = term.Yellow(text)
		}
		_, err := lipgloss.Fprintf(w, "%s %s\n",
			term.Faint(line.Time.Local().Format("15:04:05.000")), text)
		return err
	}
	_, err := io.WriteString(w, line.Text+"\n")
	return err
}
