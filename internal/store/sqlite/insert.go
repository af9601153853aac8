package sqlite

import (
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
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
		var b strings.Builder
		fmt.Fprintf(&b, "INSERT OR FAIL INTO %s (%s) VALUES ", table,
			strings.Join(append(append([]string{}, shared...), own...), ", "))
		param := len(shared)
		for row := range size {
			if row > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('(')
			for k := range len(shared) + len(own) {
				if k > 0 {
					b.WriteByte(',')
				}
				if k < len(shared) {
					fmt.Fprintf(&b, "?%d", k+1)
					continue
				}
				param++
				fmt.Fprintf(&b, "?%d", param)
			}
			b.WriteByte(')')
		}
		in.chunks[i] = b.String()
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

var (
	// taskLean is for a run of tasks in one stage that have a context and nothing else of their
	// own.
	taskLean = newInserter("task", []string{"batch", "stage"}, []string{"n", "context"})
	taskFull = newInserter("task", []string{"batch"},
		[]string{"n", "stage", "context", "key", "group_key", "max_attempts", "timeout"})
)

// lean tasks fit taskLean.
func lean(t *store.Task, stage string) bool {
	return t.Stage == stage && t.Key == "" && t.GroupKey == "" && t.MaxAttempts == 0 &&
		t.Timeout == 0
}

// insertTasks inserts the tasks of one batch, ascending in N.
func insertTasks(c *conn, batch int64, tasks []store.Task) error {
	for len(tasks) > 0 {
		stage, n := tasks[0].Stage, 0
		for n < len(tasks) && lean(&tasks[n], stage) {
			n++
		}
		var err error
		if n > 0 {
			err = insertLean(c, batch, stage, tasks[:n])
		} else {
			for n < len(tasks) && !lean(&tasks[n], tasks[n].Stage) {
				n++
			}
			err = insertFull(c, batch, tasks[:n])
		}
		if err != nil {
			return err
		}
		tasks = tasks[n:]
	}
	return nil
}

func insertLean(c *conn, batch int64, stage string, tasks []store.Task) error {
	return taskLean.insert(c, len(tasks), func(st *sqlite.Stmt) {
		st.BindInt64(1, batch)
		st.BindText(2, stage)
	}, func(st *sqlite.Stmt, p, i int) {
		st.BindInt64(p, int64(tasks[i].N))
		bindBytes(st, p+1, tasks[i].Context)
	}, nil)
}

func insertFull(c *conn, batch int64, tasks []store.Task) error {
	return taskFull.insert(c, len(tasks), func(st *sqlite.Stmt) {
		st.BindInt64(1, batch)
	}, func(st *sqlite.Stmt, p, i int) {
		t := &tasks[i]
		st.BindInt64(p, int64(t.N))
		st.BindText(p+1, t.Stage)
		bindBytes(st, p+2, t.Context)
		bindText(st, p+3, t.Key)
		bindText(st, p+4, t.GroupKey)
		st.BindInt64(p+5, int64(t.MaxAttempts))
		st.BindInt64(p+6, t.Timeout)
	}, nil)
}

const insertBlob = `INSERT OR IGNORE INTO blob (batch, n, name) VALUES (?, ?, ?)`

// noteBlobs remembers which task the blobs among values belong to.
func (c *conn) noteBlobs(id task.ID, values ...store.Value) error {
	for _, v := range values {
		if name, ok := v.Blob(); ok {
			if _, err := c.exec(insertBlob, id.Batch, id.N, name); err != nil {
				return err
			}
		}
	}
	return nil
}
