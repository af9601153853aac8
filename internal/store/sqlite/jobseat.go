package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules/assign"
	"github.com/rotahq/rota/task"
)

const (
	seatColumns  = `worker, node, htok, incarnation, capacity, used, state, since, joined, traits`
	allSeats     = `SELECT ` + seatColumns + ` FROM seat ORDER BY worker`
	findSeat     = `SELECT ` + seatColumns + ` FROM seat WHERE worker = ?`
	putSeat      = `REPLACE INTO seat (` + seatColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	deleteSeat   = `DELETE FROM seat WHERE worker = ?`
	seatVersion  = `SELECT seats FROM job_head`
	seatsChanged = `UPDATE job_head SET seats = seats + 1`

	groupsAt = `SELECT grp, job FROM assignment WHERE worker = ? AND state <> 'ended' ORDER BY grp`

	orphanSeats = `UPDATE seat SET state = 'orphan', node = '', htok = 0, since = ?
WHERE state = 'taken'
AND NOT EXISTS (SELECT 1 FROM lease WHERE name = 'node/' || seat.node AND token = seat.htok)`
)

func scanSeat(st *sqlite.Stmt) (s store.Seat, err error) {
	s = store.Seat{
		Worker:      st.ColumnText(0),
		Node:        store.Holder{Node: st.ColumnText(1), Token: st.ColumnInt64(2)},
		Incarnation: st.ColumnText(3),
		Capacity:    task.Units(st.ColumnInt64(4)), Used: task.Units(st.ColumnInt64(5)),
		State: store.SeatState(st.ColumnText(6)),
		Since: st.ColumnInt64(7), Joined: st.ColumnInt64(8),
	}
	err = s.SetTraits([]byte(st.ColumnText(9)))
	return s, err
}

// seat reads a worker's seat, nil when it has none.
func (t jobWrites) seat(worker string) (seat *store.Seat, err error) {
	var bad error
	_, err = t.one(findSeat, func(st *sqlite.Stmt) {
		var s store.Seat
		s, bad = scanSeat(st)
		seat = &s
	}, worker)
	if err == nil {
		err = bad
	}
	return seat, err
}

func (t jobWrites) putSeat(s *store.Seat) error {
	traits, err := s.Traits()
	if err == nil {
		_, err = t.exec(putSeat, s.Worker, s.Node.Node, s.Node.Token, s.Incarnation,
			int64(s.Capacity), int64(s.Used), string(s.State), s.Since, s.Joined,
			string(traits))
	}
	return err
}

// noteSeats gives all seats their next version if anything changed since the operation began, and
// answers the version.
func (t jobWrites) noteSeats(before int) (version int64, err error) {
	if t.changed > before {
		if _, err := t.exec(seatsChanged); err != nil {
			return 0, err
		}
	}
	_, err = t.one(seatVersion, func(st *sqlite.Stmt) { version = st.ColumnInt64(0) })
	return version, err
}

// Seat writes down who beats at a node and who does not any more. See contract.Seats.
func (s *jobCalls) Seat(ctx context.Context, r store.SeatRequest) (answer store.Seated, err error) {
	err = s.write(ctx, func(t *tx) error {
		answer = store.Seated{Now: t.now}
		lives, err := t.leases().lives(r.Holder)
		if err != nil {
			return err
		}
		before := t.changed
		if answer.LeaseGone = !lives; lives {
			answer.Superseded, err = t.jobs().seatAll(&r)
		}
		if err == nil {
			answer.Version, err = t.jobs().noteSeats(before)
		}
		return err
	})
	if err != nil {
		return store.Seated{},
			fmt.Errorf("seat %d workers at node %q: %w", len(r.Taken)+len(r.Away), r.Holder.Node,
				err)
	}
	return answer, nil
}

// seatAll changes what is to change of the workers' seats.
func (t jobWrites) seatAll(r *store.SeatRequest) (superseded []string, err error) {
	known := map[string]*store.Seat{}
	for _, list := range [...][]store.Seat{r.Taken, r.Away} {
		for i := range list {
			worker := list[i].Worker
			seat, err := t.seat(worker)
			if err != nil {
				return nil, err
			}
			if seat != nil {
				known[worker] = seat
			}
		}
	}
	changed, superseded := assign.Seats(r, known, t.now)
	for _, seat := range changed {
		if err := t.putSeat(seat); err != nil {
			return nil, err
		}
	}
	return superseded, nil
}

// Seats lists the workers that serve groups. See contract.Seats.
func (s *jobCalls) Seats(ctx context.Context, known int64) (list store.Seats, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		list, err = c.jobs().seats(known, s.clock())
		return err
	})
	if err != nil {
		return store.Seats{}, fmt.Errorf("list seats: %w", err)
	}
	return list, nil
}

func (c jobReads) seats(known, now int64) (list store.Seats, err error) {
	list.Now = now
	if _, err = c.one(seatVersion, func(st *sqlite.Stmt) {
		list.Version = st.ColumnInt64(0)
	}); err != nil || list.Version == known {
		return list, err
	}
	list.Seats, err = scanAll(c.conn, scanSeat, allSeats)
	return list, err
}

// Board reads what a node looks at every beat. See contract.Seats.
func (s *jobCalls) Board(ctx context.Context, known int64) (b store.Board, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		if b.Seats, err = c.jobs().seats(known, s.clock()); err == nil {
			b.Groups, err = c.jobs().groups()
		}
		return err
	})
	if err != nil {
		return store.Board{}, fmt.Errorf("read groups and seats: %w", err)
	}
	return b, nil
}

// DeleteSeat forgets a worker and ends its assignments. See contract.Seats.
func (s *jobCalls) DeleteSeat(ctx context.Context, worker string) error {
	err := s.write(ctx, func(t *tx) error {
		if old, err := t.jobs().seat(worker); err != nil || old == nil {
			return err
		}
		jobs := map[int64]set{}
		err := t.each(groupsAt, func(st *sqlite.Stmt) bool {
			id := st.ColumnInt64(0)
			if jobs[id] == nil {
				jobs[id] = set{}
			}
			jobs[id][st.ColumnText(1)] = true
			return true
		}, worker)
		for id, names := range jobs {
			if err == nil {
				err = t.jobs().forget(id, names, worker)
			}
		}
		if err == nil {
			_, err = t.exec(deleteSeat, worker)
		}
		if err == nil {
			_, err = t.exec(seatsChanged)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("forget worker %q: %w", worker, err)
	}
	return nil
}

// forget ends a worker's assignments of one group.
func (t jobWrites) forget(id int64, jobs set, worker string) error {
	g, err := t.conn.jobs().oneGroup(groupWithID, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil // what is left of a deleted one
	}
	if err != nil {
		return err
	}
	table, err := t.table(&g, jobs, nil, map[string]*assign.Seat{})
	if err != nil {
		return err
	}
	table.Forget(worker)
	return t.clear(&g, table)
}

// orphan notes of the seats of dead nodes that they are orphans.
func (t jobWrites) orphan() error {
	n, err := t.exec(orphanSeats, t.now)
	if err == nil && n > 0 {
		_, err = t.exec(seatsChanged)
	}
	return err
}
