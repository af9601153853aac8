package dispatch

import (
	"time"

	"github.com/rotahq/rota/internal/store"
)

// A queue that goes by group keys takes by keys, too (store.ByKey). What may lie in the store of
// keys that have nothing here no rank tells, so takes go through the keys in laps: each goes on
// behind the key that the last one came to. As long as most of what is here may begin they bring
// what comes first as it is (ADR 70); else they sort it by key, as where not all that is ready fits
// in memory and keys take turns (ADR 65).

// lap is how far the takes of a queue by keys have come.
type lap struct {
	after *string // the last key that was looked at; nil = the next take begins a lap
	found bool    // a take has found something in it
	more  bool    // the last take said that there may be more
	empty int     // takes in a row that said so and found nothing
	// an alarm is set for the next take
	waiting bool
	signs   int // signs that there had been when it began
	news    int // of those, the ones of tasks that may be of any key
	seen    int // news when the last lap began that came to its end
	// nothing: the last take left nothing that is ready, so it has passed over nothing
	nothing bool
}

const (
	// keysAhead is how many times Config.Ahead tasks a queue that goes by keys may have ready: most
	// of them may be of keys that have no room.
	keysAhead = 4
	// others is how many tasks a take asks for though enough are ready.
	others = 64
	// sorts is how many takes follow each other at once that find nothing, as if they had only
	// sorted; sorting is how long each further one waits: perhaps somebody else has what there is.
	sorts   = 64
	sorting = 5 * time.Millisecond
	// sortFor is for how many rounds takes sort all of a queue when memory was full of what may not
	// begin: what is given back then must not come as it was.
	sortFor = 60
)

// full tells whether as much is ready of the queue as may be.
func (q *queue) full() bool {
	most := q.memory.conf.Ahead
	if q.ready.lanes != nil {
		most *= keysAhead
	}
	return q.ready.count() >= most || q.ready.bytes() > q.memory.conf.AheadBytes
}

// wantsOthers tells whether a queue that goes by keys is to look for other tasks, though enough are
// ready: in a fair one each key is to have its turn, in another one earlier ranks are. What is
// ready does not wait for that.
func (q *queue) wantsOthers(now time.Time) bool {
	if q.ready.lanes == nil || q.full() || now.Sub(q.wanted) > q.memory.conf.GiveAfter ||
		!q.lap.more && now.Sub(q.looked) < endedEvery {
		return false
	}
	if q.conf.Fair {
		return q.news != q.lap.seen || q.ready.lanes.short
	}
	first := q.ready.first()
	return first != nil && first.rank > q.behind
}

// byKeys says how a take of n tasks goes by keys, so that want are ready; nil = it does not.
func (q *queue) byKeys(n, want int, now time.Time) *store.ByKey {
	ls := q.ready.lanes
	if ls == nil {
		return nil
	}
	ls.short = false
	if q.lap.after == nil {
		q.lap.signs, q.lap.news, q.lap.found = q.signs, q.news, false
	}
	return &store.ByKey{
		Fair: q.conf.Fair, After: q.lap.after, Skip: ls.skip(want), Whole: q.whole(n, now),
		First: q.prefix(n, now),
	}
}

// whole is up to how many tasks of any key a take of n may bring as they are, if that is all that
// is ready: memory has all of it then, lanes see to keys, and nothing has to be sorted.
func (q *queue) whole(n int, now time.Time) int {
	m := q.memory
	// Where keys take turns, what does not come as it is has to be sorted: so a node that knows of
	// no other one's workers takes all, and gives back what they are to have.
	if m.conf.Alone || q.conf.Fair && len(m.others) == 0 {
		return q.asTheyAre(m.conf.Ahead)
	}
	return q.asTheyAre(q.part(n, now))
}

// prefix is up to how many tasks of any key a take of n may bring as they are if more is ready: the
// first ones are the next ones, as long as most of what is here has room. Where keys take turns the
// next ones are of all keys.
func (q *queue) prefix(n int, now time.Time) int {
	usable := q.ready.usable()
	if q.conf.Fair || q.ready.count()-usable > usable+min(n, others) {
		return 0
	}
	// All of them may be of full keys: then their contexts, however large, must not fill memory.
	fit := int(q.memory.conf.AheadBytes / 2 / store.InlineLimit)
	return min(q.asTheyAre(q.part(n, now)), fit)
}

// part is how many tasks a take of n brings as they are that leaves the rest to others, or for
// later.
func (q *queue) part(n int, now time.Time) int {
	if q.roomElsewhere(now) {
		return n
	}
	return max(n, q.pace, q.handed)
}

// asTheyAre is how many of so many tasks of any key memory has room for.
func (q *queue) asTheyAre(n int) int {
	conf := &q.memory.conf
	if !q.ready.lanes.mixes() || q.ready.bytes() > conf.AheadBytes/2 || q.memory.turns < q.sorts {
		return 0
	}
	return max(min(n, conf.Ahead, keysAhead*conf.Ahead/2-q.ready.count()), 0)
}

// wentOn takes in how far a take by keys has come. Nothing is left when a lap found nothing.
func (q *queue) wentOn(t *taking, got *store.Taken, now time.Time) {
	q.signLow()
	l, whole := &q.lap, t.Keys.After == nil
	l.found, l.more = l.found || len(got.Spans) > 0, got.More
	l.nothing = !got.More && !got.Left
	q.backlog = q.backlog || got.Left
	if l.after = got.After; l.after != nil {
		return
	}
	switch {
	case got.More && l.found:
		l.empty = 0
	case got.More && whole && l.empty < sorts: // it came to nothing else, perhaps
		l.empty++
	case got.More && whole:
		l.more, q.look = false, q.signs != l.signs
		q.goOnIn(sorting)
	default:
		l.empty, l.more, q.look = 0, false, q.signs != l.signs
		l.seen, q.backlog = l.news, got.Left || q.news != l.news
		if got.More { // as every take says that goes on: there may be something to sort
			q.goOnIn(q.memory.conf.Beat)
		}
	}
}

// goOnIn lets the next take begin after a while, for what the last one may have had to leave.
func (q *queue) goOnIn(wait time.Duration) {
	if !q.lap.waiting && !q.memory.closed {
		q.lap.waiting = true
		q.memory.ask(alarm{what: goingOn, queue: q, wait: wait})
	}
}

// goOn takes what the last take may have had to leave.
func (q *queue) goOn(now time.Time) {
	q.look, q.lap.more, q.lap.waiting = true, true, false
	q.takeSoon(now)
}

// goesOn tells whether the next take is to begin behind one that was answered.
func (q *queue) goesOn(t *taking, got *store.Taken) bool {
	return len(got.Spans) > 0 || t.Keys != nil && (got.After != nil || q.lap.found || q.lap.more)
}

// signLow notes that a lane ran low that takes were told to pass over.
func (q *queue) signLow() {
	if ls := q.ready.lanes; ls != nil && ls.low {
		ls.low = false
		q.signPassed()
	}
}
