package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store/pack"
)

// markedTogether is how many plain outcomes of a pack have to come together to stand in its mark.
// One that comes alone costs no less there than as a step, and a body that grows by one outcome at
// a time is written as often.
const markedTogether = 4

// record writes the good reports down: plain outcomes of a pack that come together into its mark,
// all others as steps. What stands already refuses a report, wherever it stands.
func (d *settler) record(t *tx) error {
	d.steps = d.steps[:0]
	for rest := d.good; len(rest) > 0; {
		first := d.reports[rest[0]].ID
		n := 1
		for n < len(rest) {
			id := d.reports[rest[n]].ID
			if id.Batch != first.Batch || pack.Lo(id.N) != pack.Lo(first.N) {
				break
			}
			n++
		}
		if err := d.recordPack(t, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return d.insert(t, d.steps)
}

// recordPack records the good reports on tasks of one pack, or notes them for steps.
func (d *settler) recordPack(t *tx, good []int32) error {
	first := d.reports[good[0]].ID
	lo := pack.Lo(first.N)
	var bits pack.Bits
	d.body, d.fits = d.body[:0], d.fits[:0]
	stands, err := t.one(markAt, func(st *sqlite.Stmt) {
		bits = pack.Bits(st.ColumnInt64(0))
		d.body = append(d.body, t.borrow(st, 1)...)
	}, first.Batch, lo)
	if err != nil {
		return err
	}
	for _, i := range good {
		r := &d.reports[i]
		switch {
		case r.Token.Seq == 0 && bits.Has(r.ID.N):
			d.verdicts[i] = refused
		case pack.Fits(r):
			d.fits = append(d.fits, i)
		default:
			d.steps = append(d.steps, i)
		}
	}
	if len(d.fits) < d.together {
		d.steps = append(d.steps, d.fits...)
		return nil
	}
	return d.mark(t, first.Batch, lo, bits, stands)
}

const (
	stepsOf    = `SELECT 1 FROM step WHERE batch = ? AND n BETWEEN ? AND ? LIMIT 1`
	insertMark = `INSERT INTO mark (batch, lo, bits, body) VALUES (?, ?, ?, ?)`
	updateMark = `UPDATE mark SET bits = ?3, body = ?4 WHERE batch = ?1 AND lo = ?2`
)

// mark adds what fits to the mark of a pack, of which bits are taken.
func (d *settler) mark(t *tx, batch int64, lo int32, bits pack.Bits, stands bool) error {
	stepped, err := t.has(stepsOf, batch, lo, lo+pack.Size-1)
	if err != nil {
		return err
	}
	d.done = d.done[:0]
	for _, i := range d.fits {
		r := &d.reports[i]
		if stepped {
			taken, err := t.has(findStep, batch, r.ID.N, 0)
			if err != nil {
				return err
			}
			if taken {
				d.verdicts[i] = refused
				continue
			}
		}
		d.done = append(d.done, pack.DoneBy(r))
	}
	if len(d.done) == 0 {
		return nil
	}
	body, added := pack.AppendDone(d.body, d.done)
	d.body = body
	write := insertMark
	if stands {
		write = updateMark
	}
	_, err = t.exec(write, batch, lo, int64(bits|added), body)
	return err
}
