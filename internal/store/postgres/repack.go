package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// repackVersion is the version of the tables in which all tasks stand in packs. The one before it
// made the tables of packs and renamed that of tasks to task_before.
const repackVersion = 21

// insertPacksThen is insertPacks for the tables as they are then, without what came later.
const insertPacksThen = `INSERT INTO rota.pack (` + insertedColumns + `)
SELECT ` + insertedValues + ` FROM ` + insertedPacks

// before makes the queries that insert packs of tasks of before.
func (p *packs) before() (list []query) {
	for i := range p.chunks {
		list = append(list, tell(insertPacksThen, p.chunks[i].args()[:13]...))
	}
	return append(list, p.keyed.queries()...)
}

const repackTold = 10 * time.Second // between lines of the log

// repack puts the tasks of a store of an earlier version into packs: partition by partition, each
// in pieces. Nobody else works on the store meanwhile: nodes of this version wait for the lock that
// the caller has, and those of versions before find no table rota.task.
//
// It may be killed at any time. A piece is one transaction, and the next one begins after the last
// task that has a pack, whoever put it there. A partition of task_before is dropped when its pack
// has as many tasks, so the store never has a second copy of more than one.
func (s *schema) repack(ctx context.Context) error {
	var suffixes []string
	stands := false
	err := s.read(ctx, ask(`SELECT to_regclass('rota.task_before') IS NOT NULL`,
		func(r row) error { return r.Scan(&stands) }), ask(tasksBefore, func(r row) error {
		var name string
		err := r.Scan(&name)
		suffixes = append(suffixes, strings.TrimPrefix(name, "task"))
		return err
	}))
	if err != nil || !stands {
		return err
	}
	m := repacking{database: s.database, began: time.Now(), told: time.Now()}
	slices.Sort(suffixes)
	for i, suffix := range suffixes {
		m.left = len(suffixes) - i
		if err := m.partition(ctx, suffix); err != nil {
			return fmt.Errorf("put the tasks of partition %s into packs: %w", suffix, err)
		}
	}
	return s.write(ctx, func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(`DROP TABLE rota.task_before`))
	})
}

// tasksBefore lists the partitions that are left of the table before.
const tasksBefore = `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass('rota.task_before')`

// repacking is the move in progress.
type repacking struct {
	*database
	began, told time.Time
	moved       int64
	left        int // partitions, the present one included
}

// tell says how far it came, now and then.
func (m *repacking) tell() {
	if time.Since(m.told) < repackTold {
		return
	}
	m.told = time.Now()
	m.conf.Log.Info("tasks are put into packs", "tasks", m.moved, "partitions left", m.left,
		"took", time.Since(m.began).Round(time.Second))
}

const (
	// lastPacked is the last task of a partition that has a pack.
	lastPacked = `SELECT batch, lo, has FROM rota.pack%s ORDER BY batch DESC, lo DESC LIMIT 1`
	readBefore = `SELECT batch, n, stage, context, coalesce(key, ''), coalesce(group_key, ''),
coalesce(max_attempts, 0), coalesce(timeout, 0) FROM rota.task%s
WHERE (batch, n) > ($1, $2) ORDER BY batch, n LIMIT $3`
	countBefore = `SELECT (SELECT count(*) FROM rota.task%[1]s),
  (SELECT coalesce(sum(bit_count(has::bit(64))), 0)::bigint FROM rota.pack%[1]s)`
)

func (m *repacking) partition(ctx context.Context, suffix string) error {
	at := task.ID{N: -1}
	err := m.glance(ctx, ask(fmt.Sprintf(lastPacked, suffix), func(r row) error {
		var has int64
		err := r.Scan(&at.Batch, &at.N, &has)
		at.N = lastOf(at.N, has)
		return err
	}))
	for n := m.conf.repackPiece; err == nil && n == m.conf.repackPiece; {
		n, err = m.piece(ctx, suffix, &at)
		m.moved += int64(n)
		m.tell()
	}
	if err != nil {
		return err
	}
	var before, packed int64
	err = m.readLong(ctx, func(ctx context.Context, r runner) error {
		return r.run(ctx, tell(setLocal, "enable_seqscan", "on"),
			ask(fmt.Sprintf(countBefore, suffix), func(r row) error {
				return r.Scan(&before, &packed)
			}))
	})
	if err == nil && before != packed {
		err = fmt.Errorf("%d tasks stand in packs, and %d should", packed, before)
	}
	if err != nil {
		return err
	}
	return m.write(ctx, func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(`DROP TABLE rota.task`+suffix))
	})
}

// piece moves the tasks that come next. It says how many they are, and moves at to the last one.
func (m *repacking) piece(ctx context.Context, suffix string, at *task.ID) (n int, err error) {
	var batches []int64
	var tasks []store.Task
	err = m.glance(ctx, ask(fmt.Sprintf(readBefore, suffix), func(r row) error {
		var batch int64
		var t store.Task
		err := r.Scan(&batch, &t.N, &t.Stage, &t.Context, &t.Key, &t.GroupKey, &t.MaxAttempts,
			&t.Timeout)
		batches = append(batches, batch)
		tasks = append(tasks, t)
		return err
	}, at.Batch, at.N, m.conf.repackPiece))
	if err != nil || len(tasks) == 0 {
		return 0, err
	}
	var p packs
	for i := 0; i < len(tasks); {
		k := i
		for k < len(tasks) && batches[k] == batches[i] {
			k++
		}
		p.add(batches[i], tasks[i:k])
		i = k
	}
	err = m.write(ctx, func(ctx context.Context, t *tx) error {
		return t.finish(ctx, p.before()...)
	})
	*at = task.ID{Batch: batches[len(batches)-1], N: tasks[len(tasks)-1].N}
	return len(tasks), err
}
