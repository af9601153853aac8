package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// AppendJobLog adds lines to a job's log. See contract.JobTexts.
func (s *logs) AppendJobLog(ctx context.Context, group, job string, lines []task.LogLine) error {
	if err := s.appendLog(ctx, textLog{jobLogs, group, job}, lines); err != nil {
		return fmt.Errorf("append to the log of job %q of group %q: %w", job, group, err)
	}
	return nil
}

// JobLog reads lines from a position on. Where lines were dropped, one line says how many.
func (s *logs) JobLog(
	ctx context.Context, group, job string, from int64, limit int,
) (store.LogPage, error) {
	page, err := s.logPage(ctx, textLog{jobLogs, group, job}, from, limit)
	if err != nil {
		return store.LogPage{},
			fmt.Errorf("read the log of job %q of group %q: %w", job, group, err)
	}
	return page, nil
}
