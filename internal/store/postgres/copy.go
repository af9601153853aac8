package postgres

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgconn"
)

const copyTasks = `COPY rota.task (batch, n, stage, context, key, group_key, max_attempts, timeout)
FROM STDIN BINARY`

// copyTasks inserts tasks by COPY. The format:
// https://www.postgresql.org/docs/current/sql-copy.html, Binary Format.
func (s *Store) copyTasks(ctx context.Context, conn *pgconn.PgConn, c *taskColumns) error {
	const fields = 8
	buf := append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...) // no flags, no extension
	for i := range c.batch {
		buf = binary.BigEndian.AppendUint16(buf, fields)
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(c.batch[i]))
		buf = binary.BigEndian.AppendUint32(buf, 4)
		buf = binary.BigEndian.AppendUint32(buf, uint32(c.n[i]))
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(c.stage[i])))
		buf = append(buf, c.stage[i]...)
		buf = copyBytes(buf, c.context[i])
		if !c.full {
			// four times NULL
			buf = append(buf, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"...)
			continue
		}
		buf = copyText(buf, c.key[i])
		buf = copyText(buf, c.groupKey[i])
		buf = copyNumber(buf, 4, int64(c.attempts[i]))
		buf = copyNumber(buf, 8, c.timeout[i])
	}
	buf = binary.BigEndian.AppendUint16(buf, 0xffff)
	_, err := conn.CopyFrom(ctx, bytes.NewReader(buf), s.in(copyTasks))
	return err
}

// null is the length of NULL.
const null = 0xffffffff

func copyBytes(buf, v []byte) []byte {
	if v == nil {
		return binary.BigEndian.AppendUint32(buf, null)
	}
	return append(binary.BigEndian.AppendUint32(buf, uint32(len(v))), v...)
}

// copyText writes NULL for "".
func copyText(buf []byte, v string) []byte {
	if v == "" {
		return binary.BigEndian.AppendUint32(buf, null)
	}
	return append(binary.BigEndian.AppendUint32(buf, uint32(len(v))), v...)
}

// copyNumber writes an integer of 4 or 8 bytes, NULL for 0.
func copyNumber(buf []byte, size uint32, v int64) []byte {
	switch {
	case v == 0:
		return binary.BigEndian.AppendUint32(buf, null)
	case size == 4:
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(buf, 4), uint32(v))
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(buf, 8), uint64(v))
}
