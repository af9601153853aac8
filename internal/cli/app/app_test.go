package app

import (
	"context"
	"fmt"
	"testing"

	"github.com/rotahq/rota/client"
)

func TestUnreachableServerIsExplained(t *testing.T) {
	a := &App{Servers: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}}
	got := a.Explain(t.Context(), fmt.Errorf("submit: %w", client.ErrUnreachable))
	if want := "no server at http://127.0.0.1:1 or http://127.0.0.1:2: start one with `rota serve`, or name it with --server"; got != want {
		t.Errorf("explain = %q, want %q", got, want)
	}
}

func TestInterruptIsNoMystery(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := new(App).Explain(
		ctx, fmt.Errorf("read: %w", context.Canceled),
	); got != "interrupted" {
		t.Errorf("explain = %q", got)
	}
}
