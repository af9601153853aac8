package sim

import (
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// limit is what is known from outside of a task that is to be begun in time.
type limit struct {
	at  int64 // when it expires, by the store's clock; 0 = it has no limit
	ran bool  // a hand-out of it was written down
}

// ahead is how far a node's idea of the store's clock may be from it, jumps aside.
const ahead = 100 * time.Millisecond

// limited learns of the limit of a task that is on its way into the store.
func (l *ledger) limited(t *tale, b *store.Batch) {
	if within := t.wish.sub.StartWithin; within > 0 {
		t.limit.at = b.Due + within.Microseconds()
	}
}

// limits holds the limit that a task has in the store against what is known of it. Only an edit may
// set another one, and only while the task is not begun. Who moves or replays it takes it away.
func (l *ledger) limits(t *tale, v task.View, steps []task.Step) {
	if len(t.steps) == len(v.Steps) && t.limit.ran && v.State.Final() {
		return
	}
	if v.State == task.Running {
		if t.limit.at > 0 && !t.limit.ran {
			l.world.sometimes("a task with a limit was begun in time")
		}
		t.limit.ran = true
	}
	for _, s := range steps {
		if s.Kind == task.KindExpired {
			l.expired(t, v.Steps)
		}
		switch {
		case s.Kind < task.KindCancelled || !s.Started.IsZero():
			t.limit.ran = true
		case s.Kind != task.KindEdited:
			t.limit.at = 0 // it is over, or somebody wants it to run; an edit may set another
		case t.limit.ran:
		case strings.Contains(s.Changed, task.EditsDue),
			strings.Contains(s.Changed, task.EditsStartWithin):
			l.world.sometimes("a limit was edited")
			t.limit.at = v.Expires.UnixMicro()
			if v.Expires.IsZero() {
				t.limit.at = 0
			}
		}
	}
	var at int64
	if !v.Expires.IsZero() {
		at = v.Expires.UnixMicro()
	}
	switch {
	case t.limit.ran && at != 0:
		l.world.breach("%v was begun, and is to expire at %d; its steps are %+v", t.id, at, v.Steps)
	case !t.limit.ran && at != t.limit.at:
		l.world.breach("%v is to expire at %d, and not at %d", t.id, at, t.limit.at)
	}
}

// expired looks at the step of a task that nobody began in time: nobody had, as far as anything
// that is written down says, and its time was over.
func (l *ledger) expired(t *tale, steps []task.Step) {
	w := l.world
	w.sometimes("a task expired")
	if t.limit.ran {
		w.breach("expiry: %v was begun, and expired; its steps are %+v", t.id, steps)
	}
	early := time.Duration(t.limit.at-w.storeNow()) * time.Microsecond
	if t.limit.at == 0 || early > ahead+w.jumped {
		w.breach("expiry: %v expired %v before its limit %d", t.id, early, t.limit.at)
	}
	if l.calm == nil {
		return
	}
	for _, g := range t.gave {
		if !g.node.dead() || g.node.orderly || g.node.died.Sub(g.at) > youth {
			w.breach("expiry: %v expired, and %v had handed it out to %v at %v", t.id, g.node,
				g.worker, g.at.Sub(w.bus.trace.began))
		}
	}
}

// expiring looks at a settlement that let a task expire: its holder had handed it out to nobody.
func (l *ledger) expiring(t *tale, r *store.Report) {
	for _, g := range t.gave {
		switch {
		case g.token.Seq != r.Token.Seq:
		case g.token.Span == r.Token.Span && g.token.SpanToken == r.Token.SpanToken:
			l.world.breach("expiry: the holder of %v let it expire that had handed it out to %v",
				t.id, g.worker)
		default:
			l.world.sometimes("a task expired whose young hand-out died with its node")
		}
	}
}

// promptness is how long past its limit a task may be seen that nobody began, once a node is fit to
// judge: its holder may be dead, so that a lease has to end first; then it takes beats, and the
// messages that end it.
const promptness = leaseTime + 5*beat

// unbegun looks for tasks past their limit that nobody lets expire.
func (l *ledger) unbegun() {
	w := l.world
	if w.healed.IsZero() && l.calm == nil {
		return
	}
	for _, t := range l.order {
		if !t.stored || t.final != "" || t.limit.ran || t.limit.at == 0 {
			continue
		}
		began := time.Now().Add(-time.Duration(w.storeNow()-t.limit.at) * time.Microsecond)
		if fit := w.healed.Add(leaseTime + 3*beat + 1); !w.healed.IsZero() && began.Before(fit) {
			began = fit
		}
		past := time.Since(began)
		for _, n := range w.nodes {
			if past > promptness && n.judges(began) {
				w.breach("expiry: %v is not begun %v after it was to be, and does not expire",
					t.id, past)
				break
			}
		}
	}
}

// deafness is how long after a task's end whoever waits for it may hear nothing: until a node that
// was told nothing looks by itself, and the messages.
const deafness = 3 * time.Second

// heard learns what somebody was told who waited for a task.
func (l *ledger) heard(t *tale, asked time.Time, v task.View) {
	l.look([]task.ID{t.id})
	w := l.world
	if v.State.Final() && v.State != t.final && len(t.asked[task.KindReplayed]) == 0 {
		w.breach("I2: who waited for %v heard that it is %s, and it is %q", t.id, v.State, t.final)
	}
	if t.final == "" || len(t.asked[task.KindReplayed]) > 0 {
		return
	}
	ended := t.ended
	if asked.After(ended) {
		ended = asked
	} else if v.State == task.Expired {
		w.sometimes("who waited for a task heard that it expired")
	}
	if fine := l.calm != nil || !w.healed.IsZero() && asked.After(w.healed); fine &&
		time.Since(ended) > deafness {
		w.breach("expiry: who waited for %v heard %v after it was over that it is %s", t.id,
			time.Since(ended), v.State)
	}
}

// counts holds the counts of the queues against what is known of each task.
func (l *ledger) counts() {
	want := map[string]task.Counts{}
	for _, t := range l.order {
		if !t.stored {
			continue
		}
		c := want[t.wish.sub.Queue]
		switch t.final {
		case task.Done:
			c.Done++
		case task.Dead:
			c.Dead++
		case task.Cancelled:
			c.Cancelled++
		case task.Expired:
			c.Expired++
		default:
			if l.waitOf(t) != nil || l.behindNow(t) {
				c.Blocked++
			} else {
				c.Ready++
			}
		}
		want[t.wish.sub.Queue] = c
	}
	got, err := l.facts.Counts(l.ctx, served...)
	if err != nil {
		l.world.breach("count tasks: %v", err)
	}
	for _, q := range got {
		c := q.Counts
		c.Ready, c.Waiting, c.Running = c.Ready+c.Waiting+c.Running, 0, 0
		if c != want[q.Queue] {
			l.world.breach("I7: queue %q has %+v, and these are known: %+v", q.Queue, c,
				want[q.Queue])
		}
	}
}
