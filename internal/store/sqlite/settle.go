package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/counters"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// stepCalls writes down what became of hand-outs, and what people do to tasks. Its tables are step,
// mark and edit. What follows from an outcome goes into the tables of others in the same
// transaction, by their writes.
type stepCalls struct {
	*database
	values *valueCalls

	settler settler // owned by the writer
}

// Settle records reports. See contract.Steps.
func (s *stepCalls) Settle(ctx context.Context, set store.Settlement) (store.Settled, error) {
	var answer store.Settled
	err := s.write(ctx, func(t *tx) (err error) {
		answer, err = s.settler.settle(t, &set)
		return err
	})
	if err != nil {
		return store.Settled{}, fmt.Errorf("settle %d reports: %w", len(set.Reports), err)
	}
	var refused []store.Value
	for i, v := range answer.Verdicts {
		if step := &set.Reports[i].Step; v != task.Recorded &&
			(step.Context != nil || step.Result != nil) {
			refused = append(refused, step.Context, step.Result)
		}
	}
	if len(refused) > 0 {
		s.values.dropUnused(ctx, refused)
	}
	return answer, nil
}

// settler is one settlement in progress: what the reports of one gather share is read once.
// It is cleared, not made anew, because a gather has hundreds of reports.
type settler struct {
	reports  []store.Report
	verdicts []task.Status
	order    []int32             // of the reports, by (batch, n, seq)
	good     []int32             // those of them whose token is right and whose key no other has
	spans    map[int64]spanRight // by id
	batches  map[int64]*batchSeen

	together int // Config.together

	steps []int32 // those of good that become steps
	fits  []int32 // those of one pack that fit into its mark
	done  []pack.Done
	body  []byte

	ends    ends            // of children
	look    []store.Address // where somebody has to look
	spawned []store.Spawned // by report, not in order
}

// spanRight is what gives a report the right to be recorded.
type spanRight struct {
	batch, token int64
	lo, hi       int32
	gaps         bool
}

// batchSeen is what the reports of one batch share.
type batchSeen struct {
	queue   string
	parent  parentage
	awaited bool // somebody waits for some of its tasks to end
	stat    *counters.Counters
	running map[task.ID][]store.Running // rows in the range of the reports
	lo, hi  int32
}

func (d *settler) settle(t *tx, set *store.Settlement) (store.Settled, error) {
	d.clear(set.Reports)
	if err := d.read(t); err != nil {
		return store.Settled{}, err
	}
	if err := d.choose(t); err != nil {
		return store.Settled{}, err
	}
	if err := d.record(t); err != nil {
		return store.Settled{}, err
	}
	if err := d.follow(t); err != nil {
		return store.Settled{}, err
	}
	for i := range d.reports {
		if d.verdicts[i] == "" {
			v, err := t.steps().refusal(&d.reports[i])
			if err != nil {
				return store.Settled{}, err
			}
			d.verdicts[i] = v
			if err := d.repeatSpawn(t, i); err != nil {
				return store.Settled{}, err
			}
		}
	}
	look, err := d.ends.write(t)
	if err != nil {
		return store.Settled{}, err
	}
	slices.SortFunc(d.spawned, func(a, b store.Spawned) int { return a.Report - b.Report })
	return store.Settled{
		Now: t.now, Verdicts: d.verdicts, Spawned: d.spawned,
		Look: sortedAddresses(append(d.look, look...)),
	}, d.deleteSpent(t, set.Spent)
}

// repeatSpawn answers the children of a repeated report as the first time.
func (d *settler) repeatSpawn(t *tx, i int) error {
	r := &d.reports[i]
	if d.verdicts[i] != task.Repeated || len(r.Spawn) == 0 {
		return nil
	}
	ids, err := t.children().spawned(r)
	d.spawned = append(d.spawned, store.Spawned{Report: i, IDs: ids})
	return err
}

func (d *settler) clear(reports []store.Report) {
	d.reports, d.look, d.spawned = reports, nil, nil // they are given away
	clear(d.ends)
	d.verdicts = make([]task.Status, len(reports)) // it is given away
	d.order, d.good = d.order[:0], d.good[:0]
	if d.spans == nil {
		d.spans, d.batches = map[int64]spanRight{}, map[int64]*batchSeen{}
	}
	clear(d.spans)
	clear(d.batches)
	sorted := true
	for i := range reports {
		d.order = append(d.order, int32(i))
		sorted = sorted && (i == 0 || compare(&reports[i-1], &reports[i]) <= 0)
	}
	if !sorted {
		slices.SortStableFunc(d.order, func(a, b int32) int {
			return compare(&reports[a], &reports[b])
		})
	}
}

// compare orders reports by the key of their step.
func compare(a, b *store.Report) int {
	return cmp.Or(cmp.Compare(a.ID.Batch, b.ID.Batch), cmp.Compare(a.ID.N, b.ID.N),
		cmp.Compare(a.Token.Seq, b.Token.Seq))
}

const (
	rightOfSpan  = `SELECT batch, token, lo, hi, gaps FROM span WHERE id = ?`
	queueOfBatch = `SELECT queue FROM batch WHERE id = ?`
	anyRunning   = `SELECT 1 FROM running LIMIT 1`
)

// read loads each span and each batch of the reports once, and the running rows among them.
func (d *settler) read(t *tx) error {
	running, err := t.has(anyRunning)
	if err != nil {
		return err
	}
	right, err := t.Prepare(rightOfSpan)
	if err != nil {
		return err
	}
	var b *batchSeen
	var batch, span int64
	for _, i := range d.order {
		r := &d.reports[i]
		if r.Token.Span != span {
			span = r.Token.Span
			if _, known := d.spans[span]; !known {
				if err := d.readSpan(right, span); err != nil {
					return err
				}
			}
		}
		if b == nil || r.ID.Batch != batch {
			batch = r.ID.Batch
			b = &batchSeen{lo: r.ID.N}
			d.batches[batch] = b
			_, err := t.one(queueOfBatch, func(st *sqlite.Stmt) {
				b.queue = st.ColumnText(0)
			}, batch)
			if err == nil {
				b.parent, err = t.conn.children().parentage(batch)
			}
			if err == nil {
				b.awaited, err = t.has(awaitedIn, batch)
			}
			if err != nil {
				return err
			}
		}
		b.hi = r.ID.N
	}
	if !running {
		return nil
	}
	for batch, b := range d.batches {
		err := t.each(runningIn, func(st *sqlite.Stmt) bool {
			if b.running == nil {
				b.running = map[task.ID][]store.Running{}
			}
			u := scanRunning(st)
			b.running[u.ID] = append(b.running[u.ID], u)
			return true
		}, batch, b.lo, b.hi)
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *settler) readSpan(right *sqlite.Stmt, id int64) error {
	right.BindInt64(1, id)
	found, err := right.Step()
	if err != nil {
		return err
	}
	if found {
		d.spans[id] = spanRight{
			right.ColumnInt64(0), right.ColumnInt64(1), right.ColumnInt32(2), right.ColumnInt32(3),
			right.ColumnBool(4),
		}
	} else {
		d.spans[id] = spanRight{batch: -1}
	}
	return right.Reset()
}

// choose finds the reports that may be recorded: the token of a running row at their seq decides,
// else that of their span. Of several at one seq the first may; the others are looked at when it
// stands.
func (d *settler) choose(t *tx) error {
	var last *store.Report
	for _, i := range d.order {
		r := &d.reports[i]
		if last != nil && compare(last, r) == 0 {
			continue
		}
		right, err := d.right(t, r)
		if err == nil && right && r.Step.Kind == task.KindExpired {
			right, err = t.conn.expiries().mayExpire(r)
		}
		if err != nil {
			return err
		}
		if right {
			d.good = append(d.good, i)
			last = r
		}
	}
	return nil
}

func (d *settler) right(t *tx, r *store.Report) (bool, error) {
	if u := d.running(r); u != nil {
		return u.Span == r.Token.Span && u.Token == r.Token.SpanToken, nil
	}
	s := d.spans[r.Token.Span]
	if s.batch != r.ID.Batch || s.token != r.Token.SpanToken || r.ID.N < s.lo || s.hi < r.ID.N {
		return false, nil
	}
	if s.gaps {
		return t.members().isTask(r.ID)
	}
	return true, nil
}

func (d *settler) running(r *store.Report) *store.Running {
	list := d.batches[r.ID.Batch].running[r.ID]
	for k := range list {
		if list[k].Seq == r.Token.Seq {
			return &list[k]
		}
	}
	return nil
}

const deleteRunning = `DELETE FROM running WHERE batch = ? AND n = ? AND seq = ?`

// follow does what follows from the recorded reports, and counts them.
func (d *settler) follow(t *tx) error {
	for _, i := range d.good {
		if d.verdicts[i] == refused {
			d.verdicts[i] = ""
			continue
		}
		d.verdicts[i] = task.Recorded
		r := &d.reports[i]
		b := d.batches[r.ID.Batch]
		if b.stat == nil {
			b.stat = t.stat(b.queue)
		}
		b.stat.Settled(&r.Step)
		t.history.Settled(b.queue, r.Ready, &r.Step)
		if b.running != nil && d.running(r) != nil {
			if _, err := t.exec(deleteRunning, r.ID.Batch, r.ID.N, r.Token.Seq); err != nil {
				return err
			}
		}
		if err := t.values().noteBlobs(r.ID, r.Step.Context, r.Step.Result); err != nil {
			return err
		}
		if r.Notice != nil {
			if err := t.steps().submitNotice(r.Notice); err != nil {
				return err
			}
		}
		if r.Move != nil {
			if err := t.steps().moveOut(r.ID, r.Token.Seq, b.queue, *r.Move); err != nil {
				return err
			}
		}
		if r.HoldKey > 0 {
			if err := t.limits().holdKey(b.queue, r.ID, r.HoldKey); err != nil {
				return err
			}
		}
		if err := d.followWaits(t, int(i)); err != nil {
			return err
		}
	}
	return nil
}

// followWaits does what follows from a recorded report for whoever waits: it submits its children,
// begins its wait, and counts that it ended.
func (d *settler) followWaits(t *tx, i int) error {
	r := &d.reports[i]
	if len(r.Spawn) > 0 {
		ids, err := t.children().spawn(r)
		if err != nil {
			return err
		}
		d.spawned = append(d.spawned, store.Spawned{Report: i, IDs: ids})
	}
	if r.Await != nil {
		at, err := t.waits().await(r)
		if err != nil {
			return err
		}
		d.look = append(d.look, at)
	}
	if r.Step.Base != store.Final {
		return nil
	}
	if d.batches[r.ID.Batch].awaited {
		noted, err := t.waits().noteEnd(r.ID)
		if err != nil {
			return err
		}
		if noted {
			d.look = append(d.look, store.EndOf(r.ID))
		}
	}
	state := r.Step.Kind.Leaves()
	if b := d.batches[r.ID.Batch]; b.parent.id != (task.ID{}) {
		if d.ends == nil {
			d.ends = ends{}
		}
		d.ends.of(&b.parent, state)
	}
	if rules.Falls(state) {
		return t.children().letFall(r.ID, false)
	}
	return nil
}

const deleteSpan = `DELETE FROM span WHERE id = ? AND token = ?`

// deleteSpent deletes the spans that are over, except those of which a report turned out not to be
// known.
func (d *settler) deleteSpent(t *tx, spent []store.Taking) error {
	var kept map[int64]bool
	for i, v := range d.verdicts {
		if v != task.Recorded && v != task.Repeated {
			if kept == nil {
				kept = map[int64]bool{}
			}
			kept[d.reports[i].Token.Span] = true
		}
	}
	for _, s := range spent {
		if kept[s.Span] {
			continue
		}
		if _, err := t.exec(deleteSpan, s.Span, s.Token); err != nil {
			return err
		}
	}
	return nil
}
