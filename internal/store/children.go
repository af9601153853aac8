package store

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/rotahq/rota/task"
)

// Tasks that another one submits while it runs are its children: with the report of its outcome
// (Report.Spawn), or before it (Submission.Under). Each batch of them has a row child_batch, which
// says whose they are. A task that awaits its children is blocked until all of them are final, or
// one of them is dead or expired (Await.First).
//
// Whoever ends a task has to know whether it is a child. The batch's id tells: see MayBeChildren.

// ChildBit is set in the ids of all batches of children. Others have it, too, where nodes of before
// chose the ids; so it says for certain only that a batch has no parent.
const ChildBit = 1

// MayBeChildren tells whether the tasks of a batch may have a parent: whether it is worth the look
// into child_batch.
func MayBeChildren(batch int64) bool { return batch&ChildBit != 0 }

// Right is the right to report of a hand-out, for what comes before the report.
type Right struct {
	ID    task.ID
	Token task.Token
}

// Spawned is what a report's tasks became.
type Spawned struct {
	Report int // its place in the settlement
	// IDs of the tasks in the order of their N, over all batches of the report: of those that exist
	// already by their key, the one that has it. Of a Repeated report those of the first time.
	IDs []task.ID
}

// ChildrenQuery asks for children of a task, those of all its runs, oldest first.
type ChildrenQuery struct {
	Parent task.ID
	State  task.State // "" = all
	After  task.ID    // goes on behind this one; zero = from the first
	Limit  int
	Live   map[task.ID]Live // as Filter.Live
}

// spawnHash tells whether two reports submit the same children.
func spawnHash(list []task.Submission) uint64 {
	h := fnv.New64a()
	text := func(s string) {
		var size [4]byte
		binary.LittleEndian.PutUint32(size[:], uint32(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	number := func(n int64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	for i := range list {
		s := &list[i]
		for _, part := range [...]string{s.Queue, s.Stage, s.Key, s.GroupKey} {
			text(part)
		}
		text(string(s.Context))
		due := int64(0)
		if !s.Due.IsZero() {
			due = s.Due.UnixMilli() // as it travels
		}
		orphan := int64(0)
		if s.Orphan {
			orphan = 1
		}
		for _, n := range [...]int64{
			int64(s.Priority), due, int64(s.Delay), int64(s.KeyFor), int64(s.MaxAttempts),
			int64(s.Timeout), int64(s.StartWithin), orphan, int64(len(s.Meta)),
		} {
			number(n)
		}
		if len(s.After) > 0 || s.Ref != "" {
			number(int64(len(s.After)))
			text(s.Ref)
			text(string(s.If))
			for _, name := range s.After {
				text(name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Meta)) {
			text(name)
			text(s.Meta[name])
		}
	}
	return h.Sum64()
}
