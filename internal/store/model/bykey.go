package model

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// takeByKey is Take with Keys.
func (m *Model) takeByKey(r store.TakeRequest, now int64) (t store.Taken) {
	t.Now = now
	if r.Limit <= 0 {
		return t
	}
	if n, is := m.asItIs(&r, now); is {
		return m.takeAsItIs(r, n, now)
	}
	more := m.sortKeys(r.Queue, now)
	b := keyTake{Model: m, TakeRequest: r, now: now, left: r.Limit, room: map[string]int{},
		next: map[string]*store.Span{}}
	for _, key := range r.Keys.Skip {
		b.room[key] = 0
	}
	if !r.Keys.Fair && b.left > 0 {
		for i, sp := range b.due(nil) {
			if i < 4*r.Limit {
				b.offer(sp)
			}
		}
	}
	if t.After = r.Keys.After; b.left > 0 {
		t.After = b.turn()
	}
	t.More = more || b.cut || b.left <= 0 || t.After != nil || r.Keys.After != nil
	for _, sp := range b.chosen {
		sp.Holder = r.Holder
		sp.Token++
		t.Spans = append(t.Spans, m.load(sp))
		if turn := m.turnOf(r.Queue, sp.Key); turn > 1 {
			if t.Turns == nil {
				t.Turns = map[string]int{}
			}
			t.Turns[sp.Key] = turn
		}
		if g := m.keyGate(r.Queue, sp.Key); g != nil && g.Owner != (task.ID{}) {
			t.Owners = append(t.Owners, g.Owner)
		}
	}
	for _, sp := range m.spans {
		if sp.Queue == r.Queue && sp.Holder == (store.Holder{}) && sp.Due > now &&
			sp.Due != store.Never {
			b.look(sp.Due)
		}
	}
	t.NextDue, t.Left = b.soon, m.firstReady(r.Queue, now) != nil
	return t
}

// keyTake is a take by keys under way.
type keyTake struct {
	*Model
	store.TakeRequest
	now    int64
	left   int
	room   map[string]int
	next   map[string]*store.Span // what may be taken of a key that goes in order
	chosen []*store.Span
	cut    bool
	soon   int64
}

// due are the free sorted spans that may be taken, by rank: of a key, or of all.
func (b *keyTake) due(key *string) (list []*store.Span) {
	for _, sp := range b.sortedSpans() {
		if sp.Queue == b.Queue && sp.Sorted && sp.Holder == (store.Holder{}) && sp.Due <= b.now &&
			sp.Rank <= b.now && (key == nil || sp.Key == *key) {
			list = append(list, sp)
		}
	}
	return list
}

// look is to be answered as NextDue, unless something comes earlier.
func (b *keyTake) look(at int64) {
	if b.soon == 0 || at < b.soon {
		b.soon = at
	}
}

// has is how many tasks of a key may begin that are not chosen.
func (b *keyTake) has(key string) int {
	if n, known := b.room[key]; known {
		return n
	}
	b.room[key] = math.MaxInt
	if g := b.keyGate(b.Queue, key); g != nil {
		if g.Limits.Running == 1 {
			if b.next[key] = b.nextOf(g); b.next[key] == nil {
				b.room[key] = 0
				return 0
			}
		}
		b.room[key] = g.Left(math.MaxInt32, b.now)
		if held := g.Held(b.now); held.Until != 0 {
			b.look(held.Until)
		}
	}
	return b.room[key]
}

// nextOf is the span that may be taken of a key that goes in order; nil = there is none.
func (b *keyTake) nextOf(g *store.KeyGate) (sp *store.Span) {
	switch {
	case g.Stopped:
		return nil
	case g.Owner == task.ID{}:
		sp = b.firstOfKey(b.Queue, g.Key, b.now)
	default:
		sp = b.owner(b.tasks[g.Owner])
		if sp != nil && (!sp.Sorted || sp.Due > b.now || sp.Rank > b.now) {
			return nil
		}
	}
	if sp == nil || sp.Holder != (store.Holder{}) {
		return nil
	}
	return sp
}

func (b *keyTake) offer(sp *store.Span) {
	if b.left > 0 && b.has(sp.Key) > 0 && b.next[sp.Key] != nil {
		sp = b.next[sp.Key]
	}
	if b.left <= 0 || slices.Contains(b.chosen, sp) || b.has(sp.Key) == 0 {
		return
	}
	n := min(int(sp.Hi-sp.Lo)+1, b.has(sp.Key))
	b.left -= n
	if b.room[sp.Key] != math.MaxInt {
		b.room[sp.Key] -= n
	}
	b.chosen = append(b.chosen, sp)
}

// turn takes of the next keys in turn. It answers the last one that it looked at.
func (b *keyTake) turn() (after *string) {
	names := map[string]bool{}
	for _, sp := range b.spans {
		if sp.Queue == b.Queue && sp.Sorted && sp.Holder == (store.Holder{}) {
			names[sp.Key] = true
		}
	}
	all := slices.Sorted(maps.Keys(names))
	if b.TakeRequest.Keys.After != nil {
		last := *b.TakeRequest.Keys.After
		all = slices.DeleteFunc(all, func(key string) bool { return key <= last })
	}
	var open []string
	for i, key := range all {
		if i == 1000 || len(open) == b.Limit {
			after = &all[i-1]
			break
		}
		if b.has(key) > 0 {
			open = append(open, key)
		}
	}
	if after == nil && (len(open) == b.Limit || len(all) == 1000) {
		after = &all[len(all)-1] // whether there are more nobody has looked
	}
	if len(open) == 0 {
		return after
	}
	turns := 0 // of all of them together
	for _, key := range open {
		turns += b.turnOf(b.Queue, key)
	}
	rounds := (b.left + turns - 1) / turns // in each a key has a turn
	lists := make([][]*store.Span, len(open))
	most := b.left // that are looked at of a key
	for i, key := range open {
		per := min(rounds*b.turnOf(b.Queue, key), most)
		if lists[i] = b.due(&key); len(lists[i]) > per {
			lists[i] = lists[i][:per]
		}
	}
	for round := range rounds {
		for i, key := range open {
			turn := b.turnOf(b.Queue, key)
			for k := round * turn; k < (round+1)*turn && k < len(lists[i]); k++ {
				b.offer(lists[i][k])
			}
		}
	}
	for i, key := range open {
		all := len(lists[i]) == min(rounds*b.turnOf(b.Queue, key), most)
		b.cut = b.cut || all && b.has(key) > 0
	}
	return after
}

// asItIs is how many tasks a take by keys takes as they are, and whether it does.
func (m *Model) asItIs(r *store.TakeRequest, now int64) (n int, is bool) {
	spans, tasks, most := 0, 0, max(r.Keys.Whole, r.Keys.First)
	for _, sp := range m.sortedSpans() {
		if sp.Queue != r.Queue || sp.Holder != (store.Holder{}) || sp.Due > now || sp.Rank > now ||
			spans == min(most+1, 2000) {
			continue
		}
		if !sp.Sorted && sp.Deaths > 0 {
			return 0, false
		}
		spans++
		tasks += int(sp.Hi-sp.Lo) + 1
	}
	if tasks <= r.Keys.Whole && spans < 2000 {
		return tasks, r.Keys.Whole > 0
	}
	return min(r.Keys.First, tasks), r.Keys.First > 0
}

// takeAsItIs takes the first tasks, and says which keys they have.
func (m *Model) takeAsItIs(r store.TakeRequest, n int, now int64) store.Taken {
	keys := r.Keys
	r.Limit, r.Keys = n, nil
	t := m.takeByRank(r, now)
	for i := range t.Spans {
		sp := &t.Spans[i]
		for _, l := range sp.Tasks {
			if !sp.Sorted {
				f := m.tasks[task.ID{Batch: sp.Batch, N: l.N}]
				sp.Keys = append(sp.Keys, f.override().GroupKey)
			}
		}
	}
	if t.Left, t.NextRank = t.More, 0; t.More {
		t.After = keys.After
	}
	return t
}

// sortKeys gives ready spans keys, and tells whether there are others.
func (m *Model) sortKeys(queue string, now int64) (more bool) {
	total := 0
	for _, sp := range m.sortedSpans() {
		if sp.Queue != queue || sp.Sorted || sp.Holder != (store.Holder{}) || sp.Due > now ||
			sp.Rank > now {
			continue
		}
		if total >= 1000 {
			return true
		}
		total += int(sp.Hi-sp.Lo) + 1
		rest, hi := sp, sp.Hi
		sp.Sorted = true
		for i, l := range m.load(sp).Tasks {
			f := m.tasks[task.ID{Batch: sp.Batch, N: l.N}]
			key := f.override().GroupKey
			switch {
			case i == 0:
				rest.Key = key
			case key != rest.Key:
				next := *rest
				rest.Hi = l.N - 1
				next.Lo, next.Hi, next.Key = l.N, hi, key
				rest = m.addSpan(next)
			}
		}
	}
	return false
}

// keyGate is how a key of a queue stands; nil = it has no limits.
func (m *Model) keyGate(queue, name string) *store.KeyGate {
	q, ok := m.limited(queue)
	g := store.KeyGate{Queue: queue, Key: name}
	if g.Limits = admission.KeyLimitsOf(&q); !ok || name == "" || !admission.LimitsKeys(&q) {
		return nil
	}
	g.Paused = m.keyRules[key{queue, name}].Paused
	g.Bucket = m.keyBuckets[key{queue, name}]
	if since := m.since[queue]; g.Bucket.At < since {
		g.Bucket = admission.Bucket{At: since}
	}
	g.Running = m.runningOf(queue, name, q.PerKey.MaxRunning, nil)
	if f := m.tasks[m.keyOwners[key{queue, name}]]; f != nil && g.Limits.Running == 1 {
		_, s := f.newest()
		dead := s.Kind != task.KindRemoved && s.Kind.Leaves() == task.Dead
		switch {
		case s.Base != store.Final:
			g.Owner = f.id()
		case dead && q.PerKey.OnDead == task.OnDeadStop:
			g.Owner, g.Stopped = f.id(), true
		}
	}
	return &g
}

// ForgetOwner makes nobody own a key: a defect for simulations to find.
func (m *Model) ForgetOwner(queue, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keyOwners, key{queue, name})
}

// dropOwner makes a task nobody's that its key has to wait for.
func (m *Model) dropOwner(id task.ID) {
	maps.DeleteFunc(m.keyOwners, func(_ key, owner task.ID) bool { return owner == id })
}

// firstOfKey is what comes first of what a key has ready, whoever holds it; nil = nothing.
func (m *Model) firstOfKey(queue, name string, now int64) (first *store.Span) {
	for _, sp := range m.spans {
		if sp.Queue == queue && sp.Sorted && sp.Key == name && sp.Rank <= now && sp.Due <= now &&
			(first == nil || cmp.Or(cmp.Compare(sp.Rank, first.Rank),
				cmp.Compare(sp.Batch, first.Batch), cmp.Compare(sp.Lo, first.Lo),
				cmp.Compare(sp.ID, first.ID)) < 0) {
			first = sp
		}
	}
	return first
}

// runningOf counts the running rows of a key, except for some, no further than most.
func (m *Model) runningOf(queue, name string, most int, except map[hand]bool) (n int) {
	for at := range m.running {
		if f := m.tasks[at.id]; f != nil && f.batch.Queue == queue &&
			f.override().GroupKey == name && n < most && !except[at] {
			n++
		}
	}
	return n
}

// fullKeys counts the keys of a queue that run as many tasks as each may.
func (m *Model) fullKeys(queue string) (n int) {
	most := m.queues[queue].PerKey.MaxRunning
	if most == 0 {
		return 0
	}
	seen := map[string]bool{}
	for at := range m.running {
		f := m.tasks[at.id]
		if f == nil || f.batch.Queue != queue {
			continue
		}
		if name := f.override().GroupKey; name != "" && !seen[name] {
			if seen[name] = true; m.runningOf(queue, name, most, nil) == most {
				n++
			}
		}
	}
	return n
}

// KeyGates implements [contract.Views].
func (m *Model) KeyGates(
	ctx context.Context, queue string, keys []string,
) (now int64, list []store.KeyGate, err error) {
	if now, err = m.begin(ctx); err != nil {
		return 0, nil, err
	}
	defer m.mu.Unlock()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		if g := m.keyGate(queue, name); g != nil {
			list = append(list, *g)
		}
	}
	return now, list, nil
}
