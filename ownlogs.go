package rota

import (
	"context"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/logshare"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

var (
	_ worker.Queue   = ownQueue{}
	_ worker.JobLogs = ownJobLogs{}
)

// ownQueue is the node's tasks for its own worker. Lines of its handlers have the share that lines
// have which come by the API: the name of a task's log is the same there.
type ownQueue struct {
	*dispatch.Dispatcher
	logs *logshare.Gate
}

// Log implements worker.Queue.
func (q ownQueue) Log(ctx context.Context, id task.ID, lines []task.LogLine) error {
	return q.logs.WriteLines(ctx, id.String(), lines,
		func(ctx context.Context, lines []task.LogLine) error {
			return q.Dispatcher.Log(ctx, id, lines)
		})
}

// ownJobLogs are the logs of jobs for the node's own worker.
type ownJobLogs struct {
	worker.JobLogs
	logs *logshare.Gate
}

// AppendJobLog implements worker.JobLogs.
func (j ownJobLogs) AppendJobLog(
	ctx context.Context, group, job string, lines []task.LogLine,
) error {
	return j.logs.WriteLines(ctx, group+"/"+job, lines,
		func(ctx context.Context, lines []task.LogLine) error {
			return j.JobLogs.AppendJobLog(ctx, group, job, lines)
		})
}
