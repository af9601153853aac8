package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// families tells whether tasks of this world submit others. In about every second they do.
func (w *world) families() bool { return w.luckOf("families").IntN(2) == 0 }

// generations is how deep the trees of tasks are below what people submit.
const generations = 2

// spawn lets about every fifth done or next outcome have children, and every second such next
// outcome wait for them: for all, or until the first dies; for ever, or for a time.
func (w *world) spawn(t task.Handout, parent *wish, s *script) {
	h := fnv.New64a()
	fmt.Fprint(h, "spawn", w.seed, t.ID, t.Token)
	luck := rand.New(rand.NewPCG(h.Sum64(), w.seed))
	o := &s.outcome
	generation := strings.Count(parent.name, "/") + 1
	if o.Kind != task.KindNext && o.Kind != task.KindDone || luck.IntN(5) > 0 ||
		generation > generations {
		return
	}
	for i := range 1 + luck.IntN(3) {
		child := &wish{name: fmt.Sprintf("%s/%x.%d", parent.name, h.Sum64()&0xffff, i+1)}
		o.Spawn = append(o.Spawn, task.Submission{
			Queue: queues[luck.IntN(len(queues))], Stage: stageName(1, 0),
			Context: []byte(contextOf(child, 0)), Orphan: luck.IntN(4) == 0,
		})
		// Where a key goes in order, a child of its parent's key would begin when that is over,
		// which waits for it.
		if key := groupKeys[luck.IntN(len(groupKeys))]; key != "" {
			o.Spawn[i].GroupKey = fmt.Sprint(key, generation)
		}
	}
	w.chainChildren(o.Spawn, h.Sum64())
	s.commits, s.forgets = false, false
	if luck.IntN(3) == 0 {
		s.adds, o.Spawn = o.Spawn, nil
	}
	if o.Kind == task.KindDone || o.Delay != 0 || o.Await != nil || luck.IntN(2) == 0 {
		return
	}
	o.Await = &task.Await{Children: task.AllChildren}
	if luck.IntN(3) == 0 {
		o.Await.Children = task.FirstDead
	}
	if luck.IntN(4) == 0 {
		o.Await.Timeout = time.Second + time.Duration(luck.Int64N(int64(30*time.Second)))
		if stage, version := parseStage(o.Stage); luck.IntN(2) == 0 {
			o.Await.Else = stageName(stage+1, version)
		}
	}
}

// wishing learns which children workers want, before their reports come anywhere.
func (l *ledger) wishing(reports []task.Report) {
	for i := range reports {
		l.wanting(reports[i].Spawn)
	}
}

func (l *ledger) wanting(children []task.Submission) {
	for _, sub := range children {
		if name := nameIn(sub.Context); l.wishes[name] == nil {
			l.wishes[name] = &wish{name: name, sub: sub}
		}
	}
}

// spawning learns which children a settlement is about to store.
func (l *ledger) spawning(s store.Settlement) {
	for i := range s.Reports {
		r := &s.Reports[i]
		parent := l.tales[r.ID]
		if len(r.Spawn) == 0 || parent == nil {
			continue
		}
		l.submitting(store.Submission{Batches: r.Spawn})
		l.born(parent, r.Token.Seq, r.Spawn)
	}
}

// born learns whose children the tasks of batches are: of an outcome at seq, or added, -1.
func (l *ledger) born(parent *tale, seq int32, batches []store.Batch) {
	for _, b := range batches {
		if !store.MayBeChildren(b.ID) {
			l.world.breach("W10: batch %d of children has the id of one without a parent", b.ID)
		}
		for _, c := range b.Tasks {
			if t := l.tales[task.ID{Batch: b.ID, N: c.N}]; t != nil && t.birth.of == nil {
				t.birth = birth{of: parent, run: parent.run(), seq: seq, orphan: b.Orphan}
			}
		}
	}
}

// run is the seq behind the newest replay of a task.
func (t *tale) run() (run int32) {
	for _, s := range t.steps {
		if s.Kind == task.KindReplayed {
			run = s.Seq + 1
		}
	}
	return run
}

// added holds what became of children that were added to a hand-out against what stood at its seq.
func (l *ledger) added(s store.Submission, ids []task.ID, err error) {
	if s.Under == nil {
		return
	}
	parent := l.tales[s.Under.ID]
	if parent == nil {
		l.world.breach("W5: children were added to %v, which nobody knows", s.Under.ID)
		return
	}
	over := slices.ContainsFunc(parent.steps, func(x task.Step) bool {
		return x.Seq == s.Under.Token.Seq
	})
	for _, id := range ids {
		t := l.tales[id]
		if t == nil {
			continue
		}
		fresh := t.birth.of == nil
		if l.born(parent, -1, s.Batches); !t.stored {
			continue
		}
		switch {
		case fresh && over:
			l.world.breach("W5: %v was added to %v at seq %d, at which an outcome stands: %+v", id,
				parent.id, s.Under.Token.Seq, parent.steps)
		case fresh && errors.Is(err, store.ErrStale):
			l.world.breach("W5: %v was added to %v, and refused", id, parent.id)
		}
		l.world.sometimes("children were added to what ran")
	}
	if errors.Is(err, store.ErrStale) {
		l.world.sometimes("children of what was over were refused")
	}
}

// birth is whose child a task is.
type birth struct {
	of       *tale
	run, seq int32
	orphan   bool
}

// spawned holds the children of a settlement against what became of its reports: they stand if, and
// only if, the outcome does that submitted them.
func (l *ledger) spawned(s store.Settlement, got store.Settled) {
	for i, v := range got.Verdicts {
		r := &s.Reports[i]
		parent := l.tales[r.ID]
		if len(r.Spawn) == 0 || parent == nil {
			continue
		}
		want := 0
		for _, b := range r.Spawn {
			for _, c := range b.Tasks {
				id := task.ID{Batch: b.ID, N: c.N}
				l.look([]task.ID{id})
				if t := l.tales[id]; t != nil && t.stored != (v == task.Recorded) &&
					!slices.ContainsFunc(s.Reports[:i], func(o store.Report) bool {
						return o.ID == r.ID && len(o.Spawn) > 0 && o.Spawn[0].ID == r.Spawn[0].ID
					}) && !(v == task.Repeated && t.stored) {
					l.world.breach("W5: a report of %v was %s, and its child %v stored: %v", r.ID, v,
						id, t.stored)
				}
				want++
			}
		}
		at := slices.IndexFunc(got.Spawned, func(c store.Spawned) bool { return c.Report == i })
		switch {
		case v != task.Recorded && v != task.Repeated:
		case at < 0 || len(got.Spawned[at].IDs) != want:
			l.world.breach("W5: a report of %v with %d children was %s and answered %+v", r.ID, want,
				v, got.Spawned)
		default:
			for _, id := range got.Spawned[at].IDs {
				if t := l.tales[id]; t == nil || !t.stored || t.birth.of != parent ||
					t.birth.seq != r.Token.Seq {
					l.world.breach("W5: %v is answered as a child of %v, and is none", id, r.ID)
				}
			}
			if v == task.Repeated {
				l.world.sometimes("a repeated report was answered its children of before")
			}
			l.world.sometimes("an outcome submitted children")
		}
	}
}

// childrenOf counts the children of a task's present run, by what is known of each.
func (l *ledger) childrenOf(parent *tale) (c task.Children) {
	run := parent.run()
	for _, t := range l.order {
		if t.birth.of != parent || t.birth.run != run {
			continue
		}
		if l.look([]task.ID{t.id}); !t.stored {
			continue
		}
		c.Total++
		switch t.final {
		case task.Done:
			c.Done++
		case task.Dead:
			c.Dead++
		case task.Cancelled:
			c.Cancelled++
		case task.Expired:
			c.Expired++
		}
	}
	return c
}

// grown looks at the end of a wait for children: it was time, and they are counted right.
func (l *ledger) grown(t *tale, w *waiting, s task.Step, stage string, by *task.Children) {
	want := l.childrenOf(t)
	// A look wakes who waits for children first, and cancels who waits for others then.
	if late := l.cancelledWith(t, s); late > 0 && by != nil && by.Cancelled == want.Cancelled-late {
		want.Cancelled -= late
	}
	enough := want.Open() == 0 || w.first && want.Dead+want.Expired > 0
	if by == nil || *by != want || !enough || stage != w.stage {
		l.world.breach("W2: %v was woken into %q by children %+v, and has %+v; first %v", t.id, stage,
			by, want, w.first)
		return
	}
	l.book.grown[turn{t.id, s.Seq}] = want
	l.book.woken[turn{t.id, s.Seq}] = ""
	l.world.sometimes("children ended a wait")
	if want.Open() > 0 {
		l.world.sometimes("the first child that died ended a wait")
	}
}

// cancelledWith is how many children of a task were cancelled in the moment of a step of it since
// others did not end as they should.
func (l *ledger) cancelledWith(parent *tale, step task.Step) (n int64) {
	for _, t := range l.order {
		if k := len(t.steps) - 1; t.birth.of == parent && t.final == task.Cancelled &&
			len(t.after) > 0 && t.steps[k].Finished.Equal(step.Finished) {
			n++
		}
	}
	return n
}

// fell tells whether a cancellation that nobody asked for is that of a child whose parent ended: it
// was no orphan, and nobody had begun it.
func (l *ledger) fell(t *tale, s task.Step) bool {
	p := t.birth.of
	if s.Kind != task.KindCancelled || !strings.HasPrefix(s.Error, "parent ") || p == nil {
		return false
	}
	l.look([]task.ID{p.id})
	ended := p.final != "" && p.final != task.Done || len(p.asked[task.KindReplayed]) > 0
	if !ended || t.birth.orphan {
		l.world.breach("W7: %v fell, orphan %v, and its parent %v is %q: %+v", t.id, t.birth.orphan,
			p.id, p.final, p.steps)
	}
	if p.final == "" && t.birth.run == p.run() {
		l.world.breach("W7: %v fell, and its parent %v began anew before it was submitted: %+v", t.id,
			p.id, p.steps)
	}
	for _, before := range t.steps {
		if before.Kind < task.KindCancelled && before.Kind != task.KindRelease {
			l.world.breach("W7: %v fell, and had begun: %+v", t.id, t.steps)
		}
	}
	l.world.sometimes("a child fell with its parent")
	t.fallen++
	return true
}

// families holds what the store says of children against what is known, when all is over.
func (l *ledger) families() {
	for _, t := range l.order {
		if !t.stored || l.childrenOf(t).Total == 0 {
			continue
		}
		v, err := l.facts.Task(l.ctx, t.id)
		if err != nil || v.Children == nil || *v.Children != l.childrenOf(t) {
			l.world.breach("W4: %v has children %+v, and these are known: %+v (%v)", t.id, v.Children,
				l.childrenOf(t), err)
		}
	}
}

// AddChildren asks once: who repeats it would have them twice.
func (d *nodeDoor) AddChildren(
	ctx context.Context, name string, id task.ID, token string, children []task.Submission,
) ([]task.Receipt, error) {
	return through(ctx, d, 0, call[[]task.Receipt]{
		text:     fmt.Sprintf("add %d children to %v@%s", len(children), id, token),
		patience: 4 * time.Second,
		told:     func(got []task.Receipt) string { return fmt.Sprint(got) },
		sent:     func() { d.world.ledger.wanting(children) },
	}, func(ctx context.Context, n *peer) ([]task.Receipt, error) {
		return n.AddChildren(ctx, name, id, token, children)
	})
}

// Children is what no handler here asks.
func (d *nodeDoor) Children(
	context.Context, task.ID, task.State, string, int,
) ([]task.View, string, error) {
	return nil, "", errSilent
}

// childBugs are wrong programs about children.
func childBugs() []bug {
	settling := func(change func(p *planted, r *store.Report)) func(*planted) {
		return func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				s.Reports = slices.Clone(s.Reports)
				for i := range s.Reports {
					change(p, &s.Reports[i])
				}
				return p.Model.Settle(ctx, s)
			}
		}
	}
	return []bug{
		{name: "children are lost with the outcome that spawned them", mode: safety,
			store: settling(func(_ *planted, r *store.Report) { r.Spawn = nil })},
		{name: "one child of several is lost", mode: safety,
			store: settling(func(_ *planted, r *store.Report) {
				if n := len(r.Spawn); n > 1 {
					r.Spawn = r.Spawn[:n-1]
				}
			})},
		{name: "who waits for children is woken by the first that dies", mode: safety,
			store: settling(func(_ *planted, r *store.Report) {
				if r.Await != nil && r.Await.Address.Children() {
					r.Await = new(*r.Await)
					r.Await.First = true
				}
			})},
		{name: "orphans fall with their parents", mode: safety,
			store: settling(func(_ *planted, r *store.Report) {
				r.Spawn = slices.Clone(r.Spawn)
				for i := range r.Spawn {
					r.Spawn[i].Orphan = false
				}
			})},
		{name: "children are added to what is over", mode: safety, store: func(p *planted) {
			p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
				got, err := p.Model.Submit(ctx, s)
				if s.Under != nil && errors.Is(err, store.ErrStale) {
					s.Under = nil
					return p.Model.Submit(ctx, s)
				}
				return got, err
			}
		}},
		{name: "nobody looks whose children are over", mode: calm, store: func(p *planted) {
			p.look = func(ctx context.Context, r store.LookRequest) (store.Looked, error) {
				if len(r.Addresses) == 0 {
					return store.Looked{Now: p.now()}, nil
				}
				r.Addresses = slices.DeleteFunc(slices.Clone(r.Addresses), store.Address.Children)
				if len(r.Addresses) == 0 {
					return store.Looked{Now: p.now()}, nil
				}
				return p.Model.Look(ctx, r)
			}
		}},
	}
}
