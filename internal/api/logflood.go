package api

import (
	"context"
	"net/http"
	"time"

	"github.com/rotahq/rota/internal/logshare"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// takeLines reads the lines of a call on a log and writes them, as far as the log's share and the
// node's go. The bodies of such calls leave half of the memory for bodies to others.
func (a *API) takeLines(
	w *answer, r *http.Request, log string, write func(context.Context, []task.LogLine) error,
) error {
	body, err := a.body(w, r, a.conf.MaxBodies/2)
	if err != nil {
		return err
	}
	kept, dropped, err := a.conf.Logs.Write(r.Context(), logshare.Call{
		Log: log, Body: body, Parse: wire.ParseLines, Write: write,
		Pause: func(ctx context.Context, d time.Duration) { a.pause(ctx, nil, d) },
	})
	if err != nil {
		return err
	}
	a.writeValue(w, http.StatusOK, logOut{Lines: kept, Dropped: dropped})
	return nil
}
