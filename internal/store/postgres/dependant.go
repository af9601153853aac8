package postgres

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// What a look at the ends of tasks (afterend.go) does to those who wait for them.

const (
	// endDependencies notes how tasks ended, in those rows that are still open.
	endDependencies = `WITH o AS MATERIALIZED (
  SELECT d.batch, d.n, d.i, w.state, w.seq
  FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::int[]) w (batch, n, i, state, seq)
  JOIN rota.dependency d ON d.batch = w.batch AND d.n = w.n AND d.i = w.i AND d.state IS NULL
  ORDER BY d.batch, d.n, d.i FOR UPDATE OF d)
UPDATE rota.dependency d SET state = o.state, seq = o.seq FROM o
WHERE d.batch = o.batch AND d.n = o.n AND d.i = o.i RETURNING d.batch, d.n, d.i`

	// waitsWithOpen reads waits, and whether a dependency of who waits is open.
	waitsWithOpen = `SELECT ` + waitColumnList + `, EXISTS (SELECT FROM rota.dependency
  WHERE batch = w.batch AND n = w.n AND state IS NULL)
FROM unnest($1::bigint[], $2::int[]) i (batch, n)
JOIN rota.wait w ON w.batch = i.batch AND w.n = i.n`

	lockParked = `SELECT FROM rota.span WHERE id = ANY($1::bigint[]) AND holder IS NULL
ORDER BY id FOR UPDATE`
)

// follow notes how tasks ended, and wakes or cancels who waits for them.
func (e *endLook) follow(ctx context.Context) error {
	var who []task.ID
	for i := range e.chosen {
		who = append(who, e.chosen[i].who)
	}
	slices.SortFunc(who, task.ID.Compare)
	who = slices.Compact(who)
	unfit, err := e.noteEnds(ctx, who)
	if err != nil {
		return err
	}
	list, err := e.dependants(ctx, who)
	if err != nil {
		return err
	}
	var actions []store.Action
	var owners []int64
	for i, id := range who {
		w := &list[i]
		d, noted := unfit[id]
		if w.waits && !e.tx.waits[id] { // it was replayed meanwhile
			return errWentOn
		}
		if !w.waits || !noted || !w.wait.OfOthers() || !w.wait.Ends(&w.Fact) {
			continue
		}
		switch {
		case d != nil:
			actions = append(actions, rules.Unfit(id, &d.Dependency, d.state))
		case w.open:
			continue
		default:
			e.look.waits = append(e.look.waits, w.wait)
			e.facts = append(e.facts, w.fact)
		}
		owners = append(owners, w.Owner.ID)
	}
	if len(owners) == 0 {
		return nil
	}
	slices.Sort(owners)
	if err := e.tx.run(ctx, tell(lockParked, slices.Compact(owners))); err != nil {
		return err
	}
	if err := e.cancel(ctx, actions); err != nil {
		return err
	}
	by := map[int]store.Woken{}
	for i := range e.look.waits {
		by[i] = store.Woken{Others: true}
	}
	return e.wake(ctx, by)
}

// noteEnds locks those who wait for what ended, and notes how it did. It answers whose notes this
// look wrote, each with the first of them that does not fit; nil = all do.
func (e *endLook) noteEnds(
	ctx context.Context, who []task.ID,
) (unfit map[task.ID]*endedFor, err error) {
	type place struct {
		id task.ID
		i  int32
	}
	var rows keyColumns // the place of each stands as seq
	var states []string
	var seqs []int32
	for i := range e.chosen {
		d := &e.chosen[i]
		rows.add(d.who, d.i)
		states = append(states, string(d.state))
		seqs = append(seqs, d.seq)
	}
	batches, ns := idColumns(who)
	noted := map[place]bool{}
	unfit = map[task.ID]*endedFor{}
	queries := append([]query{tell(sharePackRows, batches, ns)}, e.lockingWaits(who)...)
	err = e.tx.run(ctx, append(queries, ask(endDependencies, func(r row) error {
		var at place
		err := r.Scan(&at.id.Batch, &at.id.N, &at.i)
		noted[at], unfit[at.id] = true, nil
		return err
	}, rows.batch, rows.n, rows.seq, states, seqs))...)
	for i := range e.chosen {
		d := &e.chosen[i]
		if noted[place{d.who, d.i}] && unfit[d.who] == nil &&
			!rules.Fits(&d.Dependency, d.state) {
			unfit[d.who] = d
		}
	}
	return unfit, err
}

// dependant is how a task stands that waited for others. It may wait for something else by now, or
// for nothing.
type dependant struct {
	fact
	waits bool
	wait  rules.Wait // with waits
	open  bool       // not all that it waits for has ended
}

// dependants reads how tasks stand, in the order of who.
func (e *endLook) dependants(ctx context.Context, who []task.ID) ([]dependant, error) {
	batches, ns := idColumns(who)
	facts := make([]fact, len(who))
	list := make([]dependant, len(who))
	err := e.tx.run(ctx, append(factsOf(who, false, facts), ask(waitsWithOpen, func(r row) error {
		var w rules.Wait
		var open bool
		err := r.Scan(&w.ID.Batch, &w.ID.N, &w.Seq, &w.Address, &w.Since, &w.Until, &w.Else,
			&w.First, &open)
		if i, found := slices.BinarySearchFunc(who, w.ID, task.ID.Compare); found {
			list[i].waits, list[i].wait, list[i].open = true, w, open
		}
		return err
	}, batches, ns))...)
	for i := range facts {
		list[i].fact = facts[i]
	}
	return list, err
}

// cancel cancels who waits for what did not end as it should.
func (e *endLook) cancel(ctx context.Context, actions []store.Action) error {
	if len(actions) == 0 {
		return nil
	}
	acted := make([]store.Acted, len(actions))
	for _, round := range rounds(actions) {
		if err := e.actRound(ctx, actions, round, acted, &e.after); err != nil {
			return err
		}
	}
	for i := range acted {
		if acted[i].Changed {
			e.cancelled = append(e.cancelled, acted[i].ID)
		}
	}
	return nil
}
