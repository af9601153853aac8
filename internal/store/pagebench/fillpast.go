package pagebench

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// past submits tasks and ends them: two thirds in batches of 500, the rest alone.
func (f *filler) past(round, tasks int) {
	list := f.pastBatches(round, tasks)
	worker := func(i int) string { return fmt.Sprintf("w%d", (round+i)%200) }
	if round == 0 {
		f.oldest(list)
		worker = func(int) string { return "rare" }
	}
	spans := f.submit(list...)
	if f.err != nil {
		return
	}
	now := f.clock.Micros()
	var set, again store.Settlement
	var cancel []store.Action
	for i := range spans {
		sp := &spans[i]
		for n := sp.Lo; n <= sp.Hi; n++ {
			r := reported(sp, n, 0, task.KindDone)
			r.Step.Worker = worker(i)
			r.Ready, r.Step.Started = now, now+1000*int64(n%50)
			r.Step.Finished = r.Step.Started + 2_000*int64(1+n%100)
			switch at := int(n) + 7*i; {
			case at%100 == 7:
				r.Step.Kind = task.KindFail
				r.Step.Error = fmt.Sprintf("dial 10.0.0.%d: i/o timeout", at%250)
				if round == 0 {
					r.Step.Error = "rare"
				}
			case at%100 == 9:
				cancel = append(cancel, store.Action{
					ID: r.ID, Kind: task.KindCancelled, By: "filler",
				})
				continue
			case expires(i, int(n)):
				r.Step.Kind, r.Step.Worker = task.KindExpired, ""
				again.Reports = append(again.Reports, r)
				continue
			case at%50 == 13:
				then := r
				then.Token.Seq = 1
				then.Step.Attempt = 2
				again.Reports = append(again.Reports, then)
				r.Step.Kind, r.Step.Base = task.KindRetry, sp.Seq0
				r.Step.Error = "connection reset"
			}
			set.Reports = append(set.Reports, r)
		}
	}
	for i := range spans {
		again.Spent = append(again.Spent, spans[i].Taking())
	}
	f.settle(set)
	if f.err == nil {
		_, err := f.Act(f.ctx, cancel)
		f.ok(err)
	}
	f.clock.Advance(time.Millisecond)
	f.settle(again)
}

// pastBatches are the batches of one round: some of their tasks expire, and one has a key that is
// free again at once.
func (f *filler) pastBatches(round, tasks int) (list []store.Batch) {
	for len(list) < tasks*2/3/500 {
		list = append(list, f.batch(fmt.Sprintf("q%d", (round+len(list))%20), 500, 0, 0))
	}
	for i := range tasks / 3 {
		name := fmt.Sprintf("q%d", i%20)
		if i%10 == 0 {
			name = fmt.Sprintf("few%d", (round*37+i)%queues)
		}
		list = append(list, f.batch(name, 1, 0, 0))
	}
	for i := range list {
		for n := range list[i].Tasks {
			if expires(i, n) {
				list[i].Tasks[n].StartWithin = 1
			}
		}
	}
	list[0].Tasks[3].Key, list[0].Tasks[3].KeyUntil = "same", f.clock.Micros()+1
	return list
}

// expires tells which task of which batch nobody begins in time.
func expires(batch, n int) bool { return (n+7*batch)%500 == 11 }

// oldest makes the first tasks of all rare, and adds some that nobody has begun since.
func (f *filler) oldest(list []store.Batch) {
	list[0].Queue, list[1].Queue = "rare", "rare"
	for i := range list[0].Tasks {
		list[0].Tasks[i].Stage = "rare"
		list[0].Tasks[i].Meta = store.MetaOf(map[string]string{"customer": "rare"})
	}
	f.submit(free(f.batch("rare", 100, 0, 0)), f.batch("rare", 100, 0, 30*24*time.Hour))
}

// reported is the report that ends a task, or tries it again.
func reported(sp *store.Span, n, seq int32, kind task.Kind) store.Report {
	return store.Report{
		ID: task.ID{Batch: sp.Batch, N: n}, Queue: sp.Queue,
		Token: task.Token{Span: sp.ID, SpanToken: sp.Token, Seq: seq},
		Step: store.Step{
			Kind: kind, Ran: "first", Stage: "first", ContextSeq: -1, Attempt: 1,
			Base: store.Final, Hash: 7,
		},
	}
}

// parents are some with ten children each, and one with a hundredth of all tasks as its children.
func (f *filler) parents(tasks int) {
	many := max(tasks/100, 1000)
	sp := f.submit(f.batch("parents", 1, 0, 0))
	if f.err != nil {
		return
	}
	id := task.ID{Batch: sp[0].Batch}
	right := store.Right{
		ID: id, Token: task.Token{Span: sp[0].ID, SpanToken: sp[0].Token},
	}
	for left := many; left > 0 && f.err == nil; left -= 1000 {
		b := f.batch("children", 1000, store.ChildBit, 0)
		got, err := f.Submit(f.ctx, store.Submission{
			Holder: f.holder, Batches: []store.Batch{b}, Under: &right,
		})
		if f.ok(err); left > 1000 { // of the last ones nobody has begun any
			f.end(got.Spans)
		}
	}
	r := reported(&sp[0], 0, 0, task.KindNext)
	r.Step.Stage, r.Step.Base = "second", 1
	r.Move, r.Await = store.Parked(), &store.Await{Address: store.ChildrenOf(id, 0)}
	f.settle(store.Settlement{Reports: []store.Report{r}, Spent: []store.Taking{sp[0].Taking()}})
	for left := tasks / 1000; left > 0 && f.err == nil; left -= 100 {
		sp := f.submit(f.batch("parents", 100, 0, 0))
		if f.err != nil {
			return
		}
		var set store.Settlement
		for n := range int32(100) {
			r := reported(&sp[0], n, 0, task.KindDone)
			b := f.batch("children", 10, store.ChildBit, 0)
			r.Spawn = []store.Batch{free(b)}
			set.Reports = append(set.Reports, r)
		}
		set.Spent = []store.Taking{sp[0].Taking()}
		f.settle(set)
	}
}

// end ends all tasks of spans well.
func (f *filler) end(spans []store.Span) {
	var set store.Settlement
	for i := range spans {
		sp := &spans[i]
		for n := sp.Lo; n <= sp.Hi; n++ {
			r := reported(sp, n, 0, task.KindDone)
			r.Step.Worker, r.Step.Started = "w7", f.clock.Micros()
			r.Step.Finished = r.Step.Started + 5000
			set.Reports = append(set.Reports, r)
		}
		set.Spent = append(set.Spent, sp.Taking())
	}
	f.settle(set)
}
