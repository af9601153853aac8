package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// person submits tasks, or meddles with them, on a machine of its own.
type person struct {
	world *world
	luck  *rand.Rand
	door  *nodeDoor
	made  int
}

func (w *world) person(name string) *person {
	return &person{world: w, luck: w.luckOf(name), door: w.door(w.birth(&machine{name: name}, nil))}
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
				wishes, subs = append(wishes, w), append(subs, w.sub)
			}
		}) {
			return
		}
		if s.luck.IntN(4) == 0 { // with keys, which make every repetition safe
			for i, w := range wishes {
				subs[i].Key = fmt.Sprint("k", s.luck.IntN(12))
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
		Queue: queues[s.luck.IntN(len(queues))], Stage: stageName(1, 0), Context: []byte(contextOf(w, 0)),
		Priority: time.Duration(s.luck.IntN(3)) * 5 * time.Second,
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
	s.world.ledger.wishes[w.name] = w
	return w
}

// ask submits until it is known that it worked, or it may have worked and can't be repeated.
func (s *person) ask(subs []task.Submission, wishes []*wish) {
	l := s.world.ledger
	for try := range tries {
		_, err := through(s.door.from.ctx, s.door, try, call[[]task.Receipt]{
			text: fmt.Sprintf("submit %d from %s", len(subs), wishes[0].name), patience: 5 * time.Second,
			told: func(got []task.Receipt) string { return fmt.Sprint(got) },
			came: func(got []task.Receipt) { l.receipts(wishes, got) },
		}, func(ctx context.Context, n *dispatch.Dispatcher) ([]task.Receipt, error) { return n.Submit(ctx, subs) })
		unsure := errors.Is(err, rows.ErrUnknown) || errors.Is(err, errSilent)
		if err == nil || s.door.from.dead() || unsure && subs[0].Key == "" {
			return
		}
		s.door.pause(s.door.from.ctx, try)
	}
}

// meddle cancels, moves and replays tasks, or pauses a queue, as often as it is told.
func (s *person) meddle(times int) {
	for range times {
		var t *tale
		kind := task.KindCancelled
		if !s.rest(8*time.Second, func() { t, kind = s.victim() }) {
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
			}, func(ctx context.Context, n *dispatch.Dispatcher) (nothing, error) {
				return nothing{}, n.Act(ctx, kind, s.door.from.name, t.id)
			})
		}
	}
}

// halt pauses a queue for a while, as a node does that is not simulated here: the others read it when they read it. (A node asked
// to do it would wait for a lock while it waits for the store, and a bubble can't tell that from work.)
func (s *person) halt(queue string) {
	store := &storeDoor{Store: s.world.seen, world: s.world, from: s.door.from}
	conf := task.DefaultQueue(queue)
	conf.Paused = true
	_, err := store.PutQueue(s.door.from.ctx, conf)
	s.rest(25*time.Second, func() { s.world.sometimes("a queue was paused") })
	if err != nil && !s.world.bus.sleep(s.door.from, "late", latest) { // it may come after what undoes it
		return
	}
	conf.Paused = false
	for try := 0; !s.door.from.dead(); try++ {
		if _, err := store.PutQueue(s.door.from.ctx, conf); err == nil {
			return
		}
		s.door.pause(s.door.from.ctx, try)
	}
}

// victim chooses a task, and what is to happen to it.
func (s *person) victim() (*tale, task.Kind) {
	var dead, open []*tale
	for _, t := range s.world.ledger.order {
		switch {
		case !t.stored:
		case t.final == task.Dead && !t.wish.poison:
			dead = append(dead, t)
		case t.final == "":
			open = append(open, t)
		}
	}
	switch {
	case len(dead) > 0 && s.luck.IntN(2) == 0:
		return dead[s.luck.IntN(len(dead))], task.KindReplayed
	case len(open) > 0 && s.luck.IntN(3) == 0:
		return open[s.luck.IntN(len(open))], task.KindMoved
	case len(open) > 0:
		return open[s.luck.IntN(len(open))], task.KindCancelled
	}
	return nil, 0
}

// rest waits for a while, at most the longest, then thinks: on the bus, where the ledger may be read.
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
