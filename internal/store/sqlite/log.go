package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// logCalls keeps the lines that tasks and jobs write. Its tables are log and log_size, and job_log
// and job_log_size.
type logCalls struct{ *database }

// logReads reads logs.
type logReads struct{ *conn }

func (c *conn) logs() logReads { return logReads{c} }

// logWrites adds lines to logs, and drops lines from their middle.
type logWrites struct{ *tx }

func (t *tx) logs() logWrites { return logWrites{t} }

// logHalf is how many bytes a log keeps of its first lines, and as many of its newest.
const logHalf = 512 << 10

// logSize says what a log holds: lines 0 to cut-1 for good, then a gap, then the newest lines up to
// next-1.
type logSize struct {
	next         int64 // number of the next line
	head, tail   int64 // bytes
	cut          int64 // first line after the head; -1 as long as all lines fit there
	dropped      int64 // lines from cut on that are gone
	droppedBytes int64
}

// logTables are the statements on one kind of log; each begins with the two columns that say whose
// it is.
type logTables struct{ readSize, putSize, insertLine, oldestLine, deleteLine, readLines string }

func newLogTables(lines, sizes, key string) *logTables {
	mine := strings.ReplaceAll(key, ",", " = ? AND") + " = ?"
	return &logTables{
		readSize: `SELECT next, head, tail, cut, dropped, dropped_bytes FROM ` + sizes +
			` WHERE ` + mine,
		putSize: `REPLACE INTO ` + sizes + ` (` + key +
			`, next, head, tail, cut, dropped, dropped_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		insertLine: `INSERT INTO ` + lines + ` (` + key +
			`, line, time, stream, text) VALUES (?, ?, ?, ?, ?, ?)`,
		oldestLine: fmt.Sprintf(`SELECT line, max(octet_length(stream) + octet_length(text), %d)
FROM %s WHERE %s AND line >= ? ORDER BY line LIMIT 1`, store.LogLineMin, lines, mine),
		deleteLine: `DELETE FROM ` + lines + ` WHERE ` + mine + ` AND line = ?`,
		readLines: `SELECT line, time, stream, text FROM ` + lines + ` WHERE ` + mine +
			` AND line >= ? ORDER BY line LIMIT ?`,
	}
}

// textLog is the log of one task or job.
type textLog struct {
	*logTables
	a, b any // whose it is
}

var (
	taskLogs = newLogTables("log", "log_size", "batch, n")
	jobLogs  = newLogTables("job_log", "job_log_size", "grp, job")
)

func logOf(id task.ID) textLog { return textLog{taskLogs, id.Batch, id.N} }

// stands tells whether there is a task with an id that was not removed.
func (c logReads) stands(id task.ID) (bool, error) {
	stands, err := c.members().isTask(id)
	if err != nil || !stands {
		return false, err
	}
	o, err := c.members().outcomeOf(id, "")
	return o.Kind != task.KindRemoved, err
}

func (c logReads) logSize(l textLog) (z logSize, err error) {
	z.cut = -1
	_, err = c.one(l.readSize, func(st *sqlite.Stmt) {
		z = logSize{
			next: st.ColumnInt64(0), head: st.ColumnInt64(1), tail: st.ColumnInt64(2),
			cut:     st.ColumnInt64(3),
			dropped: st.ColumnInt64(4), droppedBytes: st.ColumnInt64(5),
		}
	}, l.a, l.b)
	return z, err
}

// AppendLog adds lines to a task's log. See contract.Texts.
func (s *logCalls) AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error {
	err := s.write(ctx, func(t *tx) error {
		stands, err := t.conn.logs().stands(id)
		if err != nil {
			return err
		}
		if !stands {
			return store.ErrNotFound
		}
		return t.logs().appendLog(logOf(id), lines)
	})
	if err != nil {
		return fmt.Errorf("append to the log of task %s: %w", id, err)
	}
	return nil
}

func (t logWrites) appendLog(log textLog, lines []task.LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	z, err := t.conn.logs().logSize(log)
	if err != nil {
		return err
	}
	for i := range lines {
		l := &lines[i]
		size := int64(max(len(l.Stream)+len(l.Text), store.LogLineMin))
		if z.cut < 0 && z.head+size > logHalf {
			z.cut = z.next
		}
		if z.cut < 0 {
			z.head += size
		} else {
			z.tail += size
		}
		if _, err := t.exec(
			log.insertLine, log.a, log.b, z.next, l.Time.UnixMicro(), l.Stream, l.Text,
		); err != nil {
			return err
		}
		z.next++
	}
	for z.tail > logHalf {
		if err := t.dropLine(log, &z); err != nil {
			return err
		}
	}
	_, err = t.exec(log.putSize, log.a, log.b, z.next, z.head, z.tail, z.cut, z.dropped,
		z.droppedBytes)
	return err
}

// dropLine drops the oldest line after the head.
func (t logWrites) dropLine(log textLog, z *logSize) error {
	var line, size int64
	_, err := t.one(log.oldestLine, func(st *sqlite.Stmt) {
		line, size = st.ColumnInt64(0), st.ColumnInt64(1)
	}, log.a, log.b, z.cut)
	if err != nil {
		return err
	}
	n, err := t.exec(log.deleteLine, log.a, log.b, line)
	if err == nil && n == 0 {
		err = fmt.Errorf("its size says %d bytes more than there are lines: %w", z.tail,
			store.ErrConflict)
	}
	z.tail -= size
	z.dropped++
	z.droppedBytes += size
	return err
}

// Log reads lines from a position on. Where lines were dropped, one line says how many.
func (s *logCalls) Log(
	ctx context.Context, id task.ID, from int64, limit int,
) (store.LogPage, error) {
	var page store.LogPage
	err := s.read(ctx, func(c *conn) error {
		stands, err := c.logs().stands(id)
		if err != nil {
			return err
		}
		if !stands {
			return store.ErrNotFound
		}
		page, err = c.logs().logPage(logOf(id), from, limit)
		return err
	})
	if err != nil {
		return store.LogPage{}, fmt.Errorf("read the log of task %s: %w", id, err)
	}
	return page, nil
}

func (c logReads) logPage(log textLog, from int64, limit int) (page store.LogPage, err error) {
	z, err := c.logSize(log)
	if err != nil {
		return page, err
	}
	page.Next = from
	err = c.each(log.readLines, func(st *sqlite.Stmt) bool {
		line := st.ColumnInt64(0)
		at := time.UnixMicro(st.ColumnInt64(1)).UTC()
		if z.dropped > 0 && line >= z.cut+z.dropped && page.Next < z.cut+z.dropped {
			page.Lines = append(page.Lines, z.gap(at))
			page.Next = z.cut + z.dropped
			if len(page.Lines) == limit {
				return false
			}
		}
		page.Lines = append(page.Lines, task.LogLine{
			Time: at, Stream: st.ColumnText(2), Text: st.ColumnText(3),
		})
		page.Next = line + 1
		return len(page.Lines) < limit
	}, log.a, log.b, from, limit)
	return page, err
}

// gap is the line that stands for those that were dropped.
func (z *logSize) gap(at time.Time) task.LogLine {
	return task.LogLine{
		Time: at, Stream: "rota",
		Text: fmt.Sprintf("… %d lines (%d bytes) were dropped here …", z.dropped, z.droppedBytes),
	}
}
