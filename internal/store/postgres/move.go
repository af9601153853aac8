package postgres

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// moved is a task that a step at seq moves into a span of its own.
type moved struct {
	id    task.ID
	seq   int32
	queue string
	to    store.Move
}

const insertMoved = `INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token,
deaths, size, gaps, linked)
SELECT m.id, m.batch, m.n, m.n, m.seq0, m.queue, m.rank, m.due, 0, 0, 0, 1, false, m.linked
FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::text[], $6::bigint[],
$7::bigint[], $8::int[]) m (id, batch, n, seq0, queue, rank, due, linked)`

// movesOut makes the spans that tasks move into.
func (t *tx) movesOut(ctx context.Context, moves []moved) ([]query, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	var ids runner = t
	if t.inside != nil {
		ids = loose{t.database}
	}
	first, err := t.spanIDs(ctx, ids, len(moves))
	if err != nil {
		return nil, err
	}
	var spans, batches, ranks, dues []int64
	var ns, seqs, links []int32
	var queues []string
	for i := range moves {
		m := &moves[i]
		spans = append(spans, first+int64(i))
		batches = append(batches, m.id.Batch)
		ns = append(ns, m.id.N)
		seqs = append(seqs, m.seq+1)
		queues = append(queues, m.queue)
		ranks = append(ranks, m.to.Rank)
		dues = append(dues, m.to.Due)
		links = append(links, int32(m.to.Linked))
	}
	return []query{tell(insertMoved, spans, batches, ns, seqs, queues, ranks, dues,
		links)}, nil
}
