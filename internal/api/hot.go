package api

import (
	"net/http"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// The calls that come thousands of times a second, as JSON, which package wire reads and writes.
// What they do stands in call.go.

func (a *API) registerHot() {
	a.described(submitDoc, a.submit)
	a.described(holdDoc, a.hold)
	a.described(reportDoc, a.report)
	a.described(beatDoc, a.beat)
}

func (a *API) submit(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := a.body(w, r, a.conf.MaxBodies/4)
	if err != nil {
		return err
	}
	tasks, err := wire.ParseSubmissions(body)
	if err != nil {
		return err
	}
	receipts, err := a.submitTasks(r.Context(), &w.call, body, tasks)
	if err != nil {
		return err
	}
	a.write(w, http.StatusCreated, func(b []byte) []byte {
		return wire.AppendReceipts(b, receipts)
	})
	return nil
}

func (a *API) hold(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := a.body(w, r, 0)
	if err != nil {
		return err
	}
	request, err := wire.ParseHold(body)
	if err != nil {
		return err
	}
	return a.holdTasks(r.Context(), &w.call, request, func(held task.HoldAnswer) {
		a.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) {
			return wire.CutHandouts(b, held, smallAnswer)
		})
		if len(held.Tasks) > 0 {
			// before Written; what can't be sent is found by the worker's beats
			http.NewResponseController(w).Flush()
		}
	})
}

func (a *API) report(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := a.body(w, r, 0)
	if err != nil {
		return err
	}
	worker, given, err := wire.ParseReports(body)
	if err != nil {
		return err
	}
	answers, err := a.reportTasks(r.Context(), &w.call, body, worker, given)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, func(b []byte) []byte { return wire.AppendAnswers(b, answers) })
	return nil
}

func (a *API) beat(w *answer, r *http.Request) error {
	query, err := knownQuery(r, "wait", "version")
	if err != nil {
		return err
	}
	wait, err := parseWait(query.Get("wait"))
	if err != nil {
		return err
	}
	worker := r.PathValue("worker")
	if err := mayBeatAs(&w.call, "path.worker", worker); err != nil {
		return err
	}
	body, err := a.body(w, r, 0)
	if err != nil {
		return err
	}
	beat, err := wire.ParseBeat(body)
	if err != nil {
		return err
	}
	beat.Worker, beat.Wait, beat.Version = worker, wait, query.Get("version")
	told, err := a.beatOf(r.Context(), &w.call, beat)
	if err != nil {
		return err
	}
	a.write(w, http.StatusOK, func(b []byte) []byte { return wire.AppendBeatAnswer(b, told) })
	return nil
}

// parseWait reads how long a call may wait.
func parseWait(text string) (time.Duration, error) {
	var d duration
	if text == "" {
		return 0, nil
	}
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return 0, wrong("query.wait", "%v", err)
	}
	return d.Duration, checkWait(d.Duration)
}

func checkWait(d time.Duration) error {
	if d < 0 || d > limits.MaxWait {
		return wrong("query.wait", "must be 0s to %v", limits.MaxWait)
	}
	return nil
}
