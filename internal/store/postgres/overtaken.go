package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Between the reading of a partition and its swap (retire.go) somebody may replay a task of it that
// is over, remove or delete it. Such a task is counted as gone by then, and may be over again, so
// nothing tells it from the others any more. So before a partition is read there is a row for it in
// the table batch_remains, whose first batch is none (see readingKey), and whoever does something
// to tasks that are over deletes the rows of their partitions, behind what he does. A swap that
// finds another row than was there before, or none, is left to another time.
//
// Who has not deleted the row when it is there has not done anything yet, or has the table step
// locked: for those the reading waits.

const (
	noteReading = `INSERT INTO rota.batch_remains (first, beyond) VALUES ($1, $2)
ON CONFLICT (first) DO UPDATE SET beyond = excluded.beyond`
	// readingNoted is which transaction has written the row last.
	readingNoted  = `SELECT xmin::text::bigint FROM rota.batch_remains WHERE first = $1`
	forgetReading = `DELETE FROM rota.batch_remains WHERE first = $1`
	// overtakeReadings deletes the rows of partitions that have any of the batches $1.
	overtakeReadings = `DELETE FROM rota.batch_remains WHERE first < 0
AND EXISTS (SELECT FROM unnest($1::bigint[]) b (id) WHERE b.id > -2 - first AND b.id < beyond)`

	tasksInSpans = `SELECT t.batch, t.n FROM rota.span s
CROSS JOIN LATERAL rota.tasks(s.batch, s.lo, s.hi) t
WHERE s.batch >= $1 AND s.batch < $2`
)

// errReadBefore: something happened to tasks of a partition since it was read.
var errReadBefore = errors.New("something happened to its tasks since it was read")

// readingKey is the first batch of the row of batch_remains that a partition has while it is
// retired: no batch has a number like that.
func (p *partition) readingKey() int64 { return -1 - p.from }

// noteReading writes that a partition is about to be read, and waits for those who do something to
// its tasks and do not know that. It answers which row that is.
func (s *upkeep) noteReading(
	ctx context.Context, p partition,
) (noted int64, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(noteReading, p.readingKey(), p.to))
	})
	if err != nil {
		return 0, err
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.run(ctx, tell(setLocal, "lock_timeout", swapWait)); err != nil {
			return err
		}
		if err := t.define(ctx, "LOCK TABLE rota.step%s IN SHARE MODE", p.suffix); err != nil {
			return err
		}
		return t.finish(ctx, ask(readingNoted, func(r row) error {
			return r.Scan(&noted)
		}, p.readingKey()))
	})
	return noted, err
}

// forgetReading takes back that a partition is about to go.
func (s *upkeep) forgetReading(ctx context.Context, p partition) error {
	return s.write(ctx, func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(forgetReading, p.readingKey()))
	})
}

// asItWasRead fails with store.ErrBusy if something happened to tasks of a partition since it was
// read. The partition is locked. Nodes of before delete no rows: what they brought back to life is
// in spans, unless it is over again.
func (t *tx) asItWasRead(ctx context.Context, p partition, rest sifted) error {
	known := make(map[task.ID]bool, len(rest.tasks))
	for _, id := range rest.tasks {
		known[id] = true
	}
	var noted int64
	var others []task.ID
	err := t.run(ctx, ask(readingNoted, func(r row) error {
		return r.Scan(&noted)
	}, p.readingKey()), ask(tasksInSpans, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		if !known[id] {
			known[id] = true
			others = append(others, id)
		}
		return err
	}, p.from, p.to))
	if err != nil {
		return err
	}
	lives := false
	if len(others) > 0 {
		found := make([]fact, len(others))
		if err := t.run(ctx, factsOf(others, false, found)...); err != nil {
			return err
		}
		for i := range found {
			lives = lives || found[i].ID != task.ID{} && found[i].Base != store.Final
		}
	}
	if noted == 0 || noted != rest.row || lives {
		return fmt.Errorf("%w: %w", store.ErrBusy, errReadBefore)
	}
	return nil
}
