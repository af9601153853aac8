package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// query is one statement and what is done with each row that it answers.
type query struct {
	text string
	args []any
	row  func(row) error // nil = its rows do not matter
}

// row is one row of an answer.
type row interface{ Scan(dest ...any) error }

// ask makes a query.
func ask(text string, each func(row) error, args ...any) query { return query{text, args, each} }

// tell makes a query whose answer does not matter.
func tell(text string, args ...any) query { return query{text: text, args: args} }

// runner runs queries in order, in one trip to the database if it can.
type runner interface {
	run(ctx context.Context, queries ...query) error
}

// in puts the configured schema and capabilities into a statement.
func (d *database) in(text string) string {
	if d.plain {
		return text
	}
	if known, ok := d.texts.Load(text); ok {
		return known.(string)
	}
	changed := strings.ReplaceAll(text, "rota.", d.conf.Schema+".")
	if d.conf.NoSkipLocked {
		changed = strings.ReplaceAll(changed, " SKIP LOCKED", "")
	}
	d.texts.Store(text, changed)
	return changed
}

// batch puts queries together for one trip. heard, if there is one, becomes true with the first row
// of an answer that matters.
func (d *database) batch(queries []query, heard *bool) *pgx.Batch {
	b := &pgx.Batch{}
	for i := range queries {
		q := &queries[i]
		queued := b.Queue(d.in(q.text), q.args...)
		queued.Query(func(list pgx.Rows) error {
			for list.Next() {
				if q.row == nil {
					continue
				}
				if heard != nil {
					*heard = true
				}
				if err := q.row(list); err != nil {
					return err
				}
			}
			return list.Err()
		})
	}
	return b
}

// tx is an open write transaction. It begins with its first trip.
type tx struct {
	*database
	// inside is a caller's transaction of which this one is a part; nil = there is none. Such a one
	// is never finished here.
	inside runner
	// waits are the tasks whose waits it has locked; nil = it has not asked for any.
	waits map[task.ID]bool
	// depend is what those tasks have waited for that it replays, as it has read that behind its
	// lock; nil = it has not asked for the lock.
	depend map[task.ID][]dependency
	// noted are the ends of tasks at which its actions have left changes
	noted []string
	// falling are children that actions cancel only if their fall hits them
	falling    map[task.ID]fallingChild
	conn       *pgxpool.Conn
	begun      bool
	committing bool // the commit is on its way: from here on an error may come too late
	done       bool
}

// run makes one trip.
func (t *tx) run(ctx context.Context, queries ...query) error {
	if t.inside != nil {
		return t.inside.run(ctx, queries...)
	}
	if !t.begun {
		t.begun = true
		queries = slices.Concat([]query{tell("BEGIN")}, t.opening, queries)
	}
	return t.conn.SendBatch(ctx, t.batch(queries, nil)).Close()
}

// finish makes the last trip: the commit goes with it.
func (t *tx) finish(ctx context.Context, queries ...query) error {
	if t.begun {
		queries = append(queries, tell("COMMIT"))
	} else { // statements that travel together are a transaction without saying so
		t.begun = true
		queries = slices.Concat(t.opening, queries)
	}
	t.committing, t.done = true, true
	t.commits.Add(1)
	return t.conn.SendBatch(ctx, t.batch(queries, nil)).Close()
}

// tries is how often a transaction that lost against others is run.
const tries = 4

// write runs do in a transaction: again, when it lost a deadlock. do sets everything that it
// answers with anew, and ends with finish; without it nothing is changed. The caller's context
// bounds the waiting for a connection and nothing after that.
func (d *database) write(ctx context.Context, do func(context.Context, *tx) error) (err error) {
	for range tries {
		if err = d.writeOnce(ctx, do); !lostRace(err) {
			return err
		}
	}
	return err
}

func (d *database) writeOnce(ctx context.Context, do func(context.Context, *tx) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.conf.Timeout)
	defer cancel()
	return d.writeBy(ctx, conn, do)
}

// writeWithin is write for what is asked again anyway, as a renewal: it ends by its context's
// deadline, so that a connection that hangs keeps nobody from asking on another one.
func (d *database) writeWithin(ctx context.Context, do func(context.Context, *tx) error) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return d.write(ctx, do)
	}
	return d.write(ctx, func(running context.Context, t *tx) error {
		running, cancel := context.WithDeadline(running, deadline)
		defer cancel()
		return do(running, t)
	})
}

// writeLong is write for what takes as long as it takes, and ends with its context.
func (d *database) writeLong(ctx context.Context, do func(context.Context, *tx) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return d.writeBy(ctx, conn, func(ctx context.Context, t *tx) error {
		if err := t.run(ctx, noTimeout); err != nil {
			return err
		}
		return do(ctx, t)
	})
}

// noTimeout lets the statements of a transaction take as long as they take.
var noTimeout = tell(setLocal, "statement_timeout", "0")

func (d *database) writeBy(
	ctx context.Context, conn *pgxpool.Conn, do func(context.Context, *tx) error,
) error {
	t := &tx{database: d, conn: conn}
	marks := conn.Conn().PgConn().CustomData()
	delete(marks, doubtful)
	err := do(ctx, t)
	if t.done && err == nil && marks[doubtful] != nil {
		err = fmt.Errorf("%w: the wait for a synchronous standby was cancelled", store.ErrUnknown)
	}
	if t.begun && !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		if _, e := conn.Exec(ctx, "ROLLBACK"); e != nil {
			conn.Conn().Close(ctx) // the pool drops it, and the server rolls back
		}
	}
	return d.judge(err, conn.Conn(), t.committing)
}

// acquire waits for a connection. When the server refuses another one because it has none free,
// those that this node has must do: they come free within milliseconds.
func (d *database) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if d.closed.Load() {
		return nil, store.ErrClosed
	}
	conn, err := d.pool.Acquire(ctx)
	if crowded(err) {
		conn, err = d.acquireCrowded(ctx, err)
	}
	switch {
	case err == nil:
		return conn, nil
	case d.closed.Load():
		return nil, store.ErrClosed
	case crowded(err):
		return nil, fmt.Errorf("connect: %w: the database has no connection free (its max_connections or the role's CONNECTION LIMIT, shared by all nodes; "+
			"rota_connections is what each may take): %w", store.ErrOutOfReach, err)
	}
	return nil, fmt.Errorf("connect: %w: %w", store.ErrOutOfReach, err)
}

// acquireCrowded tries again for a while, one caller at a time: the server counts an attempt that
// it is going to refuse, so callers who try together keep each other out.
func (d *database) acquireCrowded(ctx context.Context, refused error) (*pgxpool.Conn, error) {
	patience := time.NewTimer(crowdedFor)
	defer patience.Stop()
	select {
	case d.crowd <- struct{}{}:
		defer func() { <-d.crowd }()
	case <-patience.C:
		return nil, refused
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	pause := time.NewTicker(crowdedPause)
	defer pause.Stop()
	for {
		conn, err := d.pool.Acquire(ctx)
		if !crowded(err) {
			return conn, err
		}
		select {
		case <-pause.C:
		case <-patience.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

const (
	// about how long a connection is waited for that the server has not free
	crowdedFor   = 3 * time.Second
	crowdedPause = 10 * time.Millisecond
)

func crowded(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeCrowded
}

// read makes one trip of queries that see the same state of the store.
func (d *database) read(ctx context.Context, queries ...query) error {
	return d.readOnce(ctx, func(ctx context.Context, r runner) error {
		return r.run(ctx, queries...)
	})
}

// readOnce lets do make one trip, whose queries see the same state of the store.
func (d *database) readOnce(ctx context.Context, do func(context.Context, runner) error) error {
	return d.borrow(ctx, func(ctx context.Context, conn *pgxpool.Conn, heard *bool) error {
		return do(ctx, &glimpse{d, conn, heard})
	})
}

// glimpse is a snapshot that lasts for one trip.
type glimpse struct {
	*database
	conn  *pgxpool.Conn
	heard *bool
}

func (r *glimpse) run(ctx context.Context, queries ...query) error {
	queries = slices.Concat([]query{tell(beginRead)}, r.opening, queries, []query{tell("COMMIT")})
	err := r.conn.SendBatch(ctx, r.batch(queries, r.heard)).Close()
	if err != nil && !r.conn.Conn().IsClosed() {
		_, e := r.conn.Exec(ctx, "ROLLBACK")
		err = errors.Join(err, e)
	}
	return err
}

// snapshot lets queries of several trips see one state.
type snapshot struct {
	*database
	conn  *pgxpool.Conn
	begun bool
	heard *bool
}

const beginRead = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

func (r *snapshot) run(ctx context.Context, queries ...query) error {
	if !r.begun {
		r.begun = true
		queries = slices.Concat([]query{tell(beginRead)}, r.opening, queries)
	}
	return r.conn.SendBatch(ctx, r.batch(queries, r.heard)).Close()
}

// reading runs do on one state of the store. It waits for nobody.
func (d *database) reading(ctx context.Context, do func(context.Context, runner) error) error {
	return d.borrow(ctx, func(ctx context.Context, conn *pgxpool.Conn, heard *bool) error {
		return d.readBy(ctx, conn, heard, do)
	})
}

// readLong is reading for what takes as long as it takes.
func (d *database) readLong(ctx context.Context, do func(context.Context, runner) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = d.readBy(ctx, conn, nil, func(ctx context.Context, r runner) error {
		if err := r.run(ctx, noTimeout); err != nil {
			return err
		}
		return do(ctx, r)
	})
	return d.judge(err, conn.Conn(), false)
}

func (d *database) readBy(
	ctx context.Context, conn *pgxpool.Conn, heard *bool, do func(context.Context, runner) error,
) error {
	r := &snapshot{database: d, conn: conn, heard: heard}
	err := do(ctx, r)
	if r.begun && !conn.Conn().IsClosed() {
		if _, e := conn.Exec(ctx, "COMMIT"); err == nil {
			err = e
		}
	}
	return err
}

// glance makes one trip of one query, which is its own state.
func (d *database) glance(ctx context.Context, q query) error {
	return d.borrow(ctx, func(ctx context.Context, conn *pgxpool.Conn, heard *bool) error {
		queries := append(slices.Clone(d.opening), q) // nil as a rule
		return conn.SendBatch(ctx, d.batch(queries, heard)).Close()
	})
}

// loose runs queries outside of any transaction, each by whichever connection is free.
type loose struct{ *database }

func (l loose) run(ctx context.Context, queries ...query) error {
	for _, q := range queries {
		if err := l.glance(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// borrow lets do read by a connection, and by another one when the first turns out to be lost
// before anything was heard: nobody noticed it while it was idle.
func (d *database) borrow(
	ctx context.Context, do func(ctx context.Context, conn *pgxpool.Conn, heard *bool) error,
) error {
	heard := false
	try := func() error {
		conn, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		ctx, cancel := context.WithTimeout(ctx, d.conf.Timeout)
		defer cancel()
		return d.judge(do(ctx, conn, &heard), conn.Conn(), false)
	}
	err := try()
	if errors.Is(err, errLost) && !heard {
		err = try()
	}
	return err
}

// codeOf is the SQLSTATE that the server answered, "" when the error is another. What a server says
// with FATAL says nothing of the statement: the connection is lost.
func codeOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.SeverityUnlocalized == "ERROR" || pg.SeverityUnlocalized == "") {
		return pg.Code
	}
	return ""
}

// SQLSTATEs that are acted upon: https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	codeUnique    = "23505"
	codeCheck     = "23514" // no partition for a row is one
	codeReadOnly  = "25006"
	codeDeadlock  = "40P01"
	codeSerial    = "40001"
	codeDiskFull  = "53100"
	codeCrowded   = "53300"
	codeLocked    = "55P03"
	codeCancelled = "57014"
	codeNoRight   = "42501"
	codeNoTable   = "42P01"
	codeNoSchema  = "3F000"
	codeLockTable = "53200" // there is no room for another lock
	codeExpected  = "RT001" // of the function expect
	codeBusy      = "RT003" // of the function alone
)

func lostRace(err error) bool {
	code := codeOf(err)
	return code == codeDeadlock || code == codeSerial || errors.Is(err, errWentOn)
}

// judge gives an error its meaning. committing tells that the commit was on its way.
func (d *database) judge(err error, conn *pgx.Conn, committing bool) error {
	if err == nil {
		return nil
	}
	code := codeOf(err)
	switch {
	case code == codeDiskFull:
		d.full.Store(d.stopwatch())
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case code == codeLocked, code == codeCancelled, code == codeDeadlock, code == codeSerial:
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	case code == codeReadOnly:
		// A failover: this was the primary once, and the other connections lead to it, too. Or
		// somebody has made the database read-only. The server says so before it writes, and the
		// transaction is undone.
		d.pool.Reset()
		return fmt.Errorf("%w: the database can't be written to: %w", store.ErrOutOfReach, err)
	case code != "", !committing && !conn.IsClosed():
		return err
	}
	// The server did not say that it failed: it is not known what became of it.
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		d.pool.Reset() // the other connections are lost, too, as a rule
	}
	if committing && !pgconn.SafeToRetry(err) && !isOurs(err) {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	if isOurs(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// errLost: the connection to the database.
var errLost = errors.New("connection lost")

// isOurs tells whether an error is one of the store's own: the server has nothing to do with it.
func isOurs(err error) bool {
	for _, own := range []error{store.ErrConflict, store.ErrNotFound, store.ErrUnknown,
		store.ErrClosed, store.ErrBusy, store.ErrFull, store.ErrOutOfReach} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// printable is a text that PostgreSQL takes: without NUL, and UTF-8.
func printable(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
