package postgres

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	// addCounts adds up in the order of keys; looks at one parent come one after the other from
	// here on. The packs of the parents are shared: of one that is gone nothing is kept, and none
	// goes meanwhile.
	addCounts = `INSERT INTO rota.child_count AS c (batch, n, run, total, done, dead, cancelled,
expired)
SELECT i.batch, i.n, i.run, i.total, i.done, i.dead, i.cancelled, i.expired
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[],
$7::bigint[], $8::bigint[]) i (batch, n, run, total, done, dead, cancelled, expired)
WHERE EXISTS (SELECT FROM rota.task(i.batch, i.n))
ORDER BY i.batch, i.n, i.run
ON CONFLICT (batch, n, run) DO UPDATE SET total = c.total + excluded.total,
  done = c.done + excluded.done, dead = c.dead + excluded.dead,
  cancelled = c.cancelled + excluded.cancelled, expired = c.expired + excluded.expired`

	// sumsOf counts children: what was looked at, and all changes that stand.
	sumsOf = `SELECT i.i::int, s.total, s.done, s.dead, s.cancelled, s.expired
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[]) WITH ORDINALITY
  i (batch, n, run, address, i)
CROSS JOIN LATERAL (` + summed + ` FROM (
  SELECT total, done, dead, cancelled, expired FROM rota.child_count
  WHERE batch = i.batch AND n = i.n AND run = i.run
  UNION ALL SELECT total, done, dead, cancelled, expired FROM rota.change
  WHERE address = i.address) s) s`

	summed = `SELECT coalesce(sum(total), 0)::bigint AS total,
coalesce(sum(done), 0)::bigint AS done, coalesce(sum(dead), 0)::bigint AS dead, coalesce(sum(cancelled), 0)::bigint AS cancelled,
coalesce(sum(expired), 0)::bigint AS expired`

	// dropCounts deletes the counts of tasks that are deleted, whose batches are $3 to $4. As a
	// rule there are none.
	dropCounts = `WITH o AS MATERIALIZED (
  SELECT c.batch, c.n, c.run FROM unnest($1::bigint[], $2::int[]) i (batch, n)
  JOIN rota.child_count c ON c.batch = i.batch AND c.n = i.n
  WHERE (SELECT EXISTS (SELECT FROM rota.child_count WHERE batch BETWEEN $3 AND $4))
  ORDER BY c.batch, c.n, c.run FOR UPDATE OF c)
DELETE FROM rota.child_count c USING o WHERE c.batch = o.batch AND c.n = o.n AND c.run = o.run`

	// deleteCountsIn deletes those of a batch, before its waits go.
	deleteCountsIn = `WITH o AS MATERIALIZED (
  SELECT batch, n, run FROM rota.child_count WHERE batch = $1 ORDER BY n, run FOR UPDATE)
DELETE FROM rota.child_count c USING o WHERE c.batch = o.batch AND c.n = o.n AND c.run = o.run`
)

// isOfChildren tells whether an address is one of children.
func isOfChildren(address string) bool { return strings.HasPrefix(address, "c ") }

// counted is what changes say of children, by their address.
type counted map[string]task.Children

// add adds a change at an address; where there are no children it does nothing.
func (c *counted) add(address string, is *task.Children) {
	if !isOfChildren(address) || *is == (task.Children{}) {
		return
	}
	if *c == nil {
		*c = counted{}
	}
	sum := (*c)[address]
	sum.Total += is.Total
	sum.Done += is.Done
	sum.Dead += is.Dead
	sum.Cancelled += is.Cancelled
	sum.Expired += is.Expired
	(*c)[address] = sum
}

// queries add it to what is counted.
func (c counted) queries() []query {
	if len(c) == 0 {
		return nil
	}
	var list []store.Address
	for text := range c {
		if a, err := store.ParseAddress(text); err == nil { // all were made by Address.String
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b store.Address) int {
		return cmp.Or(a.Task.Compare(b.Task), cmp.Compare(a.Run, b.Run))
	})
	var batches []int64
	var ns, runs []int32
	var sums [5][]int64
	for _, a := range list {
		batches = append(batches, a.Task.Batch)
		ns = append(ns, a.Task.N)
		runs = append(runs, a.Run)
		sum := c[a.String()]
		for i, v := range [...]int64{sum.Total, sum.Done, sum.Dead, sum.Cancelled, sum.Expired} {
			sums[i] = append(sums[i], v)
		}
	}
	return []query{tell(sharePackRows, batches, ns),
		tell(addCounts, batches, ns, runs, sums[0], sums[1], sums[2], sums[3], sums[4])}
}

// askSums makes the query that counts the children that tasks wait for.
func askSums(waits []rules.Wait, sums map[task.ID]task.Children) []query {
	var ids []task.ID
	var runs []int32
	var addresses []string
	for i := range waits {
		w := &waits[i]
		if !w.OfChildren() {
			continue
		}
		a, err := store.ParseAddress(w.Address)
		if err != nil {
			continue
		}
		ids = append(ids, w.ID)
		runs = append(runs, a.Run)
		addresses = append(addresses, w.Address)
	}
	if len(ids) == 0 {
		return nil
	}
	batches, ns := idColumns(ids)
	return []query{ask(sumsOf, func(r row) error {
		var i int
		var c task.Children
		err := r.Scan(&i, &c.Total, &c.Done, &c.Dead, &c.Cancelled, &c.Expired)
		sums[ids[i-1]] = c
		return err
	}, batches, ns, runs, addresses)}
}
