package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Group keys of a queue may have limits of their own (task.Queue.PerKey). The store decides by
// them, too, what may begin; what this node keeps in mind of a key is the room of its lane, while
// it has one. A lane without room is shut. It is opened by an outcome of its key here, by word from
// another node that something has ended, when a rate allows more, and by a look of each round.

const (
	// endedEvery is at least between two looks at what other nodes' outcomes left room for: they
	// tell of queues, not of keys.
	endedEvery = 20 * time.Millisecond
	// keyLooks is how many queues' keys one round looks at.
	keyLooks = 64
)

// keyWatch is how it is watched what the keys of a queue have room for.
type keyWatch struct {
	alarm   int64     // when the earliest shut lane opens by itself, by the store's clock; 0 = none
	from    string    // looks go on behind this key
	looked  time.Time // when word from other nodes was followed last
	looking bool      // the look for that is under way
	waiting bool      // an alarm is set for the next one
}

// keyLook is a question to the store how keys of a queue stand beside their limits.
type keyLook struct {
	queue *queue
	keys  []string
	heard bool // because of word from another node
}

// key is the group key of all tasks of the span; "" = none, or they have several.
func (sp *span) key() string {
	if !sp.Sorted {
		return ""
	}
	return sp.Key
}

// keyOf is the group key of one of the span's tasks, if it is known.
func (sp *span) keyOf(n int32) (key string, known bool) {
	if sp.Sorted {
		return sp.Key, true
	}
	if i, found := sp.at(n); found && sp.keys != nil {
		return sp.keys[i], true
	}
	return "", false
}

// key is the group key of the task; "" = it has none, or that is not known.
func (s spot) key() string {
	key, _ := s.span.keyOf(s.cell.n)
	return key
}

func (it *item) key() string {
	key, _ := it.span.keyOf(it.id.N)
	return key
}

// limitsKeys tells whether group keys of the queue have limits, or may be paused.
func (q *queue) limitsKeys() bool { return q.ready.lanes != nil && q.ready.lanes.limited }

// asking notes that the store is being asked about so many more hand-outs like it.
func (it *item) asking(n int) {
	it.queue.gate.asking += n
	if ls, key := it.queue.ready.lanes, it.key(); ls != nil && key != "" {
		if ls.asked[key] += n; ls.asked[key] <= 0 { // less if it went by no keys at first
			delete(ls.asked, key)
		}
	}
}

// lane is that of the item's key, if there is one, and the key has limits.
func (it *item) lane() *lane {
	if ls := it.queue.ready.lanes; ls != nil && ls.limits(it.key()) {
		return ls.by[it.key()]
	}
	return nil
}

// addRoom notes that so many more hand-outs of the item's key may begin, as far as is known.
func (it *item) addRoom(n int) {
	if l := it.lane(); l != nil {
		it.queue.ready.lanes.setRoom(l, max(l.room, 0)+n, 0)
	}
}

// shutLane lets nothing of the item's key out until it is known how the key stands.
func (it *item) shutLane() {
	if l := it.lane(); l != nil {
		it.queue.ready.lanes.setRoom(l, 0, 0)
	}
}

// seeKey takes in how a key stands beside its limits. What has no lane has nothing to hand out.
func (q *queue) seeKey(g *store.KeyGate, storeNow int64, now time.Time) {
	ls := q.ready.lanes
	if ls == nil || !ls.limits(g.Key) || ls.by[g.Key] == nil {
		return
	}
	l := ls.by[g.Key]
	l.known = g.Gate
	if g.Owner != (task.ID{}) && !q.isNext(g.Owner, g.Key) {
		ls.setRoom(l, 0, 0)
		return
	}
	ls.setRoom(l, l.known.Left(unknownRoom, storeNow)-ls.asked[g.Key],
		l.known.Held(storeNow).Until)
	q.watchKeys(storeNow)
}

// isNext tells whether the task that owns a key is ready here, and puts it before all others then.
func (q *queue) isNext(owner task.ID, key string) bool {
	it := q.memory.item(owner)
	if it == nil || it.queue != q || it.key() != key || it.place != ready {
		return false
	}
	if !it.owns {
		it.owns = true
		q.ready.push(it) // what stood for it in its lane is void
	}
	return true
}

// openLane lets tasks of a key out again of which a span was given back, as another one comes
// first.
func (q *queue) openLane(sp *span) {
	if ls := q.ready.lanes; ls != nil && sp.behind && ls.limits(sp.key()) {
		if l := ls.by[sp.Key]; l != nil && l.room < 1 && l.opens == 0 {
			ls.setRoom(l, 1, 0)
		}
	}
}

// watchKeys sets the alarm for the shut lane that a rate opens first.
func (q *queue) watchKeys(storeNow int64) {
	ls := q.ready.lanes
	if len(ls.shut.list) == 0 || ls.shut.list[0].opens == 0 || q.memory.closed {
		return
	}
	at := max(ls.shut.list[0].opens, storeNow+gateEvery.Microseconds())
	if k := &q.keys; k.alarm == 0 || at < k.alarm {
		k.alarm = at
		q.memory.ask(alarm{what: keysOpening, queue: q, at: at})
	}
}

// opensKeys opens the lanes that their rates have room for by now, if others took nothing since.
func (q *queue) opensKeys(at int64, now time.Time) {
	if q.keys.alarm != at { // another one was set since, for an earlier time
		return
	}
	q.keys.alarm = 0
	ls, storeNow := q.ready.lanes, q.memory.clock.read(now)
	if ls == nil {
		return
	}
	for len(ls.shut.list) > 0 {
		l := ls.shut.list[0]
		if l.opens == 0 || l.opens > storeNow {
			break
		}
		left := l.known.Left(unknownRoom, storeNow) - ls.asked[l.key]
		ls.setRoom(l, max(left, 1), 0)
	}
	q.watchKeys(storeNow)
	q.match(now)
}

// keyFree notes that a task of a key has ended here that counted against the key's limit; known =
// the key is. What takes passed over of the key may begin now.
func (q *queue) keyFree(key string, known bool, now time.Time) {
	switch {
	case !q.limitsKeys() || q.conf.PerKey.MaxRunning == 0 || known && key == "":
	case !known:
		q.keysFreed(now)
	default:
		ls := q.ready.lanes
		l := ls.by[key]
		if l != nil && l.opens == 0 {
			room := min(max(l.room, 0)+1, q.conf.PerKey.MaxRunning)
			ls.setRoom(l, room, 0)
		}
		if l == nil || l.heap.count < l.room || ls.inOrder { // else enough of the key is here
			q.signPassed()
		}
	}
}

// signPassed notes that the store may let something begin that takes have passed over. A take that
// left nothing has passed over nothing, and what has come since has a sign of its own; what one
// under way leaves is not known.
func (q *queue) signPassed() {
	if q.lap.nothing && !q.taking {
		return
	}
	q.signs++
	q.look = true
}

// keysFreed notes that something has ended, of keys that are not known: perhaps of those that are
// shut, or of some that takes have passed over.
func (q *queue) keysFreed(now time.Time) {
	k := &q.keys
	if !q.limitsKeys() || q.memory.closed {
		return
	}
	if wait := endedEvery - now.Sub(k.looked); wait > 0 || k.looking {
		if !k.waiting {
			k.waiting = true
			q.memory.ask(alarm{what: keysFreed, queue: q, wait: max(wait, gateEvery)})
		}
		return
	}
	k.looked = now
	q.signPassed()
	if list := q.shutKeys(lookAtOnce, now); len(list) > 0 {
		k.looking = true
		q.memory.do.looks = append(q.memory.do.looks, keyLook{q, list, true})
	}
}

// shutKeys are keys whose lanes are shut and do not open by themselves, at most most of them;
// others the next time. None are where nobody asked for tasks for a while.
func (q *queue) shutKeys(most int, now time.Time) (list []string) {
	if !q.limitsKeys() || q.conf.Paused || q.waiting.Len() == 0 && now.Sub(q.wanted) > time.Minute {
		return nil
	}
	for _, l := range q.ready.lanes.shut.list {
		if l.opens == 0 || l.known.Paused > 0 { // a pause may end before its time
			list = append(list, l.key)
		}
	}
	slices.Sort(list)
	if len(list) <= most {
		return list
	}
	i, _ := slices.BinarySearch(list, q.keys.from+"\x00")
	list = append(list[i:], list[:i]...)[:most]
	q.keys.from = list[most-1]
	return list
}

// keysToLookAt are the keys at which a round looks.
func (qs queues) keysToLookAt(turns uint32, now time.Time) (looks []keyLook) {
	var names []string
	for name, q := range qs {
		if q.limitsKeys() && len(q.ready.lanes.shut.list) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > keyLooks {
		from := int(turns) * keyLooks % len(names)
		names = append(names[from:], names[:from]...)[:keyLooks]
	}
	left := lookAtOnce
	for _, name := range names {
		q := qs[name]
		if list := q.shutKeys(left, now); len(list) > 0 {
			looks = append(looks, keyLook{queue: q, keys: list})
			if left -= len(list); left <= 0 {
				break
			}
		}
	}
	return looks
}

// lookAtKeys asks how keys stand beside their limits that have held something back, as far as is
// known: word of what has ended may be lost.
func (gs *gates) lookAtKeys(ctx context.Context, now time.Time) error {
	gs.mu.Lock()
	looks := gs.mem.queues.keysToLookAt(gs.mem.turns, now)
	gs.release()
	for _, l := range looks {
		if err := gs.lookAt(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// lookAt asks how some keys of a queue stand.
func (gs *gates) lookAt(ctx context.Context, l keyLook) error {
	name := l.queue.name
	at, gates, err := gs.store.KeyGates(ctx, name, l.keys)
	gs.mu.Lock()
	defer gs.release()
	if l.heard {
		l.queue.keys.looking = false
	}
	if err != nil {
		return fmt.Errorf("look at the limits of %d keys of queue %q: %w", len(l.keys), name, err)
	}
	l.answered(gates, at, time.Now())
	return nil
}

// answered takes in how keys stand. One of which nothing is said has nothing that counts.
func (l *keyLook) answered(gates []store.KeyGate, storeNow int64, now time.Time) {
	q := l.queue
	said := make(map[string]*store.KeyGate, len(gates))
	for i := range gates {
		said[gates[i].Key] = &gates[i]
	}
	for _, key := range l.keys {
		ls := q.ready.lanes
		if ls == nil || ls.by[key] == nil || ls.by[key].in != &ls.shut {
			continue
		}
		if g := said[key]; g != nil {
			q.seeKey(g, storeNow, now)
		} else {
			ls.setRoom(ls.by[key], ls.room, 0)
		}
	}
	q.match(now)
}

// touchedBy are the queues of items, by name.
func touchedBy(items []*item) []*queue {
	list := map[string]*queue{}
	for _, it := range items {
		list[it.queue.name] = it.queue
	}
	var queues []*queue
	for _, name := range slices.Sorted(maps.Keys(list)) {
		queues = append(queues, list[name])
	}
	return queues
}
