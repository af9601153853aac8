package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func (f *fake) Submit(_ context.Context, tasks []task.Submission) ([]task.Receipt, error) {
	var e task.InvalidError
	for i := range tasks {
		at := fmt.Sprintf("body.tasks[%d]", i)
		limits.CheckSubmission(&tasks[i], &e, at)
		if len(tasks[i].Context) > 64 {
			e.TooLarge = len(e.Fields) == 0
			e.Add(at+".context", "is larger than 64 bytes")
		}
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	receipts := make([]task.Receipt, len(tasks))
	for i := range tasks {
		receipts[i] = task.Receipt{ID: idOf(int32(i)), Existing: tasks[i].Key == "k1",
			Action: task.SubmittedCreated}
		if receipts[i].Existing {
			receipts[i].Action = task.SubmittedKept
		}
	}
	return receipts, f.change("submit %+v", tasks)
}

func (f *fake) Signal(
	_ context.Context, by string, s task.SignalRequest,
) (task.SignalReceipt, error) {
	e := &task.InvalidError{}
	limits.CheckSignal(&s, e, "body")
	if err := e.Err(); err != nil {
		return task.SignalReceipt{}, err
	}
	switch s.Task {
	case idOf(9):
		return task.SignalReceipt{}, store.ErrNotFound
	case idOf(8):
		return task.SignalReceipt{}, fmt.Errorf("task is over: %w", store.ErrConflict)
	}
	err := f.change("signal %s %s %s %q %s %v", by, s.Task, s.Name, s.Key, s.Payload, s.Keep)
	return task.SignalReceipt{Delivered: s.Key != "later", Repeated: s.Key == "again"}, err
}

func (f *fake) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	var e task.InvalidError
	if !limits.ValidName(r.Worker) {
		e.Add("body.worker", "%s", limits.NameRule)
	}
	if len(r.Queues) == 0 {
		e.Add("body.queues", "must name 1 to 100 queues")
	}
	for i, q := range r.Queues {
		if !limits.ValidName(q) {
			e.Add(fmt.Sprintf("body.queues[%d]", i), "%s", limits.NameRule)
		}
	}
	if err := e.Err(); err != nil {
		return task.HoldAnswer{}, err
	}
	if f.hold != nil {
		return f.hold(ctx, r)
	}
	r.Room = nil // nothing to print
	if err := f.change("hold %+v", r); err != nil {
		return task.HoldAnswer{}, err
	}
	return task.HoldAnswer{
		Tasks: []task.Handout{
			{ID: idOf(1), Queue: "mail", Stage: "send", Context: json.RawMessage(odd), Attempt: 1,
				Token: token(0), Deadline: moment},
			{ID: idOf(2), Queue: "mail", Attempt: 3, Token: token(2), Deadline: moment},
		},
		PollInterval: 10 * time.Second,
		Written: func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.written++
		},
	}, nil
}

func (f *fake) Report(
	_ context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	answers := make([]task.Answer, len(reports))
	for i, r := range reports {
		answers[i] = task.Answer{ID: r.ID, Status: task.Recorded}
		if r.Token == token(9) {
			answers[i] = task.Answer{
				ID: r.ID, Status: task.Stale, Detail: "the hand-out is no longer yours",
			}
		}
	}
	shown := slices.Clone(reports) // without addresses
	awaits := ""
	for i := range shown {
		for k := range shown[i].Spawn {
			answers[i].Spawned = append(answers[i].Spawned, idOf(int32(k)))
		}
		if a := shown[i].Await; a != nil {
			awaits += fmt.Sprintf(" %d awaits %+v", i, *a)
			shown[i].Await = nil
		}
	}
	return answers, f.change("report %s %+v%s", worker, shown, awaits)
}

func (f *fake) Beat(_ context.Context, b task.Beat) (task.BeatAnswer, error) {
	var e task.InvalidError
	if !(b.Capacity >= 0 && b.Capacity <= 1e6) {
		e.Add("body.capacity", "must be 0 to 1000000")
	}
	if b.Incarnation == "" {
		e.Add("body.incarnation", "must be 1 to 128 bytes")
	}
	if err := e.Err(); err != nil {
		return task.BeatAnswer{}, err
	}
	answer := task.BeatAnswer{Version: "4", Beat: 5 * time.Second}
	for _, h := range b.Tasks {
		answer.Tasks = append(answer.Tasks, task.HeldAction{ID: h.ID, Action: task.ActionContinue})
	}
	return answer, f.change("beat %+v", b)
}

func (f *fake) AddChildren(
	_ context.Context, worker string, id task.ID, token string, children []task.Submission,
) ([]task.Receipt, error) {
	var e task.InvalidError
	receipts := make([]task.Receipt, len(children))
	for i := range children {
		limits.CheckChild(&children[i], &e, fmt.Sprintf("body.tasks[%d]", i))
		receipts[i] = task.Receipt{ID: idOf(int32(i)), Action: task.SubmittedCreated}
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	if _, err := f.find(id); err != nil || id != idOf(3) {
		return nil, fmt.Errorf("task %s: the hand-out is no longer yours: %w", id,
			store.ErrConflict)
	}
	return receipts, f.change("add %s %s %s %+v", worker, id, token, children)
}

// Children answers three children in pages of two.
func (f *fake) Children(
	_ context.Context, parent task.ID, state task.State, cursor string, limit int,
) (page []task.View, next string, err error) {
	if f.err != nil {
		return nil, "", f.err
	}
	if _, err := f.find(parent); err != nil {
		return nil, "", err
	}
	for _, v := range f.tasks[:3] {
		if v.ID.String() > cursor && (state == "" || v.State == state) {
			page = append(page, v)
		}
	}
	if limit = min(limit, 2); len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID.String()
	}
	return page, next, nil
}

// Tree answers a task with two children, and one below the first of them.
func (f *fake) Tree(_ context.Context, id task.ID, limit int) (task.Tree, error) {
	if f.err != nil {
		return task.Tree{}, f.err
	}
	v, err := f.find(id)
	if err != nil {
		return task.Tree{}, err
	}
	t := task.Tree{
		Task: *v, Began: moment, Since: moment.Add(time.Second), LeftOut: 3,
		Below: []task.Tree{
			{Task: f.tasks[1], Since: moment, Below: []task.Tree{{Task: f.tasks[3]}}},
			{Task: f.tasks[2], Began: moment, Since: moment},
		},
	}
	t.Task.Children = &task.Children{Total: 5, Done: 2}
	t.Below[0].Task.After = []task.Prior{{ID: f.tasks[2].ID, Ref: "b", State: task.Dead}}
	if limit < 3 {
		t.Below = t.Below[:limit]
	}
	return t, nil
}
