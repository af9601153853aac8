package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// inStretch and inNarrow read tasks of stretches: of one no more than ?4, the newest first, or of
// several that are narrow.
const inStretch = `SELECT p.batch, (p.lo & ~63) + i.value AS n FROM pack p
CROSS JOIN ` + numbersDown + ` i WHERE p.batch = ?1 AND p.lo BETWEEN ?2 & ~63 AND ?3
AND p.has >> i.value & 1 AND (p.lo & ~63) + i.value BETWEEN ?2 AND ?3
ORDER BY p.lo DESC, i.value DESC LIMIT ?4`

var (
	inNarrow = `SELECT w.batch, w.lo + i.value AS n
FROM (SELECT value ->> 0 AS batch, value ->> 1 AS lo, value ->> 2 AS hi FROM json_each(?1)
LIMIT -1) w CROSS JOIN (SELECT column1 AS value
FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7))) i
WHERE w.lo + i.value <= w.hi AND ` + isTask("w.batch", "(w.lo + i.value)")

	// comparedNarrow compares them with the filter.
	comparedNarrow = candidates(`1`, strings.ReplaceAll(inNarrow, "?1", "?11"))
)

const (
	// narrow stretches have so many numbers at most: they are read by one statement. Wide ones are
	// compared pack by pack, which costs about packCost rows each, however many tasks there are.
	narrow   = 8
	packCost = 16
)

// numbersDown are the numbers of a pack, the greatest first.
const numbersDown = `(SELECT column1 AS value FROM ((VALUES (63), (62), (61), (60), (59), (58), (57), (56), (55), (54), (53), (52), (51),
(50), (49), (48), (47), (46), (45), (44), (43), (42), (41), (40), (39), (38), (37),
(36), (35), (34), (33), (32), (31), (30), (29), (28), (27), (26), (25), (24), (23),
(22), (21), (20), (19), (18), (17), (16), (15), (14), (13), (12), (11), (10), (9), (8),
(7), (6), (5), (4), (3), (2), (1), (0))))`

// inStretches reads tasks of stretches: of all but the last all, of the last one the newest.
func (l *list) inStretches(
	_ context.Context, list []listing.Stretch, size int,
) (c listing.Candidates, err error) {
	if l.compares() {
		return l.comparedIn(list, size)
	}
	last := list[len(list)-1]
	row := func(st *sqlite.Stmt) bool {
		c.IDs = append(c.IDs, task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)})
		return true
	}
	few, wide := apart(list)
	if len(few) > 0 {
		if err := l.each(inNarrow, row, placesOf(few)); err != nil {
			return c, err
		}
	}
	c.Floor = task.ID{Batch: last.Batch, N: last.Lo}
	for _, s := range wide {
		before := len(c.IDs)
		if err := l.each(inStretch, row, s.Batch, s.Lo, s.Hi, size); err != nil {
			return c, err
		}
		if n := len(c.IDs); s == last && n-before == size {
			c.Floor = c.IDs[n-1]
		}
	}
	slices.SortFunc(c.IDs, func(a, b task.ID) int { return b.Compare(a) })
	c.Cost = len(c.IDs)
	return c, nil
}

// apart are the narrow and the wide ones of stretches.
func apart(list []listing.Stretch) (few, wide []listing.Stretch) {
	for _, s := range list {
		if s.Hi-s.Lo < narrow {
			few = append(few, s)
		} else {
			wide = append(wide, s)
		}
	}
	return few, wide
}

// compares tells whether tasks of stretches have to be read before they can be candidates: what
// the filter says of batches is looked at when stretches are found.
func (l *list) compares() bool {
	spans := l.State == task.Waiting || l.State == task.Ready
	return l.Stage != "" || l.Meta != "" || l.Worker != "" ||
		listing.ClassOf(l.Filter) != listing.Any ||
		spans && (l.Since != 0 || l.Until != 0)
}

const packBelow = `SELECT lo, has, body FROM pack WHERE batch = ? AND lo BETWEEN ? AND ?
ORDER BY lo DESC LIMIT 1`

// comparedIn compares the tasks of stretches with the filter: of all but the last all, of the last
// one the newest, about size of them.
func (l *list) comparedIn(
	list []listing.Stretch, size int,
) (c listing.Candidates, err error) {
	few, wide := apart(list)
	if len(few) > 0 {
		if err := l.scan(comparedNarrow, &c, 0, 0, 0, 0, placesOf(few), l.Worker); err != nil {
			return c, err
		}
		c.Cost *= listing.Compare
	}
	for _, s := range wide {
		if err := l.comparedWide(&c, s, size); err != nil {
			return c, err
		}
	}
	slices.SortFunc(c.IDs, func(a, b task.ID) int { return b.Compare(a) })
	if last := list[len(list)-1]; last.Hi-last.Lo < narrow {
		c.Floor = task.ID{Batch: last.Batch, N: last.Lo}
	}
	return c, nil
}

// comparedWide compares the newest tasks of a stretch with the filter, and says how far it came.
func (l *list) comparedWide(c *listing.Candidates, s listing.Stretch, size int) error {
	c.Floor = task.ID{Batch: s.Batch, N: s.Lo}
	if l.Since != 0 || l.Until != 0 {
		b, _, err := l.facts().batch(s.Batch)
		if c.Cost += listing.Compare; err != nil || b.created < l.Since ||
			l.Until != 0 && b.created >= l.Until {
			return err
		}
	}
	for hi, seen := s.Hi, 0; hi >= s.Lo && seen < size; {
		n, next, err := l.compareRow(c, s, hi)
		if err != nil {
			return err
		}
		seen += n
		hi = next
		c.Floor.N = max(next+1, s.Lo)
		c.Cost += packCost + n
	}
	return nil
}

// compareRow compares the tasks of the last row of a pack in a stretch, up to hi, and says how many
// these are and where to go on below.
func (l *list) compareRow(
	c *listing.Candidates, s listing.Stretch, hi int32,
) (n int, next int32, err error) {
	var p row
	found, err := l.one(packBelow, func(st *sqlite.Stmt) {
		p = scanPack(st)
	}, s.Batch, pack.Lo(s.Lo), hi)
	if err != nil || !found {
		return 0, s.Lo - 1, err
	}
	at := len(c.IDs)
	var bad error
	err = l.members().membersOf(s.Batch, &p, p.has&pack.Between(pack.Lo(p.lo), s.Lo, hi), whole,
		func(m *member) bool {
			n++
			may := l.may(m)
			if may && l.Meta != "" {
				may, bad = l.carries(s.Batch, m)
			}
			if may {
				c.IDs = append(c.IDs, task.ID{Batch: s.Batch, N: m.N})
			}
			return bad == nil
		})
	slices.Reverse(c.IDs[at:])
	return n, p.lo - 1, errors.Join(err, bad)
}

// carries tells whether a task of a batch has all of the filter's meta.
func (l *list) carries(batch int64, m *member) (bool, error) {
	f := rules.Fact{ID: task.ID{Batch: batch, N: m.N}, Seq: m.Seq, Kind: m.Kind, Meta: m.Meta}
	err := l.facts().applyEdits(&f)
	return f.Meta.Has(l.Meta), err
}

// may tells whether the filter may select a task, by what its outcome says.
func (l *list) may(m *member) bool {
	class := listing.Open
	if m.Base == store.Final {
		class = listing.Any
		if m.Kind == task.KindDone {
			class = listing.Done
		}
	}
	want := listing.ClassOf(l.Filter)
	return (l.Stage == "" || l.Stage == m.stage()) &&
		(want == listing.Any || want == class) &&
		// what was asked for says who asked
		(l.Worker == "" || l.Worker == m.Worker || m.Kind >= task.KindCancelled)
}

// placesOf are stretches as a JSON array of arrays.
func placesOf(list []listing.Stretch) string {
	b := []byte{'['}
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "[%d,%d,%d]", s.Batch, s.Lo, s.Hi)
	}
	return string(append(b, ']'))
}
