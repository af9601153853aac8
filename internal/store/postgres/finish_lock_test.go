//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/blob"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// given is the task and the token that a worker has of a hand-out.
func (c *client) given(sp *store.Span, n, seq int32) (id, token string) {
	t := task.Token{Span: sp.ID, SpanToken: sp.Token, Seq: seq}
	of := task.ID{Batch: sp.Batch, N: n}
	return of.String(), seal.NewSealer(c.Secret()).Seal(t, of, "worker-1").String()
}

// finishes lets a handler's transaction record that a hand-out is done.
func (o *other) finishes(sp *store.Span, n, seq int32) error {
	id, token := o.given(sp, n, seq)
	_, err := o.Exec(o.Context(), "SELECT rota.finish($1, $2)", id, token)
	return err
}

// stateOf is the SQLSTATE of an error, or its text.
func stateOf(err error) string {
	if coded := (interface{ SQLState() string })(nil); errors.As(err, &coded) {
		return coded.SQLState()
	}
	return fmt.Sprint(err)
}

// Between a handler's call and its commit the hand-out may be judged lost, its task cancelled, and
// its span freed and taken. Whoever comes second waits, and goes by what the first has decided.
func TestWhoComesWhileAHandlerCommitsGoesByItsDecision(t *testing.T) {
	lost := task.Outcome{Kind: task.KindLost, Error: "silent"}
	for _, commits := range []bool{true, false} {
		ends := map[bool]string{true: "commits", false: "rolls back"}[commits]
		t.Run("another outcome, and it "+ends, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(2, 2, true))[0]
			if err := o.finishes(&sp, 0, 0); err != nil {
				t.Fatal(err)
			}
			// the neighbour's outcome waits for nobody
			got := must(o.Settle(t.Context(), store.Settlement{
				Reports: []store.Report{report(&sp, 1, 0, 1, task.Finish(nil))}}))(t)
			if got.Verdicts[0] != task.Recorded {
				t.Errorf("a neighbour was %s", got.Verdicts[0])
			}
			answer := make(chan store.Settled, 1)
			go func() {
				answer <- must(o.Settle(t.Context(), store.Settlement{
					Reports: []store.Report{report(&sp, 0, 0, 1, lost)}}))(t)
			}()
			o.awaitLock(t)
			want := task.Stale
			if o.end(commits); !commits {
				want = task.Recorded
			}
			if got := <-answer; got.Verdicts[0] != want {
				t.Errorf("got %v, want %s", got.Verdicts, want)
			}
		})
		t.Run("a cancellation, and it "+ends, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(1, 1, true))[0]
			if err := o.finishes(&sp, 0, 0); err != nil {
				t.Fatal(err)
			}
			answer := make(chan store.Acted, 1)
			go func() {
				answer <- must(o.Act(t.Context(), []store.Action{
					{ID: task.ID{Batch: sp.Batch}, Kind: task.KindCancelled, By: "x",
						Mark: 7}}))(t)[0]
			}()
			o.awaitLock(t)
			o.end(commits)
			if got := <-answer; got.Changed == commits {
				t.Errorf("the task was cancelled: %v, and its handler %s", got.Changed, ends)
			}
		})
		t.Run("a take-over, and it "+ends, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(1, 1, true))[0]
			if err := o.finishes(&sp, 0, 0); err != nil {
				t.Fatal(err)
			}
			if err := o.End(t.Context(), "node/a", o.holder.Token, true); err != nil {
				t.Fatal(err)
			}
			heir := must(o.Acquire(t.Context(), "node/b", "b", math.MaxInt32, nil))(t)
			self := store.Holder{Node: "b", Token: heir.Token}
			take := func() []store.HeldSpan {
				must(o.Free(t.Context(), self, math.MaxInt64))(t)
				return must(o.Take(t.Context(),
					store.TakeRequest{Holder: self, Queue: "q", Limit: 9}))(t).Spans
			}
			if got := take(); len(got) != 0 {
				t.Errorf("took %+v of a span whose handler commits", got)
			}
			o.end(commits)
			// the span is freed now, with or without its task
			if got := take(); len(got) != 1 || len(got[0].Tasks) == 0 != commits {
				t.Errorf("took %+v, and the handler %s", got, ends)
			}
		})
	}
}

// end commits, or does not.
func (o *other) end(commit bool) {
	o.Helper()
	if commit {
		o.commits()
	} else if err := o.Rollback(o.Context()); err != nil {
		o.Fatal(err)
	}
}

// Who comes first is not asked: a handler whose hand-out was judged, or whose task was taken over,
// is refused, at whatever isolation its transaction has, and nothing else of it commits.
func TestHandlerThatComesLateIsRefused(t *testing.T) {
	for name, happens := range map[string]func(o *other, sp *store.Span){
		"lost": func(o *other, sp *store.Span) {
			must(o.Settle(o.Context(), store.Settlement{Reports: []store.Report{
				report(sp, 0, 0, 1, task.Outcome{Kind: task.KindLost})}}))(o.TB)
		},
		"taken over": func(o *other, _ *store.Span) {
			runSQL(o.TB, o.dsn, "UPDATE rota.span SET token = token + 1")
		},
		"gone": func(o *other, _ *store.Span) { runSQL(o.TB, o.dsn, "DELETE FROM rota.span") },
	} {
		for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
			t.Run(name+" at "+level, func(t *testing.T) {
				o := meanwhile(t)
				sp := o.submit(o.batch(1, 1, true))[0]
				o.do("SET TRANSACTION ISOLATION LEVEL " + level)
				o.do("CREATE TABLE public.own (x int)") // it has its snapshot from here on
				happens(o, &sp)
				if got := stateOf(o.finishes(&sp, 0, 0)); got != "RT002" && got != codeSerial {
					t.Errorf("the function said %s", got)
				}
				if err := o.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
					t.Errorf("the commit said %v", err)
				}
			})
		}
	}
}

func TestWhatMakesNoSenseIsNotFinished(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(2, 2, true))[0]
	id, token := o.given(&sp, 0, 0)
	elsewhere, _ := o.given(&sp, 1, 0)
	parts := strings.Split(token, ".")
	other := "0"
	if parts[3][:1] == other {
		other = "1"
	}
	parts[3] = other + parts[3][1:]
	forged := strings.Join(parts, ".")
	never := task.ID{Batch: 7}
	neverToken := seal.NewSealer(o.Secret()).
		Seal(task.Token{Span: sp.ID, SpanToken: sp.Token}, never, "worker-1").String()
	const refused, wrong = "RT002", "22023"
	for name, x := range map[string]struct {
		want, text string
		args       []any
	}{
		"a forged token":       {refused, "$1, $2", []any{id, forged}},
		"another task's token": {refused, "$1, $2", []any{elsewhere, token}},
		"an older token":       {wrong, "$1, $2", []any{id, strings.Join(parts[:4], ".")}},
		"no token":             {wrong, "$1, $2", []any{id, ""}},
		"a null token":         {wrong, "$1, $2", []any{id, nil}},
		"no task":              {wrong, "$1, $2", []any{"", token}},
		"a null task":          {wrong, "$1, $2", []any{nil, token}},
		"a task in capitals": {wrong, "$1, $2",
			[]any{strings.ToUpper("ABCDEFGHJKMNP") + "10", token}},
		"a token of words": {wrong, "$1, $2", []any{id, "no.such.token.is.good"}},
		"huge numbers": {"22003", "$1, $2", []any{id,
			"zzzzzzzzzzzzz.zzzzzzzzzzzzz.zzzzzzzzzzzzz.1.1"}},
		"a task that never was": {refused, "$1, $2", []any{never.String(), neverToken}},
		"a result and a stage":  {wrong, "$1, $2, '1', 'next'", []any{id, token}},
		"an empty stage":        {wrong, "$1, $2, next_stage => ''", []any{id, token}},
		"a stage of two lines":  {wrong, "$1, $2, next_stage => E'a\\nb'", []any{id, token}},
		"a long stage": {wrong, "$1, $2, next_stage => repeat('a', 129)",
			[]any{id, token}},
		"a result that is none": {"22P02", "$1, $2, 'no json'", []any{id, token}},
		"a huge result": {wrong, "$1, $2, to_json(repeat('x', 17000000))",
			[]any{id, token}},
		"an empty worker's name": {wrong, "$1, $2, worker => ''", []any{id, token}},
		"a run of less than no time": {wrong, "$1, $2, ran_for => interval '-1 second'",
			[]any{id, token}},
	} {
		o.do("SAVEPOINT before")
		_, err := o.Exec(t.Context(), "SELECT rota.finish("+x.text+")", x.args...)
		if got := stateOf(err); got != x.want {
			t.Errorf("%s: the function said %s (%v), want %s", name, got, err, x.want)
		}
		o.do("ROLLBACK TO before")
	}
	if err := o.finishes(&sp, 0, 0); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if got := stateOf(o.finishes(&sp, 0, 0)); got != refused {
		t.Errorf("a second time in one transaction: %s, want %s", got, refused)
	}
}

// Nobody else has to see the tables, or the secret in them.
func TestRoleThatMayOnlyFinishFinishes(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(2, 2, true))[0]
	runSQL(t, o.dsn, "DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk",
		"GRANT USAGE ON SCHEMA rota TO clerk")
	o.do("SET LOCAL ROLE clerk")
	if got := stateOf(o.finishes(&sp, 0, 0)); got != codeNoRight {
		t.Errorf("without the right to: %s", got)
	}
	o.end(false)
	runSQL(t, o.dsn, "GRANT EXECUTE ON FUNCTION rota.finish TO clerk")
	o.Tx = must(o.Conn().Begin(t.Context()))(t)
	o.do("SET LOCAL ROLE clerk")
	if err := o.finishes(&sp, 0, 0); err != nil {
		t.Error(err)
	}
	o.do("SAVEPOINT before")
	if _, err := o.Exec(t.Context(), "SELECT FROM rota.store"); stateOf(err) != codeNoRight {
		t.Errorf("the secret is there to be read: %v", err)
	}
	o.do("ROLLBACK TO before")
	o.commits()
	o.counts(task.Counts{Ready: 1, Done: 1})
	runSQL(t, o.dsn, "REVOKE ALL ON SCHEMA rota FROM clerk",
		"REVOKE ALL ON FUNCTION rota.finish FROM clerk", "DROP ROLE clerk")
}

// A handler that forgets its transaction holds nobody up for long.
func TestTransactionMayNotIdleAfterItHasFinishedATask(t *testing.T) {
	for before, want := range map[string]string{
		"0": "5s", "2min": "5s", "7200s": "5s", "500ms": "500ms", "3s": "3s",
	} {
		t.Run(before, func(t *testing.T) {
			o := meanwhile(t)
			sp := o.submit(o.batch(1, 1, true))[0]
			o.do("SET SESSION idle_in_transaction_session_timeout = '" + before + "'")
			if err := o.finishes(&sp, 0, 0); err != nil {
				t.Fatal(err)
			}
			var got string
			const ask = "SHOW idle_in_transaction_session_timeout"
			if err := o.QueryRow(t.Context(), ask).Scan(&got); err != nil || got != want {
				t.Errorf("it may idle for %s (%v), want %s", got, err, want)
			}
		})
	}
}

// Large values go to the database, also where nodes keep theirs in a folder, and go with their
// task.
func TestLargeValuesOfTransactionsAreKeptAndGoWithTheirTask(t *testing.T) {
	story.Whole(t)
	folder, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	for name, blobs := range map[string]Blobs{"table": nil, "folder": folder} {
		t.Run(name, func(t *testing.T) {
			clock := contract.NewClock()
			c := join(t, fresh(t, clock, Config{Blobs: blobs}))
			sub := store.Submission{
				Holder: c.holder, NewQueues: []string{"q"},
				Batches: []store.Batch{c.batch(1, 1, true)},
			}
			sp := must(c.Submit(t.Context(), sub))(t).Spans[0]
			id, token := c.given(&sp, 0, 0)
			conn, err := pgx.Connect(t.Context(), c.conf.DSN)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			const text = `SELECT rota.finish($1, $2, to_json(repeat('r', 10000)),
context => to_json(repeat('c', 4095)))`
			if _, err := conn.Exec(t.Context(), text, id, token); err != nil {
				t.Fatal(err)
			}
			v := must(c.Task(t.Context(), task.ID{Batch: sp.Batch}))(t)
			if want := `"` + strings.Repeat("r", 10000) + `"`; string(v.Result) != want {
				t.Errorf("the result is %.40q", v.Result)
			}
			if want := `"` + strings.Repeat("c", 4095) + `"`; string(v.Context) != want {
				t.Errorf("the context is %.40q", v.Context)
			}
			if n := c.count("SELECT count(*) FROM rota.large"); n != 2 {
				t.Errorf("%d large values", n)
			}
			must(c.Settle(t.Context(), store.Settlement{Spent: []store.Taking{sp.Taking()}}))(t)
			clock.Advance(5 * 365 * 24 * time.Hour) // the function went by the server's
			c.prune()
			if n := c.count("SELECT count(*) FROM rota.large"); n != 0 {
				t.Errorf("%d large values stay behind their task", n)
			}
		})
	}
}

// A delay of the next stage stands in the step; from a minute on the task has a span of its own,
// ranked as a submission with that delay.
func TestFunctionLetsTheNextStageWait(t *testing.T) {
	for name, x := range map[string]struct {
		delay string // "" = none
		wait  time.Duration
		moves bool
		state string // of a refusal
	}{
		"none":       {"", 0, false, ""},
		"a minute":   {"1 minute", time.Minute, false, ""},
		"longer":     {"1 hour", time.Hour, true, ""},
		"negative":   {"-1 second", 0, false, "22023"},
		"for ever":   {"101 years", 0, false, "22023"},
		"of no date": {"170000000 years", 0, false, "22023"},
	} {
		t.Run(name, func(t *testing.T) {
			o := meanwhile(t)
			b := o.batch(1, 1, true)
			b.Rank = b.Due - 30e6
			sp := o.submit(b)[0]
			of := task.ID{Batch: sp.Batch}
			id, token := o.given(&sp, 0, 0)
			var delay any
			if x.delay != "" {
				delay = x.delay
			}
			_, err := o.Exec(t.Context(), `SELECT rota.finish($1, $2, next_stage => 'two',
				delay => $3::text::interval)`, id, token, delay)
			if x.state != "" {
				if stateOf(err) != x.state {
					t.Errorf("it says %v, want %s", err, x.state)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			o.end(true)
			st := must(o.Stand(t.Context(), []task.ID{of}))(t)[0]
			step := must(o.Task(t.Context(), of))(t).Steps[0]
			if st.Stage != "two" || st.Due != step.Finished.Add(x.wait).UnixMicro() {
				t.Errorf("it goes on at %d in %q, finished at %v", st.Due, st.Stage, step.Finished)
			}
			if !x.moves {
				if st.Owner.ID != sp.ID {
					t.Errorf("its span is %+v, want %d", st.Owner, sp.ID)
				}
				return
			}
			want := store.Span{
				ID: st.Owner.ID, Batch: sp.Batch, Seq0: 1, Queue: "q", Rank: st.Due - 30e6,
				Due: st.Due,
			}
			if st.Owner != want || st.Owner.ID <= sp.ID || st.HeadStart != 30e6 {
				t.Errorf("its span is %+v, want %+v", st.Owner, want)
			}
		})
	}
}

// Who was allowed to call the function of before may call this one.
func TestFunctionMadeAnewKeepsItsRights(t *testing.T) {
	o := meanwhile(t)
	text, err := migrations.ReadFile("migrations/00015_finish_delay.sql")
	if err != nil {
		t.Fatal(err)
	}
	before := must(migrations.ReadFile("migrations/00011_finish.sql"))(t)
	_, made, _ := strings.Cut(string(before), "CREATE FUNCTION rota.finish(")
	for _, query := range []string{
		"CREATE ROLE teller", `CREATE ROLE "Head Teller"`,
		"DROP FUNCTION rota.finish", "CREATE FUNCTION rota.finish(" + made,
		"GRANT EXECUTE ON FUNCTION rota.finish TO teller",
		`GRANT EXECUTE ON FUNCTION rota.finish TO "Head Teller" WITH GRANT OPTION`,
		string(text),
	} {
		if _, err := o.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	var rights string
	if err := o.QueryRow(t.Context(), `SELECT string_agg(grantee::regrole::text ||
is_grantable::text, ', ' ORDER BY is_grantable) FROM pg_proc p, aclexplode(p.proacl)
WHERE p.oid = 'rota.finish'::regproc AND grantee <> p.proowner`).Scan(&rights); err != nil {
		t.Fatal(err)
	}
	if want := `tellerfalse, "Head Teller"true`; rights != want {
		t.Errorf("the rights are %s, want %s", rights, want)
	}
}
