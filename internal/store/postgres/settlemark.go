package postgres

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// insertMarks adds outcomes to the marks of packs that are locked alone, all of them or none: what
// others wrote at seq 0 is seen by now. The hands ($6 to $12) are the reports of one pack on one
// span's tasks under one token. A hand has the right to be recorded when the span has its token and
// covers it, or when all of its tasks have running rows with it; nothing else runs at seq 0.
//
// No outcome may stand already: neither as a step, nor in the mark.
const insertMarks = `WITH done AS (INSERT INTO rota.mark AS m (batch, lo, bits, body, last)
SELECT w.batch, w.lo, w.bits, w.body, w.last
FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bytea[], $5::bigint[])
  w (batch, lo, bits, body, last)
WHERE (SELECT NOT EXISTS (
  SELECT FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::int[], $10::int[], $11::bigint[],
  $12::bigint[]) h (batch, span, token, lo, hi, bits, size)
  LEFT JOIN rota.span s ON s.id = h.span AND s.batch = h.batch AND s.token = h.token
  AND s.lo <= h.lo AND h.hi <= s.hi
  WHERE CASE WHEN s.id IS NULL THEN (SELECT count(*) FROM rota.running u WHERE u.batch = h.batch
    AND u.n BETWEEN h.lo AND h.hi AND u.seq = 0 AND (h.bits >> (u.n & 63)) & 1 = 1
    AND u.span = h.span AND u.token = h.token) <> h.size
  WHEN s.gaps THEN (SELECT count(*) FROM rota.tasks(h.batch, h.lo, h.hi) t
    WHERE (h.bits >> (t.n & 63)) & 1 = 1) <> h.size
  ELSE false END
  OR EXISTS (SELECT FROM rota.running u WHERE u.batch = h.batch AND u.n BETWEEN h.lo AND h.hi
    AND u.seq = 0 AND (h.bits >> (u.n & 63)) & 1 = 1 AND (u.span <> h.span OR u.token <> h.token))))
AND (SELECT NOT EXISTS (
  SELECT FROM unnest($1::bigint[], $2::int[], $3::bigint[]) w (batch, lo, bits)
  JOIN rota.step p ON p.batch = w.batch AND p.n BETWEEN w.lo AND w.lo + 63 AND p.seq = 0
  AND p.batch BETWEEN $13 AND $14
  WHERE (w.bits >> (p.n & 63)) & 1 = 1))
ORDER BY w.batch, w.lo
ON CONFLICT (batch, lo) DO UPDATE SET bits = m.bits | excluded.bits, body = m.body || excluded.body,
  last = greatest(m.last, excluded.last)
WHERE m.bits & excluded.bits = 0 RETURNING 1),
over AS (DELETE FROM rota.running u USING unnest($1::bigint[], $2::int[],
  $3::bigint[]) w (batch, lo, bits)
  WHERE u.batch = w.batch AND u.n BETWEEN w.lo AND w.lo + 63 AND u.seq = 0
  AND (w.bits >> (u.n & 63)) & 1 = 1)
SELECT rota.micros($15), rota.expect((SELECT count(*) FROM done), $16)`

// means are what a settlement that failed has to do without the next time.
type means struct {
	busy  map[packID]bool // they are used by others: their outcomes become steps
	steps bool            // no marks at all
	// no room for locks: all packs are locked by one, and nothing becomes a mark
	crowded bool
}

// learn tells whether a settlement that failed may do by other means, which it notes.
func (m *means) learn(err error, d *settlement) bool {
	var pg *pgconn.PgError
	switch codeOf(err) {
	case codeBusy:
		errors.As(err, &pg)
		return m.avoid(pg.Detail, d.packs)
	case codeLockTable:
		learned := !m.crowded
		m.crowded, m.steps = true, true
		return learned
	}
	return false
}

// avoid notes the packs at some places; none = all.
func (m *means) avoid(places string, packs []packID) bool {
	if m.busy == nil {
		m.busy = map[packID]bool{}
	}
	if places == "" {
		m.steps = true
		return true
	}
	for place := range strings.SplitSeq(places, ",") {
		i, err := strconv.Atoi(place)
		if err != nil || i < 1 || i > len(packs) {
			m.steps = true
			return true
		}
		m.busy[packs[i-1]] = true
	}
	return true
}

// marking are outcomes on their way into marks.
type marking struct {
	steps []int32 // the reports that become steps, in order
	locks []int64 // of the packs

	batch, bits, last []int64
	lo                []int32
	body              [][]byte
	hands             markHands
}

// markHands are the hands of a marking, each in one pack.
type markHands struct {
	batch, span, token, bits, size []int64
	lo, hi                         []int32
}

func (c *markHands) add(r *store.Report) {
	k := len(c.batch) - 1
	if k < 0 || c.batch[k] != r.ID.Batch || c.span[k] != r.Token.Span ||
		c.token[k] != r.Token.SpanToken || pack.Lo(c.lo[k]) != pack.Lo(r.ID.N) {
		c.batch = append(c.batch, r.ID.Batch)
		c.span = append(c.span, r.Token.Span)
		c.token = append(c.token, r.Token.SpanToken)
		c.lo = append(c.lo, r.ID.N)
		c.hi = append(c.hi, r.ID.N)
		c.bits = append(c.bits, 0)
		c.size = append(c.size, 0)
		k++
	}
	c.hi[k] = r.ID.N
	c.bits[k] |= int64(pack.Bit(r.ID.N))
	c.size[k]++
}

// intoMarks parts reports, which are sorted, into those for marks and the others. Who submits
// something along with its reports may have to wait while it has packs for itself, so it has none.
func (d *settlement) intoMarks(record []int32) (m marking) {
	submits := func(r store.Report) bool { return r.Notice != nil || len(r.Spawn) > 0 }
	if d.by.steps || slices.ContainsFunc(d.reports, submits) {
		return marking{steps: record}
	}
	var list []int32 // of one pack, those that fit
	var done []pack.Done
	for len(record) > 0 {
		p := packOf(d.reports[record[0]].ID)
		n := 1
		for n < len(record) && packOf(d.reports[record[n]].ID) == p {
			n++
		}
		list = list[:0]
		if n >= d.marksFrom() && !d.by.busy[p] && len(d.packs) < packsLocked {
			list = d.fitting(list, record[:n])
		}
		if len(list) < d.marksFrom() || !d.small(list) {
			list = list[:0]
		} else {
			d.packs = append(d.packs, p)
			done = m.add(d, p, list, done[:0])
		}
		for _, i := range record[:n] { // both are in order
			if len(list) > 0 && list[0] == i {
				list = list[1:]
			} else {
				m.steps = append(m.steps, i)
			}
		}
		record = record[n:]
	}
	return m
}

// fitting adds those of the reports of one pack to list that a mark can say, and that are the only
// ones at their seq.
func (d *settlement) fitting(list, reports []int32) []int32 {
	same := func(k, j int) bool {
		return j >= 0 && j < len(reports) &&
			compare(&d.reports[reports[k]], &d.reports[reports[j]]) == 0
	}
	for k, i := range reports {
		if pack.Fits(&d.reports[i]) && !same(k, k-1) && !same(k, k+1) {
			list = append(list, i)
		}
	}
	return list
}

// small tells whether outcomes of one pack are small enough for a mark. A mark is written anew each
// time that outcomes are added: when k of 64 come at a time, a byte of them is written
// (64/k + 1) / 2 times. As a step each is written once, with some 220 bytes that it does not have
// in a mark.
func (d *settlement) small(list []int32) bool {
	const entry, spared = 12, 220
	k, size := len(list), 0
	for _, i := range list {
		size += entry + len(d.reports[i].Step.Result)
	}
	return size*(pack.Size-k) <= 2*spared*k*k || d.conf.marksFrom != 0
}

// add takes the reports of one pack.
func (m *marking) add(d *settlement, p packID, list []int32, done []pack.Done) []pack.Done {
	last := int64(0)
	for _, i := range list {
		r := &d.reports[i]
		done = append(done, pack.DoneBy(r))
		last = max(last, r.Step.Finished)
		m.hands.add(r)
	}
	body, bits := pack.AppendDone(make([]byte, 0, 64+16*len(list)), done)
	m.batch = append(m.batch, p.batch)
	m.lo = append(m.lo, p.lo)
	m.bits = append(m.bits, int64(bits))
	m.last = append(m.last, last)
	m.body = append(m.body, body)
	m.locks = append(m.locks, p.lock())
	return done
}

func (m *marking) args() []any {
	h := &m.hands
	return []any{m.batch, m.lo, m.bits, m.body, m.last, h.batch, h.span, h.token, h.lo, h.hi,
		h.bits, h.size, m.batch[0], m.batch[len(m.batch)-1]}
}

// firsts are the packs of the reports at seq 0, which are sorted, with their bits.
func (d *settlement) firsts(reports []int32) (c packColumns) {
	for _, i := range reports {
		r := &d.reports[i]
		if r.Token.Seq != 0 {
			continue
		}
		p := packOf(r.ID)
		if k := len(c.batch) - 1; k >= 0 && c.batch[k] == p.batch && c.lo[k] == p.lo {
			c.bits[k] |= int64(pack.Bit(r.ID.N))
			continue
		}
		c.batch = append(c.batch, p.batch)
		c.lo = append(c.lo, p.lo)
		c.bits = append(c.bits, int64(pack.Bit(r.ID.N)))
	}
	return c
}

// sharing makes the query that shares the locks of packs into which steps are to be inserted.
func (d *settlement) sharing(c *packColumns) []query {
	if len(c.batch) == 0 {
		return nil
	}
	if d.by.crowded {
		return []query{tell(shareAll, int64(allPacks))}
	}
	list := make([]packID, len(c.batch))
	for i := range c.batch {
		list[i] = packID{c.batch[i], c.lo[i]}
	}
	return sharing(list)
}

// marksFrom is how many outcomes of a pack make a mark.
func (s *steps) marksFrom() int {
	if s.conf.marksFrom != 0 {
		return s.conf.marksFrom
	}
	return marksFrom
}

// firstOf are the packs of tasks, each once and in order.
func firstOf(ids []task.ID) []packID {
	c := packsOf(ids)
	list := make([]packID, len(c.batch))
	for i := range c.batch {
		list[i] = packID{c.batch[i], c.lo[i]}
	}
	return list
}
