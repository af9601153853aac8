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
// database.commit), so do sets everything that it answers with anew.
type operation struct {
	do    func(*tx) error
	taken atomic.Bool // by the writer, or by a caller that gave up
	err   error       // owned by the writer until done
	done  chan struct{}
}

// tx is an open write transaction. Only the writer's goroutine touches it. What is written of a
// noun are methods of a value over it, as spanWrites.
type tx struct {
	*conn
	now      int64
	stats    counters.Changes
	history  history.Changes
	reserved spans // ids of spans
	packing  *packing
}

// write runs do inside a transaction that it may share with other calls, and returns once that is
// committed. A caller whose context ends before do begins gets its error; from then on the call
// runs to its end.
func (d *database) write(ctx context.Context, do func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &operation{do: do, done: make(chan struct{})}
	if err := d.enqueue(op); err != nil {
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

func (d *database) enqueue(op *operation) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return store.ErrClosed
	}
	select {
	case d.ops <- op:
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
func (d *database) writeAll() {
	var gather []*operation
	var last time.Time
	for op := range d.ops {
		gather = append(gather[:0], op)
		if d.writer.changed >= crowd && time.Since(last) < company {
			select {
			case op, ok := <-d.ops:
				if ok {
					gather = append(gather, op)
				}
			case <-time.After(company):
			}
		}
		for len(d.ops) > 0 && len(gather) < cap(d.ops) {
			if op, ok := <-d.ops; ok {
				gather = append(gather, op)
			}
		}
		d.commit(gather)
		clear(gather)
		d.emptyLog()
		last = time.Now()
	}
}

// commit runs the operations in one transaction and answers them. When one spoils it, everything is
// rolled back and each runs alone, so that only the bad one fails.
func (d *database) commit(gather []*operation) {
	mine := gather[:0]
	for _, op := range gather {
		if op.taken.CompareAndSwap(false, true) {
			mine = append(mine, op)
		}
	}
	if err := d.attempt(mine); err != nil && len(mine) > 1 {
		for i := range mine {
			if err := d.attempt(mine[i : i+1]); err != nil {
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
func (d *database) attempt(ops []*operation) error {
	if len(ops) == 0 {
		return nil
	}
	if err := d.broken(); err != nil {
		return err
	}
	c := d.writer
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		return d.judge(err)
	}
	c.changed = 0
	t := &tx{conn: c, now: d.clock(), stats: counters.Changes{}, reserved: d.reserved,
		packing: &d.packing}
	if err := t.all(ops); err != nil {
		return d.undo(err)
	}
	changed := c.changed
	if changed > 0 {
		if err := d.count.put(c); err != nil {
			return d.undo(err)
		}
	}
	if err := c.run("COMMIT"); err != nil {
		return d.undo(err)
	}
	if d.reserved = t.reserved; changed > 0 {
		d.lock.step("committed")
		d.count.done()
		d.commits.Add(1)
		d.walSize.grown += int64(changed)
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
func (d *database) emptyLog() {
	w := &d.walSize
	if w.grown < w.limit/8 || d.broken() != nil {
		// a row changes some pages, of its table and of its indices
		return
	}
	n, err := pages(d.writer)
	if err != nil {
		d.judge(err)
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
	if _, err := d.count.empty(d.writer, d.pin); err != nil {
		d.judge(err)
	}
}

// undo rolls back after err and says what err means.
func (d *database) undo(err error) error {
	if !d.writer.AutocommitEnabled() { // SQLite rolls back by itself after some errors
		if e := d.writer.run("ROLLBACK"); e != nil {
			d.judge(e)
		}
	}
	return d.judge(err)
}

// fromSQLite tells whether SQLite said err.
func fromSQLite(err error) bool { return sqlite.ErrCode(err) != sqlite.ResultError }

// judge gives an error of SQLite its meaning: full, or broken for good. An fsync that failed is
// never asked for again: nobody knows what it left. A body that can't be read is damage that SQLite
// did not see.
func (d *database) judge(err error) error {
	if errors.Is(err, pack.ErrDamaged) {
		return d.breakWith(err)
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case sqlite.ResultIOErr, sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultReadOnly:
		return d.breakWith(err)
	}
	return err
}

// breakWith makes every later call fail: store.ErrBroken.
func (d *database) breakWith(cause error) error {
	err := fmt.Errorf("%s: %w: %w", d.path, store.ErrBroken, cause)
	if d.cause.CompareAndSwap(nil, &err) {
		d.log.Error("store is broken", "path", d.path, "cause", cause)
	}
	return *d.cause.Load()
}

// broken is why the store can't be trusted, or nil.
func (d *database) broken() error {
	if err := d.cause.Load(); err != nil {
		return *err
	}
	return nil
}

// read runs do on a snapshot of what is committed. It never waits for the writer, nor the writer
// for it.
func (d *database) read(ctx context.Context, do func(*conn) error) error {
	if err := d.broken(); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-d.readers:
	case <-d.closing:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.readers <- c }()
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
	return d.judge(err)
}

// usable is why nothing works any more, or nil.
func (d *database) usable() error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return store.ErrClosed
	}
	return d.broken()
}
