package history

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// version is the first byte of what Changes and records become. A body that SQL wrote is a JSON
// object, and begins with its brace.
const version = 1

// Encode is what changed, as it is written down; nil when nothing did. The order is that of the
// cells, so the same changes are the same bytes.
func (c *Changes) Encode() []byte {
	if len(c.cells) == 0 {
		return nil
	}
	b := []byte{version}
	for _, k := range slices.SortedFunc(maps.Keys(c.cells), compareCells) {
		b = binary.AppendUvarint(b, uint64(k.minute))
		for _, s := range [...]string{k.Queue, k.Stage, k.Worker} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
		b = c.cells[k].encode(b)
	}
	return b
}

func compareCells(a, b cell) int {
	return cmp.Or(cmp.Compare(a.minute, b.minute), a.Series.compare(b.Series))
}

// compare puts the store as a whole first, then each queue before its stages, then the workers.
func (s Series) compare(o Series) int {
	return cmp.Or(cmp.Compare(s.Worker, o.Worker), cmp.Compare(s.Queue, o.Queue),
		cmp.Compare(s.Stage, o.Stage))
}

// Encode is the record as a row of the history keeps it.
func (r *Record) Encode() []byte { return r.encode([]byte{version}) }

func (r *Record) encode(b []byte) []byte {
	fields := r.fields()
	b = binary.AppendUvarint(b, uint64(len(fields)))
	for _, n := range fields {
		b = binary.AppendVarint(b, *n)
	}
	b = binary.AppendUvarint(b, uint64(r.Ready))
	b = binary.AppendUvarint(b, uint64(r.Running))
	return r.Waited.encode(r.Run.encode(r.Wait.encode(b)))
}

// Onto is what body, which Encode wrote, and the record are together; the record itself stays as
// it is. Of a body that makes no sense it is the record alone, with an error that says why.
func (r *Record) Onto(body []byte) (*Record, error) {
	all, err := Decode(body)
	if err != nil {
		return r, err
	}
	all.Merge(r)
	return all, nil
}

// errCut is what is wrong with a body that ends too soon, or says what can't be.
var errCut = errors.New("the body of a row of history makes no sense")

// reader reads a body. After its first failure it reads zeros.
type reader struct {
	rest []byte
	bad  bool
}

// begin checks the first byte.
func begin(body []byte) (*reader, error) {
	if len(body) == 0 || body[0] != version {
		return nil, fmt.Errorf("%w: it begins with %.10q", errCut, body)
	}
	return &reader{rest: body[1:]}, nil
}

func (r *reader) fail() {
	r.rest, r.bad = nil, true
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text() string {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

// record reads a record. Counts that a later version has behind those of this one are passed over.
func (r *reader) record(into *Record) {
	fields := into.fields()
	n := r.uint()
	for i := uint64(0); i < n && !r.bad; i++ {
		if v := r.int(); i < uint64(len(fields)) {
			*fields[i] = v
		}
	}
	into.Ready = int64(r.uint())
	into.Running = int64(r.uint())
	r.histogram(&into.Wait)
	r.histogram(&into.Run)
	r.histogram(&into.Waited)
}

func (r *reader) histogram(h *Histogram) {
	n := r.uint()
	if n > buckets || n > uint64(len(r.rest)) {
		r.fail()
		return
	}
	h.bars = make([]bar, 0, n)
	at := uint64(0)
	for i := range n {
		step := r.uint()
		at += step
		count := int64(r.uint())
		if at >= buckets || step >= buckets || i > 0 && step == 0 || count <= 0 {
			r.fail()
		}
		if r.bad {
			return
		}
		h.bars = append(h.bars, bar{uint16(at), count})
	}
}

// Decode reads what Record.Encode wrote.
func Decode(body []byte) (*Record, error) {
	r, err := begin(body)
	if err != nil {
		return nil, err
	}
	var record Record
	r.record(&record)
	if r.bad || len(r.rest) > 0 {
		return nil, errCut
	}
	return &record, nil
}

// decodeChanges reads what Changes.Encode wrote, cell by cell, or what SQL did.
func decodeChanges(body []byte, each func(cell, *Record)) error {
	if len(body) > 0 && body[0] == '{' {
		return decodeFinished(body, each)
	}
	r, err := begin(body)
	if err != nil {
		return err
	}
	for len(r.rest) > 0 {
		var k cell
		var record Record
		k.minute = int64(r.uint())
		k.Queue, k.Stage, k.Worker = r.text(), r.text(), r.text()
		r.record(&record)
		if r.bad {
			return errCut
		}
		each(k, &record)
	}
	return nil
}

// finished is an outcome that a worker's own transaction recorded, as SQL says it: see rota.finish
// of package postgres.
type finished struct {
	Queue   string `json:"queue"`
	Stage   string `json:"stage"`
	Next    string `json:"next"` // "" = the task is done
	Worker  string `json:"worker"`
	Ready   int64  `json:"ready"`
	Started int64  `json:"started"`
	At      int64  `json:"at"`
}

func decodeFinished(body []byte, each func(cell, *Record)) error {
	var f finished
	if err := json.Unmarshal(body, &f); err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	step := store.Step{
		Kind: task.KindDone, Base: store.Final, Ran: f.Stage, Worker: f.Worker,
		Started: f.Started, Finished: f.At,
	}
	if f.Next != "" {
		step.Kind, step.Base, step.Stage = task.KindNext, 0, f.Next
	}
	var c Changes
	c.Settled(f.Queue, f.Ready, &step)
	for k, r := range c.cells {
		each(k, r)
	}
	return nil
}
