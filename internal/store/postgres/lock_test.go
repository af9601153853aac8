//go:build unix

package postgres

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// other is somebody else's transaction, statement by statement.
type other struct {
	*client
	pgx.Tx
	dsn string
}

// contested is the database of those whom somebody else's transaction meets, and of others whose
// tasks are of today.
var contested = emptied{name: "contested"}

// meanwhile begins somebody else's transaction on the store of a client.
func meanwhile(t *testing.T) *other {
	t.Helper()
	c := join(t, contested.fresh(t, Config{NoNotify: true}, ""))
	dsn := contested.dsn
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tx.Rollback(t.Context())
		conn.Close(t.Context())
	})
	return &other{c, tx, dsn}
}

func (o *other) do(text string, args ...any) {
	o.Helper()
	if _, err := o.Exec(o.Context(), text, args...); err != nil {
		o.Fatal(err)
	}
}

func (o *other) commits() {
	o.Helper()
	if err := o.Commit(o.Context()); err != nil {
		o.Fatal(err)
	}
}

// awaitLock returns when somebody waits for a lock.
func (o *other) awaitLock(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if o.count(
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
		) == 0 {
			return errors.New("nobody waits for a lock")
		}
		return nil
	})
}

// Flaw 11 of the protocol: a report that is judged beside a take-over.
func TestReportWaitsForATakeOverAndIsStale(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(1, 1, true))[0]
	o.do("UPDATE rota.span SET holder = 'b', htok = 9, token = token + 1 WHERE id = $1", sp.ID)
	answer := make(chan store.Settled, 1)
	go func() {
		answer <- must(o.Settle(t.Context(),
			store.Settlement{Reports: []store.Report{report(&sp, 0, 0, 1, task.Finish(nil))}}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if got := <-answer; got.Verdicts[0] != task.Stale {
		t.Errorf("got %v, want %s", got.Verdicts, task.Stale)
	}
}

// Flaw 8: a running row that is written while its span is being taken.
func TestNothingIsWrittenDownOfASpanThatIsBeingTaken(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(1, 1, true))[0]
	o.do("UPDATE rota.span SET holder = 'b', htok = 9, token = token + 1 WHERE id = $1", sp.ID)
	running := []store.Running{
		{ID: task.ID{Batch: sp.Batch}, Span: sp.ID, Token: sp.Token, Worker: "w"},
	}
	must(o.Sync(t.Context(), store.SyncRequest{Holder: o.holder, Insert: running}))(t)
	o.commits()
	if n := o.count("SELECT count(*) FROM rota.running"); n != 0 {
		t.Errorf("%d hand-outs were written down", n)
	}
}

// Flaw 19: several takers of one large span.
func TestTakerThatFindsEverythingLockedWaitsForTheRest(t *testing.T) {
	o := meanwhile(t)
	o.submit(o.batch(10, 10, false))
	o.do("SELECT FROM rota.span FOR UPDATE")
	if got := must(o.Take(t.Context(),
		store.TakeRequest{Holder: o.holder, Queue: "q", Limit: 3}))(t); len(got.Spans) != 0 ||
		got.LeaseGone {
		t.Errorf("took what another has locked: %+v", got)
	}
	o.do("UPDATE rota.span SET lo = 4, size = 6")
	taken := make(chan store.Taken, 1)
	go func() { // it gives up after a while, as it should; then it tries again
		for {
			got := must(o.Take(t.Context(),
				store.TakeRequest{Holder: o.holder, Queue: "q", Limit: 3}))(t)
			if len(got.Spans) > 0 {
				taken <- got
				return
			}
		}
	}()
	o.awaitLock(t)
	o.commits()
	if got := <-taken; got.Spans[0].Lo != 4 || got.Spans[0].Hi != 6 ||
		len(got.Spans[0].Tasks) != 3 {
		t.Errorf("got %+v, want 4..6", got.Spans)
	}
}

// A holder that writes keeps its lease from being ended until it has committed; renewals go on.
func TestEndOfALeaseWaitsForItsHoldersWritesAndRenewalDoesNot(t *testing.T) {
	o := meanwhile(t)
	o.do("SELECT FROM rota.lease WHERE name = 'node/a' FOR KEY SHARE") // the rule LEASE
	lease := store.Lease{Name: "node/a", Token: o.holder.Token}
	if got := must(o.Renew(t.Context(), []store.Lease{lease}, time.Hour))(t); len(got) != 1 {
		t.Errorf("renewed %v", got)
	}
	ended := make(chan error, 1)
	go func() { ended <- o.End(t.Context(), lease.Name, lease.Token, false) }()
	o.awaitLock(t)
	select {
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	default:
	}
	o.commits()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := must(o.Take(t.Context(),
		store.TakeRequest{Holder: o.holder, Queue: "q", Limit: 1}))(t); !got.LeaseGone {
		t.Error("its holder still takes")
	}
}

// Who frees the dead's spans waits for nobody.
func TestFreePassesOverWhatOthersHaveLocked(t *testing.T) {
	o := meanwhile(t)
	locked := o.submit(o.batch(2, 1, true))[0]
	if err := o.End(t.Context(), "node/a", o.holder.Token, false); err != nil {
		t.Fatal(err)
	}
	o.do("SELECT FROM rota.span WHERE id = $1 FOR SHARE", locked.ID) // a settlement
	if n := must(o.Free(t.Context(), store.Holder{}, math.MaxInt64))(t); n != 1 {
		t.Errorf("freed %d spans beside one that is locked", n)
	}
	o.commits()
	if n := must(o.Free(t.Context(), store.Holder{}, math.MaxInt64))(t); n != 1 {
		t.Errorf("freed %d spans afterwards", n)
	}
}

// What a token was, it never is again: also when its lease was removed while somebody waited to
// make it anew.
func TestTokenGrowsThroughARemovalThatSomebodyWaitsFor(t *testing.T) {
	o := meanwhile(t)
	old := must(o.Acquire(t.Context(), "chore/x", "a", time.Microsecond, nil))(t)
	for range 3 { // its own again: the token grows
		old = must(o.Acquire(t.Context(), "chore/x", "a", time.Microsecond, nil))(t)
	}
	o.do("SELECT FROM rota.store FOR UPDATE") // as End does that removes
	o.do("DELETE FROM rota.lease WHERE name = 'chore/x'")
	o.do("UPDATE rota.store SET tokens = greatest(tokens, $1)", old.Token)
	got := make(chan store.Lease, 1)
	go func() { got <- must(o.Acquire(t.Context(), "chore/x", "b", time.Hour, nil))(t) }()
	o.awaitLock(t)
	o.commits()
	if l := <-got; l.Token <= old.Token {
		t.Errorf("token %d after %d", l.Token, old.Token)
	}
}

// Two actions on one task, of which the second finds the first one's step in its way.
func TestActionThatIsOvertakenLooksAgain(t *testing.T) {
	o := meanwhile(t)
	id := task.ID{Batch: o.submit(o.batch(1, 1, false))[0].Batch}
	o.do(
		`INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt, base, kind,
ran) VALUES ($1, 0, 0, -1, 0, 0, 1, 0, -1, 9, '')`, id.Batch,
	)
	acted := make(chan []store.Acted, 1)
	go func() {
		acted <- must(o.Act(t.Context(), []store.Action{{ID: id, Kind: task.KindMoved}}))(t)
	}()
	o.awaitLock(t)
	o.commits()
	if got := <-acted; got[0].Changed || got[0].Was != task.Cancelled {
		t.Errorf("got %+v: it was cancelled by then", got[0])
	}
}

// A worker that is forgotten while one of its assignments ends and another group gives it one in
// its place.
func TestForgottenWorkerKeepsNothingThatItGotMeanwhile(t *testing.T) {
	o := meanwhile(t)
	first, second := o.crew("g", 1, 1), o.crew("h", 1, 1)
	list := starts(0, 1, 1)[:1]
	o.assigned(first, list)
	o.do("SELECT FROM rota.job_group WHERE name = 'g' FOR UPDATE") // a supervisor of g
	o.do("UPDATE rota.assignment SET state = 'ended'")
	forgotten := make(chan error, 1)
	go func() { forgotten <- o.DeleteSeat(t.Context(), workerName(0)) }()
	o.awaitLock(t)
	got := must(o.Assign(t.Context(), store.Assign{Group: "h", Claim: second, Start: list}))(t)
	if len(got.Refused) > 0 || got.ClaimGone {
		t.Fatalf("h assigns: %+v", got)
	}
	o.commits()
	if err := <-forgotten; err != nil {
		t.Fatal(err)
	}
	if n := o.count("SELECT count(*) FROM rota.seat"); n != 0 {
		t.Errorf("%d workers are left", n)
	}
	if n := o.count("SELECT count(*) FROM rota.assignment WHERE state <> 'ended'"); n != 0 {
		t.Errorf("%d assignments are left to a worker that is forgotten", n)
	}
}

// A node that stops in the middle of a transaction, and whose machine still stands, keeps the
// hand-outs of a queue with limits from others for moments, not until somebody ends it.
func TestHandOutsWaitOnlyMomentsForANodeThatStopped(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Shared(t).Database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	spans := c.submitKeys("q", true, "x")
	c.pauses("y", store.Forever)
	stopped := open(t, Config{DSN: dsn, NoNotify: true})
	locked, goOn := make(chan struct{}), make(chan struct{})
	over := make(chan error, 1)
	go func() {
		over <- stopped.writeOnce(t.Context(), func(ctx context.Context, t *tx) error {
			if err := t.run(ctx, tell(lockGates, []string{"q"})); err != nil {
				return err
			}
			close(locked)
			<-goOn
			return t.finish(ctx)
		})
	}()
	<-locked
	got, err := c.Begin(t.Context(), c.asksToBegin([]string{"x"}, spans))
	if err != nil || got.Rows[0] != store.Begins {
		t.Errorf("%v, %v", got.Rows, err)
	}
	close(goOn)
	if err := <-over; err == nil {
		t.Error("the node that stopped believes that its transaction stands")
	}
}

// Who is refused a lease is told who has it, also when that one made its row just then.
func TestARefusalSaysWhoMadeTheLeaseMeanwhile(t *testing.T) {
	o := meanwhile(t)
	o.do(`INSERT INTO rota.lease (name, holder, token, until, value, marks)
VALUES ('chore/x', 'other', 7, rota.micros(NULL) + 3600000000, '', true)`)
	answer := make(chan error, 1)
	go func() {
		_, err := o.Acquire(t.Context(), "chore/x", "a", time.Hour, nil)
		answer <- err
	}()
	o.awaitLock(t)
	o.commits()
	if err := <-answer; !errors.Is(err, store.ErrConflict) ||
		!strings.Contains(err.Error(), `held by "other"`) {
		t.Errorf("got %v, want a conflict that names the holder", err)
	}
}
