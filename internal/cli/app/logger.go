package app

import (
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
	"github.com/rotahq/rota/internal/term"
)

// Logger writes for people on a terminal, JSON for everything else.
func (a *App) Logger(level slog.Level) *slog.Logger {
	if _, ok := term.Terminal(a.Err); !ok {
		return slog.New(slog.NewJSONHandler(a.Err, &slog.HandlerOptions{Level: level}))
	}
	noColour, _ := a.Env("NO_COLOR")
	return slog.New(tint.NewTextHandler(a.Err,
		&tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: noColour != ""}))
}
