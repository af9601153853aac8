package api

import (
	"context"
	"net/http"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Work takes tasks in, gives them out, and takes their outcomes back. Errors are those of an
// [Engine].
type Work interface {
	TaskQueues
	// Submit is all or nothing; the receipts are in the same order. Locations in an InvalidError
	// are "body.tasks[i].…".
	Submit(context.Context, []task.Submission) ([]task.Receipt, error)
	// Hold answers when there are tasks, or its wait is over. Written of its answer must be called
	// once the answer was written, or could not be.
	Hold(context.Context, task.HoldRequest) (task.HoldAnswer, error)
	Report(ctx context.Context, worker string, reports []task.Report) ([]task.Answer, error)
	Beat(context.Context, task.Beat) (task.BeatAnswer, error)
}

// TaskQueues knows of which queues tasks are.
type TaskQueues interface {
	// QueuesOf are the queues of tasks, in the same order; "" for one that is unknown.
	QueuesOf(ctx context.Context, ids []task.ID) ([]string, error)
}

// hotCalls are the calls that come thousands of times a second, whatever door they come by: the
// handlers here are of HTTP, and those of streams and of hooks end in the same methods (call.go).
type hotCalls struct {
	door   *API
	work   Work
	makers *queueGate   // of queues, by submitting
	sealer *seal.Sealer // tells tokens of hand-outs from made-up ones
	seals  throttle     // of tokens of hand-outs that were never given out
}

func newHotCalls(door *API, work Work, secret seal.Secret, makers *queueGate) *hotCalls {
	return &hotCalls{door: door, work: work, makers: makers, sealer: seal.NewSealer(secret)}
}

func (h *hotCalls) register() {
	h.door.described(submitDoc, h.submit)
	h.door.described(holdDoc, h.hold)
	h.door.described(reportDoc, h.report)
	h.door.described(beatDoc, h.beat)
}

func (h *hotCalls) submit(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := h.door.body(w, r, h.door.conf.MaxBodies/4)
	if err != nil {
		return err
	}
	tasks, err := wire.ParseSubmissions(body)
	if err == nil {
		err = h.door.parsed(&w.call, len(tasks), h.door.conf.MaxBodies/4)
	}
	if err != nil {
		return err
	}
	receipts, err := h.submitTasks(r.Context(), &w.call, body, tasks)
	if err != nil {
		return err
	}
	h.door.write(w, http.StatusCreated, func(b []byte) []byte {
		return wire.AppendReceipts(b, receipts)
	})
	return nil
}

func (h *hotCalls) hold(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := h.door.body(w, r, 0)
	if err != nil {
		return err
	}
	request, err := wire.ParseHold(body)
	if err != nil {
		return err
	}
	return h.holdTasks(r.Context(), &w.call, request, func(held task.HoldAnswer) {
		h.door.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) {
			return wire.CutHandouts(b, held, smallAnswer)
		})
		if len(held.Tasks) > 0 {
			// before Written; what can't be sent is found by the worker's beats
			http.NewResponseController(w).Flush()
		}
	})
}

func (h *hotCalls) report(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := h.door.body(w, r, 0)
	if err != nil {
		return err
	}
	worker, given, err := wire.ParseReports(body)
	if err == nil {
		err = h.door.parsed(&w.call, len(given)+childrenIn(given), 0)
	}
	if err != nil {
		return err
	}
	answers, err := h.reportTasks(r.Context(), &w.call, body, worker, given)
	if err != nil {
		return err
	}
	h.door.write(w, http.StatusOK, func(b []byte) []byte { return wire.AppendAnswers(b, answers) })
	return nil
}

func (h *hotCalls) beat(w *answer, r *http.Request) error {
	query, err := knownQuery(r, "wait", "version")
	if err != nil {
		return err
	}
	wait, err := parseWait(query.Get("wait"))
	if err != nil {
		return err
	}
	worker := r.PathValue("worker")
	if err := h.mayBeatAs(&w.call, "path.worker", worker); err != nil {
		return err
	}
	body, err := h.door.body(w, r, 0)
	if err != nil {
		return err
	}
	beat, err := wire.ParseBeat(body)
	if err != nil {
		return err
	}
	beat.Worker, beat.Wait, beat.Version = worker, wait, query.Get("version")
	told, err := h.beatOf(r.Context(), &w.call, beat)
	if err != nil {
		return err
	}
	h.door.write(w, http.StatusOK, func(b []byte) []byte { return wire.AppendBeatAnswer(b, told) })
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
