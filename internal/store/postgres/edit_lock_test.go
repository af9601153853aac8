//go:build unix

package postgres

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// contest is a span that one node wants to take while another one edits a task in it.
type contest struct {
	*client // it edits
	taker   *client
	luck    *rand.Rand
	first   [2]int // how often who came first: the edit, the take
}

// What is edited while others take its span goes out as it was edited, or it was not edited: an
// edit that was answered is never followed by a hand-out of what was there before.
func TestWhatIsTakenWhileItIsEditedGoesOutAsItWasEditedOrNotAtAll(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	dsn := contested.database(t)
	c := &contest{client: join(t, open(t, Config{DSN: dsn})), luck: rand.New(rand.NewPCG(1, 1))}
	s := open(t, Config{DSN: dsn})
	l := must(s.Acquire(t.Context(), "node/b", "b", time.Hour, nil))(t)
	c.taker = &client{TB: t, Store: s, holder: store.Holder{Node: "b", Token: l.Token}}
	for i := range rounds {
		// Now and then one begins when the other was answered: who comes first is certain then.
		c.play(time.Duration(c.luck.Int64N(8000)-4000)*time.Microsecond, i%20 == 0)
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
	t.Logf("%d edits came first, %d takes", c.first[0], c.first[1])
	if min(c.first[0], c.first[1]) == 0 {
		t.Error("it was no contest")
	}
}

const (
	oldMeta = store.Meta(`{"customer":"7"}`)
	newMeta = store.Meta(`{"customer":"8"}`)
)

// play lets both begin, the edit so much before the take, or the take before the edit.
func (c *contest) play(headStart time.Duration, apart bool) {
	n := 1 + c.luck.IntN(5)
	b := c.batch(n, n, false)
	for i := range b.Tasks {
		b.Tasks[i].Meta = oldMeta
	}
	c.submit(b)
	id := task.ID{Batch: b.ID, N: int32(c.luck.IntN(n))}
	limit := 1 + c.luck.IntN(n)
	var acted []store.Acted
	var spans []store.HeldSpan
	edit := func() {
		acted = must(c.Act(c.Context(), []store.Action{{
			ID: id, Kind: task.KindEdited, By: "me", Mark: int64(b.ID), Holder: c.holder,
			Edit: &store.Edit{
				Meta: new(newMeta), Context: new(store.Value(`"new"`)), GroupKey: new("new"),
			},
		}}))(c.TB)
	}
	take := func() { spans = append(spans, c.takes(limit)...) }
	switch {
	case apart && headStart > 0:
		edit()
		take()
	case apart:
		take()
		edit()
	default:
		var both sync.WaitGroup
		both.Go(func() {
			time.Sleep(-headStart)
			edit()
		})
		both.Go(func() {
			time.Sleep(headStart)
			take()
		})
		both.Wait()
	}
	for range 2 * n {
		spans = append(spans, c.takes(n)...)
	}
	c.judge(id, n, acted[0], spans)
}

// takes takes what there is to take.
func (c *contest) takes(limit int) []store.HeldSpan {
	got := must(c.taker.Take(c.Context(), store.TakeRequest{
		Holder: c.taker.holder, Queue: "q", Limit: limit,
	}))(c.TB)
	return got.Spans
}

// judge holds the hand-outs of a batch's n tasks against how the edit of one was answered.
func (c *contest) judge(id task.ID, n int, acted store.Acted, spans []store.HeldSpan) {
	want := fmt.Sprint("as it was at seq 0 with ", oldMeta)
	switch {
	case acted.Changed:
		want = fmt.Sprint(`"new" at seq 1 with `, newMeta)
		c.first[0]++
	case acted.Held != "b":
		c.Errorf("the edit was answered %+v, want that it is made or that b holds its task", acted)
	default:
		c.first[1]++
	}
	var reports []store.Report
	seen := 0
	for i := range spans {
		for _, l := range spans[i].Tasks {
			r := report(&spans[i].Span, l.N, l.Seq, 1, task.Finish(nil))
			reports = append(reports, r)
			if l.N != id.N {
				continue
			}
			text := "as it was"
			if string(l.Context) != string(context100) {
				text = string(l.Context)
			}
			seen++
			if got := fmt.Sprint(text, " at seq ", l.Seq, " with ", l.Meta); got != want {
				c.Errorf("the edit was answered %+v, and then went out: %s, want %s", acted, got,
					want)
			}
		}
	}
	if seen != 1 || len(reports) != n {
		c.Errorf("%d hand-outs of the task, %d in all, want 1 of %d", seen, len(reports), n)
	}
	c.taker.settles(reports, all(task.Recorded))
}
