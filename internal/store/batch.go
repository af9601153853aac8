package store

import "hash/fnv"

// NodeBits is how many low bits of a batch id tell the nodes apart that submit in the same
// microsecond.
const NodeBits = 10

// BatchID makes a batch id from the store's time in microseconds and a hash of the submitting node.
func BatchID(micros int64, node uint32) int64 {
	return micros<<NodeBits | int64(node&(1<<NodeBits-1))
}

// BatchTime is the time inside a batch id, in microseconds since 1970.
func BatchTime(batch int64) int64 { return batch >> NodeBits }

// NodeHash is the hash of a node's name that batch ids carry.
func NodeHash(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// Depends tells whether the tasks of a batch wait for others: all of them do, or none.
func (b *Batch) Depends() bool { return len(b.Tasks) > 0 && len(b.Tasks[0].After) > 0 }
