package app

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/internal/ptytest"
	"github.com/rotahq/rota/internal/term"
)

func TestWatchedListStandsInItsPlaceOnATerminalAndStaysAtTheEnd(t *testing.T) {
	p := ptytest.New(t, 60, 12)
	a := &App{Output: term.Output{Out: p.File, Err: p.File, Now: time.Now}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	w := &watching{App: a, list: func() error {
		n++
		fmt.Fprintln(a.Err, "there are more")
		table := a.Table("N", "TEXT")
		for i := range 20 {
			table.Add(fmt.Sprint("row-", n, "-", i), strings.Repeat("长 text ", 9))
		}
		return a.Show(nil, table.String)
	}}
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	at := p.Await(0, "row-1-0")
	at = p.Await(at, "more lines")
	at = p.Await(at, ansi.CursorHomePosition)
	at = p.Await(at, "row-2-0")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	at = p.Await(at, ansi.ResetModeAltScreenSaveCursor)
	p.Await(at, "-19") // the newest list is there whole
	shown := p.Shown()
	if strings.Contains(shown, "there are more") {
		t.Errorf("hints disturb the list: %q", shown)
	}
	for line := range strings.Lines(ansi.Strip(shown)) {
		if w := ansi.StringWidth(strings.TrimRight(line, "\r\n")); w > 60 {
			t.Errorf("%d wide: %q", w, line)
		}
	}
}
