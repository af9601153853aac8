package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rotahq/rota/internal/listing"
)

// Store is the tables in one SQLite file. Its methods may be called at the same time. They are
// those of its parts, of which each keeps some tables; what the parts share is the database.
type Store struct {
	*database
	spanCalls
	stepCalls
	limitCalls
	waitCalls
	leaseCalls
	queueCalls
	viewCalls
	historyCalls
	valueCalls
	logCalls
	eventCalls
	jobCalls
	scheduleCalls
	upkeepCalls
}

// Open opens the store, and makes it when there is none. It refuses a file that another process has
// open, that is no database of this program or of a newer version of it, or that is not the one
// that its lock file names.
func Open(ctx context.Context, conf Config) (_ *Store, err error) {
	if err := conf.complete(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if real, err := filepath.EvalSymlinks(conf.Path); err == nil {
		// one file has one lock, whatever it is called
		conf.Path = real
	}
	d, err := openDatabase(ctx, conf)
	s := newStore(d, conf)
	if err == nil {
		err = s.valueCalls.open(cmp.Or(conf.Folder, conf.Path+".blobs"))
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", errors.Join(err, s.release()))
	}
	s.lock.step("open")
	s.wg.Go(s.writeAll)
	return s, nil
}

// newStore puts the parts together. Who calls whom stands here: there are no circles.
func newStore(d *database, conf Config) *Store {
	s := &Store{database: d}
	opened := conf.Now()
	s.valueCalls = valueCalls{
		database: d, blobs: conf.Blobs, named: map[string]time.Duration{},
		passed: func() time.Duration { return conf.Now().Sub(opened) },
	}
	values := &s.valueCalls
	s.spanCalls = spanCalls{database: d, values: values}
	s.stepCalls = stepCalls{
		database: d, values: values, settler: settler{together: conf.together},
	}
	s.limitCalls = limitCalls{d}
	s.waitCalls = waitCalls{d}
	s.leaseCalls = leaseCalls{d}
	s.queueCalls = queueCalls{database: d, values: values}
	s.viewCalls = viewCalls{database: d, values: values, examined: listing.Examined}
	s.historyCalls = historyCalls{database: d, views: &s.viewCalls, kept: conf.History}
	s.logCalls = logCalls{d}
	s.eventCalls = eventCalls{d}
	s.jobCalls = jobCalls{d}
	s.scheduleCalls = scheduleCalls{d}
	s.upkeepCalls = upkeepCalls{
		database: d, values: values, queues: &s.queueCalls, events: &s.eventCalls,
		jobs: &s.jobCalls, schedules: &s.scheduleCalls, history: &s.historyCalls,
	}
	return s
}

// Close ends what was begun, answers what waits, and closes the file. Later calls get
// store.ErrClosed.
func (s *Store) Close() error {
	if !s.end() {
		return nil
	}
	if err := s.release(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// release closes whatever is open; the lock goes last.
func (s *Store) release() error {
	return errors.Join(s.hangUp(), s.valueCalls.close(), s.unlock())
}

// Check says whether the file is still the one that was opened, whole, and has room: nil,
// store.ErrFull or store.ErrBroken.
func (s *Store) Check(context.Context) error {
	if err := s.database.check(); err != nil {
		return err
	}
	if err := s.valueCalls.check(); err != nil {
		return err
	}
	return s.room()
}
