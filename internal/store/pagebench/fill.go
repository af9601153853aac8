package pagebench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// days is how many days the tasks of a store that Fill filled are old, at most: less than done ones
// are kept.
const days = 6

// Fill fills a store as an installation would that has been working for six days up to now: about
// so many tasks in a thousand queues, of which a tenth is ready and most of the rest is over. What
// is called rare is the oldest. The clock is the store's, and begins before those days. Every
// hundredth task is dead, as many are cancelled. It is made by the calls that nodes make.
func Fill(
	ctx context.Context, s contract.Store, clock *contract.Clock, now time.Time, tasks int,
) error {
	f := filler{Store: s, ctx: ctx, clock: clock}
	const step = 10_000
	steps := max(tasks*85/100/step, 1)
	every := days * 24 * time.Hour / time.Duration(steps+1)
	clock.Advance(now.Add(-days * 24 * time.Hour).Sub(clock.Now()))
	f.prepare()
	for i := range steps {
		f.past(i, step)
		clock.Advance(every)
		if i%100 == 99 {
			f.prune()
		}
	}
	f.parents(tasks)
	f.backlog(tasks)
	f.waiting(tasks)
	f.told(tasks)
	f.prune()
	return f.err
}

// filler fills a store. After an error it does nothing any more.
type filler struct {
	contract.Store
	ctx    context.Context
	clock  *contract.Clock
	holder store.Holder
	made   int64   // batches
	some   task.ID // is ready
	err    error
}

func (f *filler) ok(err error) bool {
	if f.err == nil {
		f.err = err
	}
	return f.err == nil
}

// queues are how many queues have few tasks each.
const queues = 980

// keys are how many group keys the tasks have.
const keys = 10_000

func (f *filler) prepare() {
	l, err := f.Acquire(f.ctx, store.MembershipOf("filler"), "filler", 365*24*time.Hour, nil)
	f.ok(err)
	f.holder = store.Holder{Node: "filler", Token: l.Token}
	names := []string{"rare", "backlog", "fair", "asleep", "blocked", "parents", "children",
		"tried"}
	for i := range 20 {
		names = append(names, fmt.Sprintf("q%d", i))
	}
	for i := range queues {
		names = append(names, fmt.Sprintf("few%d", i))
	}
	for _, name := range names {
		q := limits.DefaultQueue(name)
		q.Fair = name == "fair"
		if f.err != nil {
			return
		}
		_, err := f.ChangeQueue(f.ctx, name, store.Whole(q))
		f.ok(err)
	}
}

func (f *filler) prune() {
	for f.err == nil {
		n, err := f.Prune(f.ctx, 1000)
		if f.ok(err); n == 0 {
			return
		}
	}
}

// fillContext is what each task carries.
var fillContext = store.Value(`{"x":"` + strings.Repeat("y", 62) + `"}`)

// batch makes a batch of n tasks that are due in a while, in one span.
func (f *filler) batch(queue string, n int, bits int64, in time.Duration) store.Batch {
	f.made++
	now := f.clock.Micros()
	due := now + in.Microseconds()
	b := store.Batch{
		ID: store.BatchID(now, 0) + f.made<<2 | bits, Queue: queue, Rank: due, Due: due,
		Created: now, Origin: "filler", Spans: []store.NewSpan{{Hi: int32(n) - 1, Hold: in == 0}},
	}
	for i := range n {
		t := store.Task{N: int32(i), Stage: "first", Context: fillContext}
		at := f.made*31 + int64(i)
		if at%3 == 0 {
			t.GroupKey = fmt.Sprintf("g%d", at%keys)
		}
		if at%5 == 0 {
			t.Meta = store.MetaOf(map[string]string{"customer": fmt.Sprintf("c%d", at%1000)})
		}
		if at%20 == 0 {
			t.Key = fmt.Sprintf("key %d/%d", f.made, i)
			t.KeyUntil = now + (24 * time.Hour).Microseconds()
		}
		b.Tasks = append(b.Tasks, t)
	}
	return b
}

// free makes the spans of a batch free from the start.
func free(b store.Batch) store.Batch {
	for i := range b.Spans {
		b.Spans[i].Hold = false
	}
	return b
}

func (f *filler) submit(list ...store.Batch) []store.Span {
	if f.err != nil || len(list) == 0 {
		return nil
	}
	got, err := f.Submit(f.ctx, store.Submission{Holder: f.holder, Batches: list})
	f.ok(err)
	return got.Spans
}

func (f *filler) settle(set store.Settlement) []store.Spawned {
	if f.err != nil {
		return nil
	}
	got, err := f.Settle(f.ctx, set)
	if f.ok(err) {
		for i, v := range got.Verdicts {
			if v != task.Recorded {
				f.ok(fmt.Errorf("report %d of %v: %s", i, set.Reports[i].ID, v))
			}
		}
	}
	return got.Spawned
}

// backlog is a tenth of all tasks, ready: half in batches, a third alone, the rest of a queue whose
// keys take turns; and a thousandth of all that run.
func (f *filler) backlog(tasks int) {
	for left := tasks / 20; left > 0; left -= 5000 {
		var list []store.Batch
		for len(list) < 10 {
			list = append(list, free(f.batch("backlog", 500, 0, 0)))
		}
		f.submit(list...)
		f.clock.Advance(time.Millisecond)
	}
	for left := tasks / 30; left > 0; left -= 5000 {
		var list []store.Batch
		for i := range 5000 {
			list = append(list, free(f.batch(fmt.Sprintf("q%d", i%20), 1, 0, 0)))
		}
		f.submit(list...)
		f.some = task.ID{Batch: list[0].ID}
		f.clock.Advance(20 * time.Millisecond)
	}
	for left := tasks / 60; left > 0; left -= 5000 {
		var list []store.Batch
		for len(list) < 10 {
			b := f.batch("fair", 500, 0, 0)
			for i := range b.Tasks {
				b.Tasks[i].GroupKey = fmt.Sprintf("g%d", (int(f.made)*500+i)%keys)
			}
			list = append(list, free(b))
		}
		f.submit(list...)
		f.clock.Advance(time.Millisecond)
	}
	f.running(tasks / 1000)
}

func (f *filler) running(tasks int) {
	var list []store.Batch
	for i := range tasks {
		list = append(list, f.batch(fmt.Sprintf("q%d", i%20), 1, 0, 0))
	}
	r := store.SyncRequest{Holder: f.holder}
	spans := f.submit(list...)
	for i, sp := range spans {
		if len(r.Insert) == 1000 {
			f.sync(r)
			r.Insert = nil
		}
		r.Insert = append(r.Insert, store.Running{
			ID: task.ID{Batch: sp.Batch}, Span: sp.ID, Token: sp.Token,
			Worker: fmt.Sprintf("w%d", i%200), Incarnation: "1", Started: f.clock.Micros(),
			Until: f.clock.Micros() + (365 * 24 * time.Hour).Microseconds(),
		})
	}
	f.sync(r)
}

func (f *filler) sync(r store.SyncRequest) {
	if f.err == nil {
		_, err := f.Sync(f.ctx, r)
		f.ok(err)
	}
}

// waiting is a fiftieth of all tasks: half of them sleep, alone or in batches, half are blocked by
// signals or by others.
func (f *filler) waiting(tasks int) {
	for left := tasks / 100; left > 0; left -= 5000 {
		list := []store.Batch{f.batch("asleep", 1000, 0, time.Hour)}
		for i := range 4000 {
			list = append(list, f.batch("asleep", 1, 0, time.Duration(10+i)*time.Minute))
		}
		f.submit(list...)
		f.clock.Advance(20 * time.Millisecond)
	}
	for left := tasks / 200; left > 0; left -= 500 {
		sp := f.submit(f.batch("blocked", 500, 0, 0))
		if f.err != nil {
			return
		}
		set := store.Settlement{Spent: []store.Taking{sp[0].Taking()}}
		for n := range int32(500) {
			r := reported(&sp[0], n, 0, task.KindNext)
			r.Step.Stage, r.Step.Base, r.Step.Worker = "second", 1, "w3"
			r.Move = store.Parked()
			r.Await = &store.Await{Address: store.Address{Task: r.ID, Name: "approved"}}
			set.Reports = append(set.Reports, r)
		}
		f.settle(set)
		f.clock.Advance(time.Millisecond)
	}
	for left := tasks / 200; left > 0; left -= 500 {
		b := free(f.batch("blocked", 500, store.DependBit, 0))
		b.Rank, b.Due = store.Never, store.Never
		b.Spans = nil
		for i := range b.Tasks {
			b.Spans = append(b.Spans, store.NewSpan{Lo: int32(i), Hi: int32(i)})
			b.Tasks[i].After = []store.Dependency{{On: f.some}}
		}
		f.submit(b)
		f.clock.Advance(time.Millisecond)
	}
}

// told is what else there is: edits, a task that was tried often and has a log, events, schedules.
func (f *filler) told(tasks int) {
	edited := f.batch("asleep", max(tasks/1000, 10), 0, 48*time.Hour)
	f.submit(edited)
	var edits []store.Action
	for i := range edited.Tasks {
		meta := store.MetaOf(map[string]string{"customer": "edited", "by": "hand"})
		edits = append(edits, store.Action{
			ID: task.ID{Batch: edited.ID, N: int32(i)}, Kind: task.KindEdited, By: "filler",
			Holder: f.holder, Edit: &store.Edit{Meta: &meta},
		})
	}
	if f.err == nil {
		_, err := f.Act(f.ctx, edits)
		f.ok(err)
	}
	f.retried()
	for left := tasks * 3 / 100; left > 0 && f.err == nil; left -= 1000 {
		var list []store.Event
		for i := range 1000 {
			kind := "worker.left"
			if (left+i)%10_000 == 0 {
				kind = "node.joined"
			}
			list = append(list, store.Event{
				Key: fmt.Sprintf("%d/%d", left, i), Kind: kind, Subject: fmt.Sprintf("w%d", i),
				Text: "it said that it leaves",
			})
		}
		_, err := f.Append(f.ctx, list)
		f.ok(err)
	}
	f.schedules(tasks / 100)
}

func (f *filler) retried() {
	sp := f.submit(f.batch("tried", 1, 0, 0))
	if f.err != nil {
		return
	}
	id := task.ID{Batch: sp[0].Batch}
	for seq := range int32(2000) {
		r := reported(&sp[0], 0, seq, task.KindRetry)
		r.Step.Base, r.Step.Error, r.Step.Worker = sp[0].Seq0, "again", "w7"
		f.settle(store.Settlement{Reports: []store.Report{r}})
	}
	for i := 0; i < 10_000 && f.err == nil; i += 500 {
		var lines []task.LogLine
		for k := range 500 {
			lines = append(lines, task.LogLine{
				Time: f.clock.Now(), Stream: "out", Text: fmt.Sprintf("line %d of many", i+k),
			})
		}
		f.ok(f.AppendLog(f.ctx, id, lines))
	}
}

func (f *filler) schedules(count int) {
	now := f.clock.Micros()
	for left := count; left > 0 && f.err == nil; left -= 1000 {
		var change store.ScheduleChange
		for i := range 1000 {
			change.Puts = append(change.Puts, store.SchedulePut{
				Schedule: task.Schedule{
					Name: fmt.Sprintf("s%d-%d", left, i), Cron: "0 4 * * *", Queue: "q7",
					Overlap: task.OverlapAllow, Misfire: task.MisfireSkip, Stage: "first",
				},
				Since: now, Then: now + (24 * time.Hour).Microseconds(),
			})
		}
		_, err := f.ChangeSchedules(f.ctx, change)
		f.ok(err)
	}
}
