package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/store"
)

// Store is the tables in one schema of a PostgreSQL database. Its methods may be called at the same
// time, by many processes.
//
// It is put together of parts, one for each noun (doc.go lists them). A part keeps the tables that
// its comment names, has the fields that its own methods need, and knows by name the parts that it
// calls, which is never a circle. What callers ask for are methods of the parts.
type Store struct {
	// database is the one that every part embeds, too. It stands here because a selector that
	// twenty parts promote would be ambiguous: the shallowest one wins.
	*database

	*hints
	*values
	*partitioning
	*submissions
	*spans
	*gates
	*steps
	*waiting
	*leases
	*queues
	*views
	*logs
	*events
	*notifiers
	*hooks
	*jobs
	*schedules
	*statistics
	*upkeep
}

// Open opens the store. It makes the tables when there are none, and brings older ones up to this
// version of the program. It refuses a database that it has no rights in, that has newer tables, or
// that can't be written to; the error says what to do.
func Open(ctx context.Context, conf Config) (_ *Store, err error) {
	pool, err := conf.complete()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	d := newDatabase(conf)
	d.prepare(pool)
	if d.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	defer func() {
		if err != nil {
			d.die()
			d.pool.Close()
			if conf.Before != nil && errors.Is(err, errForeign) {
				err = fmt.Errorf("%w: %w", store.ErrBroken, err)
			}
			err = fmt.Errorf("open store: %w", err)
		}
	}()
	setUp := schema{d}
	if err := setUp.setUp(ctx); err != nil {
		return nil, err
	}
	s := assemble(d)
	if err := s.coverNow(ctx); err != nil {
		return nil, err
	}
	if !conf.NoNotify {
		s.notices = newNotices(d)
	}
	return s, nil
}

// assemble makes the parts of a store, each behind those that it calls.
func assemble(d *database) *Store {
	s := &Store{
		database: d,

		hints:        &hints{database: d},
		values:       newValues(d),
		partitioning: &partitioning{database: d},
		leases:       &leases{d},
		logs:         &logs{d},
		events:       &events{d},
		notifiers:    &notifiers{d},
		hooks:        &hooks{d},
		statistics:   &statistics{database: d},
	}
	s.submissions = &submissions{
		database: d, hints: s.hints, values: s.values, partitioning: s.partitioning,
	}
	s.spans = &spans{database: d, hints: s.hints}
	s.gates = &gates{d, s.hints}
	s.steps = &steps{d, s.hints, s.values, s.partitioning, s.submissions}
	s.waiting = &waiting{database: d, hints: s.hints}
	s.queues = &queues{d, s.values, s.gates}
	s.views = &views{d, s.values, listing.Examined}
	s.jobs = &jobs{d, s.hints}
	s.schedules = &schedules{d, s.hints, s.submissions}
	s.upkeep = &upkeep{
		database: d, values: s.values, partitioning: s.partitioning, gates: s.gates,
		queues: s.queues, events: s.events, jobs: s.jobs, schedules: s.schedules,
		statistics: s.statistics,
	}
	return s
}

// Close ends what was begun, and the connections. Later calls get store.ErrClosed.
func (s *Store) Close() error {
	if s.end() {
		s.pool.Close()
	}
	return nil
}

// end ends what was begun, and answers whether that was still to be done.
func (s *Store) end() bool {
	if s.closed.Swap(true) {
		return false
	}
	if s.notices != nil {
		s.notices.close()
	}
	s.die()
	s.pruner.mu.Lock() // whoever is in there may begin something
	s.works.Wait()
	s.pruner.mu.Unlock()
	return true
}
