package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// person submits tasks, or meddles with them, on a machine of its own.
type person struct {
	world *world
	luck  *rand.Rand
	// of what only worlds with limits need, and those in which tasks wait for others
	limits, chains, keys *rand.Rand
	door                 *nodeDoor
	made                 int
	again                []func() // undo once more what was done for a while
}

func (w *world) person(name string) *person {
	return &person{
		world: w, luck: w.luckOf(name), limits: w.luckOf("limits of " + name),
		chains: w.luckOf("chains of " + name), keys: w.luckOf("keys of " + name),
		door: w.door(w.birth(&machine{name: name}, nil)),
	}
}

// tries is how often a person asks before it gives up.
const tries = 8

// submit submits as often as it is told.
func (s *person) submit(times int) {
	for range times {
		var wishes []*wish
		var subs []task.Submission
		if !s.rest(10*time.Second, func() {
			for range 1 + s.luck.IntN(6) {
				w := s.wish()
				wishes = append(wishes, w)
				subs = append(subs, w.sub)
			}
			s.world.chain(s.chains, subs)
			for i := range subs {
				wishes[i].sub = subs[i]
			}
		}) {
			return
		}
		if s.luck.IntN(4) == 0 { // with keys, which make every repetition safe
			for i, w := range wishes {
				subs[i].Key = fmt.Sprint("k", s.luck.IntN(12))
				if slices.ContainsFunc(subs[:i], func(b task.Submission) bool {
					return b.Key == subs[i].Key && b.Queue == subs[i].Queue &&
						len(b.After)+len(subs[i].After) > 0
				}) {
					subs[i].Key = fmt.Sprint("k", 12+i) // who waits has a key of its own
				}
				w.sub.Key = subs[i].Key
			}
		}
		s.ask(subs, wishes)
	}
}

// wish makes up a task.
func (s *person) wish() *wish {
	s.made++
	w := &wish{name: fmt.Sprintf("%v-%d", s.door.from, s.made)}
	w.sub = task.Submission{
		Queue: queues[s.luck.IntN(len(queues))], Stage: stageName(1, 0),
		Context:  []byte(contextOf(w, 0)),
		Priority: time.Duration(s.luck.IntN(3)) * 5 * time.Second,
		GroupKey: groupKeys[s.made%len(groupKeys)],
	}
	if s.luck.IntN(10) == 0 {
		w.sub.Timeout = 8 * time.Second
	}
	if s.luck.IntN(6) == 0 {
		w.sub.MaxAttempts = 1 // whatever is found of it ends it
	}
	switch p := s.luck.IntN(40); {
	case p == 0:
		w.sub.Delay = 65 * time.Second
	case p < 4:
		w.sub.Delay = time.Duration(s.luck.Int64N(int64(20 * time.Second)))
	case p == 4 && s.world.poison > 0:
		s.world.poison--
		w.poison, w.sub.MaxAttempts = true, 2
	}
	s.limit(w)
	s.world.ledger.wishes[w.name] = w
	return w
}

// ask submits until it is known that it worked, or it may have worked and can't be repeated.
func (s *person) ask(subs []task.Submission, wishes []*wish) {
	l := s.world.ledger
	for try := range tries {
		_, err := through(s.door.from.ctx, s.door, try, call[[]task.Receipt]{
			text:     fmt.Sprintf("submit %d from %s", len(subs), wishes[0].name),
			patience: 5 * time.Second,
			told:     func(got []task.Receipt) string { return fmt.Sprint(got) },
			came:     func(got []task.Receipt) { l.receipts(wishes, got) },
		}, func(ctx context.Context, n *peer) ([]task.Receipt, error) {
			return n.Submit(ctx, subs)
		})
		unsure := errors.Is(err, store.ErrUnknown) || errors.Is(err, errSilent)
		if err == nil || s.door.from.dead() || unsure && subs[0].Key == "" {
			return
		}
		s.door.pause(s.door.from.ctx, try)
	}
}

// edit makes up what to change of a task. Its context and its attempts stay: the script knows them.
func (s *person) edit() (e task.Edit) {
	if s.luck.IntN(2) == 0 {
		e.Priority = new(time.Duration(s.luck.IntN(3)) * 5 * time.Second)
	}
	if e.Priority == nil || s.luck.IntN(2) == 0 {
		e.Delay = new(time.Duration(s.luck.Int64N(int64(20 * time.Second))))
	}
	s.limitEdit(&e)
	return e
}

// meddle cancels, moves, edits and replays tasks, or pauses a queue, as often as it is told.
func (s *person) meddle(times int) {
	for range times {
		if s.world.gates() {
			s.ruleKey()
		}
		var t *tale
		var edit task.Edit
		kind := task.KindCancelled
		if !s.rest(8*time.Second, func() {
			if t, kind = s.victim(); kind == task.KindMoved && s.luck.IntN(2) == 0 {
				kind, edit = task.KindEdited, s.edit()
			}
		}) {
			return
		}
		switch {
		case s.luck.IntN(8) == 0:
			s.halt(queues[s.luck.IntN(len(queues))])
		case t != nil:
			// Whether it is refused or unknown makes no difference to anybody here.
			through(s.door.from.ctx, s.door, 0, call[nothing]{
				text: fmt.Sprintf("%v %v", kind, t.id), patience: 5 * time.Second,
				came: func(nothing) { s.world.ledger.acted(kind, t) },
			}, func(ctx context.Context, n *peer) (nothing, error) {
				if kind == task.KindEdited {
					_, err := n.Edit(ctx, s.door.from.name, t.id, edit)
					return nothing{}, err
				}
				return nothing{}, n.Act(ctx, kind, s.door.from.name, t.id)
			})
		}
	}
	s.undoAgain()
}

// halt pauses a queue for a while.
func (s *person) halt(queue string) {
	s.forAWhile("pause "+queue, "a queue was paused",
		func(ctx context.Context, n *peer, yes bool) error {
			return n.PauseQueue(ctx, queue, yes)
		})
}

// disturb drains nodes and workers for a while, as often as it is told.
func (s *person) disturb(times int) {
	for range times {
		var node, worker string
		if !s.rest(15*time.Second, func() {
			node, worker = s.world.someNode().name, s.world.someHand().name
		}) {
			return
		}
		if force := s.luck.IntN(2) == 0; s.luck.IntN(2) == 0 {
			s.forAWhile("drain node "+node, "a node was drained",
				func(ctx context.Context, n *peer, yes bool) error {
					if yes {
						return n.rounds.Drain(ctx, node, s.door.from.name, force)
					}
					return n.rounds.Undrain(ctx, node)
				})
			continue
		}
		verb, seen := "drain worker ", "a worker was drained"
		if what := s.world.gives(worker); !what.Whole() {
			verb, seen = partly+"worker ", "a worker gave up a part of its capacity"
		}
		s.forAWhile(verb+worker, seen, func(ctx context.Context, n *peer, yes bool) error {
			if !yes {
				return n.UndrainWorker(ctx, worker)
			}
			return n.DrainWorker(ctx, worker, s.world.gives(worker))
		})
	}
	s.undoAgain()
}

// partly begins the verb of what leaves its subject a part: it gets less, and not nothing.
const partly = "shed a part of "

// gives is what a worker is to give up when it is drained: each second one all it has, the others
// one lane, each second of those within two seconds. It has a luck of its own.
func (w *world) gives(worker string) (what store.Drain) {
	luck := w.luckOf("drain " + worker)
	if luck.IntN(2) == 0 {
		return what
	}
	what.Shed = task.Unit
	if luck.IntN(2) == 0 {
		const within = 2 * time.Second
		what.By = w.storeNow() + within.Microseconds()
		w.ledger.givenUp[worker] = append(w.ledger.givenUp[worker], time.Now().Add(within))
	}
	return what
}

// forAWhile lets a node do something, and undoes it after a while, through any node. What it is
// about is the last word of verb.
func (s *person) forAWhile(
	verb, seen string, do func(ctx context.Context, n *peer, yes bool) error,
) {
	l := s.world.ledger
	about := verb[strings.LastIndex(verb, " ")+1:]
	ask := func(try int, yes bool) error {
		_, err := through(s.door.from.ctx, s.door, try, call[nothing]{
			text: fmt.Sprint(verb, " ", yes), patience: 5 * time.Second, came: func(nothing) {
				if yes {
					s.world.sometimes(seen)
					if !strings.HasPrefix(verb, partly) {
						l.drained[about] = time.Now()
					}
				}
			},
		}, func(ctx context.Context, n *peer) (nothing, error) {
			return nothing{}, do(ctx, n, yes)
		})
		return err
	}
	err := ask(0, true)
	if refused := errors.Is(err, store.ErrNotFound) || errors.As(
		err, new(*scheduler.RefusedError),
	); refused {
		return
	}
	undo := func() {
		for try := 0; !s.door.from.dead(); try++ {
			calm := false
			if err := ask(try, false); err == nil || !s.rest(2*time.Second, func() {
				calm = s.world.calmFor(latest)
			}) {
				return
			} else if calm && errors.Is(err, store.ErrNotFound) {
				// then it never stood: every node would know of it by now
				return
			}
		}
	}
	if s.world.bus.sleep(s.door.from, "late", latest) && s.rest(10*time.Second, func() {
		delete(l.drained, about)
	}) {
		undo()
		s.again = append(s.again, undo)
	}
}

// undoAgain undoes once more, when nothing is late any more, what was done for a while: as long as
// machines hang and messages are slow, what asked for it may arrive after what undid it.
func (s *person) undoAgain() {
	for calm := false; !calm; {
		if !s.rest(2*time.Second, func() { calm = s.world.calmFor(latest) }) {
			return
		}
	}
	for _, undo := range s.again {
		undo()
	}
}

// victim chooses a task, and what is to happen to it.
func (s *person) victim() (*tale, task.Kind) {
	var dead, over, open []*tale
	for _, t := range s.world.ledger.order {
		switch {
		case !t.stored:
		case t.final == task.Dead && !t.wish.poison, t.final == task.Expired:
			dead = append(dead, t)
		case t.final == task.Done && !t.wish.notice, t.final == task.Cancelled && !t.wish.poison:
			over = append(over, t)
		case t.final == "":
			open = append(open, t)
		}
	}
	switch {
	case len(over) > 0 && s.luck.IntN(8) == 0:
		return over[s.luck.IntN(len(over))], task.KindReplayed
	case len(dead) > 0 && s.luck.IntN(2) == 0:
		return dead[s.luck.IntN(len(dead))], task.KindReplayed
	case len(open) > 0 && s.luck.IntN(3) == 0:
		return open[s.luck.IntN(len(open))], task.KindMoved
	case len(open) > 0:
		return open[s.luck.IntN(len(open))], task.KindCancelled
	}
	return nil, 0
}

// rest waits for a while, at most the longest, then thinks: on the bus, where the ledger may be
// read.
func (s *person) rest(longest time.Duration, think func()) bool {
	woken := make(chan struct{})
	s.world.bus.wake(s.door.from, time.Duration(s.luck.Int64N(int64(longest))), quiet, func() {
		think()
		close(woken)
	})
	select {
	case <-woken:
		return true
	case <-s.door.from.ctx.Done():
		return false
	}
}
