package walk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// Steps is how many steps the walks have that Compare compares.
const Steps = 60

// Compare compares a trace of so many Steps with that of an empty model, and says how to replay it.
func Compare(
	seed uint64, model func(now func() time.Time) contract.Store, got []string,
) error {
	clock := contract.NewClock()
	want := Trace(seed, Steps, model(clock.Now), clock)
	for i := range max(len(got), len(want)) {
		g, w := lineOf(got, i), lineOf(want, i)
		if g != w {
			return fmt.Errorf("seed %d (replay it with -storetest.seed %d): after\n%s\nline %d is\n%s\nbut the model's\n%s",
				seed, seed, strings.Join(want[max(0, i-30):i], "\n"), i, g, w)
		}
		if strings.HasPrefix(g, breach) {
			return fmt.Errorf("seed %d: after\n%s\n%s", seed,
				strings.Join(want[max(0, i-30):i], "\n"), g)
		}
	}
	return nil
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// Trace walks n random steps, all drawn from the seed, on an empty store, and answers a line for
// each: what was asked and what was answered. Numbers that the store chooses are replaced by names
// in the order of their appearance, and what comes back unordered is sorted, so two stores that
// keep the contract leave the same trace. A broken invariant (RELIABILITY's I1, I2, I3, I7, I8) is
// a line that begins with "!".
func Trace(seed uint64, n int, db contract.Store, clock *contract.Clock) []string {
	w := &walk{
		Store: db, clock: clock, ctx: context.Background(), rng: rand.New(rand.NewPCG(seed, 0)),
		luck:    rand.New(rand.NewPCG(seed, 1)),
		keyLuck: rand.New(rand.NewPCG(seed, 3)), wholeLuck: rand.New(rand.NewPCG(seed, 4)),
		start: clock.Micros(),
		spans: map[int64]*seenSpan{}, tokens: map[string]int64{}, texts: map[task.ID]string{},
		metas:  map[task.ID]store.Meta{},
		stages: map[task.ID][]stageText{}, in: map[task.ID]string{},
		finals:   map[task.ID]task.State{},
		shown:    map[task.ID]string{},
		outcomes: map[moment]bool{}, begun: map[moment]int64{}, paused: map[string]bool{},
		job:   newJobWalk(seed),
		sched: newScheduleWalk(seed),
	}
	w.setUp()
	for i := range n {
		w.step()
		for range w.job.luck.IntN(3) {
			w.jobs()
		}
		for range w.sched.luck.IntN(4) {
			w.plan()
		}
		if i%7 == 6 || i == n-1 {
			w.family()
			w.audit(i == n-1)
		}
		if i%15 == 14 {
			w.auditJobs()
			w.auditSchedules()
		}
	}
	w.closeSchedules()
	w.closeJobs()
	return w.lines
}

// breach begins the lines that tell of a broken invariant.
const breach = "!"

// walk is one random walk, and what it knows from the answers alone.
type walk struct {
	contract.Store
	clock *contract.Clock
	ctx   context.Context
	rng   *rand.Rand
	luck  *rand.Rand // of the claims and the events

	keyLuck *rand.Rand // of what is said of group keys
	// wholeLuck is that of takes by keys that take what is not sorted
	wholeLuck *rand.Rand
	start     int64
	lines     []string

	nodes      []*walkNode
	batches    int64
	ids        []task.ID              // acknowledged, and neither removed nor pruned
	texts      map[task.ID]string     // what the context must be
	metas      map[task.ID]store.Meta // what the task must carry
	stages     map[task.ID][]stageText
	editedLast task.ID
	in         map[task.ID]string // the stage in which a task is
	finals     map[task.ID]task.State
	shown      map[task.ID]string // what the list said of a task when it was read by itself
	outs       []walkOut
	outcomes   map[moment]bool  // seqs at which an outcome was accepted
	begun      map[moment]int64 // when the hand-outs at a seq began
	spans      map[int64]*seenSpan
	tokens     map[string]int64 // of leases, the greatest seen
	claims     []store.Lease    // granted, also those that are over
	read       int64            // seq of the newest event that was read
	served     int64            // of the notifiers, somewhere
	paused     map[string]bool
	ranks      int64
	job        jobWalk
	sched      scheduleWalk
	asked      []store.Action  // by the last act
	awaited    []store.Address // where tasks have waited, whatever became of them
	births     birth
}

// walkNode is one node of a walk.
type walkNode struct {
	name string
	store.Holder
	dead bool // its lease is no longer renewed
}

// walkOut is one hand-out as a node made it.
type walkOut struct {
	caller.Handout
	node *walkNode
}

// moment is the place of one hand-out in a task's history.
type moment struct {
	id  task.ID
	seq int32
}

// seenSpan is a span's name and the greatest token seen.
type seenSpan struct {
	name  int
	token int64
}

var walkQueues = []string{"q:é", "Q:é"}

func (w *walk) note(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *walk) breach(format string, args ...any) {
	w.note(breach+" "+format, args...)
}

// chance is true once in n times.
func (w *walk) chance(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](w *walk, list []T) T { return list[w.rng.IntN(len(list))] }

// recent picks one of a list, mostly a late one.
func recent[T any](w *walk, list []T) T {
	if w.chance(3) {
		return pick(w, list)
	}
	return list[len(list)-1-w.rng.IntN(min(8, len(list)))]
}

// setUp makes the queues and lets the nodes join.
func (w *walk) setUp() {
	for _, name := range walkQueues {
		w.putQueue(name, false)
	}
	for _, name := range []string{"a", "b", "c"} {
		n := &walkNode{name: name}
		w.nodes = append(w.nodes, n)
		w.join(n)
	}
	w.openJobs()
	w.openSchedules()
}

// step does one thing.
func (w *walk) step() {
	// The clock stands at odd times only, so that no due time, lease or retention ends in the very
	// microsecond it is asked at.
	w.clock.Advance(2 * time.Microsecond)
	n := pick(w, w.nodes)
	switch p := w.rng.IntN(100); {
	case p < 18:
		w.submit(n)
	case p < 38:
		w.take(n)
		w.letBegin(n)
	case p < 64:
		w.settle()
	case p < 74:
		w.act()
		w.wait()
	case p < 78:
		w.sync(n)
		w.add(n)
	case p < 81:
		w.giveRest(n)
		w.give(n)
	case p < 86:
		w.free(n)
		w.takeExpired(n)
	case p < 88:
		w.beat()
	case p < 91:
		n.dead = !n.dead
		w.note("node %s dead %v", n.name, n.dead)
	case p < 92:
		w.join(n)
	case p < 93:
		w.end(n)
	case p < 94:
		w.putQueue(pick(w, walkQueues), w.chance(2))
	case p < 95:
		w.prune()
	case p < 96:
		w.log()
	case p < 97 && w.chance(4):
		w.deleteQueue(pick(w, walkQueues))
	default:
		w.advance()
	}
}

func (w *walk) advance() {
	d := pick(w,
		[]time.Duration{
			time.Millisecond, time.Second, 4 * time.Second, 11 * time.Second, time.Minute,
			3 * time.Hour,
		})
	w.clock.Advance(d)
	w.note("clock +%v", d)
	w.beat()
}

// beat renews the leases of all that live.
func (w *walk) beat() {
	var list []store.Lease
	for _, n := range w.nodes {
		if !n.dead {
			list = append(list, store.Lease{Name: store.MembershipPrefix + n.name, Token: n.Token})
		}
	}
	w.events()
	w.hook()
	for range w.luck.IntN(3) {
		w.claim(w.nodes[w.luck.IntN(len(w.nodes))])
	}
	if w.luck.IntN(2) == 0 {
		got, err := w.Renew(w.ctx, list, caller.LeaseTime)
		w.note("renew %d -> %v %s", len(list), w.leases(got), w.told(err))
		return
	}
	got, err := w.Beat(w.ctx, list, caller.LeaseTime, store.MembershipPrefix, "claim/")
	w.note("beat at %d -> kept %v of %v %s", got.Now-w.start, w.leases(got.Kept),
		w.leases(got.Leases), w.told(err))
}

// leases tells leases, without their tokens: those are each store's own.
func (w *walk) leases(list []store.Lease) (told []string) {
	for _, l := range list {
		w.seeLease(l)
		told = append(told,
			fmt.Sprintf("%s of %s until %d %s", l.Name, l.Holder, max(l.Until-w.start, 0), l.Value))
	}
	slices.Sort(told)
	return told
}

// claim acquires some claims, or ends some that were granted at some time.
func (w *walk) claim(n *walkNode) {
	if len(w.claims) > 0 && w.luck.IntN(3) == 0 {
		list, remove := w.claims[w.luck.IntN(len(w.claims)):], w.luck.IntN(2) == 0
		w.note("end the last %d claims remove %v -> %s", len(list), remove,
			w.told(w.EndAll(w.ctx, list, remove)))
		return
	}
	wants := []store.Lease{{Name: "claim/x", Value: []byte(`"x"`)},
		{Name: "claim/y"}}[w.luck.IntN(2):]
	if w.luck.IntN(2) == 0 {
		for i := range wants {
			wants[i].Until = store.WhileMember
		}
	}
	judge := []int64{0, w.clock.Micros() - 1, w.clock.Micros(), math.MaxInt64}[w.luck.IntN(4)]
	got, err := w.AcquireAll(w.ctx, n.name, wants, caller.LeaseTime, judge)
	slices.SortFunc(got.Leases, func(a, b store.Lease) int { return cmp.Compare(a.Name, b.Name) })
	w.claims = append(w.claims, got.Leases...)
	w.note("claim %d by %s at %d judge to %d -> %v %s", len(wants), n.name, got.Now-w.start,
		max(judge-w.start, -1), w.leases(got.Leases), w.told(err))
}

func (w *walk) join(n *walkNode) {
	l, err := w.Acquire(w.ctx, store.MembershipPrefix+n.name, n.name, caller.LeaseTime, nil)
	w.seeLease(l)
	if l.Token <= n.Token && err == nil {
		w.breach("I3: node %s joined with token %d after %d", n.name, l.Token, n.Token)
	}
	n.Holder, n.dead = store.Holder{Node: n.name, Token: l.Token}, false
	w.note("join %s -> until %d %s", n.name, l.Until-w.start, w.told(err))
}

func (w *walk) end(n *walkNode) {
	remove := w.chance(2)
	w.note("end %s remove %v -> %s", n.name, remove,
		w.told(w.End(w.ctx, store.MembershipPrefix+n.name, n.Token, remove)))
	n.dead = true
}

func (w *walk) free(n *walkNode) {
	if len(w.lines)%3 == 0 {
		freed, err := w.FreeEnded(w.ctx)
		w.note("free ended -> %d %s", freed, w.told(err))
	}
	judge := w.clock.Micros()
	if len(w.lines)%7 == 0 {
		judge-- // it was long on its way
	}
	freed, err := w.Free(w.ctx, n.Holder, judge)
	claims, _ := w.LeasesOf(w.ctx, "claim/")
	w.note("free by %s -> %d %s, claims are %v", n.name, freed, w.told(err), w.leases(claims))
}

func (w *walk) putQueue(name string, paused bool) {
	refuse := len(w.lines)%8 == 0
	changed, err := w.ChangeQueue(w.ctx, name, func(q *task.Queue, _ bool) error {
		q.Paused, q.Retention, q.DeadKept = paused, 2*time.Hour, 4*time.Hour
		q.HoldLimit++ // goes on from what stands
		if refuse {
			return store.ErrConflict
		}
		return nil
	})
	if err == nil {
		w.paused[name] = paused
	}
	w.note("change queue %s paused %v -> created %v hold limit %d %s", name, paused,
		changed.Created, changed.Is.HoldLimit, w.told(err))
}

// told is an error as traces tell it: by what a caller may branch on.
func (w *walk) told(err error) string {
	if err == nil {
		return "ok"
	}
	for _, known := range []error{store.ErrUnknown, store.ErrFull, store.ErrNotFound,
		store.ErrConflict, store.ErrBroken, store.ErrBusy,
		store.ErrClosed, store.ErrStale} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "error"
}

// seeLease watches that the token of a lease only grows.
func (w *walk) seeLease(l store.Lease) {
	if l.Token < w.tokens[l.Name] {
		w.breach("I3: lease %s has token %d after %d", l.Name, l.Token, w.tokens[l.Name])
	}
	w.tokens[l.Name] = max(l.Token, w.tokens[l.Name])
}

// span names a span, and watches that its token only grows.
func (w *walk) span(sp store.Span) string {
	seen := w.spans[sp.ID]
	if seen == nil {
		seen = &seenSpan{name: len(w.spans) + 1}
		w.spans[sp.ID] = seen
	}
	if sp.Token < seen.token {
		w.breach("I3: span s%d has token %d after %d", seen.name, sp.Token, seen.token)
	}
	seen.token = max(seen.token, sp.Token)
	where := fmt.Sprintf("rank %d due %d", sp.Rank-w.start, sp.Due-w.start)
	if sp.Linked != 0 {
		where += fmt.Sprintf(" linked %d", sp.Linked)
	}
	return fmt.Sprintf("s%d[%d %d..%d seq0 %d %s %s holder %q token %d deaths %d %s]",
		seen.name, w.batchName(sp.Batch), sp.Lo, sp.Hi, sp.Seq0, sp.Queue, where,
		sp.Holder.Node, sp.Token, sp.Deaths, keyOf(sp))
}

// batchName makes batch ids short.
func (w *walk) batchName(id int64) int64 { return id - store.BatchID(w.start, 0) }

func (w *walk) id(id task.ID) string { return fmt.Sprintf("%d/%d", w.batchName(id.Batch), id.N) }

// loaded is a task as its holder reads it. A due time in the past is none.
func (w *walk) loaded(l store.Loaded) string {
	due, running := l.Due, ""
	if due <= w.clock.Micros() {
		due = w.start
	}
	if r := l.Running; r != nil {
		running = fmt.Sprintf(" running %s %s %d until %d of token %d", r.Worker, r.Incarnation,
			r.Seq, r.Until-w.start, r.Token)
	}
	if l.Unique {
		running += " unique"
	}
	running += w.priors(l.After)
	if l.Parent != (task.ID{}) {
		running += " child of " + w.id(l.Parent)
	}
	running += wokenBy(l.Woken)
	return fmt.Sprintf("{%d %q seq %d attempt %d base %d context %d%s max %d timeout %d meta %s due %d ahead by %d expires %d%s}",
		l.N, l.Stage, l.Seq, l.Attempt, l.Base, l.ContextSeq, writer(l.ContextBy), l.MaxAttempts,
		l.Timeout, l.Meta, due-w.start, l.HeadStart, w.expiry(l.Expires), running)
}

// writer says who wrote a context that was not submitted.
func writer(by string) string {
	if by == "" {
		return ""
	}
	return " by " + by
}

// held tells of spans that a node has now, sorted, and takes their tasks into its memory.
func (w *walk) held(n *walkNode, spans []store.HeldSpan) string {
	slices.SortFunc(spans, func(a, b store.HeldSpan) int { return compareSpans(a.Span, b.Span) })
	var parts []string
	for _, sp := range spans {
		text := w.span(sp.Span)
		if sp.Keys != nil {
			text += fmt.Sprintf(" keys %q", sp.Keys)
		}
		for i, l := range sp.Tasks {
			text += w.loaded(l)
			o := walkOut{caller.Taken(&sp, i), n}
			w.outs = append(w.outs, o)
			w.checkText(o.ID(), "handed out", l.Context)
			if want, known := w.metas[o.ID()]; known && l.Meta != want {
				w.breach("I8: meta of %s, handed out: got %s, want %s", w.id(o.ID()), l.Meta, want)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// checkText watches that a context comes back byte for byte.
func (w *walk) checkText(id task.ID, where string, v store.Value) {
	got, err := w.Value(w.ctx, v)
	if want, known := w.texts[id]; err != nil || known && string(got) != want {
		w.breach("I8: context of %s, %s: got %.40q (%v), want %.40q", w.id(id), where, got, err,
			want)
	}
}
