package dispatch

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

var rewrite = flag.Bool("rewrite", false, "write what memory did into the stories")

// Stories of memory are told in text: what happens, a line each, and below "----" what memory wants
// done about it. Nobody else takes part: the store's answers are what the story says, and alarms
// ring when it lets time pass. After a change that is meant, go test . -run Memory -rewrite writes
// them anew, to be read line by line.
func TestMemoryTellsItsStories(t *testing.T) {
	files, err := filepath.Glob("testdata/memory/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("memory tells it differently:\n%s", got)
			}
		})
	}
}

// tell plays a story and answers it with what memory did.
func tell(t *testing.T, text string) string {
	s := newTeller(t)
	var out strings.Builder
	for _, chapter := range strings.SplitAfter(text, "\n\n") {
		said, _, ok := strings.Cut(chapter, "----\n")
		if !ok { // words to the reader
			out.WriteString(chapter)
			continue
		}
		s.out.Reset()
		for line := range strings.Lines(said) {
			if !strings.HasPrefix(line, "#") {
				s.do(strings.Fields(line))
			}
		}
		fmt.Fprintf(&out, "%s----\n%s", said, s.out.String())
		if strings.HasSuffix(chapter, "\n\n") {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// teller plays the dispatcher, the store and the workers around a memory.
type teller struct {
	t      *testing.T
	m      *memory
	start  time.Time
	now    time.Time
	out    bytes.Buffer
	spans  int64
	ids    []task.ID // by the order in which they were submitted: t0, t1, …
	waits  map[*waiter]bool
	tokens map[task.ID]task.Token
	alarms []set
	fails  bool // the store, when it is asked to settle what was found
}

// set is an alarm that rings at a time.
type set struct {
	at time.Time
	alarm
}

func newTeller(t *testing.T) *teller {
	start := time.UnixMicro(1_000_000_000)
	holder := store.Holder{Node: "n", Token: 1}
	s := &teller{
		t: t, start: start, now: start, waits: map[*waiter]bool{},
		tokens: map[task.ID]task.Token{},
		m: newMemory(policy{
			Holder: holder, Beat: time.Second, BeatEvery: 5 * time.Second, Look: 5 * time.Second,
			OfferFor:  20 * time.Millisecond,
			GiveAfter: 2 * time.Second, Ahead: 100, AheadBytes: 1 << 20,
		}, seal.NewSealer(seal.Secret{})),
	}
	s.m.clock.hear(start, start, start.UnixMicro())
	return s
}

// do lets one line of the story happen.
func (s *teller) do(words []string) {
	s.t.Helper()
	args := words[1:]
	switch words[0] {
	case "queue":
		s.queue(args)
	case "submit":
		within, _ := s.within(args[2:])
		s.submit(args[0], s.number(args[1]), within)
	case "hold":
		s.hold(args[0], args[1], s.number(args[2]))
	case "beat":
		s.beat(args[0], args[1], s.number(args[2]), args[3:])
	case "report":
		s.report(args[0], args[1], args[2])
	case "refused":
		s.refused(args[0], args[1])
	case "took":
		s.took(args[0], s.number(args[1]), s.number(args[2]), args[3:])
	case "others":
		s.m.hearRoom(args[0], map[string]int{args[1]: s.number(args[2])}, s.now)
	case "drain":
		s.m.heed(false, s.now)
	case "undrain":
		s.m.heed(true, s.now)
	case "wait":
		s.wait(args[0])
	case "round":
		s.round()
	case "show":
		s.show()
	case "plain":
		s.plain()
	case "act":
		s.act(args[0])
	case "fail":
		s.fails = true
	default:
		s.t.Fatalf("no story has a %q", words[0])
	}
	s.effects()
	sound(s.t, s.m)
}

func (s *teller) number(text string) int {
	s.t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *teller) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// name is that of a task in the story.
func (s *teller) name(id task.ID) string {
	return "t" + strconv.Itoa(slices.Index(s.ids, id))
}

func (s *teller) id(name string) task.ID {
	return s.ids[s.number(strings.TrimPrefix(name, "t"))]
}

// queue NAME [paused] [attempts=N] [timeout=D] [backoff=D]
func (s *teller) queue(args []string) {
	conf := limits.DefaultQueue(args[0])
	conf.Retry.Jitter = 0
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		d, _ := time.ParseDuration(value)
		switch key {
		case "paused":
			conf.Paused = true
		case "attempts":
			conf.MaxAttempts = s.number(value)
		case "timeout":
			conf.Timeout = d
		case "backoff":
			conf.Retry.Initial, conf.Retry.Max, conf.Retry.Factor = d, d, 1
		default:
			s.t.Fatalf("no queue has %q", key)
		}
	}
	s.m.configure(conf, s.now)
}

// within is in what time tasks are to begin, as a story says it last, if it does.
func (s *teller) within(args []string) (d time.Duration, said bool) {
	s.t.Helper()
	if len(args) == 0 {
		return 0, false
	}
	text, ok := strings.CutPrefix(args[0], "within=")
	d, err := time.ParseDuration(text)
	if !ok || err != nil {
		s.t.Fatalf("no task has %q", args[0])
	}
	return d, true
}

// submit plans a submission of n tasks, and lets the store accept it.
func (s *teller) submit(queue string, n int, within time.Duration) {
	load := &submitting{
		tasks:    slices.Repeat([]task.Submission{{Queue: queue, StartWithin: within}}, n),
		contexts: make([]store.Value, n),
	}
	sub, where := s.m.planSubmission([]*submitting{load}, s.now, true)
	s.ids = append(s.ids, where[0]...)
	got := store.Submitted{Now: s.m.clock.read(s.now)}
	for _, b := range sub.Batches {
		for _, sp := range b.Spans {
			s.spans++
			span := store.Span{
				ID: s.spans, Batch: b.ID, Lo: sp.Lo, Hi: sp.Hi, Queue: b.Queue, Rank: b.Rank,
				Due: b.Due,
			}
			if sp.Hold {
				span.Holder, span.Token = sub.Holder, 1
			}
			s.say("span %d of %d: held %v", span.ID, sp.Hi-sp.Lo+1, sp.Hold)
			got.Spans = append(got.Spans, span)
		}
	}
	for _, share := range sub.Shares {
		s.say("%d for %s", share.Tasks, share.Node)
	}
	s.m.admit(sub, got, nil, s.now)
}

func (s *teller) hold(worker, queue string, limit int) {
	wt, _, err := s.m.wait(task.HoldRequest{
		Worker: worker, Queues: []string{queue}, Limit: limit,
	}, s.now)
	if err != nil {
		s.say("refused: %v", err)
		return
	}
	s.waits[wt] = true
}

// beat says that a start of a worker has a capacity, and tasks in hands.
func (s *teller) beat(worker, incarnation string, capacity int, tasks []string) {
	b := task.Beat{Worker: worker, Incarnation: incarnation, Capacity: float64(capacity)}
	for _, name := range tasks {
		id := s.id(name)
		b.Tasks = append(b.Tasks, task.Held{ID: id, Token: s.tokens[id].String()})
	}
	w, _ := s.m.hear(b, s.now)
	for _, held := range w.answer(b, nil, 0).Tasks {
		s.say("%s: %s", s.name(held.ID), held.Action)
	}
}

var errFailed = errors.New("it failed")

var outcomes = map[string]task.Outcome{
	"done": task.Finish(nil), "next": task.Next("second", nil), "fail": task.Fail(errFailed),
	"retry": task.Retry(errFailed), "release": task.Release(),
}

// report brings an outcome, which the store records.
func (s *teller) report(worker, name, outcome string) {
	o, ok := outcomes[outcome]
	if !ok {
		s.t.Fatalf("no outcome is %q", outcome)
	}
	if list := s.decide(worker, name, o); list != nil {
		s.settle(list, task.Recorded)
	}
}

// refused brings an outcome of which the store says that the hand-out is no longer the worker's.
func (s *teller) refused(worker, name string) {
	if list := s.decide(worker, name, task.Finish(nil)); list != nil {
		s.settle(list, task.Stale)
	}
}

func (s *teller) decide(worker, name string, o task.Outcome) *settlement {
	id := s.id(name)
	list, index := newSettlement(1), []int{}
	reports := []checked{{
		token: s.tokens[id], Report: &task.Report{ID: id, Outcome: o},
	}}
	if foreign := list.decideHeld(s.m, worker, reports, &index, s.now); len(foreign) > 0 {
		s.say("%s is not held here", name)
		return nil
	}
	return list
}

// settle lets the store answer a settlement.
func (s *teller) settle(list *settlement, verdict task.Status) {
	for _, spent := range s.m.takeSpent([]*settlement{list}) {
		s.say("span %d is to be deleted", spent.Span)
	}
	got := store.Settled{Now: s.m.clock.read(s.now)}
	for range list.reports {
		got.Verdicts = append(got.Verdicts, verdict)
	}
	again := s.m.apply([]*settlement{list}, got, s.now)
	for i := range list.reports {
		r := &list.reports[i]
		s.say("%s: %s %s", s.name(r.row.ID), r.row.Step.Kind, verdict)
	}
	for _, it := range again {
		s.say("%s is to be read again", s.name(it.id))
	}
}

// took lets a take answer with a span of n tasks that deaths have taken from its holders.
func (s *teller) took(queue string, n, deaths int, last []string) {
	batch := s.m.nextBatch(s.m.clock.read(s.now))
	got := store.Taken{Now: s.m.clock.read(s.now)}
	if n > 0 {
		s.spans++
		hs := store.HeldSpan{Span: store.Span{
			ID: s.spans, Batch: batch, Hi: int32(n - 1), Queue: queue, Holder: s.m.conf.Holder,
			Token: 1, Deaths: int32(deaths), Rank: got.Now, Due: got.Now,
		}}
		for i := range int32(n) {
			s.ids = append(s.ids, task.ID{Batch: batch, N: i})
			l := store.Loaded{N: i}
			if within, said := s.within(last); said {
				l.Expires = got.Now + within.Microseconds()
			}
			hs.Tasks = append(hs.Tasks, l)
		}
		got.Spans = append(got.Spans, hs)
	}
	q := s.m.queue(queue)
	s.m.took(taking{
		queue: q, signs: q.signs, TakeRequest: store.TakeRequest{Queue: queue, Limit: 100},
	}, got, s.now)
}

// wait lets time pass, and alarms ring.
func (s *teller) wait(text string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	until := s.now.Add(d)
	for {
		slices.SortStableFunc(s.alarms, func(a, b set) int { return a.at.Compare(b.at) })
		if len(s.alarms) == 0 || s.alarms[0].at.After(until) {
			break
		}
		a := s.alarms[0]
		s.alarms = s.alarms[1:]
		s.now = a.at
		if a.wanted() {
			s.say("after %v:", s.now.Sub(s.start))
			s.m.ring(a.alarm, s.now)
			s.effects()
		}
	}
	s.now = until
}

func (s *teller) round() {
	if stood := s.m.begin(s.now); stood > 0 {
		s.say("rounds stood still for %v", stood)
	}
	if spared, active := s.m.judge(s.now, s.now); spared > 0 {
		s.say("%d of %d workers are silent at once", spared, active)
	}
	s.m.matchAll(s.now)
	s.m.announce(s.now)
	s.m.forgetOld(s.now)
	_, giving, rests := s.m.beginGive(s.now)
	for i := range rests {
		r := &rests[i]
		s.say("the rest of span %d is given back, from %d", r.span.ID, r.From)
		r.end(true, s.now)
	}
	if len(giving) > 0 {
		for _, sp := range giving {
			s.say("span %d is given back, %d of its %d tasks unrun", sp.ID, sp.idle, sp.left)
		}
		s.m.endGive(giving, true, s.now)
	}
}

// effects says what memory wants done, and begins to do it.
func (s *teller) effects() {
	do := &s.m.do
	for _, list := range do.found {
		for i := range list.reports {
			r := &list.reports[i]
			s.say("%s of %s: %s (%s)", s.name(r.row.ID), cmp.Or(r.row.Step.Worker, "nobody"),
				r.row.Step.Kind, r.row.Step.Error)
		}
	}
	found := slices.Clone(do.found)
	for _, a := range do.alarms {
		s.alarms = append(s.alarms, set{s.now.Add(max(a.after(&s.m.clock, s.now), 0)), a})
	}
	for _, x := range do.takes {
		s.say("take from %s: up to %d", x.Queue, x.Limit)
	}
	if do.give {
		s.say("what is ready is to go where workers wait")
	}
	if do.room != nil {
		s.say("room here: %v", do.room)
	}
	for _, wt := range do.holds {
		var names []string
		list, _ := wt.collect(false, s.now)
		for _, h := range list {
			names = append(names, s.name(h.id()))
			s.tokens[h.id()] = h.token
			h.writing()
		}
		s.say("%s gets %s", wt.worker.name, cmp.Or(strings.Join(names, " "), "nothing"))
		delete(s.waits, wt)
	}
	do.clear()
	for _, list := range found {
		if s.fails {
			s.fails = false
			s.say("the store fails")
			s.m.unsettle(list.reports, s.now)
			continue
		}
		s.settle(list, task.Recorded)
	}
	if len(found) > 0 {
		s.effects()
	}
}

// show says what memory holds.
func (s *teller) show() {
	places := map[place]string{
		ready: "ready", parked: "parked", asleep: "asleep", out: "out", settling: "settling",
	}
	var list []spot
	for _, sp := range s.m.spans {
		list = slices.AppendSeq(list, sp.live())
	}
	slices.SortFunc(list, func(a, b spot) int { return a.id().Compare(b.id()) })
	for _, at := range list {
		it, with := at.cell.item, ""
		if it == nil {
			it = &item{}
			if at.cell.parcel != nil {
				it.worker = at.cell.parcel.worker
			}
		}
		if at.place() == out {
			with = " with " + it.worker.name
		}
		s.say("%s of span %d: %s%s, attempt %d, seq %d", s.name(at.id()), at.span.ID,
			places[at.place()], with, it.attempt, it.seq)
	}
	if len(list) == 0 {
		s.say("nothing is held")
	}
}

// plain says which tasks are no items.
func (s *teller) plain() {
	var names []string
	for _, id := range s.ids {
		if at := s.m.find(id); at.cell != nil && at.cell.item == nil {
			names = append(names, s.name(id))
		}
	}
	s.say("plain: %s", cmp.Or(strings.Join(names, " "), "none"))
}

// act has a task cancelled.
func (s *teller) act(name string) {
	what := store.Action{Kind: task.KindCancelled, By: "somebody"}
	a := s.m.planActs(what, []task.ID{s.id(name)}, s.now)
	got := []store.Acted{{ID: s.id(name), Queue: "q", Found: true, Changed: true}}
	s.m.learn(what, got, a.before, a.at, s.now)
}
