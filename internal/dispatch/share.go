package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// Nodes tell each other once a beat, when it has changed, how many tasks the workers that wait at
// them could begin, by queue. The node to which tasks are submitted shares them out by that: each
// goes to the node with the most free capacity. It holds its own share from the start; the rest
// stays free in the store, and the hint that tells of it says who had better take how many. Those
// named take their shares at once, and nobody takes more of them for a moment; then whoever has
// room takes what is left. All of that is advice: what is lost, late or wrong costs that moment, or
// a beat, and which node holds a task is decided by the store alone.
//
// A node that hands out many tasks of a queue keeps what it has room for: the trip to another node
// would cost more than it brings.

const (
	// busyFrom is how many hand-outs of a queue in a beat make a node keep what it has room for.
	busyFrom = 100
	// roomQueues is how many queues an announcement names, those with the most room.
	roomQueues = 64
	// Rounds after which room is announced again though it has not changed, and in which what was
	// announced counts.
	repeatRounds, trustRounds = 5, 12
)

// neighbour is what another node has announced, less what it was offered since.
type neighbour struct {
	heard time.Time
	room  map[string]int
}

// otherNodes are what this node and the others have told each other of room.
type otherNodes struct {
	memory    *memory // that it is in
	others    map[string]*neighbour
	announced map[string]int // what was announced last
	mute      int            // rounds since then
}

// busy tells whether the node hands out many tasks of the queue.
func (q *queue) busy() bool { return max(q.pace, q.handed) >= busyFrom }

// roomFor is how many tasks of a queue the workers that wait here could begin now.
func (q *queue) roomFor() (room int) { return q.gate.within(q.workersRoom()) }

// workersRoom is how many the workers that wait here have room for, whatever limits the queue has.
func (q *queue) workersRoom() (room int) {
	if q.conf.Paused || q.memory.shut() {
		return 0
	}
	for place := range q.waiting.All() {
		wt, w := place.Value, place.Value.worker
		// a worker with two holds has its room only once
		n := w.room() - w.counted
		if !wt.whole {
			n = min(wt.limit-len(wt.given), n)
		}
		n = max(n, 0)
		w.counted += n
		room += n
	}
	for place := range q.waiting.All() {
		place.Value.worker.counted = 0
	}
	return room
}

// announce tells other nodes what room there is here, when it has changed.
func (on *otherNodes) announce(now time.Time) {
	m := on.memory
	if m.conf.Alone {
		return
	}
	maps.DeleteFunc(on.others, func(_ string, n *neighbour) bool { return !on.trusts(n, now) })
	room := map[string]int{}
	for name, q := range m.queues {
		if q.waiting.Len() == 0 {
			continue
		}
		if n := q.roomFor() - q.ready.usable(); n > 0 {
			room[name] = n
		}
	}
	if len(room) > roomQueues {
		names := slices.SortedFunc(maps.Keys(room), func(a, b string) int {
			return cmp.Or(cmp.Compare(room[b], room[a]), cmp.Compare(a, b))
		})
		for _, name := range names[roomQueues:] {
			delete(room, name)
		}
	}
	if on.mute++; maps.Equal(room, on.announced) && (len(room) == 0 || on.mute < repeatRounds) {
		return
	}
	on.announced, on.mute = room, 0
	m.do.room = maps.Clone(room)
}

func (on *otherNodes) trusts(n *neighbour, now time.Time) bool {
	return now.Sub(n.heard) <= trustRounds*on.memory.conf.Beat
}

// HearRoom takes in how many tasks the workers that wait at another node could begin now, by queue.
func (ts *transfers) HearRoom(node string, room map[string]int) {
	ts.mu.Lock()
	defer ts.release()
	ts.mem.hearRoom(node, room, time.Now())
}

func (on *otherNodes) hearRoom(node string, room map[string]int, now time.Time) {
	m := on.memory
	if node != m.conf.Holder.Node && !m.conf.Alone {
		on.others[node] = &neighbour{now, maps.Clone(room)}
		for name := range room {
			if q := m.queues[name]; q != nil {
				q.giveSoon(now)
			}
		}
	}
}

// roomElsewhere tells whether workers wait for tasks of the queue at other nodes.
func (q *queue) roomElsewhere(now time.Time) bool {
	for _, n := range q.memory.others {
		if n.room[q.name] > 0 && q.memory.trusts(n, now) {
			return true
		}
	}
	return false
}

// shareOut says how many of n new tasks of a queue are this node's own, and whose the others had
// better be; shares = nobody else's. own is the room here.
func (q *queue) shareOut(
	n, own int, now time.Time,
) (mine int, shares []store.Share) {
	own = max(own, 0)
	if n == 0 || !q.roomElsewhere(now) || q.busy() && n <= own {
		return n, nil
	}
	// first of all, so that what is equal stays here
	list := []store.Share{{Queue: q.name, Tasks: own}}
	for _, node := range slices.Sorted(maps.Keys(q.memory.others)) {
		if room := q.memory.others[node].room[q.name]; room > 0 {
			list = append(list, store.Share{Queue: q.name, Node: node, Tasks: room})
		}
	}
	if q.busy() {
		mine, n = own, n-own
		list[0].Tasks = 0
	}
	level(list, n)
	mine += list[0].Tasks
	for _, s := range list[1:] {
		if s.Tasks > 0 {
			q.memory.others[s.Node].room[q.name] -= s.Tasks
			shares = append(shares, s)
		}
	}
	return mine, shares
}

// level gives n tasks out, each to the one with the most room left, the first of equals. What it is
// given are rooms, what it leaves are shares.
func level(list []store.Share, n int) {
	above := func(left int) (sum int) {
		for _, s := range list {
			sum += max(s.Tasks-left, 0)
		}
		return sum
	}
	low, high := 0, 0 // the least room that is left such that not more than n are given out
	for _, s := range list {
		high = max(high, s.Tasks)
	}
	for low < high {
		if mid := (low + high) / 2; above(mid) <= n {
			high = mid
		} else {
			low = mid + 1
		}
	}
	rest := n - above(low)
	for i := range list {
		room := list[i].Tasks
		list[i].Tasks = max(room-low, 0)
		if rest > 0 && room >= low && low > 0 {
			list[i].Tasks++
			rest--
		}
	}
}

// HearOffer takes in that a queue has free tasks, and who had better take them.
func (ts *transfers) HearOffer(o store.Offer) {
	now := time.Now()
	ts.mu.Lock()
	defer ts.release()
	ts.mem.hearOffer(o, now)
}

func (on *otherNodes) hearOffer(o store.Offer, now time.Time) {
	m := on.memory
	q := m.queues[o.Queue]
	if m.closed || q == nil {
		return
	}
	if len(o.Shares) == 0 {
		q.sign(o.Rank)
		q.backlog = true
		q.takeSoon(now)
		return
	}
	q.leaveToOthers(o.Rank, now)
	for _, s := range o.Shares {
		if s.Node == m.conf.Holder.Node {
			// whoever shared them out counts this room as taken, until it hears of it again
			on.mute = repeatRounds
			q.share += s.Tasks
			q.sign(o.Rank)
			q.takeSoon(now)
		}
	}
}

// leaveToOthers lets those take free tasks that are named in an offer; what is left after a moment
// this node takes like any other.
func (q *queue) leaveToOthers(rank int64, now time.Time) {
	q.offered = min(q.offered, rank)
	if now.Before(q.reserve) || q.memory.closed {
		return // the timer runs; what was offered just now waits less
	}
	q.reserve = now.Add(q.memory.conf.OfferFor)
	q.memory.ask(alarm{what: leftOver, queue: q, wait: q.memory.conf.OfferFor})
}

// takeLeftOver takes free tasks that nobody took who was named in an offer, or who wanted them for
// an edit. While some are still to be left alone another alarm follows.
func (q *queue) takeLeftOver(now time.Time) {
	if now.Before(q.reserve) || now.Before(q.givenUp) {
		return
	}
	rank := q.offered
	q.reserve, q.share, q.offered = time.Time{}, 0, noRank
	if q.memory.closed {
		return
	}
	q.sign(rank)
	q.backlog = true
	q.takeSoon(now)
}

// RoomElsewhere is how many tasks of a queue the workers that wait at other nodes could begin now,
// as far as is known here.
func (ts *transfers) RoomElsewhere(queue string) int {
	ts.mu.Lock()
	defer ts.release()
	return ts.mem.roomOfOthers(queue, time.Now())
}

func (on *otherNodes) roomOfOthers(queue string, now time.Time) (room int) {
	for _, n := range on.others {
		if on.trusts(n, now) {
			room += n.room[queue]
		}
	}
	return room
}
