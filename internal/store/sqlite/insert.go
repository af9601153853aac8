package sqlite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"
)

// inserter is an INSERT of many rows: some columns are shared by all rows of a statement and bound
// once, the others are bound for every row. A statement's fixed cost is spread over up to chunk
// rows.
type inserter struct {
	chunks [len(chunkSizes)]string
	shared int // parameters bound once: ?1 to ?shared
	own    int // parameters of each row, after them
}

var chunkSizes = [...]int{256, 32, 4, 1}

// newInserter makes the statements. shared and own name columns; the others keep NULL.
func newInserter(table string, shared, own []string) *inserter {
	in := &inserter{shared: len(shared), own: len(own)}
	for i, size := range chunkSizes {
		text := fmt.Appendf(nil, "INSERT OR FAIL INTO %s (%s) VALUES ", table,
			strings.Join(slices.Concat(shared, own), ", "))
		param := len(shared)
		for row := range size {
			if row > 0 {
				text = append(text, ',')
			}
			text = append(text, '(')
			for k := range len(shared) + len(own) {
				if k > 0 {
					text = append(text, ',')
				}
				number := k + 1
				if k >= len(shared) {
					param++
					number = param
				}
				text = strconv.AppendInt(append(text, '?'), int64(number), 10)
			}
			text = append(text, ')')
		}
		in.chunks[i] = string(text)
	}
	return in
}

// insert inserts n rows. bindShared binds ?1 and on, bindRow binds row i beginning at a parameter.
// Rows whose key stands already are left out and told to clash; without clash they are an error.
// (OR FAIL: the rows before one that fails stay, and SQLite needs no journal to undo them.)
func (in *inserter) insert(
	c *conn, n int, bindShared func(*sqlite.Stmt), bindRow func(st *sqlite.Stmt, param, i int),
	clash func(i int),
) error {
	for lo := 0; lo < n; {
		k := 0
		for chunkSizes[k] > n-lo {
			k++
		}
		st, err := c.Prepare(in.chunks[k])
		if err != nil {
			return err
		}
		bindShared(st)
		for i := range chunkSizes[k] {
			bindRow(st, in.shared+1+i*in.own, lo+i)
		}
		inserted, err := c.finish(st)
		lo += inserted
		if err != nil && clash != nil && sqlite.ErrCode(err) == sqlite.ResultConstraintPrimaryKey {
			clash(lo)
			lo++
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
