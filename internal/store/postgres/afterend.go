package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A look at the ends of tasks is a transaction of its own, behind that in which other waits end. It
// deletes changes, and reads how the tasks stand that they are of. Those that are over: it locks
// who waits for them, packs, waits and then the dependencies, notes how they ended, and reads, by a
// later statement, who waits for nobody any more. So of two looks behind the last two ends the one
// that comes second sees both.
//
// A task that is not over may be ended just now by a transaction that could not see the dependency:
// it asked before that was committed. Such a transaction had inserted its step before it asked, so
// it had its id by then; and the look that finds the change gets its own id behind the commit that
// left the change. So the ids of all such transactions are less than the look's: its horizon. As
// long as any transaction is in progress whose id is less, the end stays in table unseen, and looks
// come back to it. The snapshot by which they judge is taken before they read how the task stands.
// (What a snapshot calls xmax is no horizon: it is less than ids that were given out already, as
// long as no later one is over.) A transaction that ends a task by an older snapshot than its own
// id must not ask: see the function finish.

const (
	// endsLeft tells whether there are changes at ends.
	endsLeft = `EXISTS (SELECT FROM rota.change WHERE address >= 'e' AND address < 'f')`

	takeEnds = `WITH o AS MATERIALIZED (
  SELECT id FROM rota.change WHERE address >= 'e' AND address < 'f' ORDER BY address, id LIMIT $1
  FOR UPDATE SKIP LOCKED)
DELETE FROM rota.change c USING o WHERE c.id = o.id RETURNING c.address`

	// unseenEnds are those behind a place.
	unseenEnds = `SELECT id, address, horizon FROM rota.unseen WHERE id > $1 ORDER BY id LIMIT $2`

	// progressed is asked behind the changes: all transactions whose ids are less than the first
	// answer are over. The second is this transaction's id, if it has one.
	progressed = `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0)`

	insertUnseen = `INSERT INTO rota.unseen (address, horizon)
SELECT u.address, $2 FROM unnest($1::text[]) u (address)`
	deleteUnseen = `WITH o AS MATERIALIZED (
  SELECT id FROM rota.unseen WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED)
DELETE FROM rota.unseen u USING o WHERE u.id = o.id`

	// openOn are open dependencies on tasks, of each at most so many ($3): $4 in all, but the first
	// of each.
	openOn = `SELECT d.at, d.batch, d.n, ` + dependencyColumns + ` FROM (
  SELECT w.i::int AS at, d.*, row_number() OVER (ORDER BY w.i, d.batch, d.n, d.i) AS place,
    row_number() OVER (PARTITION BY w.i ORDER BY d.batch, d.n, d.i) AS among
  FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, n, most, i)
  CROSS JOIN LATERAL (SELECT * FROM rota.dependency
    WHERE on_batch = w.batch AND on_n = w.n AND state IS NULL ORDER BY batch, n, i
    LIMIT w.most) d) d
WHERE d.place <= $4 OR d.among = 1 ORDER BY d.at, d.batch, d.n, d.i`
)

const (
	// endedAtOnce is how many dependencies one look examines at most.
	endedAtOnce = 1000
	// endsTogether is of how many tasks their dependencies are read together.
	endsTogether = 64
)

// chain looks at the ends of tasks: at some, or at all where changes are left, and then at those of
// what was cancelled because of it, each link in a transaction of its own. falls tells whether
// there are children to be cancelled by then.
func (s *waiting) chain(
	ctx context.Context, list []store.Address, limit int, answer *store.Looked,
) (falls bool, err error) {
	around := len(list) == 0
	left := min(limit, endedAtOnce)
	some := false
	for range store.ChainAtOnce {
		var e endLook
		if e, err = s.ended(ctx, list, left, answer); err != nil {
			return false, err
		}
		left, some, falls = e.left, e.some, e.falls
		list = nil
		slices.Sort(e.noted)
		for _, text := range slices.Compact(e.noted) {
			a, err := store.ParseAddress(text)
			if err != nil {
				return false, err
			}
			list = append(list, a)
		}
		if len(list) == 0 {
			break
		}
	}
	answer.More = answer.More || len(list) > 0 || around && some
	return falls, nil
}

// ended is one link of a chain.
func (s *waiting) ended(
	ctx context.Context, list []store.Address, left int, answer *store.Looked,
) (e endLook, err error) {
	least := ask(leastUntil, func(r row) error { return r.Scan(&answer.NextUntil) })
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		answer.NextUntil = 0
		e = endLook{
			look: look{tx: t, Looked: &store.Looked{}}, asked: list, left: left,
			around: len(list) == 0, behind: s.unseenAt.Load(),
		}
		if err := e.run(ctx); err != nil {
			return err
		}
		return e.finish(ctx, append(e.last(), least,
			ask(`SELECT `+endsLeft+`, `+fallsLeft, func(r row) error {
				return r.Scan(&e.some, &e.falls)
			}))...)
	})
	if err != nil {
		return e, fmt.Errorf("look who waits for what ended: %w", err)
	}
	if e.around {
		s.unseenAt.Store(e.at)
	}
	answer.Now = max(answer.Now, e.Now)
	answer.Ended += e.Ended
	answer.More = answer.More || e.More
	answer.Cancelled = append(answer.Cancelled, e.cancelled...)
	for _, r := range e.Ready {
		answer.Ready = rules.AddReady(answer.Ready, r)
	}
	s.hints.tellAbout(&e.after)
	return e, nil
}

// endLook is a look at ends under way.
type endLook struct {
	look
	asked  []store.Address
	around bool
	left   int // how many dependencies it may still examine

	some, falls bool // there are changes at ends in the end, and children to be cancelled

	changed map[string]bool // at which addresses it has deleted changes
	behind  int64           // behind which row of unseen it begins
	unseen  []unseenEnd
	at      int64 // the last of them; 0 = there are none behind it
	// all transactions are over whose ids are less than past; its own id, 0 = none
	past, mine int64

	targets []store.Address // by their text, each once
	states  []rules.Fact    // how those stand
	known   []bool
	chosen  []endedFor
	later   []string // ends at which to look again,
	unsure  []string // and which may have come unseen
	settled []int64  // rows of unseen that go

	after     aftermath
	cancelled []task.ID
}

// unseenEnd is a row of that table.
type unseenEnd struct {
	id, horizon int64
	address     string
}

// endedFor is a dependency on a task that is over.
type endedFor struct {
	dependency
	who task.ID
}

func (e *endLook) run(ctx context.Context) error {
	if err := e.take(ctx); err != nil || len(e.targets) == 0 {
		return err
	}
	if err := e.choose(ctx); err != nil {
		return err
	}
	e.note()
	if len(e.chosen) == 0 {
		return nil
	}
	return e.follow(ctx)
}

// take deletes the changes, and reads how the tasks stand at whose ends they are.
func (e *endLook) take(ctx context.Context) error {
	e.changed = map[string]bool{}
	taken := 0
	take := func(r row) error {
		var address string
		err := r.Scan(&address)
		e.changed[address] = true
		taken++
		return err
	}
	var texts []string
	queries := []query{ask(countClock, func(r row) error { return r.Scan(&e.Now) }, e.clock())}
	if e.around {
		queries = append(queries, ask(takeEnds, take, changesAtOnce), ask(unseenEnds, e.scanUnseen,
			e.behind, changesAtOnce))
	} else {
		for _, a := range e.asked {
			texts = append(texts, a.String())
		}
		queries = append(queries, ask(takeChangesAt, func(r row) error {
			var address string
			var c task.Children
			err := r.Scan(&address, &c.Total, &c.Done, &c.Dead, &c.Cancelled, &c.Expired)
			e.changed[address] = true
			taken++
			return err
		}, texts, changesAtOnce))
	}
	if err := e.tx.run(ctx, append(queries, ask(progressed, func(r row) error {
		return r.Scan(&e.past, &e.mine)
	}))...); err != nil {
		return err
	}
	e.More = taken == changesAtOnce
	if len(e.unseen) == changesAtOnce {
		e.at = e.unseen[len(e.unseen)-1].id
	}
	for address := range e.changed {
		texts = append(texts, address)
	}
	for _, u := range e.unseen {
		texts = append(texts, u.address)
	}
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		a, err := store.ParseAddress(text)
		if err != nil {
			return err
		}
		e.targets = append(e.targets, a)
	}
	return e.stand(ctx)
}

func (e *endLook) scanUnseen(r row) error {
	var u unseenEnd
	err := r.Scan(&u.id, &u.address, &u.horizon)
	e.unseen = append(e.unseen, u)
	return err
}

// stand reads how the tasks stand.
func (e *endLook) stand(ctx context.Context) error {
	if len(e.targets) == 0 {
		return nil
	}
	ids := make([]task.ID, len(e.targets))
	for i, a := range e.targets {
		ids[i] = a.Task
	}
	found := make([]fact, len(ids))
	if err := e.tx.run(ctx, factsOf(ids, false, found)...); err != nil {
		return err
	}
	for i := range found {
		e.states = append(e.states, found[i].Fact)
		e.known = append(e.known, found[i].ID != task.ID{})
	}
	return nil
}

// choose reads the dependencies that it examines: as many as it may of the tasks that are over, in
// their order. Of the others it is to be known whether there are any.
func (e *endLook) choose(ctx context.Context) error {
	for from := 0; from < len(e.targets); from += endsTogether {
		part := e.targets[from:min(from+endsTogether, len(e.targets))]
		var batches []int64
		var ns, most []int32
		left := max(e.left, 0)
		for k, a := range part {
			batches = append(batches, a.Task.Batch)
			ns = append(ns, a.Task.N)
			if e.state(from+k) == "" {
				most = append(most, 1)
			} else {
				most = append(most, int32(left)+1)
			}
		}
		full := "" // the end of which some are left
		err := e.tx.run(ctx, ask(openOn, func(r row) error {
			var i int
			var d endedFor
			if err := d.scan(r, &i, &d.who.Batch, &d.who.N); err != nil {
				return err
			}
			i += from - 1
			text := e.targets[i].String()
			switch {
			case e.state(i) == "":
				e.unsure = append(e.unsure, text)
			case e.left <= 0:
				if full != text {
					full = text
					e.later = append(e.later, text)
				}
			default:
				e.left--
				d.state, d.seq = e.state(i), e.seq(i)
				e.chosen = append(e.chosen, d)
			}
			return nil
		}, batches, ns, most, left+len(part)+1))
		if err != nil {
			return err
		}
	}
	return nil
}

// state is how the i-th task ended, and seq with which step.
func (e *endLook) state(i int) task.State { return rules.EndState(&e.states[i], e.known[i]) }

func (e *endLook) seq(i int) int32 {
	if !e.known[i] || e.states[i].Removed() {
		return -1
	}
	return e.states[i].Seq
}

// note says what becomes of the changes whose tasks are not over.
func (e *endLook) note() {
	open := map[string]bool{}
	for _, text := range e.unsure {
		open[text] = true
	}
	e.unsure = slices.DeleteFunc(e.unsure, func(text string) bool {
		// at once, where nobody else was in progress
		return !e.changed[text] || e.past >= e.mine
	})
	for _, u := range e.unseen {
		// A horizon ahead of its own id is that of another cluster, which this was restored from.
		ahead := e.mine != 0 && u.horizon > e.mine
		if !open[u.address] || u.horizon <= e.past || ahead {
			e.settled = append(e.settled, u.id)
		}
	}
	e.More = e.More || len(e.later) > 0
}

// last makes the queries with which the look ends.
func (e *endLook) last() []query {
	list := e.look.last()
	if len(e.later) > 0 {
		list = append(list, tell(leaveEnds, e.later))
	}
	if len(e.unsure) > 0 {
		list = append(list, tell(insertUnseen, e.unsure, e.mine))
	}
	if len(e.settled) > 0 {
		list = append(list, tell(deleteUnseen, e.settled))
	}
	return list
}
