package worker

import (
	"context"

	"github.com/rotahq/rota/task"
)

// Queue is where a worker gets its work: the dispatcher inside a node, or a client of a remote one.
// All methods may be called at the same time.
type Queue interface {
	// Hold waits up to r.Wait for the first task, then answers with what is there; no tasks is no
	// error. When ctx ends before the answer, tasks that were already chosen for it go back as if
	// never handed out, or are found lost.
	Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error)
	// Report records outcomes, durably before it returns. The answers are in the order of the
	// reports. After an error the caller repeats the same reports: what had worked is answered
	// Repeated.
	Report(ctx context.Context, worker string, reports []task.Report) ([]task.Answer, error)
	// Beat says that the worker lives and what it holds, and answers what to do with it.
	Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error)
	// Log adds lines to the log of a task that the worker holds, or had last. After an error the
	// caller sends the same lines again, so that one may stand there twice.
	Log(ctx context.Context, id task.ID, lines []task.LogLine) error
}
