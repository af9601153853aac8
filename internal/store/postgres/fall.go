package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A task that ended badly has its children cancelled, in pieces: a change says at which child the
// next piece begins (rules.Fall). Each piece is a transaction of its own, behind that in which
// waits end: an action locks waits and spans once.

const (
	fallsLeft = `EXISTS (SELECT FROM rota.change WHERE address >= 'f' AND address < 'g')`

	takeFalls = `WITH o AS MATERIALIZED (
  SELECT id FROM rota.change WHERE address >= 'f' AND address < 'g' ORDER BY address, id LIMIT $1
  FOR UPDATE SKIP LOCKED)
DELETE FROM rota.change c USING o WHERE c.id = o.id RETURNING c.address`

	insertFalls = `INSERT INTO rota.change (address) SELECT a FROM unnest($1::text[]) a`
)

// childrenBehind are children of tasks behind a place, at most $5 of each task, in the order of
// keys.
var childrenBehind = `SELECT f.i::int, t.batch, t.n, t.orphan
FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $6::int[]) WITH ORDINALITY
  f (batch, n, at_batch, at_n, below, i)
CROSS JOIN LATERAL (SELECT c.batch, i.n, c.orphan FROM ` +
	childBatches("f.batch, f.n", "f.at_batch", "AND run < f.below", "$5") + eachChild +
	` AND (c.batch > f.at_batch OR i.n > f.at_n)` + inTheirOrder + `) t
ORDER BY f.i, t.batch, t.n`

const (
	// fallsAtOnce is of how many tasks one look cancels children.
	fallsAtOnce = 50
	// fallAtOnce is how many children one look examines at most.
	fallAtOnce = 1000
)

// fell cancels children of tasks that ended, a piece.
func (s *waiting) fell(ctx context.Context, limit int, answer *store.Looked) error {
	var f falls
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		f = falls{tx: t, left: min(limit, fallAtOnce)}
		return f.run(ctx)
	})
	if err != nil {
		return fmt.Errorf("cancel children of what ended: %w", err)
	}
	answer.Cancelled = append(answer.Cancelled, f.cancelled...)
	answer.More = answer.More || f.more
	s.hints.tellAbout(&f.after)
	return nil
}

// falls is a piece under way.
type falls struct {
	*tx
	left      int // how many children it may still examine
	list      []rules.Fall
	children  [][]fallingChild // of each, those that come next
	next      []string         // changes that it leaves
	after     aftermath
	cancelled []task.ID
	more      bool
}

// fallingChild is a child of a task that ended.
type fallingChild struct {
	id     task.ID
	orphan bool
	fall   *rules.Fall
}

func (f *falls) run(ctx context.Context) error {
	if err := f.take(ctx); err != nil {
		return err
	}
	var last []query
	if len(f.list) > 0 {
		if err := f.read(ctx); err != nil {
			return err
		}
		below, err := f.cancel(ctx)
		if err != nil {
			return err
		}
		last = append(last, below...)
	}
	if len(f.next) > 0 {
		last = append(last, tell(insertFalls, f.next))
	}
	return f.finish(ctx, append(last, ask(`SELECT `+fallsLeft+` OR `+endsLeft, func(r row) error {
		return r.Scan(&f.more)
	}))...)
}

// take deletes the changes.
func (f *falls) take(ctx context.Context) error {
	var texts []string
	if err := f.tx.run(ctx, ask(takeFalls, func(r row) error {
		var text string
		err := r.Scan(&text)
		texts = append(texts, text)
		return err
	}, fallsAtOnce)); err != nil {
		return err
	}
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		fall, err := rules.ParseFall(text)
		if err != nil {
			return err
		}
		f.list = append(f.list, fall)
	}
	return nil
}

// read reads the children that come next.
func (f *falls) read(ctx context.Context) error {
	var parents, places []task.ID
	for i := range f.list {
		parents = append(parents, f.list[i].Parent)
		place := f.list[i].After
		if place == (task.ID{}) {
			place.N = -1
		}
		places = append(places, place)
	}
	below, err := f.runsBelow(ctx, parents)
	if err != nil {
		return err
	}
	f.children = make([][]fallingChild, len(parents))
	batches, ns := idColumns(parents)
	atBatch, atN := idColumns(places)
	return f.tx.run(ctx, ask(childrenBehind, func(r row) error {
		var i int
		var c fallingChild
		err := r.Scan(&i, &c.id.Batch, &c.id.N, &c.orphan)
		f.children[i-1] = append(f.children[i-1], c)
		return err
	}, batches, ns, atBatch, atN, f.left, below))
}

// runsBelow says below which run children of each task fall: if it began anew meanwhile, those of
// its present run do not.
func (f *falls) runsBelow(ctx context.Context, parents []task.ID) ([]int32, error) {
	facts := make([]fact, len(parents))
	runs := make([]int32, len(parents))
	var keys keyColumns
	for _, id := range parents {
		keys.add(id, math.MaxInt32)
	}
	err := f.tx.run(ctx, append(factsOf(parents, false, facts), ask(runsOf, func(r row) error {
		var i int
		var run int32
		err := r.Scan(&i, &run)
		runs[i-1] = run
		return err
	}, keys.batch, keys.n, keys.seq))...)
	for i := range runs {
		if p := &facts[i]; p.ID == (task.ID{}) || p.Base == store.Final {
			runs[i] = math.MaxInt32
		}
	}
	return runs, err
}

// cancel cancels children as actions do, but those that a fall does not hit. Below those that are
// not cancelled with their tree, others may be.
func (f *falls) cancel(ctx context.Context) ([]query, error) {
	var actions []store.Action
	var children []fallingChild
	for i, list := range f.children {
		fall := f.list[i]
		if f.left > 0 {
			list = list[:min(len(list), f.left)]
			for _, c := range list {
				c.fall, fall.After = &f.list[i], c.id
				children = append(children, c)
				actions = append(actions, fall.Of(c.id))
			}
			if f.left -= len(list); f.left > 0 {
				continue
			}
		}
		f.next = append(f.next, fall.String())
	}
	acted := make([]store.Acted, len(actions))
	for _, round := range rounds(actions) {
		f.falling = make(map[task.ID]fallingChild, len(round))
		for _, i := range round {
			f.falling[children[i].id] = children[i]
		}
		if err := f.actRound(ctx, actions, round, acted, &f.after); err != nil {
			return nil, err
		}
	}
	var below fallColumns
	for i := range acted {
		if acted[i].Changed {
			f.cancelled = append(f.cancelled, acted[i].ID)
		} else if actions[i].Tree {
			below.add(rules.Fall{Parent: acted[i].ID, Tree: true})
		}
	}
	slices.SortFunc(f.cancelled, task.ID.Compare)
	return below.queries(), nil
}
