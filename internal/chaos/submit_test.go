//go:build chaos && unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// submitter submits until it is stopped, at one node after the other.
type submitter struct {
	*world
	name    string
	book    *book
	clients []*client.Client
	luck    *rand.Rand
	count   int
}

// submit starts submitters, one of which prefers each node.
func (w *world) submit(urls []string, seed uint64) {
	ctx, stop := context.WithCancel(context.Background())
	w.submitting = stop
	for i := range urls {
		name := fmt.Sprintf("s%d", i)
		s := &submitter{
			world: w, name: name, book: w.open(name),
			luck: rand.New(rand.NewPCG(seed, uint64(i)+1)),
		}
		for j := range urls {
			s.clients = append(s.clients,
				w.connect(slices.Concat(urls[(i+j)%len(urls):], urls[:(i+j)%len(urls)])...))
		}
		w.submitters.Go(func() {
			for ctx.Err() == nil {
				s.once(ctx)
				time.Sleep(time.Duration(s.luck.IntN(400)) * time.Millisecond)
			}
		})
	}
}

// draw makes a submission of a few tasks, and what is to be written down before.
func (s *submitter) draw() (tasks []task.Submission, lines []line) {
	keyed := s.luck.IntN(2) == 0
	for range 1 + s.luck.IntN(5) {
		s.count++
		o := order{Mark: fmt.Sprintf("%s-%d", s.name, s.count), Work: quick}
		t := task.Submission{Queue: queueShort, GroupKey: o.Mark}
		switch s.luck.IntN(24) {
		case 0, 1:
			t.Queue, o.Work = queueLong, lengthy
		case 2:
			t.Queue, o.Work = queueCommand, lengthy
		case 3, 4:
			o.Work = stages
		case 5:
			o.Work = fails
		case 6:
			o.Work = flaky
		case 7:
			o.Work = snooze
		case 8:
			t.Delay = time.Duration(s.luck.IntN(3000)) * time.Millisecond
		case 9:
			o.Pad = strings.Repeat("x", 5000) // a blob
		case 10, 11:
			o.Work = families
		case 12, 13:
			o.Work = waits
		}
		if keyed && t.Queue == queueShort && o.Work != families && o.Work != waits {
			s.pick(&t, &o)
		}
		if keyed {
			t.Key = o.Mark
		}
		t.Context, _ = json.Marshal(o) // strings
		tasks = append(tasks, t)
		lines = append(lines, o.asked(s.name, t.Context))
	}
	return tasks, lines
}

// pick puts a task that has an idempotency key into a queue with limits, sometimes.
func (s *submitter) pick(t *task.Submission, o *order) {
	switch s.luck.IntN(4) {
	case 0:
		t.Queue, o.Work = queueKeyed, steady
	case 1:
		t.Queue = queueOrdered
	default:
		return
	}
	t.GroupKey = fmt.Sprint("c", s.luck.IntN(2))
	o.Mark = rival(o.Mark, t.Queue, t.GroupKey)
}

// once submits until the outcome is known. Without keys it stays unknown when it is: the tasks may
// exist or not.
func (s *submitter) once(ctx context.Context) {
	tasks, lines := s.draw()
	keyed := tasks[0].Key != ""
	if err := s.book.write(lines...); err != nil {
		s.t.Error(err)
		return
	}
	s.asked.Add(int64(len(tasks)))
	for try := 0; ; try++ {
		receipts, err := s.clients[try%len(s.clients)].Submit(ctx, tasks...)
		switch {
		case err == nil:
			s.acknowledge(ctx, tasks, lines, receipts)
			return
		case ctx.Err() != nil, !keyed && errors.Is(err, client.ErrOutcomeUnknown):
			return
		case errors.Is(err, client.ErrInvalid):
			s.t.Errorf("submit: %v", err)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// acknowledge writes down what was promised, and now and then has it promised again by another
// node: the same key, the same task.
func (s *submitter) acknowledge(
	ctx context.Context, tasks []task.Submission, lines []line, receipts []task.Receipt,
) {
	note := func(receipts []task.Receipt) {
		for i := range lines {
			lines[i].Deed, lines[i].At, lines[i].ID = acknowledged, nowMicros(), receipts[i].ID
		}
		if err := s.book.write(lines...); err != nil {
			s.t.Error(err)
		}
	}
	note(receipts)
	s.agreed.Add(int64(len(tasks)))
	for i, l := range lines {
		if l.Work == waits && s.luck.IntN(4) > 0 {
			s.signal(ctx, l.Mark, receipts[i].ID)
		}
	}
	if tasks[0].Key == "" || s.luck.IntN(4) > 0 {
		return
	}
	if receipts, err := s.clients[1].Submit(ctx, tasks...); err == nil {
		note(receipts)
		if i := slices.IndexFunc(receipts, func(r task.Receipt) bool {
			return !r.Existing
		}); i >= 0 {
			s.t.Errorf("key %s: submitted again, and answered as new: %+v", tasks[i].Key,
				receipts[i])
		}
	}
}

// signal sends a task what it waits for, sooner or later, until that is acknowledged or comes too
// late; now and then once more by another node, which counts as one.
func (s *submitter) signal(ctx context.Context, mark string, id task.ID) {
	note := func(d deed) {
		l := line{Deed: d, Mark: mark, At: nowMicros(), Who: s.name, ID: id}
		if err := s.book.write(l); err != nil {
			s.t.Error(err)
		}
	}
	time.Sleep(time.Duration(s.luck.IntN(500)) * time.Millisecond)
	payload, _ := json.Marshal(mark) // a string
	r := task.SignalRequest{Task: id, Name: signalName, Key: mark, Payload: payload}
	note(sent)
	for try := 0; ctx.Err() == nil; try++ {
		switch _, err := s.clients[try%len(s.clients)].Signal(ctx, r); {
		case err == nil:
			note(heard)
			if s.luck.IntN(4) == 0 {
				s.clients[1].Signal(ctx, r) // whatever comes of it
			}
			return
		case errors.Is(err, client.ErrConflict): // it is over
			return
		case errors.Is(err, client.ErrInvalid), errors.Is(err, client.ErrNotFound):
			s.t.Errorf("signal to %s, task %v: %v", mark, id, err)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
