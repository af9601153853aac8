package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// chains tells whether tasks of this world wait for others. In about every second they do.
func (w *world) chains() bool { return w.luckOf("chains").IntN(2) == 0 }

// chain lets some tasks of a call wait for others of it, or for one that stands.
func (w *world) chain(luck *rand.Rand, subs []task.Submission) {
	if !w.chains() {
		return
	}
	for i := range subs {
		if luck.IntN(3) > 0 {
			continue
		}
		for range 1 + luck.IntN(2) {
			name := w.other(luck, subs[:i])
			if name != "" && !slices.Contains(subs[i].After, name) {
				subs[i].After = append(subs[i].After, name)
			}
		}
		if len(subs[i].After) > 0 {
			subs[i].StartWithin = 0
			subs[i].If = []task.Condition{task.IfDone, task.IfEnded}[luck.IntN(2)]
		}
	}
}

// other names a task to wait for; "" = none.
func (w *world) other(luck *rand.Rand, before []task.Submission) string {
	if len(before) > 0 && luck.IntN(4) > 0 {
		k := luck.IntN(len(before))
		before[k].Ref = fmt.Sprint("r", k)
		return before[k].Ref
	}
	order := w.ledger.order
	if len(order) == 0 {
		return ""
	}
	if t := order[luck.IntN(len(order))]; t.stored && t.birth.of == nil {
		return t.id.String()
	}
	return ""
}

// chainChildren lets some children wait for others among them.
func (w *world) chainChildren(children []task.Submission, seed uint64) {
	h := fnv.New64a()
	fmt.Fprint(h, "chain", w.seed, seed)
	luck := rand.New(rand.NewPCG(h.Sum64(), w.seed))
	if !w.chains() {
		return
	}
	for i := 1; i < len(children); i++ {
		if luck.IntN(3) == 0 {
			children[i-1].Ref = fmt.Sprint("c", i-1)
			children[i].After = []string{children[i-1].Ref}
			children[i].If = []task.Condition{task.IfDone, task.IfEnded}[luck.IntN(2)]
		}
	}
}

// behind is a task that another one waits for, as it was submitted.
type behind struct {
	store.Dependency
}

// waitsBehind learns for which others the tasks of a submission wait.
func (l *ledger) waitsBehind(id task.ID, c *store.Task) {
	t := l.tales[id]
	if len(c.After) == 0 || t == nil || t.after != nil {
		return
	}
	if !store.MayDepend(id.Batch) {
		l.world.breach("W10: %v waits for others, and its id is that of one that does not", id)
	}
	for _, d := range c.After {
		t.after = append(t.after, behind{d})
	}
	l.world.sometimes("a task waited for others")
}

// waitedFor is the tale of the task that one waits for: of a key that existed, the one that has it.
func (l *ledger) waitedFor(d *behind) *tale {
	t := l.tales[d.On]
	if t == nil || t.stored {
		return t
	}
	if l.look([]task.ID{t.id}); t.stored {
		return t
	}
	for _, other := range l.order {
		if other.stored && other.wish.sub.Key == t.wish.sub.Key && t.wish.sub.Key != "" &&
			other.wish.sub.Queue == t.wish.sub.Queue {
			return other
		}
	}
	return nil
}

// endsOf are the states in which a task has ended, in its runs.
func (l *ledger) endsOf(t *tale) (ends []task.State) {
	l.look([]task.ID{t.id})
	for i, s := range t.steps {
		last := i == len(t.steps)-1
		if last && t.final != "" || !last && t.steps[i+1].Kind == task.KindReplayed {
			ends = append(ends, s.Kind.Leaves())
		}
	}
	return ends
}

// fits tells whether a task has ever ended as one that waits for it asks.
func (l *ledger) fits(d *behind) bool {
	t := l.waitedFor(d)
	return t != nil && slices.ContainsFunc(l.endsOf(t), func(s task.State) bool {
		return d.Ended || s == task.Done
	})
}

// begins tells whether the step before a place lets a task begin that waits for others.
func (l *ledger) mayBegin(t *tale, what string, seq int32) {
	for i := range t.after {
		if d := &t.after[i]; !l.fits(d) {
			l.world.breach("W8: %v %s at seq %d, and %v, which it waits for, has not ended as it "+
				"should (any end fits: %v)", t.id, what, seq, d.On, d.Ended)
		}
	}
}

// wokenByOthers looks at the end of a wait for others: all of them ended as they should.
func (l *ledger) wokenByOthers(t *tale, s task.Step) bool {
	if last, found := t.before(s.Seq); len(t.after) == 0 ||
		found && last.Kind != task.KindReplayed {
		return false
	}
	l.mayBegin(t, "was woken", s.Seq)
	l.world.sometimes("others ended a wait")
	return true
}

// unfit tells whether a cancellation that nobody asked for is that of a task for which another one
// did not end as it should.
func (l *ledger) unfit(t *tale, s task.Step) bool {
	if s.Kind != task.KindCancelled || !strings.HasPrefix(s.Error, "after ") || len(t.after) == 0 {
		return false
	}
	if last, found := t.before(s.Seq); found && last.Kind != task.KindReplayed {
		l.world.breach("W7: %v was cancelled because of others, and had begun: %+v", t.id, t.steps)
	}
	for i := range t.after {
		d := &t.after[i]
		on := l.waitedFor(d)
		if on == nil || d.Ended {
			continue
		}
		for _, end := range l.endsOf(on) {
			if end != task.Done && s.Error == fmt.Sprintf("after %s: %s", named(d, on), end) {
				l.world.sometimes("a task was cancelled since another one did not end as it should")
				t.fallen++
				return true
			}
		}
	}
	l.world.breach("W7: %v was cancelled with %q, which is not so", t.id, s.Error)
	return true
}

// named is what a task is called by one that waits for it.
func named(d *behind, on *tale) string {
	if d.Ref != "" {
		return d.Ref
	}
	return on.id.String()
}

// toldOthers looks at a hand-out of a task that waited for others: it begins no sooner than it may,
// and is told how they ended.
func (l *ledger) toldOthers(node *process, t *tale, h *task.Handout, seq int32) {
	l.mayBegin(t, fmt.Sprint("is handed out by ", node), seq)
	if len(h.After) != len(t.after) {
		l.world.breach("%v handed out %v, which waited for %d others, as one that waited for %d",
			node, t.id, len(t.after), len(h.After))
		return
	}
	for i := range t.after {
		on, p := l.waitedFor(&t.after[i]), &h.After[i]
		if on == nil || p.ID != on.id || p.Ref != t.after[i].Ref ||
			!slices.Contains(l.endsOf(on), p.State) {
			l.world.breach("%v handed out %v, and says of what it waited for: %+v", node, t.id, p)
		}
	}
}

// behindOthers are the tasks that wait for others now.
func (l *ledger) behindOthers() (list []*tale) {
	for _, t := range l.order {
		if t.stored && t.final == "" && len(t.after) > 0 {
			list = append(list, t)
		}
	}
	return list
}

// behindNow tells whether a task waits for others. Whether a replay lets it wait again hangs on
// what looks had seen by then, which only the store knows.
func (l *ledger) behindNow(t *tale) bool {
	if len(t.after) == 0 || t.final != "" {
		return false
	}
	last, found := t.before(1 << 30)
	if found && last.Kind == task.KindReplayed {
		v, err := l.facts.Task(l.ctx, t.id)
		return err == nil && v.Awaits != nil && v.Awaits.Others
	}
	return !found
}

// dependBugs are wrong programs about tasks that wait for others.
func dependBugs() []bug {
	submitting := func(change func(t *store.Task)) func(*planted) {
		return func(p *planted) {
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				s.Batches = slices.Clone(s.Batches)
				for i := range s.Batches {
					b := &s.Batches[i]
					b.Tasks = slices.Clone(b.Tasks)
					for k := range b.Tasks {
						if t := &b.Tasks[k]; len(t.After) > 0 {
							t.After = slices.Clone(t.After)
							change(t)
						}
					}
				}
				return p.Model.Submit(ctx, s)
			}
		}
	}
	return []bug{
		{name: "nobody waits for others", mode: safety,
			store: submitting(func(t *store.Task) { t.After = nil })},
		{name: "who waits for two waits for one", mode: safety,
			store: submitting(func(t *store.Task) { t.After = t.After[:1] })},
		{name: "whatever became of others, who waits for them begins", mode: safety,
			store: submitting(func(t *store.Task) {
				for i := range t.After {
					t.After[i].Ended = true
				}
			})},
		{name: "nobody is told what others left", mode: safety, store: func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				for i := range got.Spans {
					for k := range got.Spans[i].Tasks {
						got.Spans[i].Tasks[k].After = nil
					}
				}
				return got, err
			}
		}},
		{name: "nobody looks who waited for what is over", mode: calm, store: func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				r.Addresses = slices.DeleteFunc(slices.Clone(r.Addresses),
					func(a store.Address) bool { return a.End })
				if len(r.Addresses) == 0 {
					return store.Looked{Now: p.now()}, nil
				}
				return p.Model.Look(ctx, r)
			}
		}},
	}
}
