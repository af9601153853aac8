//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// ends are reports that tasks lo to hi of a span are done.
func ends(sp *store.Span, lo, hi int32) (list []store.Report) {
	for n := lo; n <= hi; n++ {
		list = append(list, report(sp, n, 0, int64(n)+1, task.Finish(nil)))
	}
	return list
}

// settles settles reports and holds the verdicts against what is wanted of each.
func (c *client) settles(list []store.Report, want func(i int) task.Status) {
	c.Helper()
	got := must(c.Settle(c.Context(), store.Settlement{Reports: list}))(c.TB)
	for i, v := range got.Verdicts {
		if w := want(i); v != w {
			c.Errorf("report of task %s: %s, want %s", list[i].ID, v, w)
		}
	}
}

// all wants the same of each.
func all(v task.Status) func(int) task.Status { return func(int) task.Status { return v } }

// rows holds how many marks, outcomes in marks and steps stand against what is wanted.
func (c *client) rows(marks, marked, steps int64) {
	c.Helper()
	sum := marked + steps
	for query, want := range map[string]int64{
		"SELECT count(*) FROM rota.mark":                                             marks,
		"SELECT coalesce(sum(bit_count(bits::bit(64))), 0)::bigint FROM rota.mark":   marked,
		"SELECT count(*) FROM rota.step":                                             steps,
		"SELECT count(*) FROM (SELECT FROM rota.outcome GROUP BY batch, n, seq) x":   sum,
		"SELECT count(*) FROM rota.outcome":                                          sum,
		"SELECT count(*) FROM rota.running u JOIN rota.outcome o USING (batch, n)":   0,
		"SELECT count(*) FROM rota.mark WHERE lo % 64 <> 0 OR bits = 0 OR last <= 0": 0,
	} {
		if got := c.count(query); got != want {
			c.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

// marksAlone is another node's settlement up to its commit: it has the pack for itself, and has
// marked tasks lo to hi of a span as done.
func (o *other) marksAlone(sp *store.Span, lo, hi int32) {
	o.Helper()
	p := packOf(task.ID{Batch: sp.Batch, N: lo})
	var done []pack.Done
	for _, r := range ends(sp, lo, hi) {
		done = append(done, pack.DoneBy(&r))
	}
	body, bits := pack.AppendDone(nil, done)
	o.do("SELECT FROM rota.span WHERE id = $1 FOR SHARE", sp.ID)
	o.do("SELECT rota.alone(pg_try_advisory_xact_lock_shared($1), '{}')", int64(allPacks))
	o.do("SELECT rota.expect(pg_try_advisory_xact_lock($1)::int, 1)", p.lock())
	o.do("INSERT INTO rota.mark (batch, lo, bits, body, last) VALUES ($1, $2, $3, $4, 99)",
		p.batch, p.lo, int64(bits), body)
}

// cancelsAlone is another node's cancellation up to its commit.
func (o *other) cancelsAlone(sp *store.Span, n int32) {
	o.Helper()
	o.do("SELECT pg_advisory_xact_lock_shared($1)",
		packOf(task.ID{Batch: sp.Batch, N: n}).lock())
	o.do(`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran) VALUES ($1, $2, 0, -1, 0, 0, 1, 0, -1, 9, '')`, sp.Batch, n)
}

// A handler's transaction that has recorded an outcome and stays open holds nobody up but who ends
// the same task: the pack's other outcomes become steps meanwhile.
func TestOpenTransactionOfAHandlerHoldsUpNoMarks(t *testing.T) {
	for _, commits := range []bool{true, false} {
		o := meanwhile(t)
		sp := o.submit(o.batch(200, 200, true))[0]
		if err := o.finishes(&sp, 0, 0); err != nil {
			t.Fatal(err)
		}
		o.settles(ends(&sp, 1, 99), all(task.Recorded)) // without waiting
		o.rows(1, 36, 63)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			o.settles(append(ends(&sp, 0, 0), ends(&sp, 100, 127)...), func(i int) task.Status {
				if i == 0 && commits {
					return task.Stale
				}
				return task.Recorded
			})
		}()
		o.awaitLock(t)
		o.end(commits)
		<-answered
		if n := o.count("SELECT count(*) FROM rota.outcome WHERE n = 0"); n != 1 {
			t.Errorf("task 0 has %d outcomes", n)
		}
	}
}

// Who comes second goes by what the first has decided, whichever of the two it is.
func TestWhoComesWhileMarksAreWrittenGoesByThem(t *testing.T) {
	for _, commits := range []bool{true, false} {
		fate := map[bool]string{true: "commits", false: "is undone"}[commits]
		t.Run("a handler, and it "+fate, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(10, 10, true))[0]
			o.marksAlone(&sp, 0, 4)
			id, token := o.given(&sp, 3, 0)
			conn := must(pgx.Connect(t.Context(), o.dsn))(t)
			defer conn.Close(t.Context())
			said := make(chan string, 1)
			go func() {
				_, err := conn.Exec(t.Context(), "SELECT rota.finish($1, $2)", id, token)
				said <- stateOf(err)
			}()
			o.awaitLock(t)
			o.end(commits)
			if got, want := <-said, map[bool]string{true: "RT002", false: "<nil>"}[commits]; got !=
				want {
				t.Errorf("the function said %s, want %s", got, want)
			}
		})
		t.Run("a cancellation, and it "+fate, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(10, 10, true))[0]
			o.marksAlone(&sp, 0, 4)
			answer := make(chan store.Acted, 1)
			go func() {
				answer <- must(o.Act(t.Context(), []store.Action{
					{ID: task.ID{Batch: sp.Batch, N: 2}, Kind: task.KindCancelled}}))(t)[0]
			}()
			o.awaitLock(t)
			o.end(commits)
			if got := <-answer; got.Changed == commits || commits && got.Was != task.Done {
				t.Errorf("the task was cancelled: %+v, and the settlement %s", got, fate)
			}
		})
		t.Run("an outcome that is no mark, and it "+fate, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(10, 10, true))[0]
			o.marksAlone(&sp, 0, 4)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				failed := report(&sp, 2, 0, 1, task.Retry(errors.New("no")))
				want := map[bool]task.Status{true: task.Stale, false: task.Recorded}[commits]
				o.settles([]store.Report{failed}, all(want))
			}()
			o.awaitLock(t)
			o.end(commits)
			<-answered
		})
		t.Run("another settlement, and it "+fate, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(20, 20, true))[0]
			o.marksAlone(&sp, 0, 4)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				o.settles(ends(&sp, 0, 9), func(i int) task.Status {
					if i < 5 && commits { // a repetition, by another node
						return task.Repeated
					}
					return task.Recorded
				})
			}()
			o.awaitLock(t)
			o.end(commits)
			<-answered
			if n := o.count("SELECT count(*) FROM rota.outcome"); n != 10 {
				t.Errorf("%d outcomes of ten tasks", n)
			}
			o.counts(o.standing(20, 10, commits))
		})
	}
}

// standing is what is counted of a batch when so many are done. What marksAlone wrote was not
// counted.
func (o *other) standing(size, done int64, commits bool) task.Counts {
	if commits {
		done -= 5
	}
	return task.Counts{Ready: size - done, Done: done}
}

// Between a cancellation's step and its commit a settlement may come, and after it.
func TestMarksGoByTheStepsThatStand(t *testing.T) {
	for _, after := range []bool{true, false} {
		o := meanwhile(t)
		sp := o.submit(o.batch(20, 20, true))[0]
		o.cancelsAlone(&sp, 3)
		verdicts := func(i int) task.Status {
			if i == 3 {
				return task.Stale
			}
			return task.Recorded
		}
		if after {
			o.commits()
			o.settles(ends(&sp, 0, 9), verdicts)
		} else {
			answered := make(chan struct{})
			go func() { defer close(answered); o.settles(ends(&sp, 0, 9), verdicts) }()
			o.awaitLock(t)
			o.commits()
			<-answered
		}
		if n := o.count("SELECT count(*) FROM rota.outcome"); n != 10 {
			t.Errorf("%d outcomes of ten tasks", n)
		}
		o.settles(ends(&sp, 10, 19), all(task.Recorded))
		o.rows(1, 10, 10)
	}
}

// At REPEATABLE READ and above a transaction does not see what was marked since it began; it is
// refused all the same, and a pack that nobody touched is left as it was.
func TestHandlerThatSeesAnOldSnapshotIsRefusedByTheKeyOfMarks(t *testing.T) {
	for name, x := range map[string]struct {
		before, meanwhile [2]int32 // the tasks that are marked
		want              map[string]string
	}{
		"marked before": {[2]int32{0, 9}, [2]int32{}, map[string]string{
			"READ COMMITTED": "RT002", "REPEATABLE READ": "RT002", "SERIALIZABLE": "RT002",
		}},
		"marked meanwhile": {[2]int32{}, [2]int32{0, 9}, map[string]string{
			"READ COMMITTED": "RT002", "REPEATABLE READ": codeSerial, "SERIALIZABLE": codeSerial,
		}},
		"marked meanwhile beside others": {[2]int32{10, 19}, [2]int32{0, 9}, map[string]string{
			"READ COMMITTED": "RT002", "REPEATABLE READ": codeSerial, "SERIALIZABLE": codeSerial,
		}},
		"others marked before": {[2]int32{10, 19}, [2]int32{}, map[string]string{
			"READ COMMITTED": "<nil>", "REPEATABLE READ": "<nil>", "SERIALIZABLE": "<nil>",
		}},
		"untouched": {[2]int32{}, [2]int32{}, map[string]string{
			"READ COMMITTED": "<nil>", "REPEATABLE READ": "<nil>", "SERIALIZABLE": "<nil>",
		}},
	} {
		for level, want := range x.want {
			t.Run(name+" at "+level, func(t *testing.T) {
				o := meanwhile(t)
				sp := o.submit(o.batch(20, 20, true))[0]
				settle := func(some [2]int32) {
					if some != [2]int32{} {
						o.settles(ends(&sp, some[0], some[1]), all(task.Recorded))
					}
				}
				settle(x.before)
				marks := o.count("SELECT count(*) FROM rota.mark")
				o.do("SET TRANSACTION ISOLATION LEVEL " + level)
				o.do("CREATE TABLE public.own (x int)") // it has its snapshot from here on
				settle(x.meanwhile)
				if got := stateOf(o.finishes(&sp, 3, 0)); got != want {
					t.Fatalf("the function said %s, want %s", got, want)
				}
				if want != "<nil>" {
					return
				}
				o.commits()
				runSQL(t, o.dsn, "DROP TABLE public.own")
				if n := o.count("SELECT count(*) FROM rota.mark"); n != marks {
					t.Errorf("it left %d marks of %d", n, marks)
				}
				o.settles(ends(&sp, 0, 5), func(i int) task.Status {
					return map[bool]task.Status{true: task.Stale, false: task.Recorded}[i == 3]
				})
			})
		}
	}
}

// A lost answer is answered again; another outcome of the same hand-out is refused.
func TestRepetitionOfWhatIsMarkedIsTold(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(100, 100, true))[0]
	o.settles(ends(&sp, 0, 99), all(task.Recorded))
	o.settles(ends(&sp, 0, 99), all(task.Repeated))
	var others []store.Report
	for n := range int32(20) {
		others = append(others, report(&sp, n, 0, 1, task.Finish(n)))
	}
	o.settles(others, all(task.Stale))
	old := sp
	old.Token++
	o.settles(ends(&old, 0, 20), all(task.Stale))
	o.rows(2, 100, 0)
	o.counts(task.Counts{Done: 100})
}

// Whoever inserts steps into more packs than it may lock one by one waits for all who write marks,
// and they become steps beside it.
func TestOneLockStandsForManyPacks(t *testing.T) {
	o := meanwhile(t)
	var sub store.Submission
	sub.Holder = o.holder
	for range packsLocked + 1 {
		sub.Batches = append(sub.Batches, o.batch(1, 1, true))
	}
	var list []store.Report
	for _, sp := range must(o.Submit(t.Context(), sub))(t).Spans {
		list = append(list, report(&sp, 0, 0, 1, task.Finish(nil)))
	}
	wide := o.submit(o.batch(20, 20, true))[0]
	o.marksAlone(&wide, 0, 4)
	answered := make(chan struct{})
	go func() { defer close(answered); o.settles(list, all(task.Recorded)) }()
	o.awaitLock(t)
	o.commits()
	<-answered
	o.Tx = must(o.Conn().Begin(t.Context()))(t)
	o.do("SELECT pg_advisory_xact_lock($1)", int64(allPacks))
	o.settles(ends(&wide, 5, 19), all(task.Recorded)) // without waiting
	o.rows(1, 5, packsLocked+1+15)
}

// A server that has no room for more locks refuses whoever asks for one. A settlement then does
// with one.
func TestSettlementDoesWithOneLockWhenTheServerHasNoMore(t *testing.T) {
	story.Whole(t)
	server := pgtest.Start(t, pgtest.Config{})
	server.Exec(t, "ALTER SYSTEM SET max_locks_per_transaction = 10")
	server.Restart(t)
	dsn := server.Database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	var sub store.Submission
	sub.Holder = c.holder
	for range packsLocked - 1 {
		sub.Batches = append(sub.Batches, c.batch(1, 1, true))
	}
	wide := c.submit(c.batch(20, 20, true))[0]
	spans := must(c.Submit(t.Context(), sub))(t).Spans
	hog := must(pgx.Connect(t.Context(), dsn))(t)
	defer hog.Close(t.Context())
	full := false
	for i := 0; !full; i++ {
		_, err := hog.Exec(t.Context(), "SELECT pg_advisory_lock($1)", i)
		if full = stateOf(err) == codeLockTable; err != nil && !full {
			t.Fatal(err)
		}
	}
	if _, err := hog.Exec(t.Context(),
		"SELECT pg_advisory_unlock(i) FROM generate_series(0, 99) i"); err != nil {
		t.Fatal(err)
	}
	list := ends(&wide, 0, 19)
	for _, sp := range spans {
		list = append(list, report(&sp, 0, 0, 1, task.Finish(nil)))
	}
	c.settles(list, all(task.Recorded))
	c.rows(0, 0, int64(len(list)))
}

// Many do everything at once to the tasks of few packs: settle them as they like, finish them in
// transactions, cancel them, and write their hand-outs down. Each task gets one outcome, and nobody
// comes to grief.
func TestManyAtOnceGiveEachTaskOneOutcome(t *testing.T) {
	const size, lanes, rounds = 256, 6, 25
	dsn := contested.database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	sp := c.submit(c.batch(size, size, true))[0]
	var mu sync.Mutex
	recorded := map[task.ID]int{}
	note := func(id task.ID) {
		mu.Lock()
		defer mu.Unlock()
		recorded[id]++
	}
	var work sync.WaitGroup
	for lane := range lanes {
		s := open(t, Config{DSN: dsn, NoNotify: true, marksFrom: 1 + lane%4})
		conn := must(pgx.Connect(t.Context(), dsn))(t)
		t.Cleanup(func() { conn.Close(t.Context()) })
		luck := rand.New(rand.NewPCG(7, uint64(lane)))
		work.Go(func() {
			for range rounds {
				randomDeed(t, &client{TB: t, Store: s, holder: c.holder}, conn, luck, &sp, note)
			}
		})
	}
	work.Wait()
	c.settles(ends(&sp, 0, size-1), func(i int) task.Status {
		id := task.ID{Batch: sp.Batch, N: int32(i)}
		if recorded[id] == 0 {
			note(id)
			return task.Recorded
		}
		return must(c.Settle(t.Context(), store.Settlement{
			Reports: ends(&sp, int32(i), int32(i))}))(t).Verdicts[0]
	})
	for id, n := range recorded {
		if n != 1 {
			t.Errorf("task %s was ended %d times", id, n)
		}
	}
	if len(recorded) != size {
		t.Errorf("%d of %d tasks were ended", len(recorded), size)
	}
	for query, want := range map[string]int64{
		"SELECT count(*) FROM rota.outcome":                                        size,
		"SELECT count(*) FROM (SELECT FROM rota.outcome GROUP BY batch, n, seq) x": size,
		"SELECT sum(done + cancelled)::bigint FROM rota.stat":                      size,
	} {
		if got := c.count(query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

// randomDeed does one thing to some tasks of a span of few packs.
func randomDeed(
	t *testing.T, c *client, conn *pgx.Conn, luck *rand.Rand, sp *store.Span, note func(task.ID),
) {
	lo := sp.Lo + luck.Int32N(sp.Hi-sp.Lo)
	hi := min(lo+luck.Int32N(40), sp.Hi)
	switch luck.IntN(6) {
	case 0: // a handler's transaction, of several hand-outs at times
		ids := []int32{lo, hi}
		if lo == hi || luck.IntN(2) == 0 {
			ids = ids[:1]
		}
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			for _, n := range ids {
				id, token := c.given(sp, n, 0)
				if _, err := tx.Exec(t.Context(), "SELECT rota.finish($1, $2)", id,
					token); err != nil {
					return err
				}
			}
			_, err := tx.Exec(t.Context(), "SELECT pg_sleep($1)", float64(luck.IntN(3))/1000)
			return err
		})
		switch got := stateOf(err); {
		case err == nil:
			for _, n := range ids {
				note(task.ID{Batch: sp.Batch, N: n})
			}
		case got != "RT002" && got != codeDeadlock:
			t.Error(fmt.Errorf("finish: %w", err))
		}
	case 1:
		var list []store.Action
		for n := lo; n <= min(lo+2, hi); n++ {
			list = append(list, store.Action{
				ID: task.ID{Batch: sp.Batch, N: n}, Kind: task.KindCancelled,
			})
		}
		for _, a := range must(c.Act(t.Context(), list))(t) {
			if a.Changed {
				note(a.ID)
			}
		}
	default:
		list := ends(sp, lo, hi)
		if luck.IntN(3) == 0 {
			list[0] = report(sp, lo, 0, 1, task.Fail(errors.New("no")))
			list[0].Step.Kind = task.KindCancelled // counted as one
		}
		if luck.IntN(3) == 0 {
			list = append(list, list[len(list)-1])
		}
		list = slices.DeleteFunc(list, func(store.Report) bool { return luck.IntN(5) == 0 })
		got := must(c.Settle(t.Context(), store.Settlement{Reports: list}))(t)
		for i, v := range got.Verdicts {
			if v == task.Recorded {
				note(list[i].ID)
			}
		}
	}
}
