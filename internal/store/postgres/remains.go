package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	noteBeside = `INSERT INTO rota.batch_remains (first, beyond) VALUES ($1, $2)
ON CONFLICT (first) DO UPDATE SET beyond = greatest(batch_remains.beyond, excluded.beyond)`
	// listBeside leaves out the rows of partitions that are about to go: see overtaken.go.
	listBeside = `SELECT first, beyond FROM rota.batch_remains WHERE first >= 0
ORDER BY first`
	forgetBeside = `DELETE FROM rota.batch_remains WHERE first = $1 AND beyond = $2`

	// goneAmong are those of some tasks that stand no more. None of them ever comes back.
	goneAmong = `SELECT w.batch, w.n FROM unnest($1::bigint[], $2::int[]) w (batch, n)
WHERE NOT EXISTS (SELECT FROM rota.task(w.batch, w.n))`
)

// beside lists tasks of batches from $1 on and before $3, after the task ($1, $2), that have rows
// in tables that are not partitioned.
var beside = besideOf("log_size", "blob", "edit", "wait", "child_count", "dependency", "signal",
	"unique_key", "key_owner")

func besideOf(tables ...string) string {
	for i, table := range tables {
		tables[i] = `(SELECT DISTINCT batch, n FROM rota.` + table + `
  WHERE (batch, n) > ($1, $2) AND batch < $3 ORDER BY batch, n LIMIT $4)`
	}
	return strings.Join(tables, " UNION ") + " ORDER BY batch, n LIMIT $4"
}

// dropRemains deletes what the tasks of retired partitions have left in other tables. What one call
// does not come to is left to the next: it is noted until all is gone.
func (s *upkeep) dropRemains(ctx context.Context) error {
	var ranges [][2]int64
	err := s.glance(ctx, ask(listBeside, func(r row) error {
		var of [2]int64
		err := r.Scan(&of[0], &of[1])
		ranges = append(ranges, of)
		return err
	}))
	if err != nil {
		return err
	}
	for _, of := range ranges {
		err := s.dropBeside(ctx, of[0], of[1])
		if errors.Is(err, store.ErrBusy) { // somebody has some of it locked: another time
			s.conf.Log.Info("what a retired partition left stays for now", "error", err)
			continue
		}
		if err != nil {
			return err
		}
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			return t.finish(ctx, tell(forgetBeside, of[0], of[1]))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropBeside deletes the logs, blobs, edits and the like of those tasks of batches from first on
// and before beyond that stand no more.
func (s *upkeep) dropBeside(ctx context.Context, first, beyond int64) error {
	for at := (task.ID{Batch: first, N: -1}); ; {
		var ids []task.ID
		err := s.glance(ctx, ask(beside, func(r row) error {
			err := r.Scan(&at.Batch, &at.N)
			ids = append(ids, at)
			return err
		}, at.Batch, at.N, beyond, piece))
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := s.dropGone(ctx, ids); err != nil {
			return err
		}
	}
}

// dropGone deletes what those of some tasks that stand no more have left in other tables.
func (s *upkeep) dropGone(ctx context.Context, ids []task.ID) error {
	var blobs []string
	batches, ns := idColumns(ids)
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		blobs = nil
		var gone []task.ID
		err := t.run(ctx, ask(goneAmong, func(r row) error {
			var id task.ID
			err := r.Scan(&id.Batch, &id.N)
			gone = append(gone, id)
			return err
		}, batches, ns))
		if err != nil || len(gone) == 0 {
			return err
		}
		batches, ns := idColumns(gone)
		return t.finish(ctx, append(dropped(gone), ask(dropBlobs, func(r row) error {
			var name string
			err := r.Scan(&name)
			blobs = append(blobs, name)
			return err
		}, batches, ns), tell(dropLogs, batches, ns), tell(dropSizes, batches, ns),
			tell(dropEdits, batches, ns), tell(dropUniquesOf, batches, ns),
			tell(dropOwners, batches, ns))...)
	})
	if err == nil {
		s.values.deleteBlobs(ctx, blobs)
	}
	return err
}
