package model

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// uniqueBugs are wrong programs about unique keys.
func uniqueBugs() []bug {
	const free, replaced = "AUniqueKeyIsTakenUntilItsTaskIsFinal",
		"ATaskWithAUniqueKeyIsReplacedWhileItWaits"
	return []bug{
		{"a key is kept for ever", free, keyKept()},
		{"a task that is done keeps its key", free, keyKept(task.KindDone)},
		{"a dead task keeps its key", free, keyKept(task.KindFail, task.KindRetry)},
		{"a cancelled task keeps its key", free, keyKept(task.KindCancelled)},
		{"an expired task keeps its key", "AnExpiredTaskHasNoUniqueKey",
			keyKept(task.KindExpired)},
		{"a removed task keeps its key", "ADeletedTaskHasNoUniqueKey", keyKept(task.KindRemoved)},
		{"a key is free as soon as its task is handed out", free,
			keysAs(func(u *uniquely) { u.waiting = true })},
		{"who waits has the key until the end",
			"AUniqueKeyWhileWaitingIsTakenUntilTheFirstHandOut",
			keysAs(func(u *uniquely) { u.waiting = false })},
		{"the time of a key is never over", "AUniqueKeyIsFreeAfterItsTime",
			keysAs(func(u *uniquely) { u.until = 0 })},
		{"the time of a key ends a microsecond late", "AUniqueKeyIsFreeAfterItsTime",
			keysAs(func(u *uniquely) { u.until += min(u.until, 1) })},
		{"pruning takes keys whose time is not over", "AUniqueKeyIsFreeAfterItsTime",
			func(p *planted) {
				p.prune = func(ctx context.Context, limit int) (int, error) {
					maps.DeleteFunc(p.uniques, func(_ key, u uniquely) bool { return u.until != 0 })
					return p.Model.Prune(ctx, limit)
				}
			}},
		{"a key is taken in all queues", free, keysEverywhere},
		{"a running task is replaced", replaced, func(p *planted) {
			p.submit = func(
				ctx context.Context, s store.Submission,
			) (got store.Submitted, err error) {
				p.hiding(func(at hand, _ store.Running) bool { return p.hasUnique(at.id) },
					func() { got, err = p.Model.Submit(ctx, s) })
				return got, err
			}
		}},
		{"a task that is tried again is replaced", replaced, replacedLater},
		{"what is in memory of a replaced task goes out", replaced, goesOutAsItWas},
		{"what replaces a task has an id of its own", replaced,
			existingAs(func(_ *planted, e *store.Existing) { e.First = e.ID })},
		{"a repeated submission replaces once more", replaced, replacedAgain},
		{"the meta of a replaced task stays", replaced,
			replacedBut(func(_ *recorded, o *store.Override) { o.Meta = nil })},
		{"the stage of a replaced task stays", replaced,
			replacedBut(func(s *recorded, _ *store.Override) { s.Stage = "as submitted" })},
		{"the priority of a replaced task stays", replaced,
			replacedBut(func(_ *recorded, o *store.Override) { o.HeadStart = 0 })},
		{"debounce leaves the delay", "DebounceBeginsTheDelayAnewAndReplaceDoesNot",
			asksAs(func(u *store.Unique) { u.KeepDue = true })},
		{"replace begins the delay anew", "DebounceBeginsTheDelayAnewAndReplaceDoesNot",
			asksAs(func(u *store.Unique) { u.KeepDue = false })},
		{"refuse is keep", "ARefusedCallLeavesNothing", asksAs(func(u *store.Unique) {
			if u.OnExisting == task.OnExistingRefuse {
				u.OnExisting = task.OnExistingKeep
			}
		})},
		{"the rest of a refused call is stored", "ARefusedCallLeavesNothing", restStored},
		{"a refused call replaces nevertheless", "ARefusedCallReplacesNothing", refusedReplaces},
		{"two of one submission have a key", "TheSecondOfOneSubmissionSeesTheFirst", twoOwners},
		{"tasks ask as they stand in the submission", "TheSecondOfOneSubmissionSeesTheFirst",
			func(p *planted) {
				p.submit = func(
					ctx context.Context, s store.Submission,
				) (store.Submitted, error) {
					order := int32(0)
					return p.Model.Submit(ctx, eachAsk(s, func(u *store.Unique) {
						u.Order = order
						order++
					}))
				}
			}},
		{"nobody is told which tasks have keys", free, func(p *planted) {
			p.take = func(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
				got, err := p.Model.Take(ctx, r)
				for _, sp := range got.Spans {
					for i := range sp.Tasks {
						sp.Tasks[i].Unique = false
					}
				}
				return got, err
			}
		}},
		{"a replayed task is without its key", "AReplayedTaskHasItsUniqueKeyUnlessAnotherGotIt",
			replayedAs(func(p *planted, f *fact) { p.dropUnique(f.id()) })},
		{"a replayed task takes its key back", "AReplayedTaskHasItsUniqueKeyUnlessAnotherGotIt",
			replayedAs(func(p *planted, f *fact) {
				p.uniques[key{f.batch.Queue, f.Unique.Key}] = uniquely{id: f.id(),
					waiting: f.Unique.Waiting, until: f.Unique.Until}
			})},
	}
}

// keyKept lets tasks that ended in one of some ways, none = in any, look to submissions as if they
// still ran.
func keyKept(kinds ...task.Kind) func(*planted) {
	return func(p *planted) {
		p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
			ended := map[task.ID]*fact{}
			for _, u := range p.uniques {
				f := p.fact(u.id)
				if f == nil {
					continue
				}
				_, last := f.newest()
				if last.Base != store.Final || kinds != nil && !slices.Contains(kinds, last.Kind) {
					continue
				}
				runs := *f
				runs.steps = map[int32]recorded{0: {Step: store.Step{Kind: task.KindRetry}}}
				ended[u.id], p.Model.tasks[u.id] = f, &runs
			}
			got, err := p.Model.Submit(ctx, s)
			maps.Copy(p.Model.tasks, ended)
			return got, err
		}
	}
}

// keysAs lets submissions see other rows of unique keys than there are.
func keysAs(change func(*uniquely)) func(*planted) {
	return func(p *planted) {
		p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
			before, seen := maps.Clone(p.uniques), map[key]uniquely{}
			for k, u := range before {
				change(&u)
				p.uniques[k], seen[k] = u, u
			}
			got, err := p.Model.Submit(ctx, s)
			for k, u := range seen {
				if p.uniques[k] == u {
					p.uniques[k] = before[k]
				}
			}
			return got, err
		}
	}
}

// keysEverywhere lets submissions see the rows of all queues.
func keysEverywhere(p *planted) {
	p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
		added := map[key]uniquely{}
		for _, b := range s.Batches {
			for k, u := range p.uniques {
				here := key{b.Queue, k.key}
				if _, has := p.uniques[here]; !has {
					added[here] = u
				}
			}
		}
		maps.Copy(p.uniques, added)
		got, err := p.Model.Submit(ctx, s)
		for k, u := range added {
			if p.uniques[k] == u {
				delete(p.uniques, k)
			}
		}
		return got, err
	}
}

// replacedLater lets submissions see nothing of the hand-outs that are over.
func replacedLater(p *planted) {
	p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
		before := map[*fact]map[int32]recorded{}
		for _, u := range p.uniques {
			f := p.fact(u.id)
			if f == nil || p.owner(f) == nil {
				continue
			}
			before[f] = maps.Clone(f.steps)
			for seq, step := range f.steps {
				step.Kind, step.Started = task.KindMoved, 0
				f.steps[seq] = step
			}
		}
		got, err := p.Model.Submit(ctx, s)
		for f, steps := range before {
			maps.Copy(f.steps, steps)
		}
		return got, err
	}
}

// goesOutAsItWas lets hand-outs of tasks begin that were replaced since they were taken.
func goesOutAsItWas(p *planted) {
	p.letBegin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
		r.Rows = slices.Clone(r.Rows)
		for i := range r.Rows {
			u := &r.Rows[i]
			f := p.fact(u.ID)
			if f == nil || !p.hasUnique(u.ID) || p.owner(f) == nil {
				continue
			}
			if seq, last := f.newest(); last.Kind == task.KindEdited && seq == u.Seq {
				sp := p.owner(f)
				sp.Holder, sp.Token = r.Holder, max(sp.Token, 1)
				u.Seq, u.Span, u.Token = seq+1, sp.ID, sp.Token
			}
		}
		return p.Model.Begin(ctx, r)
	}
}

// existingAs changes what is said of tasks that were made of others, and what is remembered of it.
func existingAs(change func(p *planted, e *store.Existing)) func(*planted) {
	return func(p *planted) {
		p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
			got, err := p.Model.Submit(ctx, s)
			for i := range got.Existing {
				if replaces(&got.Existing[i]) {
					change(p, &got.Existing[i])
				}
			}
			return got, err
		}
	}
}

func replaces(e *store.Existing) bool {
	return e.Action == task.SubmittedReplaced || e.Action == task.SubmittedDebounced
}

// replacedAgain replaces once more when a submission comes again.
func replacedAgain(p *planted) {
	p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
		again := len(s.Batches) > 0 && p.batches[s.Batches[0].ID] != nil
		got, err := p.Model.Submit(ctx, s)
		for i := range got.Existing {
			if e := &got.Existing[i]; again && err == nil && replaces(e) {
				p.Model.act(store.Action{ID: e.First, Kind: task.KindEdited, By: "submission",
					Fenced: true, Edit: &store.Edit{Context: taskOf(s, e.ID)}}, got.Now)
			}
		}
		return got, err
	}
}

// taskOf is the context of a task of a submission.
func taskOf(s store.Submission, id task.ID) *store.Value {
	for _, b := range s.Batches {
		for i := range b.Tasks {
			if b.ID == id.Batch && b.Tasks[i].N == id.N {
				return &b.Tasks[i].Context
			}
		}
	}
	return nil
}

// replacedBut changes the steps that replacements leave.
func replacedBut(change func(*recorded, *store.Override)) func(*planted) {
	return existingAs(func(p *planted, e *store.Existing) {
		f := p.fact(e.First)
		if f == nil {
			return
		}
		seq, s := f.newest()
		if s.Kind != task.KindEdited {
			return
		}
		o := *s.Override
		change(&s, &o)
		s.Override = &o
		f.steps[seq] = s
	})
}

// eachAsk is a submission with other wishes for unique keys, in the order of its tasks.
func eachAsk(s store.Submission, change func(*store.Unique)) store.Submission {
	s.Batches = slices.Clone(s.Batches)
	for i := range s.Batches {
		b := &s.Batches[i]
		b.Tasks = slices.Clone(b.Tasks)
		for k := range b.Tasks {
			if b.Tasks[k].Unique != nil {
				u := *b.Tasks[k].Unique
				change(&u)
				b.Tasks[k].Unique = &u
			}
		}
	}
	return s
}

// asksAs changes what is submitted.
func asksAs(change func(*store.Unique)) func(*planted) {
	return func(p *planted) {
		p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
			return p.Model.Submit(ctx, eachAsk(s, change))
		}
	}
}

// restStored stores those tasks of refused calls that want no unique key.
func restStored(p *planted) {
	p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
		got, err := p.Model.Submit(ctx, s)
		for _, b := range s.Batches {
			if b.Call == 0 || !refused(got, b.Call) || p.batches[b.ID] != nil {
				continue
			}
			b.Tasks = slices.DeleteFunc(slices.Clone(b.Tasks), func(t store.Task) bool {
				return t.Unique != nil
			})
			if len(b.Tasks) > 0 {
				b.ID += 1 << 40 // so that its own may come again
				p.addBatch(b, store.Holder{}, false, nil, &store.Submitted{Now: got.Now})
			}
		}
		return got, err
	}
}

// refusedReplaces replaces also for calls that are refused.
func refusedReplaces(p *planted) {
	p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
		got, err := p.Model.Submit(ctx, s)
		for _, b := range s.Batches {
			for _, t := range b.Tasks {
				if u := t.Unique; u == nil || b.Call == 0 || !refused(got, b.Call) ||
					u.OnExisting == task.OnExistingKeep || u.OnExisting == task.OnExistingRefuse {
					continue
				}
				k := key{b.Queue, t.Unique.Key}
				first, waits, _ := p.uniqueOwner(p.uniques, k, nil, got.Now)
				if waits {
					p.Model.act(store.Action{ID: first, Kind: task.KindEdited, By: "submission",
						Fenced: true, Edit: &store.Edit{Context: &t.Context}}, got.Now)
				}
			}
		}
		return got, err
	}
}

// twoOwners lets tasks of one submission not see those that ask before them.
func twoOwners(p *planted) {
	p.submit = func(ctx context.Context, s store.Submission) (store.Submitted, error) {
		s = eachAsk(s, func(*store.Unique) {})
		var asks []asking
		for _, b := range s.Batches {
			for i := range b.Tasks {
				if b.Tasks[i].Unique != nil {
					at := task.ID{N: int32(i)}
					asks = append(asks, asking{batch: b, task: b.Tasks[i], id: at})
				}
			}
		}
		slices.SortFunc(asks, func(a, b asking) int {
			return cmp.Compare(a.task.Unique.Order, b.task.Unique.Order)
		})
		seen := map[key]bool{}
		for _, a := range asks {
			k := key{a.batch.Queue, a.task.Unique.Key}
			_, _, taken := p.uniqueOwner(p.uniques, k, nil, p.now().UnixMicro())
			if seen[k] && !taken {
				a.batch.Tasks[a.id.N].Unique = nil
			}
			seen[k] = true
		}
		return p.Model.Submit(ctx, s)
	}
}

// replayedAs does something to the unique keys of tasks that are replayed.
func replayedAs(change func(p *planted, f *fact)) func(*planted) {
	return func(p *planted) {
		p.act = func(ctx context.Context, list []store.Action) ([]store.Acted, error) {
			got, err := p.Model.Act(ctx, list)
			for i := range got {
				f := p.fact(got[i].ID)
				if got[i].Changed && list[i].Kind == task.KindReplayed && f != nil &&
					f.Unique != nil {
					change(p, f)
				}
			}
			return got, err
		}
	}
}

// refused tells whether a call was refused.
func refused(got store.Submitted, call int32) bool {
	return slices.ContainsFunc(got.Refused, func(r store.Refusal) bool { return r.Call == call })
}
