package postgres

import "github.com/rotahq/rota/internal/store"

// reportColumns are reports on their way to recordSteps.
type reportColumns struct {
	order                                      []int32 // of these reports among all
	hash, started, finished, due               []int64
	h, n, seq, attempt, base, kind, contextSeq []int32
	ran, stage, worker, err                    []string
	result, context                            [][]byte
	dues, errs, values                         bool // some report has one

	hands handColumns
}

// handColumns are hands: runs of reports on one span's tasks under one token, which have the right
// to be recorded together.
type handColumns struct {
	batch, span, token []int64
	lo, hi             []int32
}

// add says to which hand a report belongs, counted from 1. Reports come sorted.
func (c *handColumns) add(r *store.Report, alone bool) int32 {
	k := len(c.batch) - 1
	if alone || k < 0 || c.batch[k] != r.ID.Batch || c.span[k] != r.Token.Span ||
		c.token[k] != r.Token.SpanToken {
		c.batch = append(c.batch, r.ID.Batch)
		c.span = append(c.span, r.Token.Span)
		c.token = append(c.token, r.Token.SpanToken)
		c.lo = append(c.lo, r.ID.N)
		c.hi = append(c.hi, r.ID.N)
		k++
	}
	c.hi[k] = r.ID.N
	return int32(k) + 1
}

// columns makes columns of reports. Each may be right while its neighbours are not, unless all of
// them have to be.
func (d *settlement) columns(order []int32, all bool) *reportColumns {
	k := len(order)
	longs, ints, texts := make([]int64, 3*k), make([]int32, 7*k), make([]string, 3*k)
	long := func(i int) []int64 { return longs[i*k : i*k : (i+1)*k] }
	short := func(i int) []int32 { return ints[i*k : i*k : (i+1)*k] }
	text := func(i int) []string { return texts[i*k : i*k : (i+1)*k] }
	c := &reportColumns{
		order: order, hash: long(0), started: long(1), finished: long(2),
		n: short(0), seq: short(1), attempt: short(2), base: short(3), kind: short(4),
		contextSeq: short(5), h: short(6), ran: text(0), stage: text(1), worker: text(2),
	}
	for _, i := range order {
		r := &d.reports[i]
		s := &r.Step
		c.h = append(c.h, c.hands.add(r, !all))
		c.n = append(c.n, r.ID.N)
		c.seq = append(c.seq, r.Token.Seq)
		c.hash = append(c.hash, s.Hash)
		c.started = append(c.started, s.Started)
		c.finished = append(c.finished, s.Finished)
		c.attempt = append(c.attempt, s.Attempt)
		c.base = append(c.base, s.Base)
		c.kind = append(c.kind, int32(s.Kind))
		c.contextSeq = append(c.contextSeq, s.ContextSeq)
		c.ran = append(c.ran, s.Ran)
		c.stage = append(c.stage, s.Stage)
		c.worker = append(c.worker, s.Worker)
		c.dues = c.dues || s.Due != 0
		c.errs = c.errs || s.Error != ""
		c.values = c.values || s.Result != nil || s.Context != nil
	}
	c.rest(d)
	return c
}

// rest fills in the columns that few reports have.
func (c *reportColumns) rest(d *settlement) {
	for _, i := range c.order {
		s := &d.reports[i].Step
		if c.dues {
			c.due = append(c.due, s.Due)
		}
		if c.errs {
			c.err = append(c.err, printable(s.Error))
		}
		if c.values {
			c.result = append(c.result, s.Result)
			c.context = append(c.context, s.Context)
		}
	}
}

func (c *reportColumns) args() []any {
	attempt, attempts := common(c.attempt)
	base, bases := common(c.base)
	kind, kinds := common(c.kind)
	ran, rans := common(c.ran)
	stage, stages := common(c.stage)
	worker, workers := common(c.worker)
	at, contextSeqs := common(c.contextSeq)
	h := &c.hands
	return []any{c.h, c.n, c.seq, c.hash, c.started, c.finished, attempts, bases, kinds, rans,
		stages, workers, contextSeqs, c.due, c.err, c.result, c.context,
		attempt, base, kind, ran, stage, worker, at, h.batch, h.span, h.token, h.lo, h.hi}
}
