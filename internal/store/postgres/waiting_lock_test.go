//go:build unix

package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// wakes is another node's look behind its lock: it writes the step that ends the wait of a task,
// and lets the task go into a span of its own. Nobody who waits for the wait may have the parked
// span.
func (o *other) wakes(id task.ID, seq int32) {
	o.Helper()
	o.do("SELECT FROM rota.span WHERE batch = $1 AND lo = $2 AND rank = "+never+
		" FOR UPDATE NOWAIT", id.Batch, id.N)
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran, stage, result) VALUES ($1, $2, $3, -1, 0, 0, 1, 0, $4, 15, '', 'second', '{}')`, id.Batch,
		id.N, seq, seq+1)
	o.do("DELETE FROM rota.wait WHERE batch = $1 AND n = $2", id.Batch, id.N)
	o.do("DELETE FROM rota.span WHERE batch = $1 AND lo = $2 AND rank = "+never, id.Batch, id.N)
	o.do(`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token, deaths,
size, gaps) VALUES (-($1::bigint) - $2::int, $1, $2, $2, $3, 'q', 1, 1, 0, 0, 0, 1, false)`, id.Batch,
		id.N, seq+1)
}

// hasWait locks the wait of a task.
func (o *other) hasWait(id task.ID) {
	o.Helper()
	o.do("SELECT FROM rota.wait WHERE batch = $1 AND n = $2 FOR UPDATE NOWAIT", id.Batch, id.N)
}

// Who acts on a blocked task that is just being woken comes behind that, and neither waits for what
// the other has.
func TestActionWaitsForALookAndComesBehindIt(t *testing.T) {
	for kind, want := range map[task.Kind]store.Acted{
		task.KindCancelled: {Was: task.Ready, Changed: true},
		task.KindEdited:    {Was: task.Ready, Changed: true},
		task.KindRemoved:   {Was: task.Ready, Changed: true},
		task.KindMoved:     {Was: task.Ready, Changed: true},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			o := meanwhile(t)
			id := o.blocked(2, forItself)[1]
			o.hasWait(id)
			acted := make(chan store.Acted, 1)
			go func() { acted <- o.acts(id, kind) }()
			o.awaitLock(t)
			o.wakes(id, 1)
			o.commits()
			if got := <-acted; got.Was != want.Was || got.Changed != want.Changed {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if n := o.count(fmt.Sprint("SELECT seq FROM rota.step WHERE kind = ",
				int(kind))); n != 2 {
				t.Errorf("its step stands at %d", n)
			}
			o.waitRows(1, 0, 0, 2, 1)
		})
	}
}

// Looks lock waits in the order of tasks, whatever the addresses.
func TestLooksLockWaitsInOneOrder(t *testing.T) {
	o := meanwhile(t)
	first, second := o.blocked(1, forKey("b"))[0], o.blocked(1, forKey("a"))[0]
	runSQL(t, o.dsn, `INSERT INTO rota.signal (address, key, sender, at, until)
VALUES ('k go a', '', '', 1, 0), ('k go b', '', '', 1, 0)`)
	o.hasWait(first)
	looked := make(chan store.Looked, 1)
	go func() { looked <- o.looks(store.LookRequest{Addresses: append(goKey("a"), goBy("b"))}) }()
	o.awaitLock(t)
	o.hasWait(second)
	o.wakes(first, 1)
	o.wakes(second, 1)
	o.do("UPDATE rota.signal SET used = 1")
	o.commits()
	if l := <-looked; l.Ended != 0 || l.More {
		t.Errorf("the second look: %+v", l)
	}
	o.waitRows(0, 0, 2, 0, 0)
}

// A look that found the oldest wait at an address taken by another one leaves a change, as the
// signal may end the next wait.
func TestLookThatLostItsWaitHasSomebodyLookAgain(t *testing.T) {
	o := meanwhile(t)
	ids := o.blocked(2, forKey("k"))
	runSQL(t, o.dsn, `INSERT INTO rota.signal (address, key, sender, at, until)
VALUES ('k go k', '', '', 1, 0)`)
	o.hasWait(ids[0])
	looked := make(chan store.Looked, 1)
	go func() { looked <- o.looks(store.LookRequest{}) }()
	o.awaitLock(t)
	o.wakes(ids[0], 1) // its time was over
	o.commits()
	if l := <-looked; l.Ended != 0 || !l.More {
		t.Errorf("the look: %+v", l)
	}
	o.waitRows(1, 1, 0, 1, 1)
	if l := o.looks(store.LookRequest{}); l.Ended != 1 || l.More {
		t.Errorf("the next look: %+v", l)
	}
	o.waitRows(0, 0, 1, 0, 0)
}

// A look that finds the time of a wait over, and a signal whose change another look has, leaves the
// wait: the signal was acknowledged before, so it is what ends it.
func TestLookLeavesAWaitWhoseSignalAnotherLookHas(t *testing.T) {
	o := meanwhile(t)
	o.blocked(1, func(task.ID) store.Await {
		return store.Await{Address: goBy("k"), Until: 1}
	})
	runSQL(t, o.dsn, `INSERT INTO rota.signal (address, key, sender, at, until)
VALUES ('k go k', '', '', 1, 0)`)
	o.do("DELETE FROM rota.change")
	if l := o.looks(store.LookRequest{}); l.Ended != 0 || !l.More {
		t.Errorf("the look: %+v", l)
	}
	o.waitRows(1, 1, 0, 2, 1)
	o.commits() // it was too slow, and ended nothing
	if l := o.looks(store.LookRequest{}); l.Ended != 1 || l.More {
		t.Errorf("the next look: %+v", l)
	}
	o.waitRows(0, 0, 1, 0, 0)
}

// A signal that another look uses just now, for another wait, ends no second one.
func TestLookWaitsForASignalAndFindsItUsed(t *testing.T) {
	o := meanwhile(t)
	o.blocked(1, forKey("k"))
	runSQL(t, o.dsn, `INSERT INTO rota.signal (address, key, sender, at, until)
VALUES ('k go k', '', '', 1, 0)`)
	o.do("UPDATE rota.signal SET used = 1")
	looked := make(chan store.Looked, 1)
	go func() { looked <- o.looks(store.LookRequest{}) }()
	o.awaitLock(t)
	o.commits()
	if l := <-looked; l.Ended != 0 || l.More {
		t.Errorf("the look: %+v", l)
	}
	o.waitRows(1, 0, 1, 0, 1)
}

// An edit lets a task wait on: a look that comes meanwhile ends the wait behind the edit.
func TestLookGoesAlongWithAnEdit(t *testing.T) {
	o := meanwhile(t)
	id := o.blocked(1, forItself)[0]
	runSQL(t, o.dsn, fmt.Sprintf(`INSERT INTO rota.signal (address, key, batch, n, sender, at, until)
VALUES ('t %s go', '', %d, 0, '', 1, 0)`, id, id.Batch))
	o.hasWait(id)
	o.do("SELECT FROM rota.span WHERE batch = $1 FOR UPDATE", id.Batch)
	looked := make(chan store.Looked, 1)
	go func() { looked <- o.looks(store.LookRequest{}) }()
	o.awaitLock(t)
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran, stage) VALUES ($1, 0, 1, -1, 0, 0, 1, 0, 2, 14, '', 'second')`, id.Batch)
	o.do("UPDATE rota.wait SET seq = 2")
	o.do("UPDATE rota.span SET id = -1, seq0 = 2")
	o.commits()
	if l := <-looked; l.Ended != 1 || l.More {
		t.Errorf("the look: %+v", l)
	}
	if n := o.count("SELECT seq FROM rota.step WHERE kind = 15"); n != 2 {
		t.Errorf("the wait ended at %d", n)
	}
	o.waitRows(0, 0, 1, 0, 0)
}

// A task begins to wait while somebody edits it who has locked no wait.
func TestEditOfATaskThatBeginsToWait(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(1, 1, true))[0]
	id := task.ID{Batch: sp.Batch}
	o.do("SELECT FROM rota.span WHERE id = $1 FOR UPDATE", sp.ID)
	acted := make(chan store.Acted, 1)
	go func() { acted <- o.acts(id, task.KindEdited) }()
	o.awaitLock(t)
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran, stage) VALUES ($1, 0, 0, $2, 1, 0, 1, 0, 1, 2, 'first', 'second')`, id.Batch, sp.Token)
	o.do(`INSERT INTO rota.wait (batch, n, seq, address, since, otherwise)
VALUES ($1, 0, 1, $2, 1, '')`, id.Batch, goAt(id).String())
	o.do(`UPDATE rota.span SET id = -1, seq0 = 1, token = 0, holder = NULL, htok = 0,
rank = ` + never + ", due = " + never)
	o.commits()
	if got := <-acted; !got.Changed || got.Was != task.Blocked {
		t.Errorf("got %+v", got)
	}
	o.waitRows(1, 0, 0, 0, 1)
	o.sends(store.Signal{To: goAt(id)}, store.Signalled{Found: true, Delivered: true})
	if n := o.count("SELECT seq FROM rota.step WHERE kind = 15"); n != 2 {
		t.Errorf("the wait ended at %d", n)
	}
}

// A queue is deleted while one of its tasks is woken.
func TestDeletedQueueWaitsForALook(t *testing.T) {
	o := meanwhile(t)
	must(o.ChangeQueue(t.Context(), "q", func(*task.Queue, bool) error { return nil }))(t)
	id := o.blocked(2, forItself)[1]
	o.looks(store.LookRequest{})
	o.hasWait(id)
	deleted := make(chan error, 1)
	go func() { deleted <- o.DeleteQueue(t.Context(), "q", true) }()
	o.awaitLock(t)
	o.wakes(id, 1)
	o.commits()
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	o.waitRows(0, 0, 0, 0, 0)
	for _, table := range []string{"step", "span", "pack", "batch"} {
		if n := o.count("SELECT count(*) FROM rota." + table); n != 0 {
			t.Errorf("table %s has %d rows", table, n)
		}
	}
}

// A signal is sent again when its time is over while what retention keeps no longer is deleted:
// whichever comes first, it stands.
func TestSignalIsSentAgainWhileItIsPruned(t *testing.T) {
	sig := store.Signal{To: goBy("k"), Keep: time.Hour.Microseconds()}
	over := `INSERT INTO rota.signal (address, key, sender, at, until) VALUES ('k go k', '', '', 1, 2)`
	t.Run("behind it", func(t *testing.T) {
		o := meanwhile(t)
		runSQL(t, o.dsn, over)
		o.do("DELETE FROM rota.signal WHERE until <= 2")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			o.sends(sig, store.Signalled{Found: true})
		}()
		o.awaitLock(t)
		o.commits()
		<-sent
		o.waitRows(0, 1, 0, 0, 0)
	})
	t.Run("before it", func(t *testing.T) {
		o := meanwhile(t)
		runSQL(t, o.dsn, over)
		o.do("UPDATE rota.signal SET at = 3, until = 1000 * until")
		if n := o.prune(); n != 0 {
			t.Errorf("pruned %d", n)
		}
		o.commits()
		if n := o.prune(); n != 1 {
			t.Errorf("pruned %d afterwards", n)
		}
	})
}

// Nobody sends a signal to a task that is just being deleted.
func TestSignalWaitsForADeletionAndFindsNoTask(t *testing.T) {
	o := meanwhile(t)
	id := task.ID{Batch: o.submit(o.batch(1, 1, false))[0].Batch}
	o.do("SELECT FROM rota.pack FOR UPDATE")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		o.sends(store.Signal{To: goAt(id)}, store.Signalled{})
	}()
	o.awaitLock(t)
	o.do("DELETE FROM rota.pack")
	o.commits()
	<-sent
	o.waitRows(0, 0, 0, 0, 0)
}

// storm is a crowd that does everything at once to some tasks.
type storm struct {
	*client
	lanes []*client
	luck  *rand.Rand
	sent  int // signals, by their payloads

	cancelled, woken int
}

// Many send signals, look, cancel and edit on several connections, while tasks begin to wait. Each
// wait ends once, each signal ends one wait at most, and none is left where both are.
func TestManyAtOnceEndEachWaitOnce(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	dsn := contested.database(t)
	s := &storm{luck: rand.New(rand.NewPCG(3, 4))}
	s.client = join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	for range 4 {
		s.lanes = append(s.lanes, &client{
			TB: t, Store: open(t, Config{DSN: dsn, NoNotify: true}), holder: s.holder,
		})
	}
	for i := range rounds {
		s.round(i)
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
	t.Logf("%d waits ended, %d tasks were cancelled, %d signals were sent", s.woken, s.cancelled,
		s.sent)
	if min(s.woken, s.cancelled) < rounds/4 {
		t.Error("it was no contest")
	}
}

// round lets tasks begin to wait, each at once with all that may end that.
func (s *storm) round(i int) {
	const tasks = 4 // two for a key, two for themselves
	sp := s.submit(s.batch(tasks, tasks, true))[0]
	key := fmt.Sprint("key ", i)
	address := func(n int32) store.Address {
		if n < 2 {
			return goBy(key)
		}
		return goAt(task.ID{Batch: sp.Batch, N: n})
	}
	var deeds []func(c *client)
	add := func(do func(c *client)) { deeds = append(deeds, do) }
	for n := range int32(tasks) {
		a := store.Await{Address: address(n)}
		if s.luck.IntN(4) == 0 {
			a.Until = 1 // long ago
		}
		begins := waits(&sp, n, 0, int64(n)+1, a)
		add(func(c *client) {
			set := store.Settlement{Reports: []store.Report{begins}}
			must(c.Settle(c.Context(), set))(c.TB)
		})
		id := task.ID{Batch: sp.Batch, N: n}
		switch s.luck.IntN(4) {
		case 0:
			add(func(c *client) { c.acts(id, task.KindCancelled) })
		case 1:
			add(func(c *client) { c.acts(id, task.KindEdited) })
			add(func(c *client) { c.acts(id, task.KindEdited) })
		}
		s.sent++
		sig := store.Signal{To: a.Address, Payload: store.Value(fmt.Sprint(s.sent))}
		if s.luck.IntN(4) > 0 {
			add(func(c *client) { must(c.Signal(c.Context(), sig))(c.TB) })
		}
	}
	for range 3 {
		add(func(c *client) { c.looks(store.LookRequest{Limit: 2}) })
	}
	add(func(c *client) { c.looks(store.LookRequest{Addresses: goKey(key)}) })
	s.luck.Shuffle(len(deeds), func(i, k int) { deeds[i], deeds[k] = deeds[k], deeds[i] })
	var work sync.WaitGroup
	for lane, c := range s.lanes {
		work.Go(func() {
			for k := lane; k < len(deeds); k += len(s.lanes) {
				deeds[k](c)
			}
		})
	}
	work.Wait()
	for l := s.looks(store.LookRequest{}); l.More; {
		l = s.looks(store.LookRequest{})
	}
	s.judge(sp.Batch)
}

// judge holds what stands against what must.
func (s *storm) judge(batch int64) {
	s.Helper()
	of := func(text string) int64 {
		s.Helper()
		return s.count(fmt.Sprintf(text, batch))
	}
	const open = " FROM rota.wait w JOIN rota.signal s USING (address) WHERE s.used IS NULL"
	for query, want := range map[string]int64{
		"SELECT count(*)" + open:                         0,
		"SELECT count(*) FROM rota.change":               0,
		"SELECT count(*) FROM rota.wait WHERE until > 0": 0,
		`SELECT count(*) FROM rota.wait w LEFT JOIN rota.span s ON s.batch = w.batch AND s.lo = w.n
AND s.seq0 = w.seq AND s.rank = ` + never + ` WHERE s.id IS NULL`: 0,
		"SELECT count(*) FROM rota.span WHERE rank = " + never: s.count("SELECT count(*) FROM rota.wait"),
	} {
		if got := s.count(query); got != want {
			s.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	woken := of("SELECT count(*) FROM rota.step WHERE batch = %d AND kind = 15")
	if n := of("SELECT count(DISTINCT n) FROM rota.step WHERE batch = %d AND kind = 15"); n != woken {
		s.Errorf("%d waits ended of %d tasks", woken, n)
	}
	by := map[string]int{}
	signals := 0
	if err := s.glance(s.Context(), ask(`SELECT result FROM rota.step WHERE kind = 15`,
		func(r row) error {
			var text []byte
			var w store.Woken
			err := r.Scan(&text)
			if err == nil {
				err = json.Unmarshal(text, &w)
			}
			if !w.TimedOut {
				by[string(w.Payload)]++
				signals++
			}
			return err
		})); err != nil {
		s.Fatal(err)
	}
	if used := s.count("SELECT count(*) FROM rota.signal WHERE used IS NOT NULL"); len(by) !=
		signals || used != int64(signals) {
		s.Errorf("%d waits ended by %d signals, of which %d are used", signals, len(by), used)
	}
	spans := of(`SELECT count(*) FROM rota.span s WHERE batch = %d AND EXISTS (SELECT FROM rota.step p
WHERE p.batch = s.batch AND p.n = s.lo AND p.base = s.seq0 AND p.base <> -1 AND NOT EXISTS (SELECT
FROM rota.step x WHERE x.batch = p.batch AND x.n = p.n AND x.seq > p.seq))`)
	over := of("SELECT count(*) FROM rota.step WHERE batch = %d AND base = -1")
	if spans+over != 4 {
		s.Errorf("%d tasks are over, %d are in spans", over, spans)
	}
	s.woken += int(woken)
	s.cancelled += int(over)
}

// A parked span that somebody has locked is waited for: nobody takes it, so it would stay for ever.
func TestParkedSpanGoesAlthoughSomebodyHasItLocked(t *testing.T) {
	for kind, act := range map[string]func(*other, task.ID){
		"cancel": func(o *other, id task.ID) { o.acts(id, task.KindCancelled) },
		"wake": func(o *other, id task.ID) {
			o.sends(store.Signal{To: goAt(id)}, store.Signalled{Found: true, Delivered: true})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			o := meanwhile(t)
			id := o.blocked(1, forItself)[0]
			o.do("SELECT FROM rota.span FOR SHARE")
			acted := make(chan struct{})
			go func() { defer close(acted); act(o, id) }()
			o.awaitLock(t)
			o.commits()
			<-acted
			if n := o.count("SELECT count(*) FROM rota.span WHERE due = " + never); n != 0 {
				t.Errorf("%d parked spans stay", n)
			}
		})
	}
}
