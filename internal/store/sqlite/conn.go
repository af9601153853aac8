package sqlite

import (
	"fmt"
	"regexp"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

// conn is a connection with the few verbs that this package speaks. One goroutine at a time. Every
// statement is prepared once and kept. What is read of a noun are methods of a value over it, as
// spanReads.
type conn struct {
	*sqlite.Conn
	changed int // rows written since the transaction began
	// statements are those that were prepared, by the text that they are asked for by
	statements map[string]*sqlite.Stmt
	spare      *reading // not in use
	kept       *keptPack
	lent       []byte // what borrow answered last
}

// boundLimit is a limit that is a value. SQLite's planner looks at such a value, and so prepares
// the statement anew whenever it is bound, which costs many times what running it does. What a
// value and 0 add up to it does not look at.
var boundLimit = regexp.MustCompile(`LIMIT (\?\d*)`)

// prepare answers a statement, reset, without arguments.
func (c *conn) prepare(query string) (*sqlite.Stmt, error) {
	if st := c.statements[query]; st != nil {
		if err := st.Reset(); err != nil {
			return nil, err
		}
		return st, st.ClearBindings()
	}
	st, err := c.Prepare(boundLimit.ReplaceAllString(query, "LIMIT ($1+0)"))
	if err != nil {
		return nil, err
	}
	if c.statements == nil {
		c.statements = map[string]*sqlite.Stmt{}
	}
	c.statements[query] = st
	return st, nil
}

// bind starts a statement: prepared, reset, with its arguments.
func (c *conn) bind(query string, args []any) (*sqlite.Stmt, error) {
	st, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	if n := st.BindParamCount(); n != len(args) { // what is missing would be NULL
		return nil, fmt.Errorf("%d values for the %d places of %s", len(args), n, query)
	}
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			st.BindInt64(i+1, a)
		case int32:
			st.BindInt64(i+1, int64(a))
		case int:
			st.BindInt64(i+1, int64(a))
		case bool:
			st.BindBool(i+1, a)
		case float64:
			st.BindFloat(i+1, a)
		case string:
			st.BindText(i+1, a)
		case store.Value:
			bindBytes(st, i+1, a)
		case []byte:
			bindBytes(st, i+1, a)
		case nil:
			st.BindNull(i + 1)
		default:
			panic(fmt.Sprintf("sqlite: bind %T", a))
		}
	}
	return st, nil
}

// exec runs a statement that writes, and says how many rows it changed.
func (c *conn) exec(query string, args ...any) (int, error) {
	st, err := c.bind(query, args)
	if err != nil {
		return 0, err
	}
	return c.finish(st)
}

// finish runs a bound statement that writes. One that fails may have changed rows before (INSERT OR
// FAIL).
func (c *conn) finish(st *sqlite.Stmt) (int, error) {
	_, err := st.Step()
	if err == nil {
		err = st.Reset()
	}
	n := c.Changes()
	c.changed += n
	return n, err
}

// each runs a statement that reads and calls row for what it finds, until row says that it has
// enough.
func (c *conn) each(query string, row func(*sqlite.Stmt) (more bool), args ...any) error {
	st, err := c.bind(query, args)
	if err != nil {
		return err
	}
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok || !row(st) {
			return st.Reset()
		}
	}
}

// one runs a statement that reads at most one row.
func (c *conn) one(query string, row func(*sqlite.Stmt), args ...any) (found bool, err error) {
	err = c.each(query, func(st *sqlite.Stmt) bool {
		found = true
		row(st)
		return false
	}, args...)
	return found, err
}

// scanOne reads the row that a query finds, if there is one.
func scanOne[T any](
	c *conn, scan func(*sqlite.Stmt) (T, error), is *T, query string, args ...any,
) (found bool, err error) {
	var bad error
	found, err = c.one(query, func(st *sqlite.Stmt) { *is, bad = scan(st) }, args...)
	if err == nil {
		err = bad
	}
	return found, err
}

// scanAll reads all rows of a query.
func scanAll[T any](
	c *conn, scan func(*sqlite.Stmt) (T, error), query string, args ...any,
) (list []T, err error) {
	var bad error
	err = c.each(query, func(st *sqlite.Stmt) bool {
		var one T
		one, bad = scan(st)
		list = append(list, one)
		return bad == nil
	}, args...)
	if err == nil {
		err = bad
	}
	return list, err
}

// has tells whether a statement that reads finds anything.
func (c *conn) has(query string, args ...any) (bool, error) {
	return c.one(query, func(*sqlite.Stmt) {}, args...)
}

// run executes a statement without arguments or interest in what it finds.
func (c *conn) run(query string) error {
	return c.each(query, func(*sqlite.Stmt) bool { return true })
}

// bindBytes binds NULL for nil.
func bindBytes(st *sqlite.Stmt, i int, b []byte) {
	if b == nil {
		st.BindNull(i)
		return
	}
	st.BindBytes(i, b)
}

// bindText binds NULL for "".
func bindText(st *sqlite.Stmt, i int, s string) {
	if s == "" {
		st.BindNull(i)
		return
	}
	st.BindText(i, s)
}

// borrow copies a column that is not NULL to where the next call copies another one.
func (c *conn) borrow(st *sqlite.Stmt, i int) []byte {
	n := st.ColumnLen(i)
	c.lent = slices.Grow(c.lent[:0], n)[:n]
	st.ColumnBytes(i, c.lent)
	return c.lent
}

// bytesOf copies a column, nil for NULL.
func bytesOf(st *sqlite.Stmt, i int) []byte {
	if st.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, st.ColumnLen(i))
	st.ColumnBytes(i, b)
	return b
}
