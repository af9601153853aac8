package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// waits tells whether stages of this world's tasks wait for signals. About every second does.
func (w *world) waits() bool { return w.luckOf("waits").IntN(2) == 0 }

// signalName is what all of them wait for.
const signalName = "go"

// wait lets about every third next outcome wait for a signal: to the task, or by a key; for
// ever, or for a time, after which another stage follows or the same one.
func (w *world) wait(t task.Handout, s *script) {
	h := fnv.New64a()
	fmt.Fprint(h, "wait", w.seed, t.ID, t.Token)
	luck := rand.New(rand.NewPCG(h.Sum64(), w.seed))
	if s.outcome.Kind != task.KindNext || s.outcome.Delay != 0 || luck.IntN(3) > 0 {
		return
	}
	a := &task.Await{Signal: signalName}
	if luck.IntN(3) == 0 {
		a.Key = fmt.Sprint(t.ID, " ", t.Token) // nobody else waits for it
	}
	if luck.IntN(2) == 0 {
		a.Timeout = time.Second + time.Duration(luck.Int64N(int64(10*time.Second)))
		if stage, version := parseStage(s.outcome.Stage); luck.IntN(2) == 0 {
			a.Else = stageName(stage+1, version)
		}
	}
	s.outcome.Await, s.commits, s.forgets = a, false, false
}

// waiting is what is known of what a task waits for behind its step at a seq.
type waiting struct {
	address store.Address
	until   int64
	stage   string // that waits
	other   string // that follows when the time is over
	first   bool   // of children: the first that dies ends it, too
}

// sent is a signal that somebody sent, or may have.
type sent struct {
	to   store.Address
	name string // its payload; no other has it
	used turn   // the wait that it ended
}

// turn is a seq of a task.
type turn struct {
	id  task.ID
	seq int32
}

// waitBook is what is known of signals and of waits.
type waitBook struct {
	waits map[turn]*waiting // by the seq of the step behind which a task waits
	sent  map[string]*sent  // by name
	woken map[turn]string   // by which signal; "" = the time was over, or children ended it
	grown map[turn]task.Children
}

func newWaitBook() waitBook {
	return waitBook{
		waits: map[turn]*waiting{}, sent: map[string]*sent{}, woken: map[turn]string{},
		grown: map[turn]task.Children{},
	}
}

// awaited learns which tasks wait from a settlement on.
func (l *ledger) awaited(s store.Settlement, got store.Settled) {
	for i, v := range got.Verdicts {
		if r := s.Reports[i]; v == task.Recorded && r.Await != nil {
			l.book.waits[turn{r.ID, r.Token.Seq}] = &waiting{
				r.Await.Address, r.Await.Until, r.Step.Stage, cmp.Or(r.Await.Else, r.Step.Stage),
				r.Await.First,
			}
			if r.Await.Address.Children() {
				l.world.sometimes("a task waited for its children")
			} else {
				l.world.sometimes("a task waited for a signal")
			}
		}
	}
}

// before is the step that says why a task is in its stage at a seq: the newest next, replay or
// wake-up below it.
func (t *tale) before(seq int32) (s task.Step, found bool) {
	for _, s := range slices.Backward(t.steps) {
		if s.Seq < seq && (s.Kind == task.KindNext || s.Kind == task.KindReplayed ||
			s.Kind == task.KindWoken) {
			return s, true
		}
	}
	return s, false
}

// wokenStep looks at the end of a wait: there was one, and it was over.
func (l *ledger) wokenStep(t *tale, s task.Step) {
	if l.wokenByOthers(t, s) {
		return
	}
	last, _ := t.before(s.Seq)
	w := l.book.waits[turn{t.id, last.Seq}]
	if last.Kind != task.KindNext || w == nil {
		l.world.breach("W1: %v was woken at seq %d, and did not wait: %+v", t.id, s.Seq, t.steps)
		return
	}
	stood, err := l.facts.Stand(l.ctx, []task.ID{t.id})
	if err != nil || stood[0].Woken == nil {
		l.world.breach("%v was woken at seq %d, and nothing says why (%v)", t.id, s.Seq, err)
		return
	}
	if kinds(t.steps, task.KindEdited) > 0 && last.Seq < s.Seq-1 {
		l.world.sometimes("a task was edited while it waited, and woken")
	}
	by, stage := stood[0].Woken, stood[0].Stage
	if by.TimedOut {
		if w.until == 0 || s.Finished.UnixMicro() < w.until || stage != w.other {
			l.world.breach("W2: the wait of %v ended in stage %q at %v, and was to end in %q at %v",
				t.id, stage, s.Finished, w.other, time.UnixMicro(w.until))
		}
		l.book.woken[turn{t.id, s.Seq}] = ""
		l.world.sometimes("a wait was over without a signal")
		return
	}
	if w.address.Children() {
		l.grown(t, w, s, stage, by.Children)
		return
	}
	g := l.book.sent[string(by.Payload)]
	switch {
	case g == nil || g.to != w.address || stage != w.stage:
		l.world.breach("W2: %v was woken into %q by %s, and waited at %v to go into %q", t.id, stage,
			by.Payload, w.address, w.stage)
		return
	case g.used != (turn{}):
		l.world.breach("W6: signal %s ended the waits of %v and of %v", by.Payload, g.used, t.id)
	}
	g.used = turn{t.id, s.Seq}
	l.book.woken[g.used] = g.name
	l.world.sometimes("a signal ended a wait")
}

// wokenHand looks at a hand-out: its stage is one that may begin, and it says what let it.
func (l *ledger) wokenHand(node *process, t *tale, h *task.Handout, seq int32) {
	last, _ := t.before(seq)
	if w := l.book.waits[turn{t.id, last.Seq}]; w != nil && last.Kind == task.KindNext {
		l.world.breach("W8: %v handed out %v at seq %d, which waits since %d", node, t.id, seq,
			last.Seq)
		return
	}
	l.toldOthers(node, t, h, seq)
	told, timedOut := "", h.TimedOut
	if h.Signal != nil {
		told = string(h.Signal.Payload)
	}
	grown, children := l.book.grown[turn{t.id, last.Seq}]
	if children = children && last.Kind == task.KindWoken; children != (h.Children != nil) ||
		children && *h.Children != grown {
		l.world.breach("%v handed out %v at seq %d as woken by children %+v, after %+v by %+v", node,
			t.id, seq, h.Children, last, grown)
	}
	want, woken := l.book.woken[turn{t.id, last.Seq}]
	if woken = woken && last.Kind == task.KindWoken && !children; told != want && woken ||
		timedOut != (woken && want == "") || !woken && told != "" {
		l.world.breach("%v handed out %v at seq %d as woken by %q, timed out %v, after %+v by %q",
			node, t.id, seq, told, timedOut, last, want)
	}
}

// blocked are the tasks that wait now, and their waits.
func (l *ledger) blocked() (list []*tale) {
	for _, t := range l.order {
		if l.waitOf(t) != nil {
			list = append(list, t)
		}
	}
	return list
}

// waitOf is what a task waits for; nil = nothing.
func (l *ledger) waitOf(t *tale) *waiting {
	if last, found := t.before(1 << 30); found && t.final == "" && last.Kind == task.KindNext {
		return l.book.waits[turn{t.id, last.Seq}]
	}
	return nil
}

// lookAtBlocked looks what came of the tasks that waited before a call.
func (l *ledger) lookAtBlocked(before []*tale) {
	for _, t := range before {
		l.look([]task.ID{t.id})
	}
}

// Signal is that of the store.
func (d *storeDoor) Signal(ctx context.Context, s store.Signal) (store.Signalled, error) {
	return ask(ctx, d, fmt.Sprintf("signal %s %s", s.To, s.Payload), true, nil,
		func(ctx context.Context) (store.Signalled, error) {
			before := d.world.ledger.blocked()
			got, err := d.Store.Signal(ctx, s)
			d.world.ledger.lookAtBlocked(before)
			for _, r := range got.Ready {
				d.hint(r.Queue)
			}
			return got, err
		}, func(got store.Signalled) string {
			return fmt.Sprint(got.Found, got.Final, got.Repeated, got.Delivered)
		})
}

// Look is that of the store.
func (d *storeDoor) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	return ask(ctx, d, fmt.Sprintf("look at %v", r.Addresses), true, nil,
		func(ctx context.Context) (store.Looked, error) {
			before := append(d.world.ledger.blocked(), d.world.ledger.behindOthers()...)
			got, err := d.Store.Look(ctx, r)
			d.world.ledger.look(got.Cancelled)
			d.world.ledger.lookAtBlocked(before)
			if got.Ended > 0 && len(r.Addresses) == 0 {
				d.world.sometimes("a beat's look ended a wait")
			}
			for _, ready := range got.Ready {
				d.hint(ready.Queue)
			}
			return got, err
		}, func(got store.Looked) string { return fmt.Sprint(got.Ended, got.More) })
}

// signalling sends each wait a signal of its own, some after its time, and some before anybody
// waits, until everybody else is done and everything is final.
func (s *person) signalling() {
	l := s.world.ledger
	asked := map[turn]bool{}
	for n := 0; ; n++ {
		over := false
		var r task.SignalRequest
		if !s.rest(2*time.Second, func() {
			over = !s.world.healed.IsZero() && s.world.people == 1 && l.finished()
			r = s.someSignal(asked, n)
		}) || over {
			return
		}
		if r.Name != "" {
			s.send(r)
		}
	}
}

// someSignal makes up a signal: for a task that waits and has none yet, or an early one.
func (s *person) someSignal(asked map[turn]bool, n int) (r task.SignalRequest) {
	l := s.world.ledger
	text := fmt.Sprintf(`"%v %d"`, s.door.from, n)
	g := &sent{name: text}
	for _, t := range l.blocked() {
		last, _ := t.before(1 << 30)
		w, at := l.waitOf(t), turn{t.id, last.Seq}
		if w.address.Children() {
			continue
		}
		if !asked[at] && s.luck.IntN(3) > 0 {
			asked[at], g.to = true, w.address
			break
		}
	}
	if g.to == (store.Address{}) {
		var open []*tale
		for _, t := range l.order {
			if t.stored && t.final == "" {
				open = append(open, t)
			}
		}
		if len(open) == 0 || s.luck.IntN(4) > 0 {
			return r
		}
		g.to = store.Address{Task: open[s.luck.IntN(len(open))].id, Name: signalName}
		l.world.sometimes("a signal was sent before its task waited")
	}
	l.book.sent[text] = g
	return task.SignalRequest{
		Task: g.to.Task, Name: signalName, Key: cmp.Or(g.to.Key, fmt.Sprint(n)),
		Payload: []byte(text),
	}
}

// send sends a signal until it is answered.
func (s *person) send(r task.SignalRequest) {
	for try := 0; !s.door.from.dead(); try++ {
		_, err := through(s.door.from.ctx, s.door, try, call[task.SignalReceipt]{
			text: fmt.Sprintf("signal %v %s", r.Task, r.Payload), patience: 5 * time.Second,
			doubles: true, told: func(got task.SignalReceipt) string { return fmt.Sprint(got) },
		}, func(ctx context.Context, n *peer) (task.SignalReceipt, error) {
			return n.Signal(ctx, s.door.from.name, r)
		})
		if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
			return
		}
		s.door.pause(s.door.from.ctx, try)
	}
}

// waitBugs are wrong programs about tasks that wait for signals.
func waitBugs() []bug {
	settling := func(change func(p *planted, r *store.Report)) func(*planted) {
		return func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				s.Reports = slices.Clone(s.Reports)
				for i := range s.Reports {
					if r := &s.Reports[i]; r.Await != nil {
						r.Await = new(*r.Await)
						change(p, r)
					}
				}
				return p.Model.Settle(ctx, s)
			}
		}
	}
	return []bug{
		{name: "who waits is handed out", mode: safety,
			store: settling(func(p *planted, r *store.Report) {
				r.Await, r.Move = nil, &store.Move{Rank: p.now(), Due: p.now()}
			})},
		{name: "a wait is over before its time", mode: safety,
			store: settling(func(_ *planted, r *store.Report) {
				if r.Await.Until != 0 {
					r.Await.Until -= time.Second.Microseconds()
				}
			})},
		{name: "who was not woken in time goes on as if it were", mode: safety,
			store: settling(func(_ *planted, r *store.Report) { r.Await.Else = "" })},
		{name: "a signal ends two waits", mode: safety, store: func(p *planted) {
			p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
				got, err := p.Model.Signal(ctx, s)
				if s.Key += " again"; err == nil && s.To.Task != (task.ID{}) {
					_, err = p.Model.Signal(ctx, s)
				}
				return got, err
			}
		}},
		{name: "a signal is answered and not written", mode: calm, store: func(p *planted) {
			p.signal = func(ctx context.Context, s store.Signal) (store.Signalled, error) {
				return store.Signalled{Now: p.now(), Found: true}, nil
			}
		}},
		{name: "nobody is told what woke a task", mode: safety, store: func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				for i := range got.Spans {
					for k := range got.Spans[i].Tasks {
						got.Spans[i].Tasks[k].Woken = nil
					}
				}
				return got, err
			}
		}},
	}
}
