package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules/assign"
)

const (
	seatColumns = `s.worker, s.node, s.htok, s.incarnation, s.capacity, s.used, s.state, s.since, s.joined, s.traits`
	allSeats    = `SELECT ` + seatColumns + ` FROM rota.seat s ORDER BY s.worker`
	wholeSeats  = `SELECT ` + seatColumns +
		` FROM rota.seat s WHERE s.worker = ANY($1::text[]) ORDER BY s.worker FOR NO KEY UPDATE`
	seatVersion = `SELECT seats, rota.micros($1) FROM rota.job_head`

	// newSeats has a seat of each, or ends the transaction: another node made one since.
	newSeats = `WITH made AS (INSERT INTO rota.seat (worker, node, htok, incarnation, capacity,
used, state, since, joined, traits)
  SELECT w.worker, $1, $2, w.incarnation, w.capacity, 0, w.state, w.since, w.joined, w.traits
  FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
  $9::text[])
    w (worker, incarnation, capacity, since, joined, traits, state)
  ORDER BY w.worker ON CONFLICT DO NOTHING RETURNING 1)
SELECT rota.expect((SELECT count(*) FROM made), $10)`
	putSeats = `UPDATE rota.seat s
SET node = $1, htok = $2, incarnation = w.incarnation, capacity = w.capacity, state = w.state,
since = w.since,
  joined = w.joined, traits = w.traits
FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
$9::text[])
  w (worker, incarnation, capacity, since, joined, traits, state) WHERE s.worker = w.worker`
	seatsChanged = `UPDATE rota.job_head SET seats = seats + 1 RETURNING seats`

	boardOf = `SELECT h.seats, h.now, g.name IS NOT NULL, coalesce(g.name, ''), coalesce(g.id, 0),
coalesce(g.config, ''), coalesce(g.read, ''),
  coalesce(g.refresh, 0), coalesce(g.rebalance, 0), coalesce(g.since, 0), coalesce(g.version, 0),
  coalesce(g.horizon, 0), coalesce(g.jobs, 0)
FROM (SELECT seats, rota.micros($1) AS now FROM rota.job_head) h LEFT JOIN rota.job_group g ON true
ORDER BY g.name`

	groupsAt = `SELECT g.name, a.job FROM rota.assignment a JOIN rota.job_group g ON g.id = a.grp
WHERE a.worker = $1 AND a.state <> 'ended'`
	dropSeat = `DELETE FROM rota.seat WHERE worker = $1`

	// orphanSeats looks at nodes, not at seats; one that moved to another node meanwhile is passed
	// over.
	orphanSeats = `WITH dead AS MATERIALIZED (
  SELECT n.node, n.htok FROM (SELECT DISTINCT node, htok FROM rota.seat WHERE state = 'taken') n
  WHERE NOT EXISTS (SELECT FROM rota.lease l WHERE l.name = 'node/' || n.node
  AND l.token = n.htok)),
lost AS MATERIALIZED (
  SELECT s.worker FROM dead d JOIN rota.seat s ON s.node = d.node AND s.htok = d.htok
  AND s.state = 'taken' ORDER BY s.worker FOR NO KEY UPDATE OF s),
gone AS (
  UPDATE rota.seat s SET state = 'orphan', node = '', htok = 0, since = (SELECT rota.micros($1))
  FROM lost l WHERE s.worker = l.worker RETURNING 1)
UPDATE rota.job_head SET seats = seats + 1 WHERE EXISTS (SELECT FROM gone) RETURNING 1`
)

func scanSeat(r row) (s store.Seat, err error) {
	var traits string
	err = r.Scan(&s.Worker, &s.Node.Node, &s.Node.Token, &s.Incarnation, &s.Capacity, &s.Used,
		&s.State, &s.Since, &s.Joined, &traits)
	if err == nil {
		err = s.SetTraits([]byte(traits))
	}
	return s, err
}

// seatLists are seats by columns.
type seatLists struct {
	workers, incarnations, traits, states []string
	capacities, since, joined             []int64
}

func (l *seatLists) add(s *store.Seat) error {
	traits, err := s.Traits()
	l.workers = append(l.workers, s.Worker)
	l.incarnations = append(l.incarnations, s.Incarnation)
	l.traits = append(l.traits, string(traits))
	l.states = append(l.states, string(s.State))
	l.capacities = append(l.capacities, int64(s.Capacity))
	l.since = append(l.since, s.Since)
	l.joined = append(l.joined, s.Joined)
	return err
}

// Seat writes down who beats at a node and who does not any more. See contract.Seats.
func (s *jobs) Seat(ctx context.Context, r store.SeatRequest) (answer store.Seated, err error) {
	r.Taken, r.Away = printableSeats(r.Taken), printableSeats(r.Away)
	before := int64(0)
	for range tries {
		err = s.write(ctx, func(ctx context.Context, t *tx) (err error) {
			answer, before, err = t.seat(ctx, &r)
			return err
		})
		if codeOf(err) != codeExpected {
			break
		}
	}
	if err != nil {
		return store.Seated{},
			fmt.Errorf("seat %d workers at node %q: %w", len(r.Taken)+len(r.Away), r.Holder.Node,
				err)
	}
	if answer.Version > before {
		s.hints.hint(Hint{Seats: true})
	}
	return answer, nil
}

// printableSeats are seats whose incarnations can be written down, and then compared with what was.
func printableSeats(seats []store.Seat) []store.Seat {
	seats = slices.Clone(seats)
	for i := range seats {
		seats[i].Incarnation = printable(seats[i].Incarnation)
	}
	return seats
}

func (t *tx) seat(
	ctx context.Context, r *store.SeatRequest,
) (answer store.Seated, before int64, err error) {
	var workers []string
	for _, list := range [...][]store.Seat{r.Taken, r.Away} {
		for i := range list {
			workers = append(workers, list[i].Worker)
		}
	}
	known := map[string]*store.Seat{}
	lives := false
	err = t.run(ctx, t.living(r.Holder, &lives), ask(wholeSeats, func(r row) error {
		s, err := scanSeat(r)
		known[s.Worker] = &s
		return err
	}, workers), ask(seatVersion, func(r row) error {
		return r.Scan(&answer.Version, &answer.Now)
	}, t.clock()))
	before = answer.Version
	if answer.LeaseGone = !lives; err != nil || !lives {
		return answer, before, err
	}
	stood := map[string]bool{}
	for worker := range known {
		stood[worker] = true
	}
	changed, superseded := assign.Seats(r, known, answer.Now)
	answer.Superseded = superseded
	var made, put seatLists
	for _, seat := range changed {
		list := &put
		if !stood[seat.Worker] {
			list = &made
		}
		err = errors.Join(err, list.add(seat))
	}
	var queries []query
	if n := int64(len(made.workers)); n > 0 {
		queries = append(queries,
			tell(newSeats, r.Holder.Node, r.Holder.Token, made.workers, made.incarnations,
				made.capacities, made.since,
				made.joined, made.traits, made.states, n))
	}
	if len(put.workers) > 0 {
		queries = append(queries,
			tell(putSeats, r.Holder.Node, r.Holder.Token, put.workers, put.incarnations,
				put.capacities, put.since,
				put.joined, put.traits, put.states))
	}
	if err != nil || len(queries) == 0 {
		return answer, before, err
	}
	err = t.finish(ctx, append(queries, ask(seatsChanged, func(r row) error {
		return r.Scan(&answer.Version)
	}))...)
	return answer, before, err
}

// Seats lists the workers that serve groups. See contract.Seats.
func (s *jobs) Seats(ctx context.Context, known int64) (store.Seats, error) {
	b, err := s.board(ctx, known)
	if err != nil {
		return store.Seats{}, fmt.Errorf("list seats: %w", err)
	}
	return b.Seats, nil
}

// Board reads what a node looks at every beat. See contract.Seats.
func (s *jobs) Board(ctx context.Context, known int64) (store.Board, error) {
	b, err := s.board(ctx, known)
	if err != nil {
		return store.Board{}, fmt.Errorf("read groups and seats: %w", err)
	}
	return b, nil
}

func (s *jobs) board(ctx context.Context, known int64) (b store.Board, err error) {
	look := ask(boardOf, func(r row) error {
		var g group
		var some bool
		var config, read string
		err := r.Scan(&b.Seats.Version, &b.Seats.Now, &some, &g.Name, &g.id, &config, &read,
			&g.Refresh, &g.Rebalance, &g.Since, &g.Version,
			&g.horizon, &g.Jobs)
		if err != nil || !some {
			return err
		}
		err = errors.Join(g.SetConfig([]byte(config)), g.Read.SetText([]byte(read)))
		b.Groups = append(b.Groups, g.Group)
		return err
	}, s.clock())
	if err = s.glance(ctx, look); err != nil || b.Seats.Version == known {
		return b, err
	}
	b = store.Board{}
	err = s.read(ctx, look, ask(allSeats, func(r row) error {
		seat, err := scanSeat(r)
		b.Seats.Seats = append(b.Seats.Seats, seat)
		return err
	}))
	if err == nil {
		err = s.confirmed(ctx)
	}
	return b, err
}

// errMoved: a worker got an assignment of a group that was not locked while it was about to be
// forgotten.
var errMoved = errors.New("its assignments changed meanwhile")

// DeleteSeat forgets a worker and ends its assignments. See contract.Seats.
func (s *jobs) DeleteSeat(ctx context.Context, worker string) error {
	var groups []string
	var at worksAt
	err := errMoved
	for errors.Is(err, errMoved) { // with more groups each time
		err = s.write(ctx, func(ctx context.Context, t *tx) (err error) {
			groups, err = t.deleteSeat(ctx, worker, &at)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("forget worker %q: %w", worker, err)
	}
	s.hints.hintGroups(groups)
	s.hints.hint(Hint{Seats: true})
	return nil
}

// worksAt has the groups and jobs of which a worker has assignments that have not ended.
type worksAt struct {
	groups map[string]bool // all that were ever found
	jobs   lockKeys        // those of the last look
}

func (at *worksAt) look(worker string) query {
	if at.groups == nil {
		at.groups = map[string]bool{}
	}
	at.jobs = lockKeys{}
	return ask(groupsAt, func(r row) error {
		var group, job string
		err := r.Scan(&group, &job)
		at.groups[group] = true
		at.jobs.add(group, job, worker)
		return err
	}, worker)
}

// deleteSeat locks groups before the seat, as all do: those in which the worker had something when
// it was looked for. What the worker has is known only once its seat is locked, too. If it got
// something in another group meanwhile, errMoved says so, and at knows that group.
func (t *tx) deleteSeat(
	ctx context.Context, worker string, at *worksAt,
) (groups []string, err error) {
	if err := t.run(ctx, at.look(worker)); err != nil {
		return nil, err
	}
	locked := map[string]bool{}
	err = t.run(ctx, ask(lockGroups, func(r row) error {
		var g group
		err := g.scan(r)
		locked[g.Name] = true
		return err
	}, slices.Collect(maps.Keys(at.groups))), ask(lockSeats, func(row) error {
		return nil
	}, []string{worker}), at.look(worker))
	if err != nil {
		return nil, err
	}
	for _, group := range at.jobs.groups {
		if !locked[group] {
			return nil, errMoved
		}
	}
	at.jobs.workers = []string{worker} // also when it has none
	h, err := t.lockRows(ctx, &at.jobs)
	if err != nil {
		return nil, err
	}
	if h.seats[worker] == nil {
		return nil, t.finish(ctx, tell(confirm))
	}
	for _, table := range h.tables {
		table.Forget(worker)
	}
	queries, groups := h.changes()
	return groups, t.finish(ctx, append(queries, tell(dropSeat, worker), tell(seatsChanged))...)
}
