package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// Act cancels, moves, replays, edits or removes tasks. See contract.Steps. Actions
// on different tasks go together; those on the same one follow one another.
func (s *steps) Act(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
	var acted []store.Acted
	var after aftermath
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		acted, after = make([]store.Acted, len(actions)), aftermath{}
		if len(actions) == 0 {
			return t.finish(ctx, ask(countClock, nil, s.clock()))
		}
		for _, round := range rounds(actions) {
			if err := t.actRound(ctx, actions, round, acted, &after); err != nil {
				return err
			}
		}
		return t.finish(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("act on %d tasks: %w", len(actions), err)
	}
	s.hints.tellAbout(&after)
	for i := range acted {
		if held := acted[i].Held; held != "" {
			s.hints.hint(Hint{Node: held, Tasks: []task.ID{acted[i].ID}, Want: true})
		}
	}
	var refused []store.Value
	for i := range actions {
		if e := actions[i].Edit; e != nil && e.Context != nil && !acted[i].Changed {
			refused = append(refused, *e.Context)
		}
	}
	if len(refused) > 0 {
		s.values.dropUnused(ctx, refused)
	}
	return acted, nil
}

// aftermath is whom actions concern.
type aftermath struct {
	queues map[string]bool
	nodes  map[string][]task.ID
}

func (a *aftermath) note(f *fact, again bool) {
	if a.queues == nil {
		a.queues, a.nodes = map[string]bool{}, map[string][]task.ID{}
	}
	if again {
		a.queues[f.Queue] = true
	}
	if node := f.Owner.Holder.Node; node != "" {
		a.nodes[node] = append(a.nodes[node], f.ID)
	}
}

// rounds parts actions, by index, so that no task comes twice in one round. In each they are sorted
// by task.
func rounds(actions []store.Action) (list [][]int) {
	seen := map[task.ID]int{}
	for i := range actions {
		k := seen[actions[i].ID]
		seen[actions[i].ID]++
		if k == len(list) {
			list = append(list, nil)
		}
		list[k] = append(list[k], i)
	}
	for _, round := range list {
		slices.SortFunc(round, func(a, b int) int { return actions[a].ID.Compare(actions[b].ID) })
	}
	return list
}

// errOvertaken: others recorded steps, again and again, where an action wanted to.
var errOvertaken = errors.New("the tasks change too fast")

// actRound does one action to each of some tasks. Where somebody else records a step just now, it
// looks again at what came of it.
func (t *tx) actRound(
	ctx context.Context, actions []store.Action, round []int, acted []store.Acted, after *aftermath,
) error {
	for range tries * tries {
		overtaken, err := t.actOnce(ctx, actions, round, acted, after)
		if err != nil || len(overtaken) == 0 {
			return err
		}
		round = overtaken
	}
	return fmt.Errorf("%w: %w", store.ErrBusy, errOvertaken)
}

// acting is an action that is about to happen.
type acting struct {
	i    int // of the action
	f    *fact
	step store.Step
}

// findMarks finds the steps that actions made.
const findMarks = `SELECT w.batch, w.n
FROM unnest($1::bigint[], $2::int[], $3::bigint[]) w (batch, n, mark)
CROSS JOIN LATERAL (SELECT FROM rota.step WHERE batch = w.batch AND n = w.n AND token = -1
AND hash = w.mark LIMIT 1) p WHERE w.mark <> 0`

// actOnce does those actions of a round that it can: overtaken are the others.
func (t *tx) actOnce(
	ctx context.Context, actions []store.Action, round []int, acted []store.Acted, after *aftermath,
) (overtaken []int, err error) {
	for _, i := range round {
		acted[i] = store.Acted{ID: actions[i].ID}
	}
	facts, err := t.readActs(ctx, actions, round)
	if err != nil {
		return nil, err
	}
	list, overtaken, err := t.decide(actions, round, facts, acted)
	if err != nil || len(list) == 0 {
		return overtaken, err
	}
	inserted, err := t.insertAsked(ctx, list)
	if err != nil {
		return nil, err
	}
	done := list[:0]
	for _, a := range list {
		if inserted[a.f.ID] {
			done = append(done, a)
			after.note(a.f, a.step.Base != store.Final)
		} else {
			overtaken = append(overtaken, a.i)
		}
	}
	return overtaken, t.follow(ctx, actions, done, acted)
}

// actFacts are what a round of actions is decided by.
type actFacts struct {
	found    []fact                   // the tasks, in the order of the round
	repeated map[task.ID]bool         // tasks to which the same action was done before
	begins   map[task.ID]*rules.Begin // where replays let them begin
	owners   owners                   // the spans that are locked, of tasks that are to be edited
	ending   held                     // the spans that are shared, of tasks that are to end
	now      int64
}

// readActs locks what the actions of a round must find unchanged until they are committed, and
// reads what they are decided by.
func (t *tx) readActs(
	ctx context.Context, actions []store.Action, round []int,
) (*actFacts, error) {
	ids := make([]task.ID, len(round))
	marks := make([]int64, len(round))
	for k, i := range round {
		ids[k], marks[k] = actions[i].ID, actions[i].Mark
	}
	facts := &actFacts{
		found: make([]fact, len(ids)), repeated: map[task.ID]bool{},
		owners: owners{}, ending: held{},
	}
	batches, ns := idColumns(ids)
	queries := []query{tell(sharePackRows, batches, ns),
		ask(countClock, func(r row) error { return r.Scan(&facts.now) }, t.clock())}
	queries = append(queries, t.lockingWaits(ids)...)
	queries = append(queries, t.lockingDependencies(actions)...)
	queries = append(queries, facts.ending.sharing(actions, round)...)
	if editing, h := editsOf(actions, round); len(editing) > 0 {
		queries = append(queries, facts.owners.locking(editing, h)...)
	}
	queries = append(queries, factsOf(ids, false, facts.found)...)
	queries = append(queries, ask(findMarks, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		facts.repeated[id] = true
		return err
	}, batches, ns, marks))
	queries = append(queries, t.readDependencies(actions)...)
	if err := t.run(ctx, queries...); err != nil {
		return nil, err
	}
	var err error
	facts.begins, err = t.begins(ctx, actions, round, facts.found)
	if err == nil {
		err = t.noteBegun(ctx, actions, round, facts.found)
	}
	return facts, err
}

// decide answers the actions of a round, and lists those that are to be written. Of those that are
// overtaken it is not known how their tasks stand.
func (t *tx) decide(
	actions []store.Action, round []int, facts *actFacts, acted []store.Acted,
) (list []acting, overtaken []int, err error) {
	for k, i := range round {
		f := &facts.found[k]
		if f.ID == (task.ID{}) {
			continue
		}
		if f.Owner.Parked() && !t.waits[f.ID] {
			return nil, nil, errWentOn
		}
		if facts.owners.missed(f, &actions[i]) || facts.ending.missed(f, &actions[i]) {
			overtaken = append(overtaken, i)
			continue
		}
		if c, falls := t.falling[f.ID]; falls && !c.fall.Hits(&f.Fact, c.orphan) {
			continue
		}
		var step *store.Step
		acted[i], step = rules.Act(&f.Fact, &actions[i], facts.repeated[f.ID], facts.begins[f.ID],
			facts.now)
		if step != nil {
			list = append(list, acting{i, f, *step})
		}
	}
	return list, overtaken, nil
}

// findBegins finds the first stages of tasks (those with NULL), or the steps with which they first
// came to others.
const findBegins = `SELECT w.batch, w.n, coalesce(p.stage, t.stage), coalesce(p.context_seq, -1)
FROM unnest($1::bigint[], $2::int[], $3::text[]) w (batch, n, stage)
CROSS JOIN LATERAL rota.task(w.batch, w.n) t
LEFT JOIN LATERAL (SELECT coalesce(stage, ran) AS stage, context_seq FROM rota.step
  WHERE batch = w.batch AND n = w.n AND coalesce(stage, ran) = w.stage ORDER BY seq
  LIMIT 1) p ON w.stage <> t.stage
WHERE w.stage IS NULL OR coalesce(p.stage, t.stage) = w.stage`

// begins are where replays let tasks begin that do not go on where they ended: the stage, and where
// its context stands. Those that never were there are left out. found are the tasks of the round.
func (t *tx) begins(
	ctx context.Context, actions []store.Action, round []int, found []fact,
) (map[task.ID]*rules.Begin, error) {
	var ids []task.ID
	var stages []*string
	for k, i := range round {
		r := found[k].Begins(actions[i].Replay)
		if actions[i].Kind == task.KindReplayed && r != (store.Replay{}) {
			ids = append(ids, actions[i].ID)
			stages = append(stages, r.Stage)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	begins := make(map[task.ID]*rules.Begin, len(ids))
	batches, ns := idColumns(ids)
	err := t.run(ctx, ask(findBegins, func(r row) error {
		var id task.ID
		var b rules.Begin
		err := r.Scan(&id.Batch, &id.N, &b.Stage, &b.ContextSeq)
		begins[id] = &b
		return err
	}, batches, ns, stages))
	if err == nil {
		err = t.replaced(ctx, begins)
	}
	return begins, err
}

// insertAsked inserts steps that nobody reported: no report has their token, -1. At seq 0 the locks
// of their packs are shared by now, so that nobody marks the task as done meanwhile; who did before
// stands in the way as a step would.
var insertAsked = `INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt,
base, kind, ran, stage, worker, context_seq, due, error, context, result)
SELECT a.batch, a.n, a.seq, -1, a.hash, a.started, a.finished, a.attempt, a.base, a.kind, '',
nullif(a.stage, ''), nullif(a.worker, ''),
  nullif(a.context_seq, -1), nullif(a.due, 0), nullif(a.error, ''), a.context,
  a.result
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::int[], $6::int[], $7::int[],
$8::text[], $9::text[], $10::int[], $11::bigint[], $12::text[],
  $13::bigint[], $14::bigint[], $15::bytea[], $16::bytea[]) a (batch, n, seq, finished, attempt,
  base, kind, stage, worker, context_seq, due, error, started, hash, context, result)
WHERE NOT (a.seq = 0 AND ` + isMarked("a.batch", "a.n") + `)
ORDER BY a.batch, a.n ON CONFLICT DO NOTHING RETURNING batch, n`

// insertAsked inserts the steps and says where: at the others somebody else's stands by now.
func (t *tx) insertAsked(ctx context.Context, list []acting) (map[task.ID]bool, error) {
	inserted := make(map[task.ID]bool, len(list))
	var batches, hashes, started, finished, dues []int64
	var ns, seqs, attempts, bases, kinds, contexts []int32
	var stages, workers, errs []string
	var texts, results [][]byte
	var first []task.ID
	for i := range list {
		f, s := list[i].f, &list[i].step
		if f.Seq < 0 {
			first = append(first, f.ID)
		}
		batches = append(batches, f.ID.Batch)
		ns = append(ns, f.ID.N)
		seqs = append(seqs, f.Seq+1)
		hashes = append(hashes, s.Hash)
		started = append(started, s.Started)
		finished = append(finished, s.Finished)
		dues = append(dues, s.Due)
		attempts = append(attempts, s.Attempt)
		bases = append(bases, s.Base)
		kinds = append(kinds, int32(s.Kind))
		contexts = append(contexts, s.ContextSeq)
		stages = append(stages, s.Stage)
		workers = append(workers, printable(s.Worker))
		errs = append(errs, printable(s.Error))
		texts = append(texts, s.Context)
		results = append(results, s.Result)
	}
	err := t.run(ctx, append(sharing(firstOf(first)), ask(insertAsked, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		inserted[id] = true
		return err
	}, batches, ns, seqs, finished, attempts, bases, kinds, stages, workers, contexts, dues, errs,
		started, hashes, texts, results))...)
	return inserted, err
}

const (
	// deleteLone deletes free spans of one task.
	deleteLone = `WITH o AS MATERIALIZED (
  SELECT id FROM rota.span WHERE id = ANY($1::bigint[]) AND holder IS NULL AND lo = hi
  ORDER BY id FOR UPDATE SKIP LOCKED)
DELETE FROM rota.span s USING o WHERE s.id = o.id`
	// shrinkSpans takes tasks out of the sizes of spans, which it locks one after the other, in the
	// order in which they are numbered. It counts those that the spans still cover by then: of a
	// span that somebody has parted meanwhile some tasks may be in another one: see shrinkParts.
	shrinkSpans = `UPDATE rota.span s SET size = size - k.n::int FROM (
  SELECT o.id, c.n FROM (SELECT id, array_agg(n) AS ns
    FROM unnest($1::bigint[], $2::int[]) w (id, n) GROUP BY id ORDER BY id OFFSET 0) w
  CROSS JOIN LATERAL (SELECT id, lo, hi FROM rota.span WHERE id = w.id AND token = 0 FOR UPDATE) o
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(w.ns) n WHERE n BETWEEN o.lo AND o.hi) c
  OFFSET 0) k
WHERE s.id = k.id`
	// shrinkParts comes behind shrinkSpans, with the same tasks: it takes those that are in other
	// spans by now out of the sizes of these, where nobody held them yet. A span that somebody has
	// locked is about to be taken, and then its size is nothing.
	shrinkParts = `UPDATE rota.span s SET size = size - k.n::int FROM (
  SELECT o.id, c.n FROM (SELECT x.id, array_agg(w.n) AS ns
    FROM unnest($1::bigint[], $2::int[]) w (id, n)
    CROSS JOIN LATERAL (SELECT batch, seq0 FROM rota.span
      WHERE id = w.id AND w.n NOT BETWEEN lo AND hi OFFSET 0) f
    CROSS JOIN LATERAL (SELECT id FROM rota.span WHERE batch = f.batch AND seq0 = f.seq0
      AND lo <= w.n ORDER BY lo DESC LIMIT 1) x
    GROUP BY x.id ORDER BY x.id OFFSET 0) w
  CROSS JOIN LATERAL (SELECT id, lo, hi FROM rota.span WHERE id = w.id AND token = 0
    FOR UPDATE SKIP LOCKED) o
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(w.ns) n WHERE n BETWEEN o.lo AND o.hi) c
  OFFSET 0) k
WHERE s.id = k.id`
)

// follow does what follows from actions that happened: tasks leave their spans, and may move into
// ones of their own.
func (t *tx) follow(
	ctx context.Context, actions []store.Action, done []acting, acted []store.Acted,
) error {
	l := acts{tx: t, counts: newStats()}
	for i := range done {
		l.add(&actions[done[i].i], &done[i], acted[done[i].i].Was)
	}
	out, err := t.movesOut(ctx, l.moves)
	if err != nil {
		return err
	}
	list := append(l.queries(), out...)
	// whoever added children to a hand-out is over, as its running row is deleted
	list = slices.Concat(list, l.ends.queries(nil), l.falls.queries(),
		l.reopened.queries(t.clock()),
		ended(l.over).queries(func(address string) { t.noted = append(t.noted, address) }))
	if len(list) == 0 {
		return nil
	}
	return t.run(ctx, list...)
}

// acts are what follows from actions that happened in one transaction.
type acts struct {
	*tx
	counts   stats
	hands    keyColumns // whose running rows end, from these seqs on
	replayed keyColumns
	lone     []int64 // spans that tasks leave which are theirs alone,
	wide     []int64 // and, once for each task, those with others,
	leaves   []int32 // with the tasks' numbers
	moves    []moved // tasks that go into spans of their own
	edits    editColumns
	waits    leaving
	ends     endings
	falls    fallColumns
	over     []task.ID
	reopened again
	overtook []int64 // batches of tasks that were over
}

// add takes in an action on a task that was in a state.
func (l *acts) add(action *store.Action, a *acting, was task.State) {
	f := a.f
	rules.CountAct(l.ends.of(f.ID.Batch), a.step.Kind, was)
	ended := !was.Final() && a.step.Base == store.Final
	if action.Tree || ended {
		l.falls.add(rules.Fall{Parent: f.ID, Tree: action.Tree})
	}
	if ended {
		l.over = append(l.over, f.ID)
	}
	if was.Final() {
		l.overtook = append(l.overtook, f.ID.Batch)
	}
	switch a.step.Kind {
	case task.KindCancelled:
		l.counts.Of(f.Queue).Cancelled++
		l.counts.history.Cancelled(a.step.Finished, f.Queue, f.Stage)
	case task.KindRemoved:
		l.counts.Of(f.Queue).Gone(was)
	case task.KindReplayed:
		*l.counts.Of(f.Queue).Final(was)--
		l.replayed.add(f.ID, f.Seq+1)
	case task.KindEdited:
		l.edits.add(f.ID, f.Seq+1, &a.step)
	}
	l.waits.add(l.tx, f, a.step.Kind == task.KindEdited)
	if f.Running != nil || ended { // one may have come since, and children under it
		l.hands.add(f.ID, f.Seq+1)
	}
	switch sp := &f.Owner; {
	case sp.ID == 0:
	case sp.Parked():
		l.waits.parked = append(l.waits.parked, sp.ID)
	case f.Alone():
		l.lone = append(l.lone, sp.ID)
	default:
		l.wide = append(l.wide, sp.ID)
		l.leaves = append(l.leaves, f.ID.N)
	}
	if a.step.Base == store.Final {
		return
	}
	to := f.MoveOf(action, &a.step)
	if a.step.Kind == task.KindReplayed && l.reopened.add(f.ID, f.Seq+1, l.depend[f.ID]) {
		to = *store.Parked()
		l.tx.waits[f.ID] = true // its row is this transaction's own: the next action may find it
	}
	l.moves = append(l.moves, moved{f.ID, f.Seq + 1, f.Queue, to})
}

// queries make what was taken in so, up to where tasks that leave their spans go.
func (l *acts) queries() []query {
	list := slices.Concat(l.counts.queries(), l.waits.queries(), l.edits.queries())
	if len(l.hands.batch) > 0 {
		list = append(list, tell(deleteRunning, l.hands.batch, l.hands.n, l.hands.seq))
	}
	if len(l.lone) > 0 {
		list = append(list, tell(deleteLone, l.lone))
	}
	if len(l.wide) > 0 {
		list = append(list, tell(shrinkSpans, l.wide, l.leaves),
			tell(shrinkParts, l.wide, l.leaves))
	}
	if len(l.replayed.batch) > 0 {
		list = append(list, tell(reopenFires, l.replayed.batch, l.replayed.n, l.replayed.seq))
	}
	if len(l.overtook) > 0 {
		list = append(list, tell(overtakeReadings, distinct(l.overtook)))
	}
	return list
}
