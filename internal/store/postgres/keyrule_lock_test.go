//go:build unix

package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// Once a change of a key is answered nothing begins that goes by what was before.
func TestChangeOfAKeyWaitsForWhoLetsTasksBegin(t *testing.T) {
	o := meanwhile(t)
	o.submitKeys("q", true, "x")
	o.pauses("y", store.Forever)
	o.do("SELECT FROM rota.gate WHERE queue = 'q' FOR UPDATE") // Begin
	changed := make(chan store.KeyRule, 1)
	go func() { changed <- o.pauses("x", time.Hour) }()
	o.awaitLock(t)
	select {
	case rule := <-changed:
		t.Errorf("it is answered: %+v", rule)
	default:
	}
	o.commits()
	if rule := <-changed; rule.Paused == 0 {
		t.Errorf("it is not paused: %+v", rule)
	}
}

// Who lets tasks begin behind a change of a key goes by it.
func TestBeginWaitsForAChangeOfAKey(t *testing.T) {
	o := meanwhile(t)
	spans := o.submitKeys("q", true, "x", "z")
	o.pauses("y", store.Forever)
	o.do(findQueue, "q")
	o.do(lockGates, []string{"q"})
	o.do(putKeyRule, "q", "x", int64(store.Never), 0)
	began := make(chan store.Begun, 1)
	go func() {
		began <- must(o.client.Begin(t.Context(), o.asksToBegin([]string{"x", "z"}, spans)))(t)
	}()
	o.awaitLock(t)
	o.commits()
	got := <-began
	if got.Rows[0] != store.HeldBack || got.Rows[1] != store.Begins {
		t.Errorf("got %v", got.Rows)
	}
}

// A report that holds a key waits for no gate: who has it may wait for what the settlement has.
func TestReportThatHoldsItsKeyWaitsForNoGate(t *testing.T) {
	o := meanwhile(t)
	sp := o.submitKeys("q", true, "x")
	o.pauses("y", store.Forever)
	o.do(lockGates, []string{"q"}) // Begin
	must(o.Settle(t.Context(), holding(time.Hour, sp...)))(t)
	o.rulesAre(t, "q", 2)
}

// A settlement holds a key while the queue's last rule is pruned: the queue has rules afterwards.
func TestReportThatHoldsItsKeyComesBehindPruning(t *testing.T) {
	o := meanwhile(t)
	sp := o.submitKeys("q", true, "x")
	o.pauses("y", store.Forever)
	q := []string{"q"}
	o.do(lockRuled, q) // pruning
	o.do("DELETE FROM rota.key_rule")
	o.do(lockGates, q)
	o.do(forgetRules, q)
	settled := make(chan store.Settled, 1)
	go func() { settled <- must(o.Settle(t.Context(), holding(time.Hour, sp...)))(t) }()
	o.awaitLock(t)
	o.commits()
	if got := <-settled; got.Verdicts[0] != task.Recorded {
		t.Errorf("got %v", got.Verdicts)
	}
	o.rulesAre(t, "q", 1)
}

// Pruning passes over queues of which somebody says something just now, and over nothing else.
func TestPruningOfPausesWaitsForNobody(t *testing.T) {
	o := meanwhile(t)
	for _, queue := range []string{"q", "r"} {
		o.submitKeys(queue, true, "x")
		must(o.ChangeKey(t.Context(), store.KeyChange{
			Queue: queue, Key: "x", Pause: time.Microsecond,
		}))(t)
	}
	o.do(lockRuled, []string{"q"}) // a settlement
	if n := must(o.Prune(t.Context(), 100))(t); n != 1 {
		t.Errorf("%d were pruned", n)
	}
	o.rulesAre(t, "r", 0)
	o.do(putKeyRule, "q", "x", int64(store.Never), 0)
	o.commits()
	if n := must(o.Prune(t.Context(), 100))(t); n != 0 {
		t.Errorf("%d were pruned that are held for longer by now", n)
	}
	o.rulesAre(t, "q", 1)
}

// A queue that is deleted while a report holds a key of it leaves no rule.
func TestReportThatHoldsItsKeyComesBehindTheEndOfItsQueue(t *testing.T) {
	o := meanwhile(t)
	sp := o.submitKeys("q", true, "x")
	o.do(findQueue, "q")
	settled := make(chan store.Settled, 1)
	go func() { settled <- must(o.Settle(t.Context(), holding(time.Hour, sp...)))(t) }()
	o.awaitLock(t)
	o.do(deleteKeyRules, "q")
	o.do(deleteQueue, "q")
	o.commits()
	<-settled
	for _, table := range []string{"key_rule", "gate"} {
		if n := o.count("SELECT count(*) FROM rota." + table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
}

// rulesAre checks that a queue has so many rules, says so, and has a gate if it has any.
func (c *client) rulesAre(t *testing.T, queue string, n int64) {
	t.Helper()
	if got := c.count("SELECT count(*) FROM rota.key_rule WHERE queue = '" + queue +
		"'"); got != n {
		t.Errorf("queue %s has %d rules, want %d", queue, got, n)
	}
	c.rulesAgree(t)
}

// rulesAgree checks that each queue says whether it has rules, and has a gate if anything may hold
// back its tasks.
func (c *client) rulesAgree(t *testing.T) {
	t.Helper()
	for what, text := range map[string]string{
		"queues are wrong about their rules": `SELECT count(*) FROM rota.queue q
WHERE key_rules <> EXISTS (SELECT FROM rota.key_rule WHERE queue = q.name)`,
		"queues are wrong about their gates": `SELECT count(*) FROM rota.queue q
WHERE (key_rules OR max_running > 0) <> EXISTS (SELECT FROM rota.gate WHERE queue = q.name)`,
	} {
		if n := c.count(text); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// Many hold, pause, weigh, begin, prune and change limits at once, several keys of several queues
// in any order. Nobody waits in a circle, and afterwards all queues say whether they have rules.
func TestKeyRulesAtOnceAgree(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	dsn := contested.database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	var lanes []*client
	for range 4 {
		lanes = append(lanes, &client{
			TB: t, Store: open(t, Config{DSN: dsn, NoNotify: true}), holder: c.holder,
		})
	}
	luck := rand.New(rand.NewPCG(7, 8))
	queues, keys := []string{"q", "r", "s"}, []string{"x", "y", "z"}
	for i := range rounds {
		var deeds []func(c *client) error
		for range 3 {
			var spans []store.Span
			var names []string
			for _, at := range luck.Perm(9)[:4] {
				spans = append(spans, c.submitKeys(queues[at%3], true, keys[at/3])...)
				names = append(names, keys[at/3])
			}
			set := holding(time.Duration(1+luck.IntN(3000))*time.Microsecond, spans[:2]...)
			deeds = append(deeds, func(c *client) error {
				_, err := c.Settle(c.Context(), set)
				return err
			}, func(c *client) error {
				_, err := c.Begin(c.Context(), c.asksToBegin(names, spans))
				return err
			})
		}
		change := store.KeyChange{
			Queue: queues[luck.IntN(3)], Key: keys[luck.IntN(3)],
			Weight: new(luck.IntN(2)), Resume: luck.IntN(2) == 0,
		}
		most, few := luck.IntN(2), 1+luck.IntN(3)
		deeds = append(deeds, func(c *client) error {
			_, err := c.ChangeKey(c.Context(), change)
			return err
		}, func(c *client) error {
			_, err := c.ChangeQueue(c.Context(), change.Queue, func(q *task.Queue, _ bool) error {
				q.MaxRunning = 1000 * most
				return nil
			})
			return err
		}, func(c *client) error {
			_, err := c.Prune(c.Context(), few)
			return err
		})
		var all sync.WaitGroup
		luck.Shuffle(len(deeds), func(i, k int) { deeds[i], deeds[k] = deeds[k], deeds[i] })
		for lane, by := range lanes {
			all.Go(func() {
				for k := lane; k < len(deeds); k += len(lanes) {
					if err := deeds[k](by); err != nil && !errors.Is(err, store.ErrBusy) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if c.rulesAgree(t); t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
	if n := c.count("SELECT deadlocks FROM pg_stat_database " +
		"WHERE datname = current_database()"); n > 0 {
		t.Errorf("%d transactions waited for each other in a circle", n)
	}
}

// What runs without keys gets them some at a time, and the key of what others have locked may be
// any.
func TestKeysAreNamedSomeAtATime(t *testing.T) {
	story.Whole(t)
	o := meanwhile(t)
	c := o.client
	var rows []store.Running
	for range 9 {
		b := c.batch(256, 256, true)
		for i := range b.Tasks {
			b.Tasks[i].GroupKey = "x"
		}
		rows = append(rows, c.running(&b, c.submit(b))...)
	}
	c.sync(rows)
	unnamed := func(want int) {
		t.Helper()
		n := c.count("SELECT count(*) FROM rota.running WHERE key IS NULL")
		if n != int64(want) {
			t.Errorf("%d rows have no key, want %d", n, want)
		}
	}
	begins := func(want store.Beginning, key string) {
		t.Helper()
		asks := c.asksToBegin([]string{key}, c.submitKeys("q", true, key))
		got := must(c.Begin(t.Context(), asks))(t)
		if got.Rows[0] != want {
			t.Errorf("a task of key %s: %v, want %v", key, got.Rows[0], want)
		}
	}
	forget := func() {
		t.Helper()
		if err := c.write(t.Context(), func(ctx context.Context, t *tx) error {
			return t.finish(ctx, tell("UPDATE rota.running SET key = NULL"))
		}); err != nil {
			t.Fatal(err)
		}
	}
	unnamed(len(rows))
	c.limit(func(q *task.Queue) { q.PerKey.MaxRunning = 3 })
	unnamed(0)

	forget()
	begins(store.HeldBack, "x")
	unnamed(0)
	begins(store.Begins, "y")

	forget()
	o.do("SELECT FROM rota.running FOR UPDATE")
	begins(store.HeldBack, "z")
	unnamed(len(rows) + 1)
	o.commits()
	begins(store.Begins, "z")
	unnamed(0)
}
