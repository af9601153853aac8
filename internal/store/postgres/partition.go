package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// batch, pack, keyed, mark and step are partitioned by batch id, which is time-ordered: what was
// submitted on one day stands together, and goes together. Partitions are made ahead of time, so
// that submissions never wait for it; one that finds none for its time makes it (makeRoom).
//
// A partition's tables are made by themselves and attached when they are complete: neither stops
// anybody who writes.

// partitioned are the tables that have partitions, the column that tells which, and what LIKE does
// not copy to them. A row of pack may fill its page. Marks grow in place a few times, until their
// pack is done: room for that is left on each page. Up to a page they stand in their row, too.
var partitioned = [...]struct{ table, column, with string }{
	{"batch", "id", ""}, {"pack", "batch", " WITH (toast_tuple_target = 8160)"},
	{"keyed", "batch", ""},
	{"mark", "batch", " WITH (fillfactor = 80, toast_tuple_target = 8160)"},
	{"step", "batch", ""},
}

// ahead is how many partitions there are beyond the present one.
const ahead = 2

// span of batch ids that a partition has: from included, to not.
type bounds struct{ from, to int64 }

// name is what the partition's tables are called, after their parent's name.
func (b bounds) name() string {
	return fmt.Sprintf("_%s_%d",
		time.UnixMicro(store.BatchTime(b.from)).UTC().Format("20060102t150405"), b.from)
}

// partitioning makes the partitions of what is partitioned (see partitioned). It never drops any:
// that is upkeep's (retire.go).
type partitioning struct {
	*database
	// covered are batch ids that have partitions, as far as is known: from included, to not. They
	// are a hint: a partition may be gone, and then an insert says so.
	covered struct{ from, to atomic.Int64 }
}

// partition is one that stands.
type partition struct {
	bounds
	suffix string // of its tables' names, after their parents'
}

const listPartitions = `SELECT c.relname::text, pg_get_expr(c.relpartbound, c.oid)
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'rota.step'::regclass`

// partitions reads the bounds of all, in order. step is the last to be attached and the first to be
// detached.
func partitions(ctx context.Context, r runner) (list []partition, err error) {
	err = r.run(ctx, ask(listPartitions, func(r row) error {
		var name, expr string
		var b partition
		if err := r.Scan(&name, &expr); err != nil {
			return err
		}
		if _, err := fmt.Sscanf(
			expr, "FOR VALUES FROM ('%d') TO ('%d')", &b.from, &b.to,
		); err != nil {
			return fmt.Errorf("partition %s has bounds %s: %w", name, expr, err)
		}
		b.suffix = strings.TrimPrefix(name, "step")
		list = append(list, b)
		return nil
	}))
	slices.SortFunc(list, func(a, b partition) int { return cmp.Compare(a.from, b.from) })
	return list, err
}

// missing lists the partitions that a stretch of batch ids lacks, each at most width wide and
// ending where multiples of width do.
func missing(stand []partition, from, to, width int64) (list []bounds) {
	for at := from - from%width; at < to; {
		i, covered := slices.BinarySearchFunc(stand, at, func(b partition, at int64) int {
			switch {
			case b.to <= at:
				return -1
			case b.from > at:
				return 1
			}
			return 0
		})
		if covered {
			at = stand[i].to
			continue
		}
		next := bounds{at, at - at%width + width}
		if i < len(stand) {
			next.to = min(next.to, stand[i].from)
		}
		list = append(list, next)
		at = next.to
	}
	return list
}

// width is how many batch ids a partition covers.
func (s *partitioning) partitionWidth() int64 {
	return store.BatchID(s.conf.Partition.Microseconds(), 0)
}

// partitionLock makes nodes that make or drop partitions wait for one another.
const partitionLock = migrateLock + 1

const lockPartitions = `SELECT pg_advisory_xact_lock($1)`

// cover makes the partitions that are missing from one batch id up to another.
func (s *partitioning) cover(ctx context.Context, from, to int64) error {
	var stand []partition
	err := s.reading(ctx, func(ctx context.Context, r runner) (err error) {
		stand, err = partitions(ctx, r)
		return err
	})
	if err != nil || len(missing(stand, from, to, s.partitionWidth())) == 0 {
		return err
	}
	return s.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.run(ctx, tell(lockPartitions, int64(partitionLock))); err != nil {
			return err
		}
		stand, err := partitions(ctx, t)
		if err != nil {
			return err
		}
		for _, b := range missing(stand, from, to, s.partitionWidth()) {
			if err := t.makeTables(ctx, b.name()); err != nil {
				return err
			}
			if err := t.attach(ctx, b, b.name()); err != nil {
				return err
			}
		}
		return t.finish(ctx)
	})
}

// define runs a statement that defines tables, which takes no arguments and is used once.
func (t *tx) define(ctx context.Context, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if _, err := t.conn.Exec(ctx, t.in(text)); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// makeTables makes the tables of a partition, with the columns and indexes of their parents.
func (t *tx) makeTables(ctx context.Context, suffix string) error {
	for _, p := range partitioned {
		if err := t.define(
			ctx, "CREATE TABLE rota.%s%s (LIKE rota.%s INCLUDING ALL)%s", p.table, suffix, p.table,
			p.with,
		); err != nil {
			return err
		}
	}
	return nil
}

// attach makes tables a partition.
func (t *tx) attach(ctx context.Context, b bounds, suffix string) error {
	for _, p := range partitioned {
		err := t.define(ctx,
			"ALTER TABLE rota.%s ATTACH PARTITION rota.%s%s FOR VALUES FROM (%d) TO (%d)", p.table,
			p.table, suffix, b.from, b.to)
		if err != nil {
			return err
		}
	}
	return nil
}

// makeAhead makes the partitions for now and the time to come. It answers when to look again.
func (s *partitioning) makeAhead(ctx context.Context, now int64) (next int64, err error) {
	width := s.conf.Partition.Microseconds()
	from, to := store.BatchID(now, 0), store.BatchID(now+ahead*width, 0)
	if err := s.cover(ctx, from, to); err != nil {
		return 0, err
	}
	s.covered.from.Store(from)
	s.covered.to.Store(to)
	return now + min(width/4, time.Minute.Microseconds()), nil
}

// makeRoom makes the partitions that a submission found missing.
func (s *partitioning) makeRoom(ctx context.Context, sub *store.Submission) error {
	for i := range sub.Batches {
		if err := s.cover(ctx, sub.Batches[i].ID, sub.Batches[i].ID+1); err != nil {
			return fmt.Errorf("make a partition for batch %d: %w", sub.Batches[i].ID, err)
		}
	}
	return nil
}

// coverNow makes the partitions that the store needs from its first moment.
func (s *partitioning) coverNow(ctx context.Context) error {
	var now int64
	if err := s.glance(ctx, ask(countClock, func(r row) error {
		return r.Scan(&now)
	}, s.clock())); err != nil {
		return err
	}
	_, err := s.makeAhead(ctx, now)
	return err
}

// coverAll makes the partitions of a submission that are not known to be there.
func (s *partitioning) coverAll(ctx context.Context, sub *store.Submission) error {
	for i := range sub.Batches {
		if id := sub.Batches[i].ID; id < s.covered.from.Load() || id >= s.covered.to.Load() {
			return s.makeRoom(ctx, sub)
		}
	}
	return nil
}
