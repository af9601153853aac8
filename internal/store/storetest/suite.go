package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// Open makes a store to test. It is called for every claim anew, and closes the store at the end of
// the test; the store must read its time from the clock.
type Open func(t *testing.T, clock *contract.Clock) contract.Store

// Reference makes an empty store on the clock now with which others are compared: model.Reference.
// It is given, so that the model's own tests may run the suite on what is wrong with the model.
type Reference func(now func() time.Time) contract.Store

// Run shows that the stores which open makes keep the contract.
func Run(t *testing.T, model Reference, open Open) {
	run(t, model, open, walks)
}

// RunHalf is Run with half of the walks: where another test walks the same seeds, too.
func RunHalf(t *testing.T, model Reference, open Open) {
	run(t, model, open, walks/2)
}

// RunShort is Run with a few walks: for a database that takes its time.
func RunShort(t *testing.T, model Reference, open Open) {
	run(t, model, open, shorter)
}

// RunStatements is what a store must do whatever way its database takes to the rows: the claims
// about what is taken, settled, changed and pruned, and a few walks. It leaves out what depends on
// no plan: texts, lists, and calls that fail.
func RunStatements(t *testing.T, model Reference, open Open) {
	runClaims(t, model, open, statementClaims())
	runTraces(t, model, open, planned)
}

func run(t *testing.T, model Reference, open Open, walks uint64) {
	runClaims(t, model, open, claims())
	t.Run("SameSeedLeavesTheSameTraceAsTheModel", func(t *testing.T) {
		runTraces(t, model, open, walks)
	})
}

func runClaims(t *testing.T, model Reference, open Open, list []claim) {
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			clock := contract.NewClock()
			if err := c.check(model, open(t, clock), clock); err != nil {
				t.Error(err)
			}
		})
	}
}

// claim is one thing that holds for every store, and the scene that shows it.
type claim struct {
	name string
	show func(*scene)
}

// claims lists all of them. A claim of the contract that no scene shows does not hold.
func claims() []claim {
	return slices.Concat(submitClaims(), takeClaims(), settleClaims(), togetherClaims(),
		holderClaims(), actClaims(), editClaims(), leaseClaims(), nameClaims(), confClaims(),
		queueClaims(), viewClaims(), metaClaims(), historyClaims(), textClaims(), eventClaims(),
		notifierClaims(), hookClaims(), expiryClaims(), beginClaims(), keyClaims(),
		keyRuleClaims(), orderClaims(), waitClaims(), fullClaims(),
		childClaims(), familyClaims(), contextClaims(),
		dependClaims(),
		uniqueClaims(),
		editedLimitClaims(),
		editedMetaClaims(), groupClaims(), changeClaims(),
		assignClaims(), observeClaims(), seatClaims(), scheduleClaims(), fireClaims(),
		overClaims(), watchClaims(), joinClaims(), upkeepClaims(), minuteClaims(), faultClaims())
}

// statementClaims are those that may depend on the order in which a database finds rows, and on how
// often it looks.
func statementClaims() []claim {
	return slices.Concat(takeClaims(), settleClaims(), togetherClaims(), holderClaims(),
		actClaims(), editClaims(), leaseClaims(), queueClaims(), metaClaims(), historyClaims(),
		changeClaims(), expiryClaims(), beginClaims(), keyClaims(), keyRuleClaims(),
		orderClaims(), waitClaims(),
		childClaims(), familyClaims(), contextClaims(),
		dependClaims(),
		uniqueClaims(),
		editedLimitClaims(), editedMetaClaims(), assignClaims(), seatClaims(), fireClaims(),
		overClaims(), watchClaims(), joinClaims(), upkeepClaims())
}

// Check plays the claim of a name on a fresh store, and says how the store broke it.
func Check(name string, model Reference, db contract.Store, clock *contract.Clock) error {
	for _, c := range claims() {
		if c.name == name {
			return c.check(model, db, clock)
		}
	}
	panic("there is no claim " + name)
}

// check plays the claim on a fresh store and says how the store broke it. An error instead of a
// failed test, so that the suite can be shown to find planted bugs.
func (c claim) check(
	model Reference, db contract.Store, clock *contract.Clock,
) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r
		default:
			panic(r)
		}
	}()
	c.show(&scene{Store: db, clock: clock, model: model, ctx: context.Background()})
	return nil
}

// broken ends a scene: the store does not keep the contract.
type broken struct{ error }

// scene is a fresh store, and verbs that end the scene when the store refuses them.
type scene struct {
	contract.Store
	clock *contract.Clock
	model Reference
	ctx   context.Context
	ids   int64   // batches made so far
	last  task.ID // that was created with a unique key
}

// fail ends the scene. It names the line of the scene that it failed at.
func (s *scene) fail(format string, args ...any) {
	at := ""
	for skip := 1; at == ""; skip++ {
		_, file, line, ok := runtime.Caller(skip)
		if name := filepath.Base(file); !ok || name != "suite.go" {
			at = fmt.Sprintf("%s:%d: ", name, line)
		}
	}
	panic(broken{errors.New(at + fmt.Sprintf(format, args...))})
}

// ok ends the scene when a call failed.
func (s *scene) ok(err error) {
	if err != nil {
		s.fail("%v", err)
	}
}

// want ends the scene when got is not want.
func (s *scene) want(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		s.fail("%s: got %+v, want %+v", what, got, want)
	}
}

// wantErr ends the scene when err is not want.
func (s *scene) wantErr(what string, err, want error) {
	if !errors.Is(err, want) {
		s.fail("%s: got error %v, want %v", what, err, want)
	}
}

// join starts a node.
func (s *scene) join(node string) store.Holder {
	l, err := s.Acquire(s.ctx, store.MembershipPrefix+node, node, caller.LeaseTime, nil)
	s.ok(err)
	return store.Holder{Node: node, Token: l.Token}
}

// batch makes a batch of n ready tasks in one free span.
func (s *scene) batch(queue string, n int) store.Batch {
	s.ids++
	now := s.clock.Micros()
	b := store.Batch{
		ID: store.BatchID(now, 0) + s.ids, Queue: queue, Rank: now, Due: now, Created: now,
		Origin: "here",
		Spans:  []store.NewSpan{{Lo: 0, Hi: int32(n) - 1}},
	}
	for i := range n {
		b.Tasks = append(b.Tasks, store.Task{
			N: int32(i), Stage: "first", Context: store.Value(fmt.Sprintf("[%d]", i)),
		})
	}
	return b
}

// submit submits batches for a holder.
func (s *scene) submit(h store.Holder, batches ...store.Batch) store.Submitted {
	sub := store.Submission{Holder: h, Batches: batches}
	for _, b := range batches {
		if !slices.Contains(sub.NewQueues, b.Queue) {
			sub.NewQueues = append(sub.NewQueues, b.Queue)
		}
	}
	got, err := s.Submit(s.ctx, sub)
	s.ok(err)
	return got
}

// put submits n ready tasks to queue q and answers their ids.
func (s *scene) put(n int) []task.ID {
	b := s.batch("q", n)
	s.submit(store.Holder{}, b)
	ids := make([]task.ID, n)
	for i := range ids {
		ids[i] = task.ID{Batch: b.ID, N: int32(i)}
	}
	return ids
}

// take takes tasks from queue q.
func (s *scene) take(h store.Holder, limit int) []store.HeldSpan {
	got, err := s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: limit})
	s.ok(err)
	if got.LeaseGone {
		s.fail("take: the lease of %v is gone", h)
	}
	return got.Spans
}

// takeOne takes one task, alone in its span.
func (s *scene) takeOne(h store.Holder) caller.Handout {
	spans := s.take(h, 1)
	if len(spans) != 1 || len(spans[0].Tasks) != 1 {
		s.fail("take of one task: got %+v", spans)
	}
	return caller.Taken(&spans[0], 0)
}

// settle settles reports and answers the verdicts.
func (s *scene) settle(reports ...store.Report) []task.Status {
	got, err := s.Settle(s.ctx, store.Settlement{Reports: reports})
	s.ok(err)
	return got.Verdicts
}

// recorded settles reports that must all be recorded.
func (s *scene) recorded(reports ...store.Report) {
	for i, v := range s.settle(reports...) {
		if v != task.Recorded {
			s.fail("report %d of %d: got %s, want %s", i, len(reports), v, task.Recorded)
		}
	}
}

// act asks for one thing to happen to one task.
func (s *scene) act(kind task.Kind, id task.ID) store.Acted {
	now := s.clock.Micros()
	got, err := s.Act(s.ctx,
		[]store.Action{{ID: id, Kind: kind, By: "somebody", Rank: now, Due: now}})
	s.ok(err)
	if len(got) != 1 || got[0].ID != id {
		s.fail("%s %v: got %+v", kind, id, got)
	}
	return got[0]
}

// replay asks for a final task to begin again.
func (s *scene) replay(id task.ID, r store.Replay) store.Acted {
	now := s.clock.Micros()
	got, err := s.Act(s.ctx,
		[]store.Action{
			{ID: id, Kind: task.KindReplayed, By: "somebody", Rank: now, Due: now, Replay: r},
		})
	s.ok(err)
	return got[0]
}

// changed is act that must change something.
func (s *scene) changed(kind task.Kind, id task.ID) {
	if got := s.act(kind, id); !got.Changed {
		s.fail("%s %v: nothing changed, it was %s", kind, id, got.Was)
	}
}

// view is the view of one task.
func (s *scene) view(id task.ID) task.View {
	v, err := s.Task(s.ctx, id)
	s.ok(err)
	return v
}

// wantState ends the scene when a task does not stand where it should.
func (s *scene) wantState(id task.ID, want task.State) {
	if got := s.view(id).State; got != want {
		s.fail("task %v: got state %s, want %s", id, got, want)
	}
}

// counts are the counts of queue q.
func (s *scene) counts() task.Counts {
	got, err := s.Counts(s.ctx, "q")
	s.ok(err)
	if len(got) != 1 || got[0].Queue != "q" {
		s.fail("counts of queue q: got %+v", got)
	}
	return got[0].Counts
}

// stand is where one task stands.
func (s *scene) stand(id task.ID) store.Stood {
	got, err := s.Stand(s.ctx, []task.ID{id})
	s.ok(err)
	if len(got) != 1 || got[0].ID != id {
		s.fail("stand of %v: got %+v", id, got)
	}
	return got[0]
}

// sync writes hand-outs down.
func (s *scene) sync(h store.Holder, outs ...caller.Handout) {
	r := store.SyncRequest{Holder: h}
	for _, o := range outs {
		r.Insert = append(r.Insert, o.Row(s.clock))
	}
	_, err := s.Sync(s.ctx, r)
	s.ok(err)
}

// die lets a node's lease end and frees what it held. The other nodes live on.
func (s *scene) die(node store.Holder, others ...store.Holder) {
	l, err := s.LeasesOf(s.ctx, store.MembershipPrefix+node.Node)
	s.ok(err)
	if len(l) != 1 || l[0].Token != node.Token {
		s.fail("leases of node %q: got %+v", node.Node, l)
	}
	s.ok(s.End(s.ctx, store.MembershipPrefix+node.Node, node.Token, false))
	self := store.Holder{Node: "nobody"}
	if len(others) > 0 {
		self = others[0]
	}
	_, err = s.Free(s.ctx, self, math.MaxInt64)
	s.ok(err)
}
