package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/counters"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
)

// operation is one call's part of a write transaction. It may be run more than once (see
// Store.commit), so do sets everything that it answers with anew.
type operation struct {
	do    func(*tx) error
	taken atomic.Bool // by the writer, or by a caller that gave up
	err   error       // owned by the writer until done
	done  chan struct{}
}

// tx is an open write transaction. Only the writer's goroutine touches it.
type tx struct {
	*conn
	now     int64
	stats   counters.Changes
	history history.Changes
	spans   spans // reserved ids
	packing *packing
}

// write runs do inside a transaction that it may share with other calls, and returns once that is
// committed. A caller whose context ends before do begins gets its error; from then on the call
// runs to its end.
func (s *Store) write(ctx context.Context, do func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &operation{do: do, done: make(chan struct{})}
	if err := s.enqueue(op); err != nil {
		return err
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		if op.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		<-op.done
		return op.err
	}
}

func (s *Store) enqueue(op *operation) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	select {
	case s.ops <- op:
		return nil
	default:
		return store.ErrBusy
	}
}

// A commit costs a quarter of a millisecond of CPU, whatever it holds. So under load, when the last
// one changed a crowd of rows a moment ago, the next one waits for company first. A lone call never
// waits.
const (
	crowd   = 128
	company = 2 * time.Millisecond
)

// writeAll is the writer: whatever waits goes into one transaction, so that it shares one fsync.
func (s *Store) writeAll() {
	var gather []*operation
	var last time.Time
	for op := range s.ops {
		gather = append(gather[:0], op)
		if s.writer.changed >= crowd && time.Since(last) < company {
			select {
			case op, ok := <-s.ops:
				if ok {
					gather = append(gather, op)
				}
			case <-time.After(company):
			}
		}
		for len(s.ops) > 0 && len(gather) < cap(s.ops) {
			if op, ok := <-s.ops; ok {
				gather = append(gather, op)
			}
		}
		s.commit(gather)
		clear(gather)
		s.emptyLog()
		last = time.Now()
	}
}

// commit runs the operations in one transaction and answers them. When one spoils it, everything is
// rolled back and each runs alone, so that only the bad one fails.
func (s *Store) commit(gather []*operation) {
	mine := gather[:0]
	for _, op := range gather {
		if op.taken.CompareAndSwap(false, true) {
			mine = append(mine, op)
		}
	}
	if err := s.attempt(mine); err != nil && len(mine) > 1 {
		for i := range mine {
			if err := s.attempt(mine[i : i+1]); err != nil {
				mine[i].err = err
			}
		}
	} else if err != nil {
		mine[0].err = err
	}
	for _, op := range mine {
		close(op.done)
	}
}

// attempt is one transaction. An operation that refuses before it wrote anything is answered with
// its error and spoils nothing; any other error undoes all.
func (s *Store) attempt(ops []*operation) error {
	if len(ops) == 0 {
		return nil
	}
	if err := s.broken(); err != nil {
		return err
	}
	c := s.writer
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		return s.judge(err)
	}
	c.changed = 0
	t := &tx{conn: c, now: s.clock(), stats: counters.Changes{}, spans: s.spans,
		packing: &s.packing}
	if err := t.all(ops); err != nil {
		return s.undo(err)
	}
	changed := c.changed
	if changed > 0 {
		if err := s.count.put(c); err != nil {
			return s.undo(err)
		}
	}
	if err := c.run("COMMIT"); err != nil {
		return s.undo(err)
	}
	if s.spans = t.spans; changed > 0 {
		s.lock.step("committed")
		s.count.done()
		s.commits.Add(1)
		s.walSize.grown += int64(changed)
	}
	return nil
}

func (t *tx) all(ops []*operation) error {
	for _, op := range ops {
		before := t.changed
		op.err = op.do(t)
		if op.err != nil && (t.changed != before || fromSQLite(op.err)) {
			return op.err
		}
	}
	return t.count()
}

// walSize is what the writer knows of SQLite's log.
type walSize struct {
	limit int64 // pages at which it is emptied
	grown int64 // rows that were changed since it was looked at
	pages int64 // then
	empty int64 // pages at which it is emptied next: while somebody reads, it can't be
}

// emptyLog empties the log when it has grown, after those who wrote were answered. SQLite begins
// the log anew with the next transaction after that which finds no reader. While somebody reads for
// long, it grows, and is tried again a quarter later.
func (s *Store) emptyLog() {
	w := &s.walSize
	if w.grown < w.limit/8 || s.broken() != nil {
		// a row changes some pages, of its table and of its indices
		return
	}
	n, err := pages(s.writer)
	if err != nil {
		s.judge(err)
		return
	}
	if n < w.pages || w.empty == 0 { // it began anew
		w.empty = w.limit
	}
	w.grown, w.pages = 0, n
	if n < w.empty {
		return
	}
	w.empty = n + w.limit/4
	if _, err := s.count.empty(s.writer, s.pin); err != nil {
		s.judge(err)
	}
}

// undo rolls back after err and says what err means.
func (s *Store) undo(err error) error {
	if !s.writer.AutocommitEnabled() { // SQLite rolls back by itself after some errors
		if e := s.writer.run("ROLLBACK"); e != nil {
			s.judge(e)
		}
	}
	return s.judge(err)
}

// fromSQLite tells whether SQLite said err.
func fromSQLite(err error) bool { return sqlite.ErrCode(err) != sqlite.ResultError }

// judge gives an error of SQLite its meaning: full, or broken for good. An fsync that failed is
// never asked for again: nobody knows what it left. A body that can't be read is damage that SQLite
// did not see.
func (s *Store) judge(err error) error {
	if errors.Is(err, pack.ErrDamaged) {
		return s.breakWith(err)
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case sqlite.ResultIOErr, sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultReadOnly:
		return s.breakWith(err)
	}
	return err
}

// breakWith makes every later call fail: store.ErrBroken.
func (s *Store) breakWith(cause error) error {
	err := fmt.Errorf("%s: %w: %w", s.path, store.ErrBroken, cause)
	if s.cause.CompareAndSwap(nil, &err) {
		s.log.Error("store is broken", "path", s.path, "cause", cause)
	}
	return *s.cause.Load()
}

// broken is why the store can't be trusted, or nil.
func (s *Store) broken() error {
	if err := s.cause.Load(); err != nil {
		return *err
	}
	return nil
}

// read runs do on a snapshot of what is committed. It never waits for the writer, nor the writer
// for it.
func (s *Store) read(ctx context.Context, do func(*conn) error) error {
	if err := s.broken(); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-s.readers:
	case <-s.closing:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- c }()
	c.SetInterrupt(ctx.Done())
	defer c.SetInterrupt(nil)
	err := c.run("BEGIN")
	if err == nil {
		err = do(c)
	}
	if !c.AutocommitEnabled() {
		c.SetInterrupt(nil)
		if e := c.run("ROLLBACK"); err == nil {
			err = e
		}
	}
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultInterrupt {
		return ctx.Err()
	}
	return s.judge(err)
}

// usable is why nothing works any more, or nil.
func (s *Store) usable() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	return s.broken()
}
