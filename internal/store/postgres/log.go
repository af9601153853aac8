package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

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

// logTables are the statements on one kind of log; $1 and $2 say whose it is.
type logTables struct {
	stands, lock, readSize, putSize, insertLines, oldestLines, deleteLines,
	readLines string
}

// newLogTables makes the statements. stands finds whom the log belongs to, and a and b are the
// values of its key columns.
func newLogTables(lines, sizes, keyA, keyB, a, b, stands string) *logTables {
	mine := keyA + ` = ` + a + ` AND ` + keyB + ` = ` + b
	key := keyA + `, ` + keyB
	return &logTables{
		stands: stands,
		// lock keeps others out who append to the same log.
		lock: `INSERT INTO rota.` + sizes + ` AS z (` + key + `, next, head, tail, cut, dropped,
dropped_bytes)
SELECT ` + a + `, ` + b + `, 0, 0, 0, -1, 0, 0 WHERE ` + a + ` IS NOT NULL
ON CONFLICT (` + key +
			`) DO UPDATE SET next = z.next RETURNING next, head, tail, cut, dropped, dropped_bytes`,
		readSize: `SELECT next, head, tail, cut, dropped, dropped_bytes FROM rota.` + sizes +
			` WHERE ` + mine,
		putSize: `UPDATE rota.` + sizes +
			` SET next = $3, head = $4, tail = $5, cut = $6, dropped = $7, dropped_bytes = $8
WHERE ` + mine,
		insertLines: `INSERT INTO rota.` + lines + ` (` + key + `, line, time, stream, text)
SELECT ` + a + `, ` + b +
			`, l.* FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::bytea[]) l`,
		oldestLines: fmt.Sprintf(
			`SELECT line, greatest(octet_length(stream) + octet_length(text), %d)
FROM rota.%s WHERE %s AND line >= $3 ORDER BY line LIMIT 1000`, store.LogLineMin, lines, mine),
		deleteLines: `DELETE FROM rota.` + lines + ` WHERE ` + mine +
			` AND line >= $3 AND line <= $4`,
		readLines: `SELECT line, time, stream, text FROM rota.` + lines + ` WHERE ` + mine +
			` AND line >= $3 ORDER BY line LIMIT $4`,
	}
}

var (
	taskLogs = newLogTables("log", "log_size", "batch", "n", "$1::bigint", "$2::int", `SELECT FROM rota.pack t WHERE t.batch = $1
  AND t.lo BETWEEN ($2::int & -64) AND $2 AND t.has >> ($2 & 63) & 1 = 1
  AND coalesce((SELECT s.kind FROM rota.step s WHERE s.batch = $1 AND s.n = $2 ORDER BY s.seq DESC
  LIMIT 1), 0) <> 12`)
	jobLogs = newLogTables("job_log", "job_log_size", "grp", "job",
		"(SELECT id FROM rota.job_group WHERE name = $1)", "$2::text",
		`SELECT FROM rota.job_group g JOIN rota.job j ON j.grp = g.id WHERE g.name = $1
AND j.job = $2`)
)

// textLog is the log of one task or job.
type textLog struct {
	*logTables
	a, b any // whose it is
}

func logOf(id task.ID) textLog { return textLog{taskLogs, id.Batch, id.N} }

func (z *logSize) scan(r row) error {
	return r.Scan(&z.next, &z.head, &z.tail, &z.cut, &z.dropped, &z.droppedBytes)
}

// logs keeps what handlers of tasks and runs of jobs have to say. The tables log, log_size, job_log
// and job_log_size are its own; who deletes a task or a job deletes its log, too.
type logs struct{ *database }

// AppendLog adds lines to a task's log. See contract.Texts.
func (s *logs) AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error {
	if err := s.appendLog(ctx, logOf(id), lines); err != nil {
		return fmt.Errorf("append to the log of task %s: %w", id, err)
	}
	return nil
}

func (s *logs) appendLog(ctx context.Context, log textLog, lines []task.LogLine) error {
	return s.write(ctx, func(ctx context.Context, t *tx) error {
		stands := false
		var z logSize
		err := t.run(ctx, ask(log.stands+" FOR KEY SHARE", func(row) error {
			stands = true
			return nil
		}, log.a, log.b), ask(log.lock, z.scan, log.a, log.b))
		switch {
		case err != nil:
			return err
		case !stands:
			return store.ErrNotFound
		case len(lines) == 0:
			return nil
		}
		return t.appendLog(ctx, log, &z, lines)
	})
}

func (t *tx) appendLog(ctx context.Context, log textLog, z *logSize, lines []task.LogLine) error {
	var numbers, times []int64
	var streams []string
	var texts [][]byte
	for i := range lines {
		l := &lines[i]
		stream := printable(l.Stream) // as it is counted when it is dropped
		size := int64(max(len(stream)+len(l.Text), store.LogLineMin))
		if z.cut < 0 && z.head+size > logHalf {
			z.cut = z.next
		}
		if z.cut < 0 {
			z.head += size
		} else {
			z.tail += size
		}
		numbers = append(numbers, z.next)
		times = append(times, l.Time.UnixMicro())
		streams = append(streams, stream)
		texts = append(texts, []byte(l.Text))
		z.next++
	}
	if err := t.run(
		ctx, tell(log.insertLines, log.a, log.b, numbers, times, streams, texts),
	); err != nil {
		return err
	}
	for z.tail > logHalf {
		if err := t.dropLines(ctx, log, z); err != nil {
			return err
		}
	}
	return t.finish(ctx,
		tell(log.putSize, log.a, log.b, z.next, z.head, z.tail, z.cut, z.dropped, z.droppedBytes))
}

// dropLines drops the oldest lines after the head, until what is left fits.
func (t *tx) dropLines(ctx context.Context, log textLog, z *logSize) error {
	first := z.cut + z.dropped
	last := first - 1
	err := t.run(ctx, ask(log.oldestLines, func(r row) error {
		var line, size int64
		if err := r.Scan(&line, &size); err != nil || z.tail <= logHalf {
			return err
		}
		z.tail -= size
		z.dropped++
		z.droppedBytes += size
		last = line
		return nil
	}, log.a, log.b, first))
	if err != nil {
		return err
	}
	if last < first {
		return fmt.Errorf("its size says %d bytes more than there are lines: %w", z.tail,
			store.ErrConflict)
	}
	return t.run(ctx, tell(log.deleteLines, log.a, log.b, first, last))
}

// Log reads lines from a position on. Where lines were dropped, one line says how many.
func (s *logs) Log(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error) {
	page, err := s.logPage(ctx, logOf(id), from, limit)
	if err != nil {
		return store.LogPage{}, fmt.Errorf("read the log of task %s: %w", id, err)
	}
	return page, nil
}

func (s *logs) logPage(
	ctx context.Context, log textLog, from int64, limit int,
) (store.LogPage, error) {
	page := store.LogPage{Next: from}
	stands := false
	z := logSize{cut: -1}
	err := s.read(ctx, ask(log.stands, func(row) error {
		stands = true
		return nil
	}, log.a, log.b), ask(log.readSize, z.scan, log.a, log.b),
		ask(log.readLines, func(r row) error {
			var line, at int64
			var l task.LogLine
			var text []byte
			if err := r.Scan(&line, &at, &l.Stream, &text); err != nil || len(page.Lines) == limit {
				return err
			}
			l.Text = string(text)
			l.Time = time.UnixMicro(at).UTC()
			if after := z.cut + z.dropped; z.dropped > 0 && line >= after && page.Next < after {
				page.Lines = append(page.Lines, z.gap(l.Time))
				if page.Next = after; len(page.Lines) == limit {
					return nil
				}
			}
			page.Lines = append(page.Lines, l)
			page.Next = line + 1
			return nil
		}, log.a, log.b, from, limit))
	if err == nil && !stands {
		err = store.ErrNotFound
	}
	return page, err
}

// gap is the line that stands for those that were dropped.
func (z *logSize) gap(at time.Time) task.LogLine {
	return task.LogLine{
		Time: at, Stream: "rota",
		Text: fmt.Sprintf("… %d lines (%d bytes) were dropped here …", z.dropped, z.droppedBytes),
	}
}
