package rules

import (
	"math"

	"github.com/rotahq/rota/internal/store"
)

// Bounds of a take by keys: for about so many tasks it finds out the keys, so many spans it looks
// at by rank for each task that is asked for, and so many keys it looks at.
const (
	SortedAtOnce   = 1000
	SpansByRank    = 4
	KeysAtOnce     = 1000
	SpansAsTheyAre = 2000 // that it takes as they are
)

// Ready is what is ready of a queue that goes by keys: the first ReadyToCount spans by rank.
type Ready struct {
	Spans, Tasks int
	Deaths       int32 // the most holders that died with one of them that is not sorted
}

// AsItIs is how many tasks a take takes as they are, by rank, and whether it does. What died with a
// node may be the reason, so its keys are told apart.
func (u *Ready) AsItIs(k *store.ByKey) (n int, is bool) {
	switch {
	case u.Deaths > 0:
		return 0, false
	case u.Tasks <= k.Whole && u.Spans < SpansAsTheyAre:
		return k.Whole, k.Whole > 0
	}
	return min(k.First, u.Tasks), k.First > 0
}

// ReadyToCount is how many spans have to be counted for that; 0 = nothing is taken as it is.
func ReadyToCount(k *store.ByKey) int {
	most := max(k.Whole, k.First)
	if most <= 0 {
		return 0
	}
	return min(most+1, SpansAsTheyAre)
}

// Run is a run of a span's numbers with the tasks of one key.
type Run struct {
	Lo, Hi int32
	Key    string
	Size   int // its tasks
}

// Runs are the runs of a span, which cover it; keys are those of its tasks.
type Runs struct {
	span *store.Span
	list []Run
}

// RunsOf begins to sort a span.
func RunsOf(sp *store.Span) Runs { return Runs{span: sp} }

// Add takes in the next task of the span: by number, only those that are still its own.
func (r *Runs) Add(n int32, key string) {
	last := len(r.list) - 1
	if last >= 0 && r.list[last].Key == key {
		r.list[last].Size++
		return
	}
	lo := n
	if last < 0 {
		lo = r.span.Lo
	} else {
		r.list[last].Hi = n - 1
	}
	r.list = append(r.list, Run{Lo: lo, Key: key, Size: 1})
}

// List answers the runs. A span without tasks is one run, of no key.
func (r *Runs) List() []Run {
	if len(r.list) == 0 {
		r.list = append(r.list, Run{Lo: r.span.Lo})
	}
	r.list[len(r.list)-1].Hi = r.span.Hi
	return r.list
}

// ByKey chooses what a take by keys takes.
type ByKey struct {
	left int // tasks that are still wanted
	now  int64
	room map[string]int
	held map[string]int64 // when keys that have no room have some by themselves
	soon int64            // the earliest of those that were passed over; 0 = none was
	only map[string]int64 // of keys that go in order: the span that may be taken

	Chosen []int64 // spans
	chosen map[int64]bool
}

// ChooseByKey begins to choose spans for a take with a limit.
func ChooseByKey(r *store.TakeRequest, now int64) *ByKey {
	b := &ByKey{
		left: r.Limit, now: now, room: map[string]int{}, held: map[string]int64{},
		chosen: map[int64]bool{}, only: map[string]int64{},
	}
	for _, key := range r.Keys.Skip {
		b.room[key] = 0
	}
	return b
}

// Enough tells whether no more is wanted.
func (b *ByKey) Enough() bool { return b.left <= 0 }

// Soon is when to look again because of rates and pauses; 0 = they hold nothing back.
func (b *ByKey) Soon() int64 { return b.soon }

// Knows tells whether it is known how a key stands.
func (b *ByKey) Knows(key string) bool {
	_, known := b.room[key]
	return known
}

// Stands takes in how a key stands beside its limits; nil = it has none.
func (b *ByKey) Stands(key string, gate *KeyStand) {
	if gate == nil {
		b.room[key] = math.MaxInt
		return
	}
	if gate.InOrder() {
		if gate.Next == 0 {
			b.room[key] = 0
			return
		}
		b.only[key] = gate.Next
	}
	b.room[key] = gate.Left(math.MaxInt32, b.now)
	if until := gate.Held(b.now).Until; until != 0 {
		b.held[key] = until
	}
}

// Open tells whether tasks of a key may begin that are not chosen yet.
func (b *ByKey) Open(key string) bool {
	if until := b.held[key]; until > 0 && (b.soon == 0 || until < b.soon) {
		b.soon = until
	}
	return b.room[key] > 0
}

// Only is the span of a key that may be taken, where the key goes in order; 0 = any.
func (b *ByKey) Only(key string) int64 { return b.only[key] }

// Offer chooses a span, if it was not chosen before, more is wanted, and its key has room.
func (b *ByKey) Offer(id int64, key string, width int) {
	if b.chosen[id] || b.Enough() || !b.Open(key) {
		return
	}
	b.chosen[id] = true
	b.Chosen = append(b.Chosen, id)
	n := min(width, b.room[key])
	b.left -= n
	if b.room[key] != math.MaxInt {
		b.room[key] -= n
	}
}

// Rounds is how often each of the keys that are open has a turn, and how many spans of each are
// looked at, no more than tasks are wanted; turns are how many spans a turn of each has.
func (b *ByKey) Rounds(turns []int) (rounds int, most []int) {
	sum := 0
	for _, n := range turns {
		sum += n
	}
	rounds = (b.left + sum - 1) / max(sum, 1)
	for _, n := range turns {
		most = append(most, min(rounds*n, b.left))
	}
	return rounds, most
}
