package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A look deletes changes, then locks the waits that may end, and then reads what they end with:
// each by a later statement than the one before. So what was committed when a change was deleted is
// seen, and what is committed later has left a change of its own. What changes say of children is
// added to their counts before waits are locked; what a wait ends with is those counts, and what
// stands of changes by then. Changes that have children cancelled are another look's (fall.go),
// and so are ends of tasks for which others wait (afterend.go).

const (
	// firstChange and leastUntil are all that there is to a look as a rule.
	firstChange = `SELECT rota.micros($1), EXISTS (SELECT FROM rota.change WHERE address < 'e')
OR EXISTS (SELECT FROM rota.change WHERE address >= 'g'), ` + endsLeft + `
OR EXISTS (SELECT FROM rota.unseen), ` + fallsLeft
	leastUntil = `SELECT until FROM rota.wait WHERE until > 0 ORDER BY until LIMIT 1`

	// takeChangesAt and takeAnyChanges pass over changes that others have just now: who has them
	// looks, or undoes it. What is left has somebody look again.
	takeChangesAt = `WITH o AS MATERIALIZED (
  SELECT id FROM rota.change WHERE address = ANY($1::text[]) ORDER BY id LIMIT $2
  FOR UPDATE SKIP LOCKED)
DELETE FROM rota.change c USING o WHERE c.id = o.id RETURNING ` + changeColumns
	takeAnyChanges = `WITH o AS MATERIALIZED (
  SELECT id FROM rota.change WHERE address < 'e' OR address >= 'g' ORDER BY id LIMIT $1
  FOR UPDATE SKIP LOCKED)
DELETE FROM rota.change c USING o WHERE c.id = o.id RETURNING ` + changeColumns
	changeColumns = `c.address, c.total, c.done, c.dead, c.cancelled, c.expired`

	// lockEnding locks waits that may end: at each address ($1) the oldest, as many as there are
	// signals for them; and with $4 those whose time is over. There are at most $3 of them. It also
	// locks all waits at addresses of children ($5), each of which has one at most: whether they
	// end is known later.
	lockEnding = `WITH clock AS MATERIALIZED (SELECT rota.micros($2) AS now),
chosen AS MATERIALIZED (
  (SELECT batch, n FROM (
    SELECT w.batch, w.n, a.i, w.since AS at
    FROM unnest($1::text[]) WITH ORDINALITY a (address, i)
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM rota.signal
      WHERE address = a.address AND used IS NULL
      AND (until = 0 OR until > (SELECT now FROM clock)) LIMIT $3) s) s
    CROSS JOIN LATERAL (SELECT batch, n, since FROM rota.wait WHERE address = a.address
      ORDER BY since, batch, n LIMIT s.n) w
    UNION ALL
    SELECT batch, n, ` + never + `, until FROM (SELECT batch, n, until FROM rota.wait
      WHERE $4 AND until > 0 AND until <= (SELECT now FROM clock)
      ORDER BY until, batch, n LIMIT $3) w) c
  GROUP BY batch, n ORDER BY min(i), min(at), batch, n LIMIT $3)
  UNION SELECT w.batch, w.n FROM unnest($5::text[]) a (address)
  JOIN rota.wait w ON w.address = a.address)
SELECT ` + waitColumnList + ` FROM chosen c JOIN rota.wait w ON w.batch = c.batch AND w.n = c.n
ORDER BY w.batch, w.n FOR UPDATE OF w`

	// lockSignals locks the oldest signals at addresses, as many as there are waits for them ($2).
	lockSignals = `WITH chosen AS MATERIALIZED (
  SELECT s.address, s.key FROM unnest($1::text[], $2::int[]) a (address, n)
  CROSS JOIN LATERAL (SELECT address, key FROM rota.signal WHERE address = a.address
    AND used IS NULL AND (until = 0 OR until > $3) ORDER BY at, key LIMIT a.n) s)
SELECT s.address, s.key, s.payload, s.sender, s.at
FROM chosen c JOIN rota.signal s ON s.address = c.address AND s.key = c.key
WHERE s.used IS NULL AND (s.until = 0 OR s.until > $3)
ORDER BY s.address, s.key FOR UPDATE OF s`

	// lookAgain has somebody look again where waits end that this look had no room for, or left to
	// the look that has their change.
	lookAgain = `INSERT INTO rota.change (address) SELECT DISTINCT a FROM unnest($1::text[]) a`

	useSignals = `UPDATE rota.signal s SET used = $3
FROM unnest($1::text[], $2::text[]) u (address, key)
WHERE s.address = u.address AND s.key = u.key`

	// leaveChanges has somebody look again where waits and signals are left.
	leaveChanges = `INSERT INTO rota.change (address)
SELECT a.address FROM unnest($1::text[]) a (address)
WHERE EXISTS (SELECT FROM rota.wait WHERE address = a.address)
AND EXISTS (SELECT FROM rota.signal WHERE address = a.address AND used IS NULL
  AND (until = 0 OR until > $2))
RETURNING id`
)

// changesAtOnce is how many changes one look deletes.
const changesAtOnce = 1000

// waiting ends the waits of blocked tasks, and cancels the children of tasks that ended badly. The
// tables signal, change, child_count and unseen are its own, and so are the rows of wait and
// dependency once they are inserted. Only a look decides what a change comes to: whoever writes
// something that may end a wait leaves a row of change in the same transaction, and a look deletes
// it.
type waiting struct {
	*database
	hints    *hints
	unseenAt atomic.Int64 // behind which row of unseen the next look without addresses begins
}

// Look ends waits. See contract.Waits.
func (s *waiting) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	answer, err := s.looks(ctx, r)
	if err != nil {
		return store.Looked{}, fmt.Errorf("look which tasks wait no longer: %w", err)
	}
	s.hints.hintWoken(answer.Ready)
	return answer, nil
}

// looks is Look with a query about what it has done.
func (s *waiting) looks(
	ctx context.Context, r store.LookRequest, then ...query,
) (answer store.Looked, err error) {
	least := ask(leastUntil, func(r row) error { return r.Scan(&answer.NextUntil) })
	around := len(r.Addresses) == 0
	asked := slices.DeleteFunc(slices.Clone(r.Addresses), func(a store.Address) bool {
		return !a.End
	})
	r.Addresses = slices.DeleteFunc(slices.Clone(r.Addresses), func(a store.Address) bool {
		return a.End
	})
	some, ends, falls := len(r.Addresses) > 0, len(asked) > 0, false
	if around {
		err = s.read(ctx, ask(firstChange, func(r row) error {
			return r.Scan(&answer.Now, &some, &ends, &falls)
		}, s.clock()), least)
		some = some || answer.NextUntil != 0 && answer.NextUntil <= answer.Now
	}
	if err == nil && some {
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			answer = store.Looked{}
			l := look{tx: t, LookRequest: r, Looked: &answer}
			if err := l.run(ctx); err != nil {
				return err
			}
			return t.finish(ctx, append(append(l.last(), least), then...)...)
		})
	}
	if around && answer.NextUntil != 0 && answer.NextUntil <= answer.Now {
		answer.More = true
	}
	if err == nil && ends && r.Limit > 0 {
		var more bool
		more, err = s.chain(ctx, asked, r.Limit, &answer)
		falls = falls || around && more
	}
	if err == nil && falls && r.Limit > 0 {
		err = s.fell(ctx, r.Limit, &answer)
	}
	return answer, err
}

// look is a look under way.
type look struct {
	*tx
	store.LookRequest
	*store.Looked
	addresses []string                  // each once, in the order in which it looks at them
	children  counted                   // at those of children: what is to be added to their counts
	sums      map[task.ID]task.Children // of children, of those whose waits are locked
	again     []string                  // addresses at which somebody has to look again
	waits     []rules.Wait
	facts     []fact                     // of the waits
	signals   map[string][]openSignal    // of addresses, oldest first
	over      keyColumns                 // waits that go
	used      struct{ at, key []string } // signals that have ended one
	parked    []int64                    // spans of tasks that are woken
	moves     []query                    // into spans of their own
	woken     history.Changes
}

// openSignal is one that has ended no wait.
type openSignal struct {
	key string
	store.Woken
}

// run does what a look does, but for what it leaves.
func (l *look) run(ctx context.Context) error {
	if err := l.lock(ctx); err != nil || len(l.waits) == 0 {
		return err
	}
	if err := l.read(ctx); err != nil {
		return err
	}
	return l.wake(ctx, l.choose())
}

// lock deletes changes, adds them to the counts of children, and locks the waits that may end.
func (l *look) lock(ctx context.Context) error {
	queries := []query{ask(countClock, func(r row) error { return r.Scan(&l.Now) }, l.clock())}
	around := len(l.Addresses) == 0
	changes := 0
	take := func(r row) error {
		var address string
		var c task.Children
		err := r.Scan(&address, &c.Total, &c.Done, &c.Dead, &c.Cancelled, &c.Expired)
		if around {
			l.addresses = append(l.addresses, address)
		}
		l.children.add(address, &c)
		changes++
		return err
	}
	trips := around
	if around {
		queries = append(queries, ask(takeAnyChanges, take, changesAtOnce))
	} else {
		for _, a := range l.Addresses {
			if text := a.String(); !slices.Contains(l.addresses, text) {
				l.addresses = append(l.addresses, text)
			}
			trips = trips || a.Children()
		}
		queries = append(queries, ask(takeChangesAt, take, l.addresses, changesAtOnce))
	}
	if trips { // what it has taken says what is to be locked
		if err := l.tx.run(ctx, queries...); err != nil {
			return err
		}
		if around {
			slices.Sort(l.addresses)
			l.addresses = slices.Compact(l.addresses)
		}
		queries = l.children.queries()
	}
	err := l.tx.run(ctx, append(queries, ask(lockEnding, func(r row) error {
		w, err := scanWait(r)
		l.waits = append(l.waits, w)
		return err
	}, ofSignals(l.addresses), l.clock(), max(l.Limit, 0), around,
		ofChildren(l.addresses)))...)
	l.More = changes == changesAtOnce
	return err
}

// ofChildren are those of some addresses that are of children, and ofSignals the others.
func ofChildren(addresses []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool {
		return !isOfChildren(a)
	})
}

func ofSignals(addresses []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), isOfChildren)
}

// read reads how the tasks stand whose waits are locked, and locks signals for them.
func (l *look) read(ctx context.Context) error {
	places := make(map[string]int, len(l.addresses))
	for i, a := range l.addresses {
		places[a] = i
	}
	place := func(w *rules.Wait) int { // those whose time alone is over come last
		if i, looked := places[w.Address]; looked {
			return i
		}
		return len(l.addresses)
	}
	slices.SortFunc(l.waits, func(a, b rules.Wait) int {
		return cmp.Or(cmp.Compare(place(&a), place(&b)), cmp.Compare(a.Since, b.Since),
			a.ID.Compare(b.ID))
	})
	ids := make([]task.ID, len(l.waits))
	count := map[string]int32{}
	for i := range l.waits {
		ids[i] = l.waits[i].ID
		count[l.waits[i].Address]++
	}
	var addresses []string
	var counts []int32
	for _, a := range ofSignals(slices.Sorted(maps.Keys(count))) {
		addresses = append(addresses, a)
		counts = append(counts, count[a])
	}
	l.facts = make([]fact, len(ids))
	l.signals = map[string][]openSignal{}
	l.sums = map[task.ID]task.Children{}
	queries := append(factsOf(ids, false, l.facts), askSums(l.waits, l.sums)...)
	err := l.tx.run(ctx, append(queries, ask(lockSignals, func(r row) error {
		var address string
		var s openSignal
		err := r.Scan(&address, &s.key, (*[]byte)(&s.Payload), &s.By, &s.At)
		l.signals[address] = append(l.signals[address], s)
		return err
	}, addresses, counts, l.Now))...)
	for _, list := range l.signals {
		slices.SortFunc(list, func(a, b openSignal) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.key, b.key))
		})
	}
	return err
}

// end is what ends a wait: its children, or the oldest signal for it; none: it goes on.
func (l *look) end(w *rules.Wait) (by store.Woken, ends bool) {
	if sum, read := l.sums[w.ID]; read {
		return store.Woken{Children: &sum}, w.Enough(sum)
	}
	if list := l.signals[w.Address]; len(list) > 0 {
		return list[0].Woken, true
	}
	return by, false
}

// use takes the signal that ends a wait from the others.
func (l *look) use(w *rules.Wait) {
	list := l.signals[w.Address]
	if w.OfChildren() || len(list) == 0 {
		return
	}
	l.signals[w.Address] = list[1:]
	l.used.at = append(l.used.at, w.Address)
	l.used.key = append(l.used.key, list[0].key)
}

// choose says what ends the waits that end, by their places: at addresses, in their order, and then
// those whose time is over. Waits that are left of tasks that went on go, too.
func (l *look) choose() map[int]store.Woken {
	ending := map[int]store.Woken{}
	var late []int
	for i := range l.waits {
		w, f := &l.waits[i], &l.facts[i]
		if f.ID == (task.ID{}) || !w.Ends(&f.Fact) {
			l.over.add(w.ID, w.Seq)
			continue
		}
		by, ends := l.end(w)
		switch {
		case ends && !w.OfChildren() && !slices.Contains(l.addresses, w.Address):
			// It came before the time was over. Another look has its change, or there was no room
			// for that one here.
			l.again = append(l.again, w.Address)
		case ends && len(ending) < l.Limit:
			ending[i] = by
			l.use(w)
		case ends && w.OfChildren(): // of signals those that are left tell
			l.again = append(l.again, w.Address)
		case ends:
		case len(l.Addresses) == 0 && w.Over(l.Now):
			late = append(late, i)
		}
	}
	slices.SortFunc(late, func(i, k int) int {
		a, b := &l.waits[i], &l.waits[k]
		return cmp.Or(cmp.Compare(a.Until, b.Until), a.ID.Compare(b.ID))
	})
	for _, i := range late[:max(0, min(len(late), l.Limit-len(ending)))] {
		ending[i] = store.Woken{TimedOut: true}
	}
	return ending
}

// wake ends the waits that end. Their rows are locked, so nobody else wakes the tasks, and nothing
// else happens to them.
func (l *look) wake(ctx context.Context, ending map[int]store.Woken) error {
	var list []acting
	var moves []moved
	for i := range l.waits {
		by, ends := ending[i]
		if !ends {
			continue
		}
		w, f := &l.waits[i], &l.facts[i]
		step, to, err := rules.Wake(&f.Fact, w, by, l.Now)
		if err != nil {
			return fmt.Errorf("wake task %s: %w", f.ID, err)
		}
		list = append(list, acting{f: f, step: step})
		moves = append(moves, moved{w.ID, w.Seq, f.Queue, to})
		l.over.add(w.ID, w.Seq)
		l.parked = append(l.parked, f.Owner.ID)
		l.woken.Woken(l.Now, f.Queue, step.Stage)
		l.Ready = rules.AddReady(l.Ready, store.Ready{Queue: f.Queue, Rank: to.Rank})
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b acting) int { return a.f.ID.Compare(b.f.ID) })
	inserted, err := l.insertAsked(ctx, list)
	if err != nil {
		return err
	}
	if l.Ended = len(inserted); l.Ended != len(list) {
		return fmt.Errorf("wake %d tasks: %w", len(list), errWentOn)
	}
	l.moves, err = l.movesOut(ctx, moves)
	return err
}

// last makes the queries with which a look ends.
func (l *look) last() (list []query) {
	if len(l.over.batch) > 0 {
		list = append(list, tell(deleteWaits, l.over.batch, l.over.n))
	}
	if len(l.used.key) > 0 {
		list = append(list, tell(useSignals, l.used.at, l.used.key, l.Now))
	}
	if len(l.parked) > 0 {
		list = append(list, tell(leaveParked, l.parked))
	}
	list = append(list, l.moves...)
	if body := l.woken.Encode(); body != nil {
		list = append(list, tell(insertChange, body))
	}
	if len(l.again) > 0 {
		l.More = true
		list = append(list, tell(lookAgain, l.again))
	}
	if at := ofSignals(l.addresses); len(at) > 0 {
		list = append(list, ask(leaveChanges, func(row) error {
			l.More = true
			return nil
		}, at, l.Now))
	}
	return list
}
