package walk

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// compareSpans orders spans by what they are, not by the numbers that a store gave them.
func compareSpans(a, b store.Span) int {
	return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Lo, b.Lo),
		cmp.Compare(a.Seq0, b.Seq0), cmp.Compare(a.Hi, b.Hi),
		cmp.Compare(a.Token, b.Token))
}

// submit submits up to three batches, sometimes twice, sometimes under a batch id that stands.
func (w *walk) submit(n *walkNode) {
	s := store.Submission{Holder: n.Holder, NewQueues: walkQueues}
	for range 1 + w.rng.IntN(3) {
		s.Batches = append(s.Batches, w.batch())
	}
	w.orderUnique(&s)
	w.depend(&s)
	got, err := w.Submit(w.ctx, s)
	w.note("submit by %s %s -> %s %s", n.name, w.submission(s), w.submitted(got), w.told(err))
	if err != nil {
		return
	}
	w.acknowledge(n, s, got)
	if w.chance(3) {
		again, err := w.Submit(w.ctx, s)
		if err != nil || !reflect.DeepEqual(withoutFirst(again), withoutFirst(got)) {
			w.breach("repeated submission: got %+v (%v), the first time %+v", again, err, got)
		}
	}
	if w.chance(8) && !refuses(got, s.Batches[0].Call) {
		fresh, stands := w.batch(), s.Batches[0]
		fresh.Origin, stands.Origin = "elsewhere", "elsewhere"
		_, err := w.Submit(w.ctx, store.Submission{
			Holder: n.Holder, Batches: []store.Batch{fresh, stands},
		})
		w.note("submit from elsewhere -> %s", w.told(err))
	}
}

// withoutFirst leaves out who has the keys because of which calls were refused: nothing of these
// stands, so a repetition finds who has them by then.
func withoutFirst(s store.Submitted) store.Submitted {
	s.Refused = slices.Clone(s.Refused)
	for i := range s.Refused {
		s.Refused[i].First = task.ID{}
	}
	return s
}

// batch makes a batch of up to five tasks in up to two spans.
func (w *walk) batch() store.Batch {
	w.batches++
	w.ranks++
	now := w.clock.Micros()
	b := store.Batch{
		ID: store.BatchID(w.start, 0) + w.batches, Queue: pick(w, walkQueues), Due: now,
		Created: now, Origin: "walk",
	}
	if w.chance(4) {
		b.Due += pick(w, []int64{1e6 + 1, 5e6 + 1, 60e6 + 1, 3600e6 + 1})
	}
	// Every batch has a rank of its own: the order of equal ranks would be that of span ids.
	b.Rank = b.Due - w.ranks - pick(w, []int64{0, 0, 10e6, 3600e6})
	size := int32(1 + w.rng.IntN(5))
	for i := range size {
		t := store.Task{N: i * 2, Stage: pick(w, []string{"", "one", "two"}),
			Context:     w.keep(w.text()),
			MaxAttempts: int32(w.rng.IntN(3)), Timeout: int64(w.rng.IntN(2)) * 1e6}
		if k := (w.ranks + int64(i)) % 7; k < int64(len(walkMetas)) {
			t.Meta = walkMetas[k] // without a draw: seeds stay what they are
		}
		t.GroupKey = walkKeys[(w.ranks+int64(i/2))%int64(len(walkKeys))]
		if k := (w.ranks + int64(i)) % 11; k < int64(len(walkLimits)) {
			t.StartWithin = walkLimits[k]
		}
		if w.chance(4) {
			t.Key = fmt.Sprintf("k%d", w.rng.IntN(5))
			t.KeyUntil = now + int64(1+w.rng.IntN(50))*60e6 + 1
		}
		w.wantUnique(&b, &t, int64(i))
		b.Tasks = append(b.Tasks, t)
	}
	last := 2 * (size - 1)
	hold := b.Due <= now && w.chance(3)
	if last > 2 && w.chance(3) {
		b.Spans = []store.NewSpan{{Lo: 0, Hi: 2, Hold: hold}, {Lo: 3, Hi: last}}
	} else {
		b.Spans = []store.NewSpan{{Lo: 0, Hi: last, Hold: hold}}
	}
	return b
}

// walkMetas are what tasks carry.
var walkMetas = []store.Meta{
	`{"m":"1"}`, `{"m":"2"}`, `{"l":"\"m\":\"1\"","m":"1\\\\"}`, `{"a":"","m":"1"}`,
}

// walkKeys are the group keys of tasks.
var walkKeys = []string{"", "b", "a b", "é"}

// walkLimits are the times within which tasks are to be begun. Odd times only: see step.
var walkLimits = []int64{1, 3e6 + 1, 20e6 + 1, 3600e6 + 1}

// text is a context, sometimes a large one, sometimes none.
func (w *walk) text() string {
	switch p := w.rng.IntN(20); {
	case p == 0:
		return caller.JSON(store.InlineLimit + w.rng.IntN(3))
	case p < 4:
		return ""
	case p < 8:
		return pick(w, caller.Awkward()).JSON
	}
	return fmt.Sprintf(`{"n":%d}`, w.rng.Uint64())
}

func (w *walk) keep(text string) store.Value {
	if text == "" {
		return nil
	}
	v, err := w.Keep(w.ctx, []byte(text))
	got, err2 := w.Value(w.ctx, v)
	if err != nil || err2 != nil || string(got) != text {
		w.breach("I8: kept %d bytes %.40q (%v), got %d bytes %.40q (%v)", len(text), text, err,
			len(got), got, err2)
	}
	return v
}

func (w *walk) submission(s store.Submission) string {
	var parts []string
	for _, b := range s.Batches {
		text := fmt.Sprintf("%d %s due %d rank %d spans %v:", w.batchName(b.ID), b.Queue,
			b.Due-w.start, b.Rank-w.start, b.Spans)
		for _, t := range b.Tasks {
			text += fmt.Sprintf(" %d", t.N)
			if t.Key != "" {
				text += "=" + t.Key
			}
			if u := t.Unique; u != nil {
				text += fmt.Sprintf("!%s %s waiting %v call %d", u.Key, u.OnExisting, u.Waiting,
					b.Call)
			}
			text += w.waitsFor(&t)
		}
		parts = append(parts, text)
	}
	return "(" + strings.Join(parts, "; ") + ")"
}

func (w *walk) submitted(s store.Submitted) string {
	var parts []string
	for _, sp := range s.Spans {
		parts = append(parts, w.span(sp))
	}
	existing := slices.SortedFunc(slices.Values(s.Existing), func(a, b store.Existing) int {
		return a.ID.Compare(b.ID)
	})
	for _, e := range existing {
		parts = append(parts, fmt.Sprintf("%s=%s %s", w.id(e.ID), w.id(e.First), e.Action))
	}
	for _, r := range s.Refused {
		parts = append(parts, fmt.Sprintf("refused %d %s=%s", r.Call, w.id(r.ID), w.id(r.First)))
	}
	return strings.Join(parts, " ") + w.looksAt(s.Look)
}

// acknowledge remembers what was submitted, and takes what is held into the node's memory.
func (w *walk) acknowledge(n *walkNode, s store.Submission, got store.Submitted) {
	existing := map[task.ID]bool{}
	for _, e := range got.Existing {
		existing[e.ID] = true
	}
	k := 0
	defer w.replaced(s, got)
	for _, b := range s.Batches {
		if refuses(got, b.Call) {
			continue
		}
		spans := got.Spans[k : k+len(b.Spans)]
		k += len(b.Spans)
		for _, t := range b.Tasks {
			id := task.ID{Batch: b.ID, N: t.N}
			if existing[id] {
				continue
			}
			text, err := w.Value(w.ctx, t.Context)
			if err != nil {
				w.breach("I8: context of %s: %v", w.id(id), err)
			}
			w.ids = append(w.ids, id)
			w.texts[id], w.metas[id] = string(text), t.Meta
			w.came(id, t.Stage)
			for _, sp := range spans {
				if sp.Lo <= t.N && t.N <= sp.Hi && sp.Holder == n.Holder {
					l := store.Loaded{N: t.N, Standing: progress.Standing{Stage: t.Stage},
						Context: t.Context, ContextSeq: -1,
						MaxAttempts: t.MaxAttempts, Timeout: t.Timeout, Meta: t.Meta,
						HeadStart: sp.Due - sp.Rank, Expires: t.Expires(b.Due),
						Unique: t.Unique != nil}
					w.outs = append(w.outs, walkOut{caller.Handout{Span: sp, Loaded: l}, n})
				}
			}
		}
	}
}

func (w *walk) take(n *walkNode) {
	r := store.TakeRequest{Holder: n.Holder, Queue: pick(w, walkQueues), Limit: 1 + w.rng.IntN(6)}
	next := ""
	if w.luck.IntN(3) == 0 {
		r.Keys = &store.ByKey{Fair: w.luck.IntN(2) == 0}
		if w.luck.IntN(2) == 0 {
			r.Keys.After = &walkKeys[w.luck.IntN(len(walkKeys))]
		}
		if w.luck.IntN(4) == 0 {
			r.Keys.Skip = walkKeys[:w.luck.IntN(len(walkKeys))]
		}
		if w.wholeLuck.IntN(2) == 0 {
			r.Keys.Whole = w.wholeLuck.IntN(10)
		}
		if w.wholeLuck.IntN(3) == 0 {
			r.Keys.First = w.wholeLuck.IntN(5)
		}
		next = fmt.Sprintf("by keys fair %v skip %q ", r.Keys.Fair, r.Keys.Skip)
	}
	got, err := w.Take(w.ctx, r)
	if got.After != nil {
		next += fmt.Sprintf("as far as %q ", *got.After)
	}
	for _, id := range got.Owners {
		next += fmt.Sprintf("for %s ", w.id(id))
	}
	if !w.paused[r.Queue] && !got.LeaseGone && got.NextDue != 0 {
		next += fmt.Sprintf("next due %d ", got.NextDue-w.start)
	}
	if got.Left && !w.paused[r.Queue] {
		next += "some are left "
	}
	if got.More {
		next += "more "
		if r.Keys == nil {
			next += fmt.Sprintf("next rank %d ", got.NextRank-w.start)
		}
	}
	next += turns(got.Turns)
	if got.Now != w.clock.Micros() && err == nil {
		w.breach("take answered at %d, it is %d", got.Now, w.clock.Micros())
	}
	w.note("take %d of %s by %s -> %s gone %v %s%s", r.Limit, r.Queue, n.name, w.held(n, got.Spans),
		got.LeaseGone, next, w.told(err))
}

// settle reports up to four hand-outs: mostly late ones, sometimes twice, sometimes with a wrong
// token.
func (w *walk) settle() {
	if len(w.outs) == 0 {
		return
	}
	var s store.Settlement
	var from []walkOut
	for range 1 + w.rng.IntN(4) {
		o := w.childOr(recent(w, w.outs))
		r := w.report(o)
		s.Reports = append(s.Reports, r)
		from = append(from, o)
		if w.chance(8) {
			s.Reports = append(s.Reports, r)
			from = append(from, o)
		}
		if o.Span.Lo == o.Span.Hi && r.Token.Span == o.Span.ID && r.Step.Base == store.Final &&
			w.chance(2) {
			s.Spent = append(s.Spent, o.Span.Taking())
		}
	}
	// A span is spent only when every report about it here ends its task; else the walk would break
	// its own promise.
	s.Spent = slices.DeleteFunc(s.Spent, func(spent store.Taking) bool {
		return slices.ContainsFunc(s.Reports, func(r store.Report) bool {
			return r.Token.Span == spent.Span && r.Step.Base != store.Final
		})
	})
	got, err := w.Settle(w.ctx, s)
	w.note("settle %s -> %v %v %s", w.reports(s), got.Verdicts, w.spawnedBy(s, got), w.told(err))
	for i, v := range got.Verdicts {
		if v == task.Recorded {
			w.accepted(from[i], s.Reports[i])
		}
	}
}

// report makes a report of a hand-out, with a random outcome.
func (w *walk) report(o walkOut) (r store.Report) {
	out := w.outcome(o)
	if text := w.text(); text != "" && w.chance(2) {
		out.Context = []byte(text)
	}
	expires := w.expires(o)
	if expires { // without a draw: seeds stay what they are
		out = task.Outcome{Kind: task.KindExpired, Error: "not begun in time"}
	}
	r = o.Report(w.clock, out)
	if r.Step.Started = w.started(o); expires {
		r.Step.Started, r.Step.Worker, r.Ready = 0, "", 0
	}
	if r.Step.Due != 0 {
		r.Step.Due++ // never in the very microsecond that the clock stands at
	}
	r.Step.Context = w.keep(string(out.Context))
	w.holdKey(&r)
	w.spawn(&r)
	if r.Move != nil {
		w.ranks++
		r.Move.Due = r.Step.Due
		r.Move.Rank = r.Move.Due - w.ranks
	}
	w.spoil(&r, o)
	w.await(&r)
	return r
}

// outcome draws what a handler says of a task.
func (w *walk) outcome(o walkOut) (out task.Outcome) {
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		out = task.Outcome{Kind: task.KindDone, Result: []byte(`"fine"`)}
	case 3, 4:
		out = task.Outcome{
			Kind: task.KindNext, Stage: pick(w, []string{"one", "two", "three"}),
			// without a draw: seeds stay what they are
			Delay: []time.Duration{0, 0, 3 * time.Second, 10 * time.Minute}[w.ranks%4],
		}
	case 5:
		out = task.Outcome{Kind: task.KindRetry, Error: "no luck"}
	case 6:
		out = task.Outcome{Kind: task.KindRetry, Delay: 5 * time.Minute}
	case 7:
		out = task.Outcome{
			Kind:  task.KindSnooze,
			Delay: pick(w, []time.Duration{0, 3 * time.Second, 10 * time.Minute}),
		}
	case 8:
		out = task.Outcome{Kind: task.KindFail, Error: "never"}
	case 9:
		out = task.Outcome{Kind: task.KindRelease}
	case 10:
		out = task.Outcome{Kind: task.KindLost, Error: "silent"}
	case 11:
		out = task.Outcome{Kind: task.KindTimeout, Error: "late"}
	}
	if w.luck.IntN(4) == 0 {
		out = task.Outcome{Kind: task.KindNext, Stage: "two"}
	}
	if o.Parent != (task.ID{}) && w.luck.IntN(2) == 0 {
		out = task.Outcome{Kind: task.KindDone, Result: []byte(`"grown"`)}
	}
	return out
}

// spoil makes a report wrong now and then: of another token, another span, or a task that is not
// there.
func (w *walk) spoil(r *store.Report, o walkOut) {
	switch w.rng.IntN(12) {
	case 0:
		r.Token.SpanToken += int64(w.rng.IntN(3)) - 1
	case 1:
		// Of another span that has no right to the task. With an equal token the verdict would hang
		// on which of two reports at one seq is looked at first; a claim of its own shows that
		// case.
		if other := pick(w, w.outs).Span; other.Token != o.Span.Token &&
			(other.Batch != o.Span.Batch || o.N < other.Lo || o.N > other.Hi) {
			r.Token.Span, r.Token.SpanToken = other.ID, other.Token
		}
	case 2:
		if w.chance(3) {
			r.ID.N++ // a gap
		}
	}
}

func (w *walk) reports(s store.Settlement) string {
	var parts []string
	for _, r := range s.Reports {
		text := fmt.Sprintf("%s seq %d of s%d token %d %s base %d", w.id(r.ID), r.Token.Seq,
			w.spans[r.Token.Span].name,
			r.Token.SpanToken, r.Step.Kind, r.Step.Base)
		if r.Await != nil {
			text += fmt.Sprintf(" awaits %s first %v", w.addressed(r.Await.Address), r.Await.First)
		} else if r.Move != nil {
			text += fmt.Sprintf(" to rank %d due %d", r.Move.Rank-w.start, r.Move.Due-w.start)
		}
		if r.HoldKey > 0 {
			text += fmt.Sprintf(" holds its key for %v", r.HoldKey)
		}
		parts = append(parts, text+w.spawns(&r))
	}
	for _, spent := range s.Spent {
		parts = append(parts, fmt.Sprintf("spent s%d token %d", w.spans[spent.Span].name,
			spent.Token))
	}
	return "(" + strings.Join(parts, "; ") + ")"
}

// accepted learns that a report stands: no other may ever stand at its seq. The task goes on in its
// holder's memory.
func (w *walk) accepted(o walkOut, r store.Report) {
	at := moment{r.ID, r.Token.Seq}
	if w.outcomes[at] {
		w.breach("I2: a second outcome at %s seq %d", w.id(r.ID), r.Token.Seq)
	}
	w.outcomes[at] = true
	if r.Step.Context != nil {
		text, err := w.Value(w.ctx, r.Step.Context)
		if err != nil {
			w.breach("I8: context of %s: %v", w.id(r.ID), err)
		}
		w.texts[r.ID] = string(text)
	}
	w.came(r.ID, r.Step.Stage)
	if r.Await != nil {
		w.awaited = append(w.awaited, r.Await.Address)
	}
	if r.Step.Base == o.Base {
		o.Expires = 0
		o.Seq = o.Seq + 1
		o.Stage = r.Step.Stage
		o.Attempt = r.Step.Attempt
		o.ContextSeq = r.Step.ContextSeq
		o.Due = r.Step.Due
		o.Running = nil
		w.outs = append(w.outs, o)
	}
}
