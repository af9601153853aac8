package sim

import (
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// given is a hand-out that left a node.
type given struct {
	token  task.Token
	text   string
	node   *process
	worker *process
	at     time.Time
}

// said is an outcome that a worker reported.
type said struct {
	token   string
	seq     int32
	worker  string
	outcome int64 // its hash
	kind    task.Kind
}

// lives tells whether a holder has its lease at this moment.
func (l *ledger) lives(h store.Holder) bool {
	leases, err := l.facts.LeasesOf(l.ctx, "node/"+h.Node)
	return err == nil && slices.ContainsFunc(leases, func(x store.Lease) bool {
		return x.Name == "node/"+h.Node && x.Token == h.Token && x.Until > l.world.storeNow()
	})
}

// held are the spans that a holder has.
func (l *ledger) held(h store.Holder) []store.HeldSpan {
	spans, err := l.facts.Held(l.ctx, h, nil)
	if err != nil {
		l.world.breach("read what %v holds: %v", h, err)
	}
	return spans
}

// givenBack learns what a node gave back: nothing that it had taken again since.
func (l *ledger) givenBack(g store.GiveRequest, before []store.HeldSpan) {
	after := l.held(g.Holder)
	for i := range before {
		sp := &before[i].Span
		if slices.Contains(g.Spans, sp.Taking()) {
			l.world.sometimes("a span was given back")
			if l.stray[[2]int64{sp.ID, sp.Token}] >= 3 {
				l.world.sometimes("a round gave back a span whose answer was lost")
			}
			continue
		}
		if !slices.ContainsFunc(after, func(x store.HeldSpan) bool {
			return x.Taking() == sp.Taking()
		}) {
			l.world.breach("I3: span %d with token %d was given back by one of %v", sp.ID, sp.Token,
				g.Spans)
		}
	}
}

// taken learns what a node took, and whether it had its lease.
func (l *ledger) taken(h store.Holder, lives bool, spans []store.HeldSpan) {
	if len(spans) > 0 && !lives {
		l.world.breach("I3: %v took %d spans without its lease", h, len(spans))
	}
	for _, sp := range spans {
		if sp.Deaths > 0 {
			l.world.sometimes("a dead node's span was taken over")
		}
		if sp.Deaths >= 3 {
			l.world.sometimes("a poisonous span was taken")
		}
		for _, x := range sp.Tasks {
			if x.Running != nil {
				l.world.sometimes("a running row kept a task from being handed out again")
			}
		}
	}
}

// strays learns which spans a node holds without knowing of them.
func (l *ledger) strays(spans []store.HeldSpan) {
	for _, sp := range spans {
		l.stray[[2]int64{sp.ID, sp.Token}]++
	}
}

// obedience is how long it may take until every node heeds what was said at one, or a new one what
// was said before: a beat brings it, and a round does it.
const obedience = 4 * time.Second

// obeys looks whether a node hands out what it should not: while it is drained, or the worker, or
// the queue is paused.
func (l *ledger) obeys(node *process, names ...string) {
	for _, name := range names {
		if since, ok := l.drained[name]; ok && time.Since(since) > obedience &&
			time.Since(node.serves.Load().since) > obedience {
			l.world.breach("%v hands out what %s should not, %v after that was said", node, name,
				time.Since(since))
		}
	}
}

// handed learns which hand-outs leave a node.
func (l *ledger) handed(node, worker *process, tasks []task.Handout) {
	for _, h := range tasks {
		if l.calm != nil {
			l.obeys(node, node.name, worker.name, h.Queue)
		}
		token, err := task.ParseToken(h.Token)
		t := l.tales[h.ID]
		if err != nil || t == nil {
			l.world.breach(
				"I7: %v handed out %v, which nobody submitted, or with a wrong token %q: %v", node,
				h.ID, h.Token, err,
			)
			continue
		}
		for _, g := range t.gave {
			if g.token.Span == token.Span && g.token.SpanToken == token.SpanToken &&
				g.token.Seq == token.Seq {
				l.world.breach("I3: %v handed out %v to %v with token %s, of which %v had %s from %v",
					node, h.ID, worker, h.Token, g.worker, g.text, g.node)
			}
		}
		l.gateOf(node, &h, token.Seq)
		l.wokenHand(node, t, &h, token.Seq)
		t.gave = append(t.gave, &given{token, h.Token, node, worker, time.Now()})
	}
}

// arrived looks at what a worker was given: no more than it asked for, each task as it was
// submitted or passed on.
func (l *ledger) arrived(worker *process, limit int, tasks []task.Handout) {
	if len(tasks) > limit {
		l.world.breach("I9: %v asked for %d tasks and got %d", worker, limit, len(tasks))
	}
	for _, h := range tasks {
		t := l.tales[h.ID]
		if t == nil {
			continue
		}
		if want := textAt(t.wish, h.Stage); string(h.Context) != want {
			l.world.breach("I8: %v at stage %q came with context %.80q, want %.80q", h.ID, h.Stage,
				h.Context, want)
		}
	}
}

// reporting learns what a worker says.
func (l *ledger) reporting(worker *process, reports []task.Report) {
	l.wishing(reports)
	for _, r := range reports {
		t := l.tales[r.ID]
		if t == nil {
			continue
		}
		o := saying(worker, r)
		if !slices.Contains(t.said, o) {
			t.said = append(t.said, o)
		}
		if o.kind = task.KindRetry; r.Committed && !slices.Contains(t.said, o) {
			t.said = append(t.said, o) // what becomes of it if its transaction has not committed
		}
	}
}

func saying(worker *process, r task.Report) said {
	token, _ := task.ParseToken(r.Token) // a wrong one was found when it was handed out
	return said{r.Token, token.Seq, worker.name, store.ReportHash(r.Outcome), r.Kind}
}

// reported learns what a worker was told of its reports.
func (l *ledger) reported(worker *process, reports []task.Report, answers []task.Answer) {
	for i, a := range answers {
		t := l.tales[reports[i].ID]
		if t == nil {
			continue
		}
		l.look([]task.ID{t.id})
		o := saying(worker, reports[i])
		stands := slices.ContainsFunc(t.steps, func(s task.Step) bool {
			return s.Seq == o.seq && s.Kind == o.kind && s.Worker == o.worker
		})
		switch a.Status {
		case task.Recorded, task.Repeated:
			if a.Status == task.Repeated {
				l.world.sometimes("a repeated report was answered as the first time")
			}
			if old, ok := t.told[o.seq]; ok && old != o {
				l.world.breach("I2: two outcomes of %v at seq %d were accepted: %+v, %+v", t.id,
					o.seq, old, o)
			}
			if t.told[o.seq] = o; !stands {
				l.world.breach("I1: %v of %v at seq %d was accepted, and does not stand: %+v",
					o.kind, t.id, o.seq, t.steps)
			}
		case task.Stale:
			l.world.sometimes("a stale report was refused")
			if t.intended[row{o.seq, o.worker}] {
				l.refusedCommit(t, o, reports[i].Committed)
				continue
			}
			l.refused(t, o, stands)
		default:
			l.world.breach("%v of %v was answered %s %s", o.kind, t.id, a.Status, a.Detail)
		}
	}
}

// refused looks at a report that was refused: it must not stand all the same, and in calm weather
// it had better not have been.
func (l *ledger) refused(t *tale, o said, stands bool) {
	var mine *given
	others := 0
	for _, g := range t.gave {
		if g.text == o.token {
			mine = g
		} else if g.token.Seq == o.seq {
			others++
		}
	}
	if stands && others == 0 {
		l.world.breach("%v of %v at seq %d was refused, and stands", o.kind, t.id, o.seq)
	}
	if l.calm != nil && mine != nil && !l.calm(t, mine) {
		l.world.breach("live work: %v of %v at seq %d by %s was refused; its steps are %+v", o.kind,
			t.id, o.seq, o.worker, t.steps)
	}
}

// leniency is how long an attempt may be seen to run past its limit: two beats, and the messages
// that end it.
const leniency = 2*beat + 2*time.Second

// overdue looks for attempts past their limit that nobody judges, though a node has lived, calm,
// since before they began.
func (l *ledger) overdue() {
	w := l.world
	if w.healed.IsZero() && !l.judged {
		return
	}
	got, err := l.facts.Overdue(l.ctx, store.OverdueQuery{Limit: 1 << 20})
	if err != nil {
		w.breach("list overdue attempts: %v", err)
	}
	for _, u := range got.Rows {
		past := time.Duration(got.Now-u.Until) * time.Microsecond
		began := time.Now().Add(-time.Duration(got.Now-u.Started) * time.Microsecond)
		if past > leniency && (l.judged || began.After(w.healed)) &&
			slices.ContainsFunc(w.nodes, func(n *node) bool {
				return n.judges(began)
			}) {
			w.breach("liveness: %v runs %v past its limit, held by %+v", u.ID, past, u)
		}
	}
}

// judges tells whether the node lives and has been fit to judge since before a moment.
func (n *node) judges(since time.Time) bool {
	p := n.process.Load()
	peer := p.serves.Load()
	return !p.dead() && !p.orderly && peer != nil && since.Sub(peer.since) > leaseTime+3*beat &&
		since.Sub(p.paused) > leaseTime+3*beat &&
		(n.world.healed.IsZero() || since.Sub(n.world.healed) > leaseTime+3*beat)
}

// settled looks at what a settlement recorded: the newer hand-out wins.
func (l *ledger) settled(node *process, s store.Settlement, got store.Settled) {
	for i, v := range got.Verdicts {
		r := s.Reports[i]
		t := l.tales[r.ID]
		if v == task.Stale && slices.ContainsFunc(s.Spent, func(x store.Taking) bool {
			return x.Span == r.Token.Span
		}) {
			l.world.sometimes("a refused report spared its span")
		}
		if v != task.Recorded || t == nil {
			continue
		}
		for _, g := range t.gave {
			if g.token.Seq == r.Token.Seq && g.token.SpanToken > r.Token.SpanToken {
				l.world.breach(
					"I3: %v of %v with token %v was recorded after it was handed out with %v",
					r.Step.Kind, r.ID, r.Token, g.token,
				)
			}
			if g.token.Seq == r.Token.Seq && g.token.Span == r.Token.Span && g.node != node &&
				r.Step.Kind.Reportable() {
				l.world.sometimes("a report was settled through another node")
			}
		}
		if r.Step.Kind == task.KindExpired {
			l.expiring(t, &r)
		}
		if r.Move != nil {
			l.world.sometimes("a task moved into a span of its own")
		}
	}
}
