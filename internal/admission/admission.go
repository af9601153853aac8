package admission

import (
	"math"

	"github.com/rotahq/rota/task"
)

// Limits is what a queue may do, or each of its keys. The zero Limits allow everything.
type Limits struct {
	Running int // at most so many tasks at a time; 0 = any number
	Rate    Rate
}

// LimitsOf are those of a queue as a whole.
func LimitsOf(q *task.Queue) Limits {
	return Limits{Running: q.MaxRunning, Rate: Rate{q.Rate, int64(q.Burst)}}
}

// KeyLimitsOf are those of each group key of a queue. Tasks without a key have none.
func KeyLimitsOf(q *task.Queue) Limits {
	p := &q.PerKey
	return Limits{Running: p.MaxRunning, Rate: Rate{p.Rate, int64(p.Burst)}}
}

// Limited tells whether a queue, or any of its keys, has limits, or rules of their own: then the
// store is asked before a task of it begins.
func Limited(q *task.Queue) bool {
	own := LimitsOf(q)
	return !own.None() || LimitsKeys(q)
}

// LimitsKeys tells whether something may hold back single keys of a queue.
func LimitsKeys(q *task.Queue) bool {
	perKey := KeyLimitsOf(q)
	return q.KeyRules || !perKey.None()
}

// None tells whether everything is allowed.
func (l *Limits) None() bool { return l.Running == 0 && !l.Rate.limits() }

// Gate is how a queue, or a key of one, stands beside its limits. Times are the store's, in
// microseconds.
type Gate struct {
	Limits Limits
	Bucket Bucket // what the rate has left
	// Running is how many hand-outs have rows that stand, counted no further than Limits.Running:
	// without such a limit 0.
	Running int
	// Paused is until when nothing begins, whatever the limits allow: of a key. 0 = it is not
	// paused, Always = until somebody resumes it.
	Paused int64
}

// Always is a pause that does not end by itself.
const Always = math.MaxInt64

// Admit lets as many of n tasks begin as may, counts them, and answers how many those are.
func (g *Gate) Admit(n int, now int64) int {
	n = g.Left(n, now)
	if g.Limits.Running > 0 {
		g.Running += n
	}
	if r := &g.Limits.Rate; r.limits() {
		g.Bucket.Level -= int64(n) * r.price()
	}
	return n
}

// Ended counts one less of what runs.
func (g *Gate) Ended() {
	if g.Limits.Running > 0 {
		g.Running--
	}
}

// Left is how many more tasks may begin, at most most.
func (g *Gate) Left(most int, now int64) int {
	if g.Limits.Running > 0 {
		most = min(most, g.Limits.Running-g.Running)
	}
	if g.Paused > now {
		most = 0
	}
	if r := &g.Limits.Rate; r.limits() {
		most = min(most, g.Bucket.times(r, now))
	}
	return max(most, 0)
}

// Held says why no further task may begin now; the zero Held says that one may.
func (g *Gate) Held(now int64) Held {
	switch {
	case g.Paused == Always:
		return Held{Why: Paused}
	case g.Paused > now:
		return Held{Why: Paused, Until: g.Paused}
	case g.Full():
		return Held{Why: Limit}
	}
	if at := g.Next(1, now); at > now {
		return Held{Why: TooFast, Until: at}
	}
	return Held{}
}

// Held is what holds a queue's tasks back.
type Held struct {
	Why   Why
	Until int64 // when that changes by itself; 0 = when a task ends, or somebody resumes the key
}

// Why is a reason, as the API names it.
type Why string

// The reasons.
const (
	Limit   Why = "limit" // as many run as may
	TooFast Why = "rate"  // the bucket is empty
	Paused  Why = "key_paused"
)

// Rate is how fast tasks may begin, and how many at once after a rest: in any window w at most
// burst + w·Count/Per (and one more, for the window's edge). The zero Rate allows everything.
type Rate struct {
	task.Rate
	Burst int64 // 0 = Count
}

func (r *Rate) limits() bool { return r.Count > 0 }

// price is what one task costs: a bucket fills by Count in a microsecond, so numbers stay whole.
func (r *Rate) price() int64 { return r.Per.Microseconds() }

// full is what a bucket holds at most.
func (r *Rate) full() int64 {
	if r.Burst > 0 {
		return r.Burst * r.price()
	}
	return r.Count * r.price()
}

// fills is what comes into a bucket in a time, at most what it holds.
func (r *Rate) fills(passed int64) int64 {
	if passed <= 0 {
		return 0
	}
	if full := r.full(); passed > full/r.Count {
		return full
	}
	return passed * r.Count
}

// Bucket is what a Rate has left. One that begins is empty, so that whatever began before it, under
// another rate, does not add to what may begin now.
type Bucket struct {
	Level int64 // so much was in it
	At    int64 // at that time, which only grows: a clock that goes back fills nothing twice
}

// look brings a bucket up to a time, and says what is in it.
func (b *Bucket) look(r *Rate, now int64) int64 {
	if now > b.At {
		b.Level, b.At = min(b.Level+r.fills(now-b.At), r.full()), now
	}
	return b.Level
}

// FullAt is when the bucket of a rate is full, if nothing is taken from it.
func (b *Bucket) FullAt(r *Rate) int64 {
	if missing := r.full() - b.Level; missing > 0 {
		return b.At + (missing+r.Count-1)/r.Count
	}
	return b.At
}

// times is for how many tasks there is enough.
func (b *Bucket) times(r *Rate, now int64) int {
	return int(max(min(b.look(r, now)/r.price(), math.MaxInt32), 0))
}
