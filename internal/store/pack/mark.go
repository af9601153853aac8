package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// ResultLimit is the size in bytes up to which a result stands in a mark.
const ResultLimit = 1024

// Done is the outcome of a first hand-out that ended well, as it stands in a mark.
type Done struct {
	N        int32
	Worker   string
	Token    int64 // of the span at the hand-out
	Started  int64 // microseconds since 1970, as all times
	Finished int64
	Result   store.Value // nil = none; never a blob
}

// Fits tells whether a report says no more than a mark keeps: done, of a first hand-out, without a
// context, without a large result.
func Fits(r *store.Report) bool {
	s := &r.Step
	return r.Token.Seq == 0 && s.Kind == task.KindDone && s.Base == store.Final && s.Attempt == 1 &&
		s.Context == nil && s.ContextSeq == -1 && s.Due == 0 && s.Error == "" &&
		s.Stage == s.Ran && r.Move == nil && r.Notice == nil &&
		len(s.Result) <= ResultLimit && (len(s.Result) == 0 || s.Result[0] != 0) &&
		s.Hash == hash(s.Result)
}

// plain is the hash of most reports: done, without a result.
var plain = store.ReportHash(task.Outcome{Kind: task.KindDone})

// hash is that of the reports that fit: it follows from the result, so marks don't keep it.
func hash(result store.Value) int64 {
	if result == nil {
		return plain
	}
	return store.ReportHash(task.Outcome{Kind: task.KindDone, Result: json.RawMessage(result)})
}

// DoneBy is what a mark keeps of a report that fits.
func DoneBy(r *store.Report) Done {
	return Done{
		N: r.ID.N, Worker: r.Step.Worker, Token: r.Token.SpanToken,
		Started: r.Step.Started, Finished: r.Step.Finished, Result: r.Step.Result,
	}
}

// Step is the outcome as a step would say it, of a task that was submitted for a stage.
func (d *Done) Step(stage string) store.Step {
	return store.Step{
		Kind: task.KindDone, Ran: stage, Stage: stage, ContextSeq: -1, Result: d.Result,
		Attempt: 1, Base: store.Final, Worker: d.Worker, Started: d.Started, Finished: d.Finished,
		Hash: hash(d.Result),
	}
}

// Repeats tells whether a report says what stands here already: the same outcome of the same
// hand-out.
func (d *Done) Repeats(r *store.Report) bool {
	return r.Token.Seq == 0 && r.Token.SpanToken == d.Token &&
		store.Repeats(r.Step.Hash, hash(d.Result))
}

// A body is a row of groups, each of outcomes with one worker and one token:
//
//	flags   1 byte      results: whether some outcome has a result
//	worker  text        a length, then so many bytes
//	token   signed
//	members 8 bytes     the bits of their numbers, little endian
//	for each member, ascending:
//	  started           signed: minus that of the member before, or minus 0
//	  took              signed: until it finished
//	  result            with results only: its length + 1, then so many bytes; 0 = none
//
// Numbers are varints, those that say signed zigzag (package encoding/binary).
const results = 1

// AppendDone adds outcomes of one pack, ascending in N, to the body of a mark, and answers their
// bits. The outcomes of one worker and one token that follow one another make a group.
func AppendDone(body []byte, list []Done) ([]byte, Bits) {
	var all Bits
	for len(list) > 0 {
		first := &list[0]
		var members Bits
		var flags byte
		n := 0
		for ; n < len(list) && list[n].Worker == first.Worker && list[n].Token == first.Token; n++ {
			members |= Bit(list[n].N)
			if list[n].Result != nil {
				flags |= results
			}
		}
		body = append(body, flags)
		body = binary.AppendUvarint(body, uint64(len(first.Worker)))
		body = append(body, first.Worker...)
		body = binary.AppendVarint(body, first.Token)
		body = binary.LittleEndian.AppendUint64(body, uint64(members))
		before := int64(0)
		for i := range list[:n] {
			body = appendMember(body, &list[i], before, flags)
			before = list[i].Started
		}
		all |= members
		list = list[n:]
	}
	return body, all
}

func appendMember(body []byte, d *Done, before int64, flags byte) []byte {
	body = binary.AppendVarint(body, d.Started-before)
	body = binary.AppendVarint(body, d.Finished-d.Started)
	if flags&results == 0 {
		return body
	}
	if d.Result == nil {
		return append(body, 0)
	}
	body = binary.AppendUvarint(body, uint64(len(d.Result))+1)
	return append(body, d.Result...)
}

// EachDone calls visit with the outcomes in the body of a mark whose pack begins at lo, group by
// group, until it answers false. What visit gets is good until it returns; results are parts of
// body.
func EachDone(body []byte, lo int32, visit func(*Done) bool) error {
	var d Done
	for r := newReader(body); len(r.rest) > 0; {
		flags := r.byte()
		worker := r.bytes(r.uvarint())
		if d.Worker != string(worker) {
			d.Worker = string(worker)
		}
		d.Token = r.varint()
		members := Bits(r.uint64())
		if members == 0 || flags&^results != 0 {
			r.fail(errors.New("a group without members or with unknown flags"))
		}
		d.Started = 0
		for n := range members.Numbers(lo) {
			d.N = n
			d.Started += r.varint()
			d.Finished = d.Started + r.varint()
			d.Result = nil
			if flags&results != 0 {
				d.Result = r.optional()
			}
			if r.err != nil {
				break
			}
			if !visit(&d) {
				return nil
			}
		}
		if r.err != nil {
			return fmt.Errorf("read a mark of %d bytes: %w", len(body), r.err)
		}
	}
	return nil
}

// FindDone finds the outcome of the task with a number in the body of its pack's mark. Its result
// is a copy.
func FindDone(body []byte, n int32) (found Done, ok bool, err error) {
	err = EachDone(body, Lo(n), func(d *Done) bool {
		if d.N == n {
			found, ok = *d, true
			found.Result = bytes.Clone(d.Result)
		}
		return !ok
	})
	return found, ok, err
}
