package overview

import (
	"math/rand/v2"
	"testing"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// minutes are what a store says, of which sums read what they need.
type minutes map[minute]history.QueueMinute

func (ms minutes) from(at int64) (list []history.QueueMinute) {
	for m, c := range ms {
		if m.at >= at {
			c.Queue, c.Minute = m.queue, m.at
			list = append(list, c)
		}
	}
	return list
}

func everyQueue(string) bool { return true }

func counted(queues ...string) (list []store.QueueCounts) {
	for _, q := range queues {
		list = append(list, store.QueueCounts{Queue: q})
	}
	return list
}

// Whenever it is asked, and however often, sums that are asked for at least once an hour have each
// thing that happened once.
func TestSumsCountEachThingOnce(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		ms := minutes{}
		var sums *Sums
		var want, deaths int64
		at := int64(1000)
		dead := map[int64]int64{}
		for range 200 {
			for range r.IntN(3) { // some of it by transactions of a minute that is over
				m := minute{[]string{"a", "b"}[r.IntN(2)], at - int64(r.IntN(3))}
				c := ms[m]
				c.Submitted, c.Dead = c.Submitted+5, c.Dead+1
				ms[m] = c
				want, dead[m.at] = want+5, dead[m.at]+1
			}
			sums = sums.Add(at, ms.from(sums.From(at)), counted("a", "b"))
			if got := sums.totals(everyQueue).Submitted; got != want {
				t.Fatalf("seed %d: %d submitted, want %d", seed, got, want)
			}
			deaths = 0
			for m, n := range dead {
				if m > at-60 {
					deaths += n
				}
			}
			if got := sums.deadHour(everyQueue); got != deaths {
				t.Fatalf("seed %d: %d died, want %d", seed, got, deaths)
			}
			at += int64(r.IntN(2) * r.IntN(4)) // what is later than three minutes is too late
		}
	}
}

// of is a minute in which so much happened.
func of(c history.Counts) history.QueueMinute {
	return history.QueueMinute{Record: history.Record{Counts: c}}
}

func TestTotalsNeverShrink(t *testing.T) {
	ms := minutes{
		{"a", 100}: of(history.Counts{Submitted: 9, Done: 8, Dead: 4}),
		{"b", 100}: of(history.Counts{Done: 1}),
	}
	sums := (*Sums)(nil).Add(100, ms.from(0), counted("a", "b"))
	sums = sums.Add(100, ms.from(sums.From(100)), counted("a", "b"))
	if got := sums.totals(everyQueue); got.Dead != 4 || sums.deadHour(everyQueue) != 4 {
		t.Errorf("read twice: %+v, %d in the last hour", got, sums.deadHour(everyQueue))
	}
	// b is deleted, and what the store knew of it
	delete(ms, minute{"b", 100})
	for at := int64(101); at < 110; at++ {
		sums = sums.Add(at, ms.from(sums.From(at)), counted("a"))
		if got := sums.totals(everyQueue); got.Done != 9 || sums.Of("b").Done != 0 {
			t.Fatalf("after a deletion: %+v, of b %+v", got, sums.Of("b"))
		}
	}
	if got := sums.totals(func(q string) bool { return q == "a" }); got.Done != 8 {
		t.Errorf("of a: %+v", got)
	}
}

// A queue that is made after the queues were listed and before its minutes are read counts once, by
// its name.
func TestNewQueueCountsOnce(t *testing.T) {
	ms := minutes{{"new", 100}: of(history.Counts{Submitted: 5, Dead: 1})}
	sums := (*Sums)(nil).Add(100, ms.from(0), counted("a"))
	for at := int64(100); at < 110; at++ {
		sums = sums.Add(at, ms.from(sums.From(at)), counted("a", "new"))
		if got := sums.totals(everyQueue); got.Submitted != 5 || sums.deadHour(everyQueue) != 1 ||
			sums.Of("new").Submitted != 5 {
			t.Fatalf("at %d: %+v, %d died, of it %+v", at, got, sums.deadHour(everyQueue),
				sums.Of("new"))
		}
	}
}

// When the store's clock was far ahead, and is right again, what happens counts again.
func TestSumsGoOnWhenTheClockWasAhead(t *testing.T) {
	ms := minutes{{"a", 100}: of(history.Counts{Submitted: 1})}
	sums := (*Sums)(nil).Add(100, ms.from(0), counted("a"))
	sums = sums.Add(100+24*60, ms.from(sums.From(100+24*60)), counted("a"))
	ms[minute{"a", 101}] = of(history.Counts{Submitted: 2, Dead: 2})
	sums = sums.Add(101, ms.from(sums.From(101)), counted("a"))
	if got := sums.totals(everyQueue).Submitted; got != 3 || sums.deadHour(everyQueue) != 2 {
		t.Errorf("%d submitted, %d died, want what the last hour had", got,
			sums.deadHour(everyQueue))
	}
}

// An attempt of ten minutes has its wait in the sums, though it began in a minute that is read no
// more.
func TestSumsHaveTheWaitsOfLongAttempts(t *testing.T) {
	const tasks = 60
	ms := map[int64]history.QueueMinute{}
	var sums *Sums
	for at := int64(1000); at < 1000+tasks; at++ {
		began := (at - 10) * 60e6
		var c history.Changes
		c.Settled("a", began-5e6, &store.Step{
			Kind: task.KindDone, Base: store.Final, Started: began, Finished: at * 60e6,
		})
		told := history.NewMinutes(0, 0)
		if err := told.Changes(c.Encode()); err != nil {
			t.Fatal(err)
		}
		for _, q := range told.List() {
			m := ms[q.Minute]
			m.Queue, m.Minute = "a", q.Minute
			m.Merge(&q.Record)
			ms[q.Minute] = m
		}
		var read []history.QueueMinute
		for minute, m := range ms {
			if minute >= sums.From(at) {
				read = append(read, m)
			}
		}
		sums = sums.Add(at, read, counted("a"))
	}
	if r := sums.Of("a"); r.Done != tasks || r.Waited.Count() != tasks || r.Run.Count() != tasks {
		t.Errorf("%d tasks: %v", tasks, r)
	}
}

func TestSumsThatNobodyAskedForBeginAnew(t *testing.T) {
	ms := minutes{
		{"a", 100}: of(history.Counts{Done: 1}), {"a", 200}: of(history.Counts{Done: 2}),
	}
	sums := (*Sums)(nil).Add(100, ms.from(0), counted("a"))
	first := sums.totals(everyQueue)
	sums = sums.Add(240, ms.from(sums.From(240)), counted("a"))
	if got := sums.totals(everyQueue); got.Done != 2 || got.Since == first.Since ||
		first.Since == (view.Time{}) {
		t.Errorf("%+v, at first %+v", got, first)
	}
}
