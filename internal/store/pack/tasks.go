package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// BodyLimit is the size in bytes from which on the body of a pack takes no more tasks: the next
// one begins another row of the same pack. Who reads one task reads no more than its row.
const BodyLimit = 16 << 10

// The body of a pack is a row of entries, ascending in N, each
//
//	flags    1 byte   which of the following it has
//	stage    text     where it is another than that of the entry before; the first has one
//	context  text
//	key      text
//	group    text     the group key
//	attempts signed   at most so many; none = as many as its queue says
//	timeout  signed   microseconds; none = that of its queue
//	meta     number   which of the metas of the body so far, from 1 on; 0 = another, and its text
//	more     1 byte   which of the following it has
//	within   signed   microseconds after the batch's due time within which it is to be begun
//
// A text is its length and so many bytes; signed numbers are as in the body of a mark.
const (
	hasStage = 1 << iota
	hasContext
	hasKey
	hasGroup
	hasAttempts
	hasTimeout
	hasMeta
	hasMore
)

// What more an entry may have. An entry without any of it has no byte for it.
const hasWithin = 1

// AppendTasks adds those of the tasks to body that fit into one row, at least one: those of one
// pack, until the body is full. It answers their bits and how many they are. tasks are ascending in
// N.
func AppendTasks(body []byte, tasks []store.Task) (_ []byte, has Bits, n int) {
	lo := Lo(tasks[0].N)
	var w writer
	for n < len(tasks) && Lo(tasks[n].N) == lo && len(body) < BodyLimit {
		body = w.append(body, &tasks[n])
		has |= Bit(tasks[n].N)
		n++
	}
	return body, has, n
}

// writer knows what the entries so far have in common with those that follow.
type writer struct {
	stage string // of the last one
	metas []store.Meta
}

func (w *writer) append(body []byte, t *store.Task) []byte {
	at := len(body)
	var flags byte
	body = append(body, 0)
	text := func(flag byte, s string, none bool) {
		if none {
			return
		}
		flags |= flag
		body = binary.AppendUvarint(body, uint64(len(s)))
		body = append(body, s...)
	}
	number := func(flag byte, v int64) {
		if v != 0 {
			flags |= flag
			body = binary.AppendVarint(body, v)
		}
	}
	text(hasStage, t.Stage, t.Stage == w.stage)
	w.stage = t.Stage
	if t.Context != nil {
		flags |= hasContext
		body = binary.AppendUvarint(body, uint64(len(t.Context)))
		body = append(body, t.Context...)
	}
	text(hasKey, t.Key, t.Key == "")
	text(hasGroup, t.GroupKey, t.GroupKey == "")
	number(hasAttempts, int64(t.MaxAttempts))
	number(hasTimeout, t.Timeout)
	if t.Meta != "" {
		flags |= hasMeta
		body = w.appendMeta(body, t.Meta)
	}
	if t.StartWithin != 0 {
		flags |= hasMore
		body = binary.AppendVarint(append(body, hasWithin), t.StartWithin)
	}
	body[at] = flags
	return body
}

func (w *writer) appendMeta(body []byte, m store.Meta) []byte {
	i := slices.Index(w.metas, m)
	body = binary.AppendUvarint(body, uint64(i+1))
	if i < 0 {
		w.metas = append(w.metas, m)
		body = binary.AppendUvarint(body, uint64(len(m)))
		body = append(body, m...)
	}
	return body
}

// EachTask calls visit with the tasks in the body of a pack, ascending in N, until it answers
// false. first is a number of the pack, has are the bits of the tasks in it. What visit gets is
// good until it returns; contexts are parts of body.
func EachTask(body []byte, first int32, has Bits, visit func(*store.Task) bool) error {
	r := newReader(body)
	var t store.Task
	var metas []store.Meta
	for n := range has.Numbers(Lo(first)) {
		t = store.Task{N: n, Stage: t.Stage}
		flags := r.byte()
		if flags&hasStage != 0 {
			t.Stage = string(r.bytes(r.uvarint()))
		}
		if flags&hasContext != 0 {
			t.Context = r.bytes(r.uvarint())
		}
		if flags&hasKey != 0 {
			t.Key = string(r.bytes(r.uvarint()))
		}
		if flags&hasGroup != 0 {
			t.GroupKey = string(r.bytes(r.uvarint()))
		}
		if flags&hasAttempts != 0 {
			t.MaxAttempts = int32(r.varint())
		}
		if flags&hasTimeout != 0 {
			t.Timeout = r.varint()
		}
		if flags&hasMeta != 0 {
			if i := r.uvarint(); i == 0 {
				t.Meta = store.Meta(r.bytes(r.uvarint()))
				metas = append(metas, t.Meta)
			} else if i <= uint64(len(metas)) {
				t.Meta = metas[i-1]
			} else {
				r.fail(errors.New("a meta that no entry before has"))
			}
		}
		if flags&hasMore != 0 {
			if more := r.byte(); more != hasWithin {
				r.fail(errors.New("an entry with unknown flags"))
			}
			t.StartWithin = r.varint()
		}
		if r.err != nil {
			return fmt.Errorf("read a pack of %d bytes, task %d: %w", len(body), n, r.err)
		}
		if !visit(&t) {
			return nil
		}
	}
	if len(r.rest) > 0 {
		return fmt.Errorf("read a pack of %d bytes: %w: %d bytes are left over", len(body),
			ErrDamaged, len(r.rest))
	}
	return nil
}

// FindTask finds the task with a number in the body of its pack. Its context is a copy.
func FindTask(body []byte, has Bits, n int32) (found store.Task, ok bool, err error) {
	if !has.Has(n) {
		return found, false, nil
	}
	err = EachTask(body, n, has, func(t *store.Task) bool {
		if t.N == n {
			found, ok = *t, true
			found.Context = bytes.Clone(t.Context)
		}
		return !ok
	})
	return found, ok, err
}

// Thin answers the body of a pack without the tasks that are taken out.
func Thin(body []byte, first int32, has, out Bits) ([]byte, error) {
	thin := make([]byte, 0, len(body))
	var w writer
	err := EachTask(body, first, has, func(t *store.Task) bool {
		if !out.Has(t.N) {
			thin = w.append(thin, t)
		}
		return true
	})
	return thin, err
}
