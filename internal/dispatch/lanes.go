package dispatch

import (
	"maps"
	"math"
	"slices"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// lanes keeps what is ready of a queue that goes by group keys: a lane for each key that has
// something ready here, and for no other, so that keys cost nothing while they have no work.
//
// Next is the first task of the first lane that is open. Rank decides which lane that is; where the
// queue is fair, turns do: a lane from which a task went out goes behind all others, and so does
// one that is new. So between two hand-outs of a key every other one that has work has one, and
// nobody waits for more than a turn of all. A turn is as many tasks as the key weighs: deficit
// round robin (Shreedhar and Varghese 1995), where each task costs one. A task that was held back
// gives its turn back.
//
// A lane is shut while the limits of its key leave no room, as far as is known: see keygate.go.
type lanes struct {
	memory  *memory
	fair    bool
	limited bool // each key has limits, but for "", which is none
	inOrder bool // a task of a key begins when the one before is over
	weighs  bool // keys take turns, and some may have more than one at a time
	rated   bool // and they say how fast tasks begin
	room    int  // of a lane of whose key nothing is known
	// Each lane has entries, perhaps of what left since, and is in by and in exactly one of open
	// and shut: in shut if it has no room.
	by   map[string]*lane
	open laneHeap // by turn, then rank
	shut laneHeap // by when it opens by itself
	sum  laneSum  // of all lanes
	// apart is what is ready of spans that have to be sorted first: it does not go out, and is
	// given back
	apart heap
	low   bool           // a lane that takes were told to pass over has little left
	short bool           // so does one that is scarce
	turns int64          // given so far
	last  int64          // the turn of what went out last
	asked map[string]int // hand-outs of which the store is being asked, by key
	out   map[string]int // tasks in workers' hands, by key
	// weights are how many tasks a turn has, of the keys of which that is known and not one: a lane
	// that ends and comes again has turns as before.
	weights map[string]int
}

// lane is what is ready of one group key.
type lane struct {
	heap
	key string
	// room is how many more hand-outs of the key the store may let begin: advice, as gate.room is.
	room int
	turn int64 // the least goes first; 0 = rank decides
	// weight is how many tasks a turn has, and went how many of the present one went out.
	weight int
	went   int
	known  admission.Gate // how the key stood when its room was heard
	opens  int64          // when it has room by itself, by the store's clock; 0 = it does not
	since  uint32         // the round in which it was opened or shut
	// passed: takes were told to pass over the key, as there is enough of it here. That ends when
	// no more than least are left.
	passed bool
	least  int
	// scarce: the store may have more of the key, and when no more than floor are left here, that
	// is looked for, whatever there is of others: so that the key has its turns.
	scarce bool
	floor  int
	in     *laneHeap // open or shut
	at     int       // where it stands there
	sum    laneSum   // as it is counted
}

// laneSum is what lanes hold.
type laneSum struct {
	count  int
	bytes  int64
	usable int // as many of each lane as it has room for
}

func (s *laneSum) add(a laneSum, sign int) {
	s.count += sign * a.count
	s.bytes += int64(sign) * a.bytes
	s.usable += sign * a.usable
}

func newLanes(m *memory, conf *task.Queue) *lanes {
	limits := admission.KeyLimitsOf(conf)
	ls := &lanes{
		memory: m, fair: conf.Fair, limited: admission.LimitsKeys(conf),
		rated:   limits.Rate.Count > 0,
		inOrder: limits.Running == 1,
		weighs:  conf.Fair && conf.KeyRules,
		room:    unknownRoom, by: map[string]*lane{},
		asked: map[string]int{}, out: map[string]int{},
		weights: map[string]int{},
	}
	if limits.Running > 0 {
		ls.room = limits.Running
	}
	ls.open.before = func(a, b *lane) bool {
		if a.turn != b.turn {
			return a.turn < b.turn
		}
		return a.entries[0].before(&b.entries[0])
	}
	ls.shut.before = func(a, b *lane) bool { return a.opensBy() < b.opensBy() }
	return ls
}

// opensBy is opens, where never comes last.
func (l *lane) opensBy() int64 {
	if l.opens == 0 {
		return math.MaxInt64
	}
	return l.opens
}

// limits tells whether a key has limits.
func (ls *lanes) limits(key string) bool { return ls.limited && key != "" }

// mixes tells whether spans with tasks of several keys may be handed out as they are. Where a task
// of a key waits for the one before it, the store says which one that is, and has to know the keys
// of spans; so it has where they weigh, as it says how much.
func (ls *lanes) mixes() bool { return !ls.inOrder && !ls.weighs }

// takesIn tells whether memory may have the tasks of a batch as they come: not if some are of a key
// without room, of which there may be more and more.
func (ls *lanes) takesIn(b *store.Batch) bool {
	if !ls.mixes() {
		return false
	}
	for i := range b.Tasks {
		if l := ls.by[b.Tasks[i].GroupKey]; l != nil && l.room <= 0 {
			return false
		}
	}
	return true
}

// isApart tells whether a span has to be sorted before tasks of it go out.
func (ls *lanes) isApart(sp *span) bool {
	return !sp.Sorted && (sp.keys == nil || !ls.mixes())
}

// lane is that of a key's tasks, made if there is none.
func (ls *lanes) lane(key string) *lane {
	l := ls.by[key]
	if l == nil {
		l = &lane{
			key: key, room: unknownRoom, turn: ls.turn(), since: ls.memory.turns,
			weight: max(ls.weights[key], 1),
		}
		if ls.limits(key) {
			l.room = ls.room
		}
		ls.by[key] = l
	}
	return l
}

// turn is the one behind all others.
func (ls *lanes) turn() int64 {
	if !ls.fair {
		return 0
	}
	ls.turns++
	return ls.turns
}

func (ls *lanes) push(it *item) {
	if ls.isApart(it.span) {
		ls.apart.push(it, false)
		return
	}
	l, front := ls.lane(it.key()), ls.puts(it)
	l.push(it, front)
	if front && l.room < 1 {
		l.room, l.opens = 1, 0
	}
	ls.update(l)
}

// puts tells whether an item goes before all others of its lane: it owns its key. There may be no
// lanes, and no item.
func (ls *lanes) puts(it *item) bool { return ls != nil && ls.inOrder && it != nil && it.owns }

func (ls *lanes) pushRun(sp *span) {
	if e := runOf(sp); !e.void() {
		ls.take(e)
	}
}

// take takes an entry over, that of a span with tasks of several keys in parts.
func (ls *lanes) take(e entry) {
	switch {
	case ls.isApart(e.span):
		ls.apart.take(e)
		return
	case e.item != nil:
		ls.takeOf(e.item.key(), e)
		return
	case e.span.Sorted:
		ls.takeOf(e.span.Key, e)
		return
	}
	keys := e.span.keys
	for from := e.from; from <= e.to; {
		part := e
		part.from, part.to = from, from
		for part.to < e.to && keys[part.to+1] == keys[from] {
			part.to++
		}
		key := keys[from]
		from = part.to + 1
		if !part.void() {
			ls.takeOf(key, part)
		}
	}
}

func (ls *lanes) takeOf(key string, e entry) {
	l := ls.lane(key)
	l.take(e)
	ls.update(l)
}

// leave notes that a plain task is no longer ready. Its lane stands until somebody looks for its
// first task: what left may come back at once.
func (ls *lanes) leave(s spot) {
	if ls.isApart(s.span) {
		ls.apart.leave(s.cell)
		return
	}
	l := ls.by[s.key()]
	l.leave(s.cell)
	ls.count(l)
}

// first is the entry whose first task is next, nil when no lane is open. What left since makes a
// lane stand too far in front, never too far behind.
func (ls *lanes) first() *entry {
	for len(ls.open.list) > 0 {
		l := ls.open.list[0]
		e := l.first()
		ls.update(l)
		if e != nil && ls.open.list[0] == l {
			return e
		}
	}
	return nil
}

func (ls *lanes) pop() spot {
	ls.first()
	l := ls.open.list[0]
	s := l.pop()
	ls.last = l.turn
	if l.went++; l.went >= l.weight {
		l.turn, l.went = ls.turn(), 0
	}
	if ls.limits(l.key) {
		l.room--
	}
	l.first() // so that a lane of nothing ends
	ls.update(l)
	return s
}

// giveBack gives the lane of a key a turn back that came to nothing.
func (ls *lanes) giveBack(key string, turn int64) {
	l := ls.by[key]
	switch {
	case !ls.fair || l == nil || turn <= 0 || turn > l.turn:
	case turn == l.turn:
		l.went = max(l.went-1, 0)
	default:
		l.turn, l.went = turn, l.weight-1
		ls.update(l)
	}
}

// setRoom says how much room a lane has, and when it has some by itself.
func (ls *lanes) setRoom(l *lane, room int, opens int64) {
	l.room, l.opens = room, opens
	ls.update(l)
}

// tidy ends lanes of which nothing is left, and forgets what was apart and has left.
func (ls *lanes) tidy() {
	ls.apart.first()
	for _, key := range slices.Sorted(maps.Keys(ls.by)) {
		l := ls.by[key]
		l.first()
		ls.update(l)
	}
}

// skip names the keys of which there is enough here, when so many tasks are wanted: as many of each
// as may begin, or as are wanted of it. Of a key in order whose next task is not here there is not.
func (ls *lanes) skip(want int) (keys []string) {
	part := want
	rounds := 0 // of turns
	if ls.fair {
		sum := 0
		for _, l := range ls.by {
			sum += l.weight
		}
		rounds = (want + sum - 1) / max(sum, 1)
	}
	for key, l := range ls.by {
		if ls.inOrder && l.room <= 0 {
			continue
		}
		if ls.fair {
			part = rounds * l.weight
		}
		if enough := max(min(l.room, part), 1); l.heap.count >= enough {
			l.passed, l.least = true, enough/2
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// update puts a lane where it belongs.
func (ls *lanes) update(l *lane) {
	ls.count(l)
	if l.passed && l.heap.count <= l.least {
		l.passed = false
		ls.low = ls.low || l.room > 0 || ls.rated // else nothing may begin until a task ends
	}
	if l.scarce && l.heap.count <= l.floor {
		l.scarce, ls.short, ls.low = false, true, true
	}
	in := &ls.open
	switch {
	case len(l.entries) == 0:
		in = nil
		delete(ls.by, l.key)
	case l.room <= 0:
		in = &ls.shut
	}
	if in == l.in && in != nil {
		in.fix(l.at)
		return
	}
	if l.in != nil {
		l.in.remove(l)
	}
	if l.in = in; in != nil {
		l.since = ls.memory.turns
		in.add(l)
	}
}

// count counts what a lane holds.
func (ls *lanes) count(l *lane) {
	ls.sum.add(l.sum, -1)
	l.sum = laneSum{l.heap.count, l.bytes, min(l.heap.count, max(l.room, 0))}
	ls.sum.add(l.sum, 1)
}

// laneHeap is a binary heap of lanes that know where they stand in it.
type laneHeap struct {
	list   []*lane
	before func(a, b *lane) bool
}

func (h *laneHeap) add(l *lane) {
	l.at = len(h.list)
	h.list = append(h.list, l)
	h.fix(l.at)
}

func (h *laneHeap) remove(l *lane) {
	i, last := l.at, len(h.list)-1
	h.swap(i, last)
	h.list[last] = nil
	if h.list = h.list[:last]; i < last {
		h.fix(i)
	}
}

// fix puts the lane at i where it belongs.
func (h *laneHeap) fix(i int) {
	for ; i > 0 && h.before(h.list[i], h.list[(i-1)/2]); i = (i - 1) / 2 {
		h.swap(i, (i-1)/2)
	}
	for child := 2*i + 1; child < len(h.list); child = 2*i + 1 {
		if child+1 < len(h.list) && h.before(h.list[child+1], h.list[child]) {
			child++
		}
		if !h.before(h.list[child], h.list[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *laneHeap) swap(i, k int) {
	h.list[i], h.list[k] = h.list[k], h.list[i]
	h.list[i].at, h.list[k].at = i, k
}
