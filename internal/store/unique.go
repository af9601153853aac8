package store

import (
	"encoding/binary"
	"errors"

	"github.com/rotahq/rota/task"
)

// Unique says that a task is to be the only one of its queue that has a key, for a time.
type Unique struct {
	Key     string
	Waiting bool  // until it is handed out for the first time; otherwise until it is final
	Until   int64 // when that ends at the latest; 0 = only so
	// OnExisting is what becomes of the task when another one has the key.
	OnExisting task.OnExisting
	// KeepDue: should it replace another one, that one stays due when it is.
	KeepDue bool
	Order   int32 // the tasks of a submission ask one after the other
}

// Refusal says why nothing of a call was inserted.
type Refusal struct {
	Call  int32
	ID    task.ID // as submitted: the first whose key is taken
	First task.ID // the task that has the key
}

// EncodeExisting makes the bytes in which a batch remembers which of its tasks were not inserted
// because of their keys, of either sort: who submits it once more is answered as the first time,
// whatever became of the keys since. None are nil.
func EncodeExisting(list []Existing) (b []byte) {
	for _, e := range list {
		b = binary.AppendUvarint(b, uint64(e.ID.N))
		b = binary.AppendUvarint(b, uint64(e.First.Batch))
		b = binary.AppendUvarint(b, uint64(e.First.N))
		b = append(b, codeOf(e.Action))
	}
	return b
}

// actions are stored as their places here; never reorder.
var actions = [...]task.Submitted{
	task.SubmittedCreated, task.SubmittedKept, task.SubmittedReplaced, task.SubmittedDebounced,
}

func codeOf(a task.Submitted) byte {
	for i, known := range actions {
		if a == known {
			return byte(i)
		}
	}
	return 1
}

var errExisting = errors.New("what a batch says of keys is damaged")

// DecodeExisting reads what EncodeExisting made for a batch.
func DecodeExisting(batch int64, b []byte) (list []Existing, err error) {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, b = errExisting, nil
			return 0
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		e := Existing{ID: task.ID{Batch: batch, N: int32(number())}}
		e.First.Batch, e.First.N = int64(number()), int32(number())
		if err != nil || len(b) == 0 || int(b[0]) >= len(actions) {
			return nil, errExisting
		}
		e.Action, b = actions[b[0]], b[1:]
		list = append(list, e)
	}
	return list, nil
}
