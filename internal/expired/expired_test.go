package expired

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

var (
	errAway = errors.New("the store is away")
	noon    = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
)

// cluster is a store with some nodes that look at it.
type cluster struct {
	t     *testing.T
	store *model.Model
	now   time.Time
	tasks int64
	asked int // how often minutes were read
	// how the next writes fare: whether they are done, and what is answered
	writes []written
}

type written struct {
	done bool
	err  error
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, now: noon}
	c.store = model.New(func() time.Time { return c.now })
	return c
}

// node is a watch of a node, which looks when judges says so.
func (c *cluster) node(judges *bool) *Watch {
	return New(Config{
		Minutes: func(
			ctx context.Context, from, whole int64,
		) ([]history.QueueMinute, error) {
			c.asked++
			return c.store.Minutes(ctx, from, whole)
		},
		Judges: func() bool { return *judges }, Now: func() time.Time { return c.now },
		Write: c.write, Log: slog.New(slog.DiscardHandler),
	})
}

func (c *cluster) write(ctx context.Context, events ...store.Event) error {
	if len(c.writes) > 0 {
		w := c.writes[0]
		if c.writes = c.writes[1:]; !w.done {
			return w.err
		}
		_, err := c.store.Append(ctx, events)
		return errors.Join(err, w.err)
	}
	_, err := c.store.Append(ctx, events)
	return err
}

// expire lets n tasks of a queue expire now, as a holder does.
func (c *cluster) expire(queue string, n int) {
	c.t.Helper()
	ctx := c.t.Context()
	lease, err := c.store.Acquire(ctx, "node/n", "n", time.Hour, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	holder, now := store.Holder{Node: "n", Token: lease.Token}, c.now.UnixMicro()
	for range n {
		c.tasks++
		got, err := c.store.Submit(ctx, store.Submission{Holder: holder, Batches: []store.Batch{{
			ID: c.tasks << 12, Queue: queue, Due: now, Rank: now, Created: now,
			Tasks: []store.Task{{Context: store.Value("{}"), StartWithin: 1}},
			Spans: []store.NewSpan{{Hold: true}},
		}}})
		if err != nil {
			c.t.Fatal(err)
		}
		sp := got.Spans[0]
		done, err := c.store.Settle(ctx, store.Settlement{Reports: []store.Report{{
			ID: task.ID{Batch: sp.Batch}, Queue: queue,
			Token: task.Token{Span: sp.ID, SpanToken: sp.Token},
			Step: store.Step{
				Kind: task.KindExpired, Base: store.Final, ContextSeq: -1, Finished: now,
			},
		}}})
		if err != nil || done.Verdicts[0] != task.Recorded {
			c.t.Fatalf("a task did not expire: %v %v", done.Verdicts, err)
		}
	}
	if err := c.store.End(ctx, "node/n", lease.Token, true); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) round(w *Watch, want error) {
	c.t.Helper()
	if err := w.Round(c.t.Context(), c.now); !errors.Is(err, want) {
		c.t.Fatalf("a round is answered %v, want %v", err, want)
	}
}

// told wants these events to be in the log: queue, minute and number.
func (c *cluster) told(want ...string) {
	c.t.Helper()
	page, err := c.store.Events(c.t.Context(), store.EventQuery{Limit: 1000})
	if err != nil {
		c.t.Fatal(err)
	}
	var got []string
	for _, e := range page.Events {
		at, err := time.Parse(time.RFC3339, e.Fields["minute"])
		if err != nil || e.Kind != Event {
			c.t.Errorf("event %+v: %v", e, err)
		}
		got = append(got, fmt.Sprint(e.Subject, " ", at.Format("15:04"), " ", e.Fields["expired"]))
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("told %q, want %q", got, want)
	}
}

func TestEachQueueAndMinuteIsToldOnce(t *testing.T) {
	c, yes := newCluster(t), true
	a, b := c.node(&yes), c.node(&yes) // both look, as when a membership passes on
	c.expire("mail", 2)
	c.expire("quotes", 1)
	c.now = noon.Add(59 * time.Second)
	c.expire("mail", 1)
	c.round(a, nil)
	c.now = noon.Add(time.Minute + Settled - 1)
	c.round(a, nil)
	c.told() // the minute is over, and may not be settled
	c.now = noon.Add(time.Minute + Settled)
	c.expire("mail", 4)
	for range 3 {
		c.round(a, nil)
		c.round(b, nil)
	}
	c.told("mail 12:00 3", "quotes 12:00 1")
	c.now = noon.Add(2*time.Minute + Settled)
	c.round(b, nil)
	c.round(a, nil)
	c.told("mail 12:00 3", "quotes 12:00 1", "mail 12:01 4")
	c.now = noon.Add(time.Hour)
	c.round(a, nil)
	c.round(c.node(&yes), nil)
	c.told("mail 12:00 3", "quotes 12:00 1", "mail 12:01 4")
}

func TestWhoLooksNextTellsWhatADeadNodeLeft(t *testing.T) {
	c, first, second := newCluster(t), true, false
	a, b := c.node(&first), c.node(&second)
	c.round(b, nil)
	c.expire("mail", 1) // then its node dies, and so does the one that tells
	c.now = noon.Add(Backlog)
	first, second = false, true
	c.round(a, nil)
	c.told()
	c.round(b, nil)
	c.told("mail 12:00 1")
	c.expire("mail", 2)
	first, second = true, false // and back: what b did not tell, a does
	c.now = noon.Add(Backlog + 2*time.Minute)
	c.round(b, nil)
	c.round(a, nil)
	c.told("mail 12:00 1", "mail 12:15 2")
}

func TestWhatWasNotToldForLongerThanTheBacklogIsNot(t *testing.T) {
	c, yes := newCluster(t), true
	c.expire("mail", 1)
	c.now = noon.Add(Backlog + time.Minute)
	c.round(c.node(&yes), nil)
	c.told()
}

func TestFailedWriteIsTriedAgain(t *testing.T) {
	for _, w := range []written{{false, errAway}, {true, store.ErrUnknown}} {
		c, yes := newCluster(t), true
		a := c.node(&yes)
		c.expire("mail", 1)
		c.now = noon.Add(time.Minute + Settled)
		c.writes = []written{w}
		c.round(a, w.err)
		c.round(a, nil)
		c.told("mail 12:00 1")
	}
}

func TestStoreIsReadOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, yes := newCluster(t), true
		began := time.Now()
		w := c.node(&yes)
		w.conf.Now = func() time.Time { return noon.Add(time.Since(began)) }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(10*time.Minute + time.Second)
		stop()
		if err := <-done; err != nil || c.asked < 9 || c.asked > 11 {
			t.Errorf("read %d times in ten minutes: %v", c.asked, err)
		}
	})
}

func TestManyQueuesAreToldInPieces(t *testing.T) {
	c, yes := newCluster(t), true
	const queues = 2*atOnce + 1
	var most, all int
	w := c.node(&yes)
	w.conf.Minutes = func(context.Context, int64, int64) (list []history.QueueMinute, _ error) {
		for i := range queues {
			q := history.QueueMinute{Queue: fmt.Sprint("q", i), Minute: minute(noon)}
			q.Expired = 1
			list = append(list, q)
		}
		return list, nil
	}
	w.conf.Write = func(_ context.Context, events ...store.Event) error {
		most, all = max(most, len(events)), all+len(events)
		return nil
	}
	c.now = noon.Add(time.Minute + Settled)
	c.round(w, nil)
	if most != atOnce || all != queues {
		t.Errorf("told %d, at most %d at once", all, most)
	}
}

// A clock that was far ahead, and is right again, silences nobody until its time comes again.
func TestWhatExpiresAfterTheClockWasSetBackIsTold(t *testing.T) {
	c, yes := newCluster(t), true
	w := c.node(&yes)
	c.expire("mail", 1)
	c.now = noon.Add(time.Minute + Settled)
	c.round(w, nil)
	c.now = noon.Add(24 * time.Hour)
	c.round(w, nil)
	c.now = noon.Add(2 * time.Minute)
	c.expire("mail", 2)
	c.now = noon.Add(3*time.Minute + Settled)
	c.round(w, nil)
	c.told("mail 12:00 1", "mail 12:02 2")
	asked := c.asked
	c.round(w, nil)
	if c.asked != asked {
		t.Error("what was told is read again")
	}
}
