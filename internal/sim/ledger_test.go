package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// ledger is what submitters, workers and those who cancel know by themselves, held against the
// facts of the store after every act. It never asks a node. Only the bus calls it, so it needs no
// lock.
type ledger struct {
	world *world
	facts *model.Model // read directly: what is on the disk
	ctx   context.Context

	wishes map[string]*wish      // by name
	tales  map[task.ID]*tale     // of what was on its way into the store
	order  []*tale               // in the order in which they came
	keys   map[[2]string]task.ID // (queue, key) as submitters were told
	tokens map[string]int64      // of leases, as granted
	// spans and their tokens: how often rounds saw them held, and missed them
	stray map[[2]int64]int
	calm  func(*tale, *given) bool // tells whether a refusal is no wonder; nil = none is
	// judged: what runs past its limit is judged at any time, not only when all trouble is over
	judged bool
	// nodes and workers, queues too: since when somebody knows it, until it is undone
	drained map[string]time.Time
	// when what a worker has beyond a part was to be taken from it, by its name
	givenUp map[string][]time.Time

	gate task.Queue // that has limits
	// what ran of it when it got them; nil = it had them from the start
	earlier map[task.ID]bool
	// who began last of each of its keys
	owners map[string]task.ID
	paused map[string]int64 // until when its keys and others are, by QUEUE/KEY
	began  []int64          // when each of its hand-outs was first written down
	book   waitBook
}

// wish is a task as a submitter wants it. Its name stands in its context, so that it is known
// wherever it turns up.
type wish struct {
	name   string
	sub    task.Submission
	poison bool
	notice bool    // it is a final notice, which the death of a task submits
	id     task.ID // of the task in the store
}

// tale is what is known of one task from outside.
type tale struct {
	id     task.ID
	wish   *wish
	acked  bool
	stored bool
	steps  []task.Step // as they stand; they only grow
	final  task.State
	// what was asked for to happen to it, by the marks of those who did
	asked map[task.Kind]map[int64]bool
	acks  map[task.Kind]int // how often somebody was told that it did
	gave  []*given          // hand-outs that left a node
	said  []said            // outcomes that workers reported
	told  map[int32]said    // those of which they were told that they stand
	// hand-outs that a transaction is to decide, and what such transactions wrote
	intended map[row]bool
	rows     map[row]int
	// final notices that were on their way into the store with a death of it
	dies  []*tale
	limit limit
	ended time.Time // since when it is final
	birth birth
	// how often it was cancelled because its parent ended, or others that it waits for
	fallen int
	after  []behind // what it waits for, or has waited for
}

func newLedger(w *world, facts *model.Model) *ledger {
	return &ledger{
		owners: map[string]task.ID{}, paused: map[string]int64{},
		world: w, facts: facts, ctx: context.Background(), wishes: map[string]*wish{},
		tales: map[task.ID]*tale{},
		keys:  map[[2]string]task.ID{}, tokens: map[string]int64{}, stray: map[[2]int64]int{},
		drained: map[string]time.Time{}, givenUp: map[string][]time.Time{}, book: newWaitBook(),
	}
}

// submitting learns which tasks a submission is about to store.
func (l *ledger) submitting(s store.Submission) {
	for _, b := range s.Batches {
		if off := time.Duration(b.Created-l.world.storeNow()) * time.Microsecond; l.calm != nil &&
			off.Abs() > 10*time.Second {
			l.world.breach("batch %d is stamped %v from the store's time", b.ID, off)
		}
		for _, t := range b.Tasks {
			id := task.ID{Batch: b.ID, N: t.N}
			if l.tales[id] != nil {
				continue
			}
			defer l.waitsBehind(id, &t)
			text, err := l.facts.Value(l.ctx, t.Context)
			w := l.wishes[nameIn(text)]
			if err != nil || w == nil {
				l.world.breach("I7: task %v is submitted, and nobody asked for it: %.60s", id, text)
				continue
			}
			l.limited(l.begin(id, w), &b)
		}
	}
}

// begin learns of a task that is on its way into the store.
func (l *ledger) begin(id task.ID, w *wish) *tale {
	t := &tale{
		id: id, wish: w, asked: map[task.Kind]map[int64]bool{}, acks: map[task.Kind]int{},
		told: map[int32]said{}, intended: map[row]bool{}, rows: map[row]int{},
	}
	l.tales[id] = t
	l.order = append(l.order, t)
	return t
}

// look holds tasks against what was known of them.
func (l *ledger) look(ids []task.ID) {
	for _, id := range ids {
		t := l.tales[id]
		if t == nil {
			continue
		}
		v, err := l.facts.Task(l.ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound) && !t.stored && !t.acked:
			continue
		case err != nil:
			l.world.breach("I1: task %v was stored and is gone: %v", id, err)
			continue
		case !t.stored && t.wish.id != (task.ID{}):
			l.world.breach("I7: %q is stored twice, as %v and %v", t.wish.name, t.wish.id, id)
		}
		t.stored, t.wish.id = true, id
		l.compare(t, v)
	}
}

// compare holds a task against what was known of it.
func (l *ledger) compare(t *tale, v task.View) {
	if len(v.Steps) < len(t.steps) || !slices.Equal(v.Steps[:len(t.steps)], t.steps) {
		l.world.breach("I2: the steps of %v were %+v and are %+v", t.id, t.steps, v.Steps)
	}
	l.limits(t, v, v.Steps[min(len(t.steps), len(v.Steps)):])
	for _, s := range v.Steps[min(len(t.steps), len(v.Steps)):] {
		l.step(t, s)
		t.steps = append(t.steps, s)
	}
	t.steps = v.Steps
	l.rowsMatch(t)
	if t.final != "" && v.State != t.final && len(t.asked[task.KindReplayed]) == 0 {
		l.world.breach("I2: %v was %s and is %s", t.id, t.final, v.State)
	}
	switch was := t.final; {
	case !v.State.Final():
		t.final = ""
	case was == "":
		t.final, t.ended = v.State, time.Now()
	default:
		t.final = v.State
	}
	l.notices(t)
	if t.final != "" {
		return
	}
	if stood, err := l.facts.Stand(l.ctx, []task.ID{t.id}); err != nil || stood[0].Owner.ID == 0 {
		l.world.breach("I11: %v is %s and belongs to no span, so nobody will ever take it (%v)",
			t.id, v.State, err)
	}
}

// step looks at a new step: nothing comes from nothing.
func (l *ledger) step(t *tale, s task.Step) {
	if t.wish.notice && s.Kind == task.KindDone {
		l.world.sometimes("a final notice was done")
	}
	switch {
	case s.Kind == task.KindLost:
		l.world.sometimes("lost: " + s.Error)
	case s.Kind == task.KindTimeout:
		l.world.sometimes("timeout")
	case s.Kind == task.KindExpired: // limits looks at it
	case s.Kind == task.KindWoken:
		l.wokenStep(t, s)
	case s.Kind == task.KindRelease:
		l.world.sometimes("a hand-out was given back unrun")
	case l.fell(t, s):
	case l.unfit(t, s):
	case !s.Kind.Reportable():
		n := kinds(t.steps, s.Kind)
		if s.Kind == task.KindCancelled {
			n -= t.fallen
		}
		if n >= len(t.asked[s.Kind]) {
			l.world.breach("I2: %v was %v once more, and was asked to be %d times", t.id, s.Kind, n)
		}
		l.world.sometimes(s.Kind.String())
	case !slices.ContainsFunc(t.said, func(o said) bool {
		return o.seq == s.Seq && o.kind == s.Kind && o.worker == s.Worker
	}):
		l.world.breach("%v has %v by %q at seq %d, and no worker said so", t.id, s.Kind, s.Worker,
			s.Seq)
	}
}

// receipts learns what a submitter was told.
func (l *ledger) receipts(wishes []*wish, got []task.Receipt) {
	if len(got) != len(wishes) {
		l.world.breach("%d receipts for %d tasks", len(got), len(wishes))
		return
	}
	for i, r := range got {
		w := wishes[i]
		t := l.tales[r.ID]
		if t == nil {
			l.world.breach("I1: %q was acknowledged as %v, which was never stored", w.name, r.ID)
			continue
		}
		t.acked = true
		if r.Existing {
			l.world.sometimes("a key led to the first task")
		}
		if t.wish != w && !r.Existing {
			l.world.breach("%q was acknowledged as %v, which is %q", w.name, r.ID, t.wish.name)
		}
		if key := [2]string{w.sub.Queue, w.sub.Key}; w.sub.Key != "" {
			if first, ok := l.keys[key]; ok && first != r.ID {
				l.world.breach("key %q of %q led to %v and to %v", w.sub.Key, w.sub.Queue, first,
					r.ID)
			}
			l.keys[key] = r.ID
		}
		l.look([]task.ID{r.ID})
	}
}

// granted learns of a lease.
func (l *ledger) granted(lease store.Lease) {
	if lease.Token == 0 {
		return
	}
	if lease.Token <= l.tokens[lease.Name] {
		l.world.breach("I3: lease %q was granted with token %d after %d", lease.Name, lease.Token,
			l.tokens[lease.Name])
	}
	l.tokens[lease.Name] = lease.Token
}

// ending learns that a process is about to end leases: the membership of another one only when that
// is dead.
func (l *ledger) ending(by *process, list []store.Lease) {
	for _, end := range list {
		name, ok := strings.CutPrefix(end.Name, "node/")
		if !ok {
			continue
		}
		leases, err := l.facts.LeasesOf(l.ctx, end.Name)
		if err != nil || len(leases) != 1 || leases[0].Token != end.Token ||
			leases[0].Until <= l.world.storeNow() {
			continue
		}
		for _, p := range l.world.born {
			switch {
			case leases[0].Holder != name+"@"+p.String() || p == by:
			case p.dead():
				l.world.sometimes("the lease of a dead process was not waited for")
			default:
				l.world.breach("I6: %v ended the membership of %v, which is alive", by, p)
			}
		}
	}
}

// broken learns that a node stops because it is told that its membership is gone.
func (l *ledger) broken(lease store.Lease) {
	leases, err := l.facts.LeasesOf(l.ctx, lease.Name)
	if err != nil || slices.ContainsFunc(leases, func(x store.Lease) bool {
		return x.Name == lease.Name && x.Token == lease.Token
	}) {
		l.world.breach("a node was told that its lease %q is gone, and it stands: %v", lease.Name,
			err)
	}
	l.world.sometimes("a node learned that its membership had ended")
}

// acting learns what is asked for to happen to tasks.
func (l *ledger) acting(list []store.Action) {
	for _, a := range list {
		t := l.tales[a.ID]
		if t == nil {
			continue
		}
		if t.asked[a.Kind] == nil {
			t.asked[a.Kind] = map[int64]bool{}
		}
		t.asked[a.Kind][a.Mark] = true
	}
}

// acted learns that somebody was told that it happened.
func (l *ledger) acted(kind task.Kind, t *tale) {
	l.look([]task.ID{t.id})
	if t.acks[kind]++; kinds(t.steps, kind) < t.acks[kind] {
		l.world.breach("I1: %v of %v was acknowledged %d times, and fewer steps say so: %+v", kind,
			t.id, t.acks[kind], t.steps)
	}
}

// kinds counts the steps of a kind.
func kinds(steps []task.Step, kind task.Kind) (n int) {
	for i := range steps {
		if steps[i].Kind == kind {
			n++
		}
	}
	return n
}

// audit looks at everything.
func (l *ledger) audit() {
	stored := 0
	for _, t := range l.order {
		l.look([]task.ID{t.id})
		if t.stored {
			stored++
		}
	}
	l.counts()
	l.families()
	page, _, err := l.facts.Tasks(l.ctx, store.Filter{}, task.ID{}, 1<<20)
	if err != nil || len(page) != stored {
		l.world.breach("I7: %d tasks are listed, %d are known (%v)", len(page), stored, err)
	}
}

// open lists the tasks that are not final.
func (l *ledger) open() (list []string) {
	for _, t := range l.order {
		if t.stored && t.final == "" {
			list = append(list,
				fmt.Sprintf("%v %s after %d steps", t.id, t.wish.name, len(t.steps)))
		}
	}
	return list
}

// finished tells whether everything that is stored is final.
func (l *ledger) finished() bool {
	for _, t := range l.order {
		if t.stored && t.final == "" {
			return false
		}
	}
	return true
}

// nameIn is the name of the wish that a context carries.
func nameIn(text []byte) string {
	rest, _ := strings.CutPrefix(string(text), contextHead)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
