package postgres

import (
	"cmp"
	"iter"
	"math/bits"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
)

// Tasks stand in packs: a row of rota.pack has up to 64 tasks of one batch. A row, its key and what
// the log says of it cost PostgreSQL four times what a task of a hundred bytes costs in a row with
// others.
//
// The numbers of a batch are cut where multiples of 64 are, and where a row would outgrow its page:
// so the 64 tasks of one page of numbers have a row as a rule, and several when their contexts are
// large. The key of a row is the first number in it. Which numbers are tasks the bitmap has says,
// bit n & 63; what it says of a number one row of the page says and no other. What tasks have is in
// arrays that begin at the key, with nothing in the gaps, and an array that no task of the row
// needs is not there. Nothing is compressed, and nothing stands outside of its row: reading one
// task never costs more than a page.
//
// A row is inserted once. Only retention changes it: it takes bits out of has and, with them, what
// the tasks had out of the arrays; with the last bit the row goes.

const (
	// rowLimit is what a row may have in bytes: a page has room for 8,160.
	rowLimit = 8000
	// rowFixed is what a row has without its texts and arrays, headers included.
	rowFixed = 24 + 8 + 8 + 4 + 8
	// arrayFixed is what an array has without its elements: header and a bitmap of NULLs.
	arrayFixed = 24 + 8
)

// What a row has beyond a stage and contexts: bits of rowColumns.odd.
const (
	noContexts = 1 << iota
	hasStages
	hasKeys
	hasGroups
	hasAttempts
	hasTimeouts
	hasMetas
	hasWithins
)

// chunkTasks is about how many tasks one statement inserts. What belongs to a row is cut out of
// arrays of all of them, which the server searches from their beginning.
const chunkTasks = 1024

// rowColumns are packs on their way to insertPacks.
type rowColumns struct {
	batch, has           []int64
	lo, first, last, odd []int32 // first and last are places in the columns below, from 1 on
	stage                []string

	// Of each number between the first and the last of a pack. A column without a value is nil, and
	// one may be shorter than the others until it is sent.
	context                 [][]byte
	stages, keys, groupKeys []string
	attempts                []int32
	timeouts                []int64
	metas                   []string
	withins                 []int64
}

// packs cuts tasks into packs, and these into statements.
type packs struct {
	chunks []rowColumns
	keyed  keyedColumns

	texts int // bytes of the texts and contexts of the row that is being filled
}

type keyedColumns struct {
	key   []string
	batch []int64
	n     []int32
}

// add adds tasks of a batch, ascending in N.
func (p *packs) add(batch int64, tasks []store.Task) {
	var c *rowColumns
	if k := len(p.chunks); k > 0 {
		c = &p.chunks[k-1]
	}
	for i := range tasks {
		t := &tasks[i]
		if c == nil || !p.fits(c, batch, t) {
			if c == nil || len(c.context) >= chunkTasks {
				p.chunks = append(p.chunks, rowColumns{})
				c = &p.chunks[len(p.chunks)-1]
				c.context = make([][]byte, 0, min(len(tasks)-i, chunkTasks+pack.Size))
			}
			p.begin(c, batch, t)
		}
		p.put(c, t)
	}
}

// oddOf is what a task has beyond what the first of its row has.
func oddOf(t *store.Task, stage string) (odd int32) {
	if t.Stage != stage {
		odd |= hasStages
	}
	if t.Key != "" {
		odd |= hasKeys
	}
	if t.GroupKey != "" {
		odd |= hasGroups
	}
	if t.MaxAttempts != 0 {
		odd |= hasAttempts
	}
	if t.Timeout != 0 {
		odd |= hasTimeouts
	}
	if t.Meta != "" {
		odd |= hasMetas
	}
	if t.StartWithin != 0 {
		odd |= hasWithins
	}
	return odd
}

// textsOf is how many bytes a row grows by for what a task has, beside the elements themselves.
func textsOf(t *store.Task) int {
	aligned := func(n int) int { return (n + 3) &^ 3 }
	n := aligned(len(t.Context)) + 4
	if t.Key != "" || t.GroupKey != "" {
		n += aligned(len(t.Key)) + aligned(len(t.GroupKey))
	}
	return n + aligned(len(t.Stage)) + aligned(len(t.Meta))
}

// arraysOf is how many arrays a row has, and what an element of each has together without the bytes
// of texts.
func arraysOf(odd int32) (arrays, width int) {
	arrays = 1 + bits.OnesCount32(uint32(odd))
	width = 4 * arrays
	width += 4 * bits.OnesCount32(uint32(odd&(hasTimeouts|hasWithins)))
	return arrays, width
}

// fits tells whether a task belongs into the last row. An empty stage is how an array of stages
// says that the row's is meant, so such a task needs a row whose stage is empty.
func (p *packs) fits(c *rowColumns, batch int64, t *store.Task) bool {
	k := len(c.lo) - 1
	if k < 0 || c.batch[k] != batch || pack.Lo(c.lo[k]) != pack.Lo(t.N) ||
		t.Stage == "" && c.stage[k] != "" {
		return false
	}
	odd := oddOf(t, c.stage[k])
	texts := (len(t.Context) + 3) &^ 3
	if odd |= c.odd[k] &^ noContexts; odd != 0 {
		texts = textsOf(t)
	}
	slots := int(t.N-c.lo[k]) + 1
	arrays, width := arraysOf(odd)
	size := rowFixed + len(c.stage[k]) + p.texts + texts + arrays*arrayFixed + width*slots
	return size <= rowLimit
}

// begin begins a row.
func (p *packs) begin(c *rowColumns, batch int64, t *store.Task) {
	p.texts = 0
	at := int32(len(c.context))
	c.batch = append(c.batch, batch)
	c.has = append(c.has, 0)
	c.lo = append(c.lo, t.N)
	c.first = append(c.first, at+1)
	c.last = append(c.last, at)
	c.odd = append(c.odd, noContexts)
	c.stage = append(c.stage, t.Stage)
}

// put puts a task into the last row.
func (p *packs) put(c *rowColumns, t *store.Task) {
	k := len(c.lo) - 1
	for int32(len(c.context)) < c.first[k]-1+t.N-c.lo[k] {
		c.context = append(c.context, nil) // a gap
	}
	at := len(c.context)
	c.context = append(c.context, t.Context)
	c.last[k] = int32(at) + 1
	c.has[k] |= int64(pack.Bit(t.N))
	if t.Context != nil {
		c.odd[k] &^= noContexts
	}
	p.texts += (len(t.Context) + 3) &^ 3
	odd := oddOf(t, c.stage[k])
	if odd == 0 {
		return
	}
	c.odd[k] |= odd
	p.texts += textsOf(t) - (len(t.Context)+3)&^3
	if odd&hasStages != 0 {
		c.stages = place(c.stages, at, t.Stage)
	}
	if odd&hasKeys != 0 {
		c.keys = place(c.keys, at, t.Key)
		p.keyed.key = append(p.keyed.key, t.Key)
		p.keyed.batch = append(p.keyed.batch, c.batch[k])
		p.keyed.n = append(p.keyed.n, t.N)
	}
	if odd&hasGroups != 0 {
		c.groupKeys = place(c.groupKeys, at, t.GroupKey)
	}
	if odd&hasAttempts != 0 {
		c.attempts = place(c.attempts, at, t.MaxAttempts)
	}
	if odd&hasTimeouts != 0 {
		c.timeouts = place(c.timeouts, at, t.Timeout)
	}
	if odd&hasMetas != 0 {
		c.metas = place(c.metas, at, string(t.Meta))
	}
	if odd&hasWithins != 0 {
		c.withins = place(c.withins, at, t.StartWithin)
	}
}

// place puts a value into a column that may be shorter.
func place[T any](column []T, at int, v T) []T {
	return append(filled(column, at), v)
}

// filled is a column of so many values, of which the last may be missing.
func filled[T any](column []T, size int) []T {
	if missing := size - len(column); missing > 0 {
		column = append(column, make([]T, missing)...)
	}
	return column
}

// insertPacks is also the beginning of insertSubmission. Rows are in the order of their keys,
// because the tasks are.
const insertPacks = `INSERT INTO rota.pack (` + insertedColumns + `, metas, withins)
SELECT ` + insertedValues + `,
  CASE WHEN p.odd & 64 <> 0 THEN ($14::text[])[p.first:p.last] END,
  CASE WHEN p.odd & 128 <> 0 THEN ($15::bigint[])[p.first:p.last] END
FROM ` + insertedPacks

const (
	insertedColumns = `batch, has, lo, stage, contexts, stages, keys, group_keys, max_attempts,
timeouts`
	insertedValues = `p.batch, p.has, p.lo, p.stage,
  CASE WHEN p.odd & 1 = 0 THEN ($8::bytea[])[p.first:p.last] END,
  CASE WHEN p.odd & 2 <> 0 THEN ($9::text[])[p.first:p.last] END,
  CASE WHEN p.odd & 4 <> 0 THEN ($10::text[])[p.first:p.last] END,
  CASE WHEN p.odd & 8 <> 0 THEN ($11::text[])[p.first:p.last] END,
  CASE WHEN p.odd & 16 <> 0 THEN ($12::int[])[p.first:p.last] END,
  CASE WHEN p.odd & 32 <> 0 THEN ($13::bigint[])[p.first:p.last] END`
	insertedPacks = `unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::int[],
  $7::text[]) p (batch, has, lo, first, last, odd, stage)`
)

// args are the arguments of insertPacks.
func (c *rowColumns) args() []any {
	size := len(c.context)
	if c.stages != nil {
		c.stages = filled(c.stages, size)
	}
	if c.keys != nil {
		c.keys = filled(c.keys, size)
	}
	if c.groupKeys != nil {
		c.groupKeys = filled(c.groupKeys, size)
	}
	if c.attempts != nil {
		c.attempts = filled(c.attempts, size)
	}
	if c.timeouts != nil {
		c.timeouts = filled(c.timeouts, size)
	}
	if c.metas != nil {
		c.metas = filled(c.metas, size)
	}
	if c.withins != nil {
		c.withins = filled(c.withins, size)
	}
	return []any{c.batch, c.has, c.lo, c.first, c.last, c.odd, c.stage, c.context, c.stages, c.keys,
		c.groupKeys, c.attempts, c.timeouts, c.metas, c.withins}
}

const insertKeyed = `INSERT INTO rota.keyed (key, batch, n)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::int[]) k (key, batch, n) ORDER BY key, batch, n`

// rest makes the queries that insert what the first chunk leaves.
func (p *packs) rest() (list []query) {
	for i := 1; i < len(p.chunks); i++ {
		list = append(list, tell(insertPacks, p.chunks[i].args()...))
	}
	return append(list, p.keyed.queries()...)
}

func (k *keyedColumns) queries() []query {
	if len(k.key) == 0 {
		return nil
	}
	return []query{tell(insertKeyed, k.key, k.batch, k.n)}
}

// loadedPack is what one span has of a pack, as it was submitted.
type loadedPack struct {
	batch       int64
	first, last int32 // the span has no numbers before and after these
	has         int64
	stage       string
	// of first and those that follow it
	stages   []string
	contexts [][]byte
	attempts []int32
	timeouts []int64
	metas    []*string // nil also where a task was that retention took
	withins  []int64
	due      *int64 // of the batch, where a task has to be begun within a time
}

func (p *loadedPack) scan(r row, i *int) error {
	return r.Scan(i, &p.batch, &p.first, &p.last, &p.has, &p.stage, &p.stages, &p.contexts,
		&p.attempts, &p.timeouts, &p.metas, &p.withins, &p.due)
}

// tasks are the tasks of the pack that the span has.
func (p *loadedPack) tasks() iter.Seq[store.Loaded] {
	return func(yield func(store.Loaded) bool) {
		lo := pack.Lo(p.first)
		mine := pack.Bits(p.has) & pack.Between(lo, p.first, p.last)
		for n := range mine.Numbers(lo) {
			k := int(n - p.first)
			l := store.Loaded{N: n, ContextSeq: -1, Context: element(p.contexts, k)}
			l.Stage = cmp.Or(element(p.stages, k), p.stage)
			l.MaxAttempts, l.Timeout = element(p.attempts, k), element(p.timeouts, k)
			if meta := element(p.metas, k); meta != nil {
				l.Meta = store.Meta(*meta)
			}
			if within := element(p.withins, k); within != 0 && p.due != nil {
				l.Expires = *p.due + within
			}
			if !yield(l) {
				return
			}
		}
	}
}

// element is a value of a column, which may be missing.
func element[T any](column []T, k int) (v T) {
	if k < len(column) {
		v = column[k]
	}
	return v
}

// lastOf is the last number that is a task of a pack.
func lastOf(lo int32, has int64) int32 {
	return pack.Lo(lo) + int32(bits.Len64(uint64(has))) - 1
}
