package waiting

import (
	"cmp"
	"slices"
)

// key is the primary key of a row.
type key struct {
	table   string
	a, b, c int64
	s       string
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.table, o.table), cmp.Compare(k.a, o.a), cmp.Compare(k.b, o.b),
		cmp.Compare(k.c, o.c), cmp.Compare(k.s, o.s))
}

// version is what a commit made of a row; nil = it was deleted.
type version struct {
	commit int
	row    any
}

// lock is who has a row: one alone, or several that share it.
type lock struct {
	alone  *tx
	shared []*tx
}

// record is a row, with all that commits made of it.
type record struct {
	key
	versions []version
}

// at is the row as it was after a commit.
func (r *record) at(commit int) any {
	for i := len(r.versions) - 1; i >= 0; i-- {
		if r.versions[i].commit <= commit {
			return r.versions[i].row
		}
	}
	return nil
}

// database is a store with many writers: each statement sees what was committed when it began, and
// what its own transaction wrote (READ COMMITTED). A row that is written is locked until the
// transaction ends, as is one that is asked for.
type database struct {
	commits int
	rows    map[key]*record
	tables  map[string][]*record // every row that ever was, by key
	locks   map[key]*lock
	ids     int64
}

func newDatabase() *database {
	return &database{
		rows: map[key]*record{}, tables: map[string][]*record{}, locks: map[key]*lock{},
	}
}

// at is a row as it was after a commit.
func (d *database) at(k key, commit int) any {
	if r := d.rows[k]; r != nil {
		return r.at(commit)
	}
	return nil
}

// place is where a row stands in its table, or would.
func (d *database) place(k key) (at int, known bool) {
	return slices.BinarySearchFunc(d.tables[k.table], k, func(r *record, k key) int {
		return r.compare(k)
	})
}

// vacuum forgets rows that are deleted, and that nobody sees any more who sees what was committed
// from a time on.
func (d *database) vacuum(from int) {
	for name, rows := range d.tables {
		d.tables[name] = slices.DeleteFunc(rows, func(r *record) bool {
			last := r.versions[len(r.versions)-1]
			gone := last.row == nil && last.commit <= from
			if gone {
				delete(d.rows, r.key)
			}
			return gone
		})
	}
}

// tx is a transaction. Its statements are what stands between two calls of statement.
type tx struct {
	*database
	by      *process
	sees    int // the last commit that its present statement sees
	written map[key]any
	order   []key // of written
	held    []key // locks
}

// statement begins the next statement. The process may end here, others may go on.
func (t *tx) statement() {
	t.by.pause(nil)
	t.sees = t.commits
}

// row is what the present statement sees of a row.
func (t *tx) row(k key) any {
	if len(t.order) > 0 {
		if r, own := t.written[k]; own {
			return r
		}
	}
	return t.at(k, t.sees)
}

// newest is what a statement sees of a row that it has locked.
func (t *tx) newest(k key) any {
	if r, own := t.written[k]; own {
		return r
	}
	return t.at(k, t.commits)
}

// free tells whether a transaction can have a lock now.
func (d *database) free(t *tx, k key, alone bool) bool {
	l := d.locks[k]
	if l == nil {
		return true
	}
	if l.alone != nil {
		return l.alone == t
	}
	return !alone || len(l.shared) == 0 || len(l.shared) == 1 && l.shared[0] == t
}

// lock waits for a row.
func (t *tx) lock(k key, alone bool) {
	for !t.free(t, k, alone) {
		t.by.pause(&wish{t, k, alone})
	}
	l := t.locks[k]
	if l == nil {
		l = &lock{}
		t.locks[k] = l
	}
	switch {
	case l.alone == t || !alone && slices.Contains(l.shared, t):
		return
	case alone:
		l.alone, l.shared = t, nil
	default:
		l.shared = append(l.shared, t)
	}
	t.held = append(t.held, k)
}

func (t *tx) write(k key, row any) {
	if _, own := t.written[k]; !own {
		t.order = append(t.order, k)
	}
	t.written[k] = row
}

// put writes a row over what stands.
func (t *tx) put(k key, row any) {
	t.lock(k, true)
	t.write(k, row)
}

// insert writes a row unless one stands; who inserts the same one just now is waited for.
func (t *tx) insert(k key, row any) bool {
	t.lock(k, true)
	if t.newest(k) != nil {
		return false
	}
	t.write(k, row)
	return true
}

// remove deletes a row; false: there is none.
func (t *tx) remove(k key) bool {
	if t.row(k) == nil {
		return false
	}
	t.lock(k, true)
	if t.newest(k) == nil {
		return false
	}
	t.write(k, nil)
	return true
}

func (t *tx) id() int64 {
	t.ids++
	return t.ids
}

// found is a row of a table.
type found[T any] struct {
	key
	row T
}

// get is a row as the present statement sees it.
func get[T any](t *tx, k key) (row T, ok bool) {
	row, ok = t.row(k).(T)
	return row, ok
}

// locked is a row that the transaction waits for, and has alone from then on, if it stands.
func locked[T any](t *tx, k key) (row T, ok bool) {
	if t.row(k) == nil {
		return row, false
	}
	t.lock(k, true)
	row, ok = t.newest(k).(T)
	return row, ok
}

// list are the rows of a table that fit, as the present statement sees them, by key.
func list[T any](t *tx, table string, fits func(key, T) bool) (rows []found[T]) {
	for _, r := range t.tables[table] {
		at := r.at(t.sees)
		if len(t.order) > 0 {
			if own, is := t.written[r.key]; is {
				at = own
			}
		}
		if row, ok := at.(T); ok && fits(r.key, row) {
			rows = append(rows, found[T]{r.key, row})
		}
	}
	some := false
	for _, k := range t.order { // of this transaction, and new
		if k.table != table || t.rows[k] != nil {
			continue
		}
		if row, ok := t.written[k].(T); ok && fits(k, row) {
			rows, some = append(rows, found[T]{k, row}), true
		}
	}
	if some {
		slices.SortFunc(rows, func(a, b found[T]) int { return a.compare(b.key) })
	}
	return rows
}

// end releases what the transaction has.
func (t *tx) end() {
	for _, k := range t.held {
		l := t.locks[k]
		if l.alone == t {
			l.alone = nil
		}
		l.shared = slices.DeleteFunc(l.shared, func(o *tx) bool { return o == t })
		if l.alone == nil && len(l.shared) == 0 {
			delete(t.locks, k)
		}
	}
	t.held = nil
}

// commit makes everything that was written stand.
func (t *tx) commit() {
	if len(t.order) > 0 {
		t.commits++
	}
	for _, k := range t.order {
		r := t.rows[k]
		if r == nil {
			r = &record{key: k}
			t.rows[k] = r
			at, _ := t.place(k)
			t.tables[k.table] = slices.Insert(t.tables[k.table], at, r)
		}
		r.versions = append(r.versions, version{t.commits, t.written[k]})
	}
	t.end()
}
