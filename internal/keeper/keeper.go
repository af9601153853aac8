package keeper

import "github.com/rotahq/rota/task"

// Limits is what a queue may do. The zero Limits allow everything.
type Limits struct {
	Running int // at most so many tasks at a time; 0 = any number
	Rate    Rate
	Key     KeyLimits
}

// KeyLimits is what the tasks of each key may do. Tasks without a key have that of "", together.
type KeyLimits struct {
	// Running is how many at a time, 0 = any number. With 1 they are in order: one task after
	// another, each until its turn ends, its retries and what it waits for between them included.
	Running int
	Rate    Rate
}

func (l *KeyLimits) inOrder() bool { return l.Running == 1 }

// Handout is one hand-out of a task.
type Handout struct {
	ID  task.ID
	Seq int32
}

// Row is a hand-out that stands in the store.
type Row struct {
	Handout
	Key string
}

// Turn says which task of a key in order was begun and is not final.
type Turn struct {
	Key string
	ID  task.ID
}

// Keeper is what the node that keeps a queue has counted. Times are the store's, in microseconds.
//
// What always holds: running is len(out), and a key's running how many of out have it; both count
// every row that stands and every row that may still come to the store (L2 of ADR 52). A key is in
// keys while it counts something, one of its tasks has its turn, it is paused, or its bucket is not
// full; turns has those of them with a turn.
type Keeper struct {
	limits Limits
	since  int64 // buckets that nobody has taken from were empty then
	out    map[Handout]*handout
	keys   map[string]*key
	turns  map[string]*key
	bucket bucket
	later  []*key // of which something ends by itself, by when they were put here: see sweep
}

// handout is one that counts.
type handout struct {
	key   *key
	first bool  // it is its task's first: without it the task has no turn
	by    int64 // the store refuses its row later than this; 0 = it is known to stand
	// stood is when it was known to stand: a look that began earlier may not have seen it.
	stood int64
}

// key is what is known of a key.
type key struct {
	name    string
	running int
	coming  int // of these, how many rows may still come
	bucket  bucket
	paused  int64
	later   bool    // it is in the keeper's list
	taken   bool    // a task has its turn
	turn    task.ID // which
	stood   int64   // when its row was known to stand
}

// New is a keeper whose claim is good at a time. It has counted nothing yet: Read comes first.
func New(l Limits, now int64) *Keeper {
	return &Keeper{
		limits: l, since: now, out: map[Handout]*handout{}, keys: map[string]*key{},
		turns: map[string]*key{}, bucket: bucket{at: now},
	}
}

// Read counts what stood when the claim had been given to this node, before it hands anything out.
func (k *Keeper) Read(rows []Row, turns []Turn, now int64) {
	for _, r := range rows {
		if k.out[r.Handout] == nil {
			x := k.key(r.Key)
			x.running++
			k.out[r.Handout] = &handout{key: x, stood: now}
		}
	}
	for _, t := range turns {
		x := k.key(t.Key)
		k.giveTurn(x, t.ID)
		x.stood = now
	}
}

// Change gives the queue other limits. A rate that changes begins with an empty bucket. Keys that
// are in order from now on have no turns yet: they wait for what runs of them.
func (k *Keeper) Change(l Limits, now int64) {
	if l.Rate != k.limits.Rate {
		k.bucket = bucket{at: now}
	}
	if l.Key.Rate != k.limits.Key.Rate {
		k.since = now
		for _, x := range k.keys {
			x.bucket = bucket{at: now}
			k.lookLater(x)
		}
	}
	k.limits = l
}

// key is what is known of a key, made when it is first spoken of: then its bucket is as full as the
// time since the take-over has made it.
func (k *Keeper) key(name string) *key {
	x := k.keys[name]
	if x == nil {
		x = &key{name: name, bucket: bucket{at: k.since}}
		k.keys[name] = x
	}
	return x
}

// May says whether a task may begin now, and if not, why.
func (k *Keeper) May(id task.ID, name string, now int64) Refusal {
	l := &k.limits
	if l.Running > 0 && len(k.out) >= l.Running {
		return Refusal{Why: Limit}
	}
	if l.Rate.limits() {
		if at := k.bucket.next(&l.Rate, now); at > now {
			return Refusal{Why: TooFast, Until: at}
		}
	}
	x := k.keys[name]
	if x == nil { // nothing is known of it: its bucket alone may be too empty
		x = &key{bucket: bucket{at: k.since}}
	}
	return x.may(&l.Key, id, now)
}

// may says whether a task of the key may begin, as far as the key decides.
func (x *key) may(l *KeyLimits, id task.ID, now int64) Refusal {
	switch {
	case x.paused > now:
		return Refusal{Why: KeyPaused, Until: x.paused}
	case l.inOrder() && x.taken && x.turn != id:
		return Refusal{Why: KeyLimit, Task: x.turn}
	case l.Running > 0 && x.running >= l.Running:
		return Refusal{Why: KeyLimit}
	}
	if l.Rate.limits() {
		if at := x.bucket.next(&l.Rate, now); at > now {
			return Refusal{Why: KeyTooFast, Until: at}
		}
	}
	return Refusal{}
}

// Begin counts a hand-out that May allowed, from its decision on: nobody has seen it yet. The store
// refuses its row after by.
func (k *Keeper) Begin(h Handout, name string, now, by int64) {
	x := k.key(name)
	x.running++
	x.coming++
	o := &handout{key: x, by: by}
	k.out[h] = o
	if l := &k.limits.Key; l.inOrder() && !x.taken {
		o.first = true
		k.giveTurn(x, h.ID)
	}
	if r := &k.limits.Rate; r.limits() {
		k.bucket.look(r, now)
		k.bucket.level -= r.price()
	}
	if r := &k.limits.Key.Rate; r.limits() {
		x.bucket.look(r, now)
		x.bucket.level -= r.price()
		k.lookLater(x)
	}
	k.sweep(2, now) // as a hand-out adds one at most, the list gets shorter
}

// Stands notes that the row of a hand-out is in the store.
func (k *Keeper) Stands(h Handout, now int64) {
	if o := k.out[h]; o != nil { // else its end was heard of first
		o.stands(now)
	}
}

// stands notes that the row was seen at a time.
func (o *handout) stands(at int64) {
	if o.by != 0 {
		o.by = 0
		o.key.coming--
	}
	o.stood, o.key.stood = max(o.stood, at), max(o.key.stood, at)
}

// Gone notes that the row of a hand-out will not come: the store refused it. What it took out of
// the buckets is lost.
func (k *Keeper) Gone(h Handout) {
	if o := k.out[h]; o != nil {
		k.ended(h, o, o.first)
	}
}

// Ended notes that the outcome of a hand-out is recorded, and whether its task's turn is over. If
// it is not, the turn's row is known to stand.
func (k *Keeper) Ended(h Handout, over bool, now int64) {
	o := k.out[h]
	if o == nil {
		return
	}
	o.key.stood = now
	k.ended(h, o, over)
}

func (k *Keeper) ended(h Handout, o *handout, over bool) {
	x := o.key
	if o.by != 0 {
		x.coming--
	}
	x.running--
	delete(k.out, h)
	if over && x.taken && x.turn == h.ID {
		k.endTurn(x)
	}
	k.drop(x)
}

func (k *Keeper) giveTurn(x *key, id task.ID) {
	x.turn, x.taken = id, true
	k.turns[x.name] = x
}

func (k *Keeper) endTurn(x *key) {
	x.taken = false
	delete(k.turns, x.name)
}

// Pause lets no task of a key begin before a time.
func (k *Keeper) Pause(name string, until int64) {
	x := k.key(name)
	x.paused = until
	k.lookLater(x)
}

// Look is what a look at the store has seen.
type Look struct {
	Asked int64 // when it was asked for, by the same clock as every now
	At    int64 // the store's time, when nothing was being written under the claim
	Rows  []Row
	Turns []Turn
}

// Looked compares what is counted with what a look has seen. What has ended counts no more, if the
// look was bound to see it: its row was known to stand when the look was asked for, or could not
// come any more when it was done.
func (k *Keeper) Looked(l Look, now int64) {
	there := make(map[Handout]bool, len(l.Rows))
	for _, r := range l.Rows {
		there[r.Handout] = true
	}
	for h, o := range k.out {
		switch bound := o.by == 0 && o.stood <= l.Asked || o.by != 0 && o.by < l.At; {
		case there[h]:
			o.stands(now)
		case bound:
			k.ended(h, o, false)
		}
	}
	held := make(map[string]task.ID, len(l.Turns))
	for _, t := range l.Turns {
		held[t.Key] = t.ID
	}
	for name, x := range k.turns {
		switch id, stands := held[name]; {
		case stands && id == x.turn:
			x.stood = max(x.stood, now)
		case x.coming == 0 && x.stood <= l.Asked:
			k.endTurn(x)
			k.drop(x)
		}
	}
	k.sweep(1000, now)
}

// drop forgets a key of which nothing has to be known.
func (k *Keeper) drop(x *key) {
	if x.running == 0 && !x.taken && !x.later {
		delete(k.keys, x.name)
	}
}

// lookLater sees to it that a key is looked at again: when its bucket may be full, its pause over.
func (k *Keeper) lookLater(x *key) {
	if !x.later {
		x.later = true
		k.later = append(k.later, x)
	}
}

// sweep looks at some of the keys of which something ends by itself, and forgets them if it has.
func (k *Keeper) sweep(some int, now int64) {
	for range min(some, len(k.later)) {
		x := k.later[0]
		k.later[0] = nil
		k.later = k.later[1:]
		x.later = false
		r := &k.limits.Key.Rate
		if x.paused > now || r.limits() && x.bucket.look(r, now) < r.full() {
			k.lookLater(x)
		}
		k.drop(x)
	}
}

// Room is how many tasks may begin now, whatever their keys are, at most so many.
func (k *Keeper) Room(most int, now int64) int {
	if k.limits.Running > 0 {
		most = min(most, k.limits.Running-len(k.out))
	}
	if r := &k.limits.Rate; r.limits() {
		most = min(most, k.bucket.times(r, now))
	}
	return max(most, 0)
}

// Running is how many tasks count.
func (k *Keeper) Running() int { return len(k.out) }

// Why a task may not begin.
type Why string

// The reasons, as the API names them.
const (
	Limit      Why = "limit"      // as many run as may
	TooFast    Why = "rate"       // the queue's bucket is empty
	KeyLimit   Why = "key_limit"  // as many of its key run as may
	KeyTooFast Why = "key_rate"   // its key's bucket is empty
	KeyBegun   Why = "key_turn"   // another task of its key was begun and is not final
	KeyPaused  Why = "key_paused" // its key rests
)

// Refusal says why a task may not begin; the zero Refusal says that it may.
type Refusal struct {
	Why   Why
	Until int64   // when that changes by itself; 0 = when something ends
	Task  task.ID // that has its key's turn; zero = none
}

// OK tells whether the task may begin.
func (r Refusal) OK() bool { return r.Why == "" }
