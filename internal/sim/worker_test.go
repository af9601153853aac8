package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// hand is a machine that runs one worker after the other.
type hand struct {
	world *world
	*machine
	capacity int
	queues   []string
	process  *process
	stop     context.CancelFunc // ends this life in order
	down     bool               // stays down
}

// start begins a new life. Only the world calls it.
func (h *hand) start() {
	p := h.world.birth(h.machine, h.process)
	h.process = p
	ctx, stop := context.WithCancel(p.ctx)
	h.stop = stop
	door := h.world.door(p)
	h.world.living.Go(func() {
		defer stop()
		err := h.live(ctx, p, door)
		h.world.bus.wake(p, 0, fmt.Sprintf("ends: %v", err), func() { h.kill() })
	})
}

// kill ends the present life; after a while the next one begins. Only the world calls it.
func (h *hand) kill() {
	h.process.kill()
	h.world.later(300*time.Millisecond, 8*time.Second, func() {
		if !h.down && h.process.dead() {
			h.start()
		}
	})
}

// live is one life of a worker.
func (h *hand) live(ctx context.Context, p *process, door *nodeDoor) error {
	w, err := worker.New(worker.Config{
		Queue: door, Name: h.name, Capacity: h.capacity, HoldWait: 4 * time.Second,
		StopGrace: 5 * time.Second, SendGrace: 5 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	for _, q := range h.queues {
		w.Handle(q, func(ctx context.Context, t task.Handout) task.Outcome {
			return h.work(ctx, p, t)
		})
	}
	return w.Run(ctx)
}

// work is every handler: it does what the seed wants of the hand-out.
func (h *hand) work(ctx context.Context, p *process, t task.Handout) task.Outcome {
	s := h.world.scriptOf(t)
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	told := ctx.Done()
	if s.deaf {
		told = nil
	}
	select {
	case <-timer.C:
	case <-p.ctx.Done():
		return task.Release() // nobody will hear it
	case <-told:
		h.world.bus.wake(p, 0, quiet+t.Token, func() {
			h.world.sometimes("told: " + context.Cause(ctx).Error())
		})
		// each in an instant of its own: which of them share a report is no matter of luck
		time.Sleep(spread(t.Token))
		return task.Retry(context.Cause(ctx))
	}
	if s.kills {
		h.world.bus.wake(p, 0, fmt.Sprintf("poisoned by %v", t.ID), func() {
			h.world.poisoned(t, h)
		})
		<-p.ctx.Done()
	}
	if s.commits {
		return h.commits(ctx, p, t, s)
	}
	if len(s.adds) > 0 { // what comes of it makes no difference to anybody here
		worker.AddChildren(ctx, s.adds...)
	}
	return s.outcome
}

// nodeDoor is where a worker or a person finds the nodes: the client of the one that answered last,
// or of the next ones when it does not. It repeats failed calls by itself, with pauses that are no
// matter of luck: what the caller draws by itself is not the seed's.
type nodeDoor struct {
	world *world
	from  *process
	home  atomic.Int32 // the node that answered last; only the bus writes it
}

// door makes one that begins with any node.
func (w *world) door(p *process) *nodeDoor {
	d := &nodeDoor{world: w, from: p}
	d.home.Store(int32(w.bus.luck.IntN(len(w.nodes))))
	return d
}

var _ worker.Queue = (*nodeDoor)(nil)

// pause waits before the next try.
func (d *nodeDoor) pause(ctx context.Context, try int) {
	d.pauseFor(ctx, min(100*time.Millisecond<<min(try, 5), 2*time.Second))
}

// through calls the present node, or with a later try one of the next.
func through[A any](
	ctx context.Context, d *nodeDoor, try int, c call[A],
	serve func(context.Context, *peer) (A, error),
) (A, error) {
	nodes := d.world.nodes
	at := (int(d.home.Load()) + try) % len(nodes)
	to := nodes[at].process.Load()
	c.from, c.to = d.from, to
	c.serve = func(ctx context.Context) (a A, err error) {
		if n := to.serves.Load(); n != nil {
			return serve(ctx, n)
		}
		return a, errRefused // it has not joined yet
	}
	came := c.came
	c.came = func(a A) {
		d.home.Store(int32(at))
		if came != nil {
			came(a)
		}
	}
	return c.over(ctx, d.world.bus)
}

// Hold asks until there are tasks or the time is over. What ends early ends late, after half the
// wait: to quick answers a worker adds luck of its own.
func (d *nodeDoor) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	began := time.Now()
	r.Incarnation = d.from.String()
	whole := r.Wait
	for try := 0; ctx.Err() == nil && !d.from.dead(); try++ {
		if r.Wait = whole - time.Since(began); r.Wait <= 0 {
			return task.HoldAnswer{}, nil
		}
		answer, err := through(ctx, d, try, d.holding(r),
			func(ctx context.Context, n *peer) (task.HoldAnswer, error) {
				a, err := n.Hold(ctx, r)
				if a.Written != nil {
					a.Written()
				}
				return a, err
			})
		if answer.Written = nil; len(answer.Tasks) > 0 {
			return answer, nil
		}
		if err != nil || time.Since(began) < whole {
			d.pause(ctx, try)
		}
	}
	if rest := whole/2 - time.Since(began); rest > 0 {
		d.pauseFor(context.Background(), rest)
	}
	return task.HoldAnswer{}, nil
}

// pauseFor waits, unless the caller gives up or the process dies.
func (d *nodeDoor) pauseFor(ctx context.Context, rest time.Duration) {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-d.from.ctx.Done():
	}
}

func (d *nodeDoor) holding(r task.HoldRequest) call[task.HoldAnswer] {
	l := d.world.ledger
	return call[task.HoldAnswer]{
		text: fmt.Sprintf("hold %d of %v", r.Limit, r.Queues), patience: r.Wait + 2*time.Second,
		doubles: true, told: tasksText,
		left: func(node *process, a task.HoldAnswer) { l.handed(node, d.from, a.Tasks) },
		came: func(a task.HoldAnswer) { l.arrived(d.from, r.Limit, a.Tasks) },
	}
}

func tasksText(a task.HoldAnswer) string {
	var text strings.Builder
	for _, t := range a.Tasks {
		fmt.Fprintf(&text, " %v@%s", t.ID, t.Token)
	}
	return text.String()
}

// Report repeats until it is answered.
func (d *nodeDoor) Report(
	ctx context.Context, name string, reports []task.Report,
) ([]task.Answer, error) {
	var text strings.Builder
	text.WriteString("report")
	for _, r := range reports {
		fmt.Fprintf(&text, " %v@%s=%v", r.ID, r.Token, r.Kind)
	}
	l := d.world.ledger
	for try := 0; ctx.Err() == nil && !d.from.dead(); try++ {
		answers, err := through(ctx, d, try, call[[]task.Answer]{
			text: text.String(), patience: 4 * time.Second, doubles: true, told: statusText,
			sent: func() { l.reporting(d.from, reports) },
			came: func(answers []task.Answer) { l.reported(d.from, reports, answers) },
		}, func(ctx context.Context, n *peer) ([]task.Answer, error) {
			return n.Report(ctx, name, reports)
		})
		if err == nil {
			return answers, nil
		}
		if d.world.bug.trusts && errors.Is(err, errSilent) {
			return d.believe(reports), nil
		}
		d.pause(ctx, try)
	}
	return nil, errSilent
}

// believe is what a client answers that takes silence for success.
func (d *nodeDoor) believe(reports []task.Report) []task.Answer {
	answers := make([]task.Answer, len(reports))
	for i, r := range reports {
		answers[i] = task.Answer{ID: r.ID, Status: task.Recorded}
	}
	d.world.bus.wake(d.from, 0, quiet, func() { d.world.ledger.reported(d.from, reports, answers) })
	return answers
}

func statusText(answers []task.Answer) string {
	var text strings.Builder
	for _, a := range answers {
		text.WriteString(" " + string(a.Status))
	}
	return text.String()
}

// Beat tries every node once.
func (d *nodeDoor) Beat(ctx context.Context, b task.Beat) (answer task.BeatAnswer, err error) {
	b.Incarnation = d.from.String()
	var text strings.Builder
	text.WriteString("beat")
	for _, h := range b.Tasks {
		fmt.Fprintf(&text, " %v@%s", h.ID, h.Token)
	}
	d.pauseFor(ctx, spread(text.String()))
	if ctx.Err() != nil {
		// a worker that stops may cut its last beat off in the same instant, or not even send it
		return answer, context.Cause(ctx)
	}
	for try := range d.world.nodes {
		answer, err = through(ctx, d, try, call[task.BeatAnswer]{
			text: text.String(), patience: 1600 * time.Millisecond, doubles: true,
			told: func(a task.BeatAnswer) string { return fmt.Sprint(a.Beat, a.Tasks) },
		}, func(ctx context.Context, n *peer) (task.BeatAnswer, error) {
			if hears := d.world.bug.beat; hears != nil {
				hears(d.world.ledger, b.Worker, &b)
			}
			return n.Beat(ctx, b)
		})
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return answer, err
}

// Log says nothing: no handler here writes lines.
func (d *nodeDoor) Log(context.Context, task.ID, []task.LogLine) error { return nil }
