package sqlite

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const jobKnown = `SELECT 1 FROM job WHERE grp = ? AND job = ?`

// jobLog is the log of a job, also of one that is a tombstone; store.ErrNotFound.
func (c logReads) jobLog(group, job string) (textLog, error) {
	g, err := c.jobs().group(group)
	if err != nil {
		return textLog{}, err
	}
	known, err := c.has(jobKnown, g.id, job)
	if err == nil && !known {
		err = store.ErrNotFound
	}
	return textLog{jobLogs, g.id, job}, err
}

// AppendJobLog adds lines to a job's log. See contract.JobTexts.
func (s *logCalls) AppendJobLog(
	ctx context.Context, group, job string, lines []task.LogLine,
) error {
	err := s.write(ctx, func(t *tx) error {
		log, err := t.conn.logs().jobLog(group, job)
		if err == nil {
			err = t.logs().appendLog(log, lines)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("append to the log of job %q of group %q: %w", job, group, err)
	}
	return nil
}

// JobLog reads lines from a position on. Where lines were dropped, one line says how many.
func (s *logCalls) JobLog(
	ctx context.Context, group, job string, from int64, limit int,
) (page store.LogPage, err error) {
	err = s.read(ctx, func(c *conn) error {
		log, err := c.logs().jobLog(group, job)
		if err == nil {
			page, err = c.logs().logPage(log, from, limit)
		}
		return err
	})
	if err != nil {
		return store.LogPage{},
			fmt.Errorf("read the log of job %q of group %q: %w", job, group, err)
	}
	return page, nil
}
