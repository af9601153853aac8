package app

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
)

func TestWatchedListInAPipeComesAgainEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errOut bytes.Buffer
		a := &App{Output: term.Output{Out: &out, Err: &errOut, Now: time.Now}}
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		n := 0
		w := &watching{App: a, list: func() error {
			if n++; n == 3 {
				return client.ErrUnreachable // for a while
			}
			table := a.Table("N")
			table.Add(strings.Repeat("x", n))
			return a.Show(nil, table.String)
		}}
		if err := w.run(ctx); err != nil {
			t.Errorf("ended with %v", err)
		}
		if got, want := out.String(), "N\nx\n\nN\nxx\n\nN\nxxxx\n\nN\nxxxxx\n"; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
		if got := errOut.String(); strings.Count(got, "\n") != 1 {
			t.Errorf("said %q", got)
		}
	})
}

func TestWatchedListThatNeverWorksFails(t *testing.T) {
	var out bytes.Buffer
	a := &App{Output: term.Output{Out: &out, Err: &out, Now: time.Now}}
	gone := errors.New("gone")
	w := &watching{App: a, list: func() error { return gone }}
	if err := w.run(t.Context()); !errors.Is(err, gone) || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
