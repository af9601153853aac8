package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	xterm "github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/internal/term"
)

// watchEvery is how often a list that is watched is read.
const watchEvery = time.Second

// watchable lets a command that prints a list print it again each second.
func (a *App) watchable(cmd *cobra.Command) *cobra.Command {
	var watch bool
	cmd.Flags().BoolVar(&watch, "watch", false,
		"again each second, until Ctrl-C; in a pipe one list after the other, an empty line between them")
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !watch {
			return once(cmd, args)
		}
		w := &watching{App: a, list: func() error { return once(cmd, args) }}
		return w.run(cmd.Context())
	}
	return cmd
}

// watching is a list that is printed again and again.
type watching struct {
	*App
	list  func() error
	shown string // the newest list
}

func (w *watching) run(ctx context.Context) error {
	out := w.Out
	width, onTerminal := term.Terminal(out)
	if onTerminal {
		if _, err := io.WriteString(out, ansi.SetModeAltScreenSaveCursor); err != nil {
			return err
		}
		defer func() { // what was seen last stays to be read
			io.WriteString(out, ansi.ResetModeAltScreenSaveCursor)
			lipgloss.Fprint(out, w.shown)
		}()
	}
	for n := 0; ; n++ {
		if onTerminal {
			width, _ = term.Terminal(out) // it may be another one now
		}
		text, err := w.read(width)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (n == 0 || !Passes(err)):
			return err
		case err == nil:
			w.shown = text
		}
		if onTerminal {
			err = w.draw(out, width, err)
		} else if err = w.print(out, n, err); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if pause.For(ctx, watchEvery) != nil {
			return nil
		}
	}
}

// read is the list as text for a terminal of a width; 0 = for a pipe.
func (w *watching) read(width int) (string, error) {
	out, errs, columns := w.Out, w.Err, w.Columns
	defer func() { w.Out, w.Err, w.Columns = out, errs, columns }()
	b := new(bytes.Buffer)
	if w.Out, w.Columns = b, width; width > 0 {
		w.Err = io.Discard // hints and progress have no place on the screen
	}
	err := w.list()
	return b.String(), err
}

// draw shows the newest list and, when it could not be read again, why.
func (w *watching) draw(out io.Writer, width int, trouble error) error {
	_, height, err := xterm.GetSize(out.(*os.File).Fd())
	if err != nil {
		return err
	}
	head := term.Faint(w.Now().Format("15:04:05") + "  every second, until Ctrl-C")
	if trouble != nil {
		head = term.Red(term.OneLine(trouble.Error()))
	}
	lines := append([]string{head}, strings.Split(strings.TrimRight(w.shown, "\n"), "\n")...)
	if more := len(lines) - height; more > 0 && height > 1 {
		lines = append(lines[:height-1], term.Faint(term.Plural(more+1, "more line")))
	}
	var b strings.Builder
	b.WriteString(ansi.CursorHomePosition)
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(ansi.Truncate(line, width, "…") + ansi.EraseLineRight)
	}
	_, err = lipgloss.Fprint(out, b.String()+ansi.EraseScreenBelow)
	return err
}

// print writes the newest list behind those before it.
func (w *watching) print(out io.Writer, n int, trouble error) error {
	if trouble != nil {
		_, err := fmt.Fprintln(w.Err, "rota:", term.OneLine(trouble.Error()))
		return err
	}
	lead := ""
	if n > 0 {
		lead = "\n"
	}
	_, err := io.WriteString(out, lead+w.shown)
	return err
}

// watchLists makes all lists watchable: the commands called ls.
func watchLists(a *App, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Name() == "ls" && sub.RunE != nil {
			a.watchable(sub)
			sub.Example += fmt.Sprintf("\n  %s --watch", strings.TrimSpace(sub.CommandPath()))
		}
		watchLists(a, sub)
	}
}
