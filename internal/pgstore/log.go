package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// logHalf is how many bytes a log keeps of its first lines, and as many of its newest.
const logHalf = 512 << 10

// logSize says what a task's log holds: lines 0 to cut-1 for good, then a gap, then the newest lines up to next-1.
type logSize struct {
	next         int64 // number of the next line
	head, tail   int64 // bytes
	cut          int64 // first line after the head; -1 as long as all lines fit there
	dropped      int64 // lines from cut on that are gone
	droppedBytes int64
}

const (
	// lockLog keeps others out who append to the same log.
	lockLog = `INSERT INTO rota.log_size (batch, n, next, head, tail, cut, dropped, dropped_bytes) VALUES ($1, $2, 0, 0, 0, -1, 0, 0)
ON CONFLICT (batch, n) DO UPDATE SET next = log_size.next RETURNING next, head, tail, cut, dropped, dropped_bytes`
	readLogSize = `SELECT next, head, tail, cut, dropped, dropped_bytes FROM rota.log_size WHERE batch = $1 AND n = $2`
	putLogSize  = `UPDATE rota.log_size SET next = $3, head = $4, tail = $5, cut = $6, dropped = $7, dropped_bytes = $8 WHERE batch = $1 AND n = $2`
	insertLines = `INSERT INTO rota.log (batch, n, line, time, stream, text)
SELECT $1, $2, l.* FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::bytea[]) l`
	oldestLines = `SELECT line, octet_length(stream) + octet_length(text) FROM rota.log WHERE batch = $1 AND n = $2 AND line >= $3 ORDER BY line LIMIT 1000`
	deleteLines = `DELETE FROM rota.log WHERE batch = $1 AND n = $2 AND line >= $3 AND line <= $4`
	readLines   = `SELECT line, time, stream, text FROM rota.log WHERE batch = $1 AND n = $2 AND line >= $3 ORDER BY line LIMIT $4`
	taskStands  = `SELECT FROM rota.task t WHERE t.batch = $1 AND t.n = $2
  AND coalesce((SELECT s.kind FROM rota.step s WHERE s.batch = $1 AND s.n = $2 ORDER BY s.seq DESC LIMIT 1), 0) <> 12 FOR KEY SHARE`
)

func (z *logSize) scan(r row) error {
	return r.Scan(&z.next, &z.head, &z.tail, &z.cut, &z.dropped, &z.droppedBytes)
}

// AppendLog adds lines to a task's log. See the contract, storetest.Texts.
func (s *Store) AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		stands := false
		var z logSize
		err := t.run(ctx, ask(taskStands, func(row) error { stands = true; return nil }, id.Batch, id.N), ask(lockLog, z.scan, id.Batch, id.N))
		switch {
		case err != nil:
			return err
		case !stands:
			return rows.ErrNotFound
		case len(lines) == 0:
			return nil
		}
		return t.appendLog(ctx, id, &z, lines)
	})
	if err != nil {
		return fmt.Errorf("append to the log of task %s: %w", id, err)
	}
	return nil
}

func (t *tx) appendLog(ctx context.Context, id task.ID, z *logSize, lines []task.LogLine) error {
	var numbers, times []int64
	var streams []string
	var texts [][]byte
	for i := range lines {
		l := &lines[i]
		size := int64(len(l.Stream) + len(l.Text))
		if z.cut < 0 && z.head+size > logHalf {
			z.cut = z.next
		}
		if z.cut < 0 {
			z.head += size
		} else {
			z.tail += size
		}
		numbers, times = append(numbers, z.next), append(times, l.Time.UnixMicro())
		streams, texts = append(streams, printable(l.Stream)), append(texts, []byte(l.Text))
		z.next++
	}
	if err := t.run(ctx, tell(insertLines, id.Batch, id.N, numbers, times, streams, texts)); err != nil {
		return err
	}
	for z.tail > logHalf {
		if err := t.dropLines(ctx, id, z); err != nil {
			return err
		}
	}
	return t.finish(ctx, tell(putLogSize, id.Batch, id.N, z.next, z.head, z.tail, z.cut, z.dropped, z.droppedBytes))
}

// dropLines drops the oldest lines after the head, until what is left fits.
func (t *tx) dropLines(ctx context.Context, id task.ID, z *logSize) error {
	first := z.cut + z.dropped
	last := first - 1
	err := t.run(ctx, ask(oldestLines, func(r row) error {
		var line, size int64
		if err := r.Scan(&line, &size); err != nil || z.tail <= logHalf {
			return err
		}
		z.tail -= size
		z.dropped++
		z.droppedBytes += size
		last = line
		return nil
	}, id.Batch, id.N, first))
	if err != nil {
		return err
	}
	if last < first {
		return fmt.Errorf("its size says %d bytes more than there are lines: %w", z.tail, rows.ErrConflict)
	}
	return t.run(ctx, tell(deleteLines, id.Batch, id.N, first, last))
}

// Log reads lines from a position on. Where lines were dropped, one line says how many.
func (s *Store) Log(ctx context.Context, id task.ID, from int64, limit int) (rows.LogPage, error) {
	page := rows.LogPage{Next: from}
	stands := false
	z := logSize{cut: -1}
	err := s.read(ctx, ask(readStands, func(row) error { stands = true; return nil }, id.Batch, id.N), ask(readLogSize, z.scan, id.Batch, id.N),
		ask(readLines, func(r row) error {
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
		}, id.Batch, id.N, from, limit))
	if err == nil && !stands {
		err = rows.ErrNotFound
	}
	if err != nil {
		return rows.LogPage{}, fmt.Errorf("read the log of task %s: %w", id, err)
	}
	return page, nil
}

// readStands is taskStands for who changes nothing.
var readStands = strings.TrimSuffix(taskStands, " FOR KEY SHARE")

// gap is the line that stands for those that were dropped.
func (z *logSize) gap(at time.Time) task.LogLine {
	return task.LogLine{Time: at, Stream: "rota", Text: fmt.Sprintf("… %d lines (%d bytes) were dropped here …", z.dropped, z.droppedBytes)}
}
