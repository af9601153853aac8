package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// newestRuns and newestMarks look at so many rows and no more: a queue that is seldom used is not
// searched for among millions of others.
const (
	newestRuns = `SELECT s.batch, s.n, s.seq, s.ran, s.finished - s.started,
b.queue = ?2 AND s.kind IN (1, 2) AND s.started > 0
FROM (SELECT batch, n, seq, ran, kind, started, finished FROM step
ORDER BY batch DESC, n DESC, seq DESC LIMIT ?1) s JOIN batch b ON b.id = s.batch`
	newestMarks = `SELECT m.batch, m.lo, m.bits, m.body, b.queue = ?2
FROM (SELECT batch, lo, bits, body FROM mark ORDER BY batch DESC, lo DESC LIMIT ?1) m
JOIN batch b ON b.id = m.batch`
)

// run is how long a hand-out took; counts tells whether it is of the queue and took a time at all.
type run struct {
	id     task.ID
	seq    int32
	counts bool
	store.RunTime
}

// RunTimes lists how long hand-outs took lately. See contract.Views.
func (s *viewCalls) RunTimes(
	ctx context.Context, queue string, limit int,
) (list []store.RunTime, err error) {
	err = s.read(ctx, func(c *conn) error {
		var runs []run
		err := c.each(newestRuns, func(st *sqlite.Stmt) bool {
			runs = append(runs, run{
				task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}, st.ColumnInt32(2),
				st.ColumnBool(5),
				store.RunTime{Stage: st.ColumnText(3), Took: st.ColumnInt64(4)},
			})
			return true
		}, limit, queue)
		if err == nil {
			runs, err = c.views().markedRuns(runs, queue, limit)
		}
		slices.SortFunc(runs, func(a, b run) int {
			return cmp.Or(b.id.Compare(a.id), cmp.Compare(b.seq, a.seq))
		})
		list = nil
		for _, r := range runs[:min(len(runs), limit)] {
			if r.counts {
				list = append(list, r.RunTime)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read run times of queue %q: %w", queue, err)
	}
	return list, nil
}

// markedRuns adds those of the newest marks, until there are enough.
func (c viewReads) markedRuns(runs []run, queue string, limit int) ([]run, error) {
	type mark struct {
		batch  int64
		lo     int32
		body   []byte
		counts bool
	}
	var marks []mark
	left := limit
	err := c.each(newestMarks, func(st *sqlite.Stmt) bool {
		marks = append(marks, mark{
			st.ColumnInt64(0), st.ColumnInt32(1), bytesOf(st, 3), st.ColumnBool(4),
		})
		left -= pack.Bits(st.ColumnInt64(2)).Len()
		return left > 0
	}, limit, queue)
	for i := range marks {
		m := &marks[i]
		if err != nil {
			return nil, err
		}
		var started, took [pack.Size]int64
		var bits pack.Bits
		if err = pack.EachDone(m.body, m.lo, func(d *pack.Done) bool {
			bits |= pack.Bit(d.N)
			started[d.N-m.lo], took[d.N-m.lo] = d.Started, d.Finished-d.Started
			return true
		}); err != nil {
			return nil, err
		}
		err = c.members().members(m.batch, m.lo, m.lo+pack.Size-1, brief, func(s *member) bool {
			if bits.Has(s.N) {
				runs = append(runs, run{
					id:      task.ID{Batch: m.batch, N: s.N},
					counts:  m.counts && started[s.N-m.lo] > 0,
					RunTime: store.RunTime{Stage: s.Task.Stage, Took: took[s.N-m.lo]},
				})
			}
			return true
		})
	}
	return runs, err
}
