package api

import (
	"bytes"
	"context"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// What the hot calls do stands here once. They come by two doors: as JSON over HTTP (hot.go), and
// as frames on a stream (stream.go). A door reads the body, within the budget, and writes the
// answer.
//
// Contexts and results are parts of the body until the engine has stored them. So submit and report
// wait for the engine even when the caller seems gone: the body's memory is in use until then, and
// a caller that only closed its half of the connection still reads.

// call is what is known of a call, whatever door it came by, and what it takes.
type call struct {
	who    principal
	from   string // the caller's address
	remote string // the same with the port
	body   int64  // taken of the budget for bodies
	kept   int64  // taken of the budget for answers
}

// letGo gives the budget of a body back that nothing points into any more.
func (a *API) letGo(c *call) {
	a.bodies.give(c.body)
	c.body = 0
}

// giveBack ends a call: what it took is free again.
func (a *API) giveBack(c *call) {
	a.letGo(c)
	a.shrink(c, c.kept)
}

// submitTasks submits the tasks of a body.
func (a *API) submitTasks(
	ctx context.Context, c *call, body []byte, tasks []task.Submission,
) (receipts []task.Receipt, err error) {
	for i := range tasks {
		tasks[i].Queue = names.Canonical(tasks[i].Queue)
		if err := c.who.mayQueue(tasks[i].Queue); err != nil {
			return nil, err
		}
	}
	if err := a.makers.admit(&Caller{who: c.who, from: c.from}, tasks, time.Now()); err != nil {
		return nil, err
	}
	if err := a.mayWaitFor(ctx, c.who, tasks, "body.tasks"); err != nil {
		return nil, err
	}
	keepAlone(body, tasks)
	err = a.gate.pass(burden(tasks), func() (err error) {
		receipts, err = a.conf.Engine.Submit(context.WithoutCancel(ctx), tasks)
		return err
	})
	return receipts, err
}

// wasteful tells whether a body is much more than the contexts in it. A context is a part of its
// body and may be kept for long; then the body would be, too.
func wasteful(body []byte, used int) bool { return len(body) > 64<<10 && len(body) > 4*used }

// holdTasks takes tasks for a worker, and has them written. The body is let go: it has only
// strings, and the call may wait for long.
func (a *API) holdTasks(
	ctx context.Context, c *call, request task.HoldRequest, write func(task.HoldAnswer),
) error {
	a.letGo(c)
	if err := c.who.as(request.Worker); err != nil {
		return err
	}
	for _, queue := range request.Queues {
		if err := c.who.mayQueue(queue); err != nil {
			return err
		}
	}
	// for the first task: one that has some must not wait for more, nor any twice
	full, wait := false, patience
	request.Room = func(n int64) bool {
		if n <= 0 {
			a.shrink(c, -n)
			return true
		}
		room := a.keep(ctx, c, n, 0, wait)
		full, wait = full || !room, 0
		return room
	}
	held, err := a.conf.Engine.Hold(ctx, request)
	if held.Written != nil { // also after a panic: the engine waits for it
		defer held.Written()
	}
	if err != nil {
		return err
	}
	for i := range held.Tasks {
		if t := &held.Tasks[i]; t.ContextBy != "" {
			t.InScope = a.tokens.Load().trusts(t.ContextBy, t.Queue)
		}
	}
	if full && len(held.Tasks) == 0 {
		return busy("too many large answers are under way")
	}
	write(held)
	return nil
}

// reportTasks records the outcomes of a body, and answers each.
func (a *API) reportTasks(
	ctx context.Context, c *call, body []byte, worker string, given []wire.Report,
) ([]wire.Answer, error) {
	if worker = names.Canonical(worker); !limits.ValidName(worker) {
		return nil, wrong("body.worker", "%.40q %s", worker, limits.NameRule)
	}
	if err := c.who.as(worker); err != nil {
		return nil, err
	}
	answers := make([]wire.Answer, len(given))
	for i := range given {
		answers[i].IDText = given[i].IDText
		if given[i].Invalid != "" {
			answers[i].Status, answers[i].Detail = task.Invalid, given[i].Invalid
		}
	}
	if err := a.screen(ctx, c, worker, given, answers); err != nil {
		return nil, err
	}
	if err := a.screenChildren(ctx, c, given, answers); err != nil {
		return nil, err
	}
	reports := make([]task.Report, 0, len(given))
	used := 0
	for i := range given {
		if answers[i].Status == "" {
			reports = append(reports, given[i].Report)
			used += len(given[i].Context)
			for k := range given[i].Spawn {
				used += len(given[i].Spawn[k].Context)
			}
		}
	}
	if wasteful(body, used) {
		for i := range reports {
			reports[i].Context = bytes.Clone(reports[i].Context)
			for k := range reports[i].Spawn {
				s := &reports[i].Spawn[k]
				s.Context = bytes.Clone(s.Context)
			}
		}
	}
	if len(reports) == 0 {
		return answers, nil
	}
	settled, err := a.conf.Engine.Report(context.WithoutCancel(ctx), worker, reports)
	if err != nil {
		return nil, err
	}
	next := 0
	for i := range given {
		if answers[i].Status == "" {
			answers[i].Status, answers[i].Detail = settled[next].Status, settled[next].Detail
			answers[i].Spawned = settled[next].Spawned
			next++
		}
	}
	return answers, nil
}

// beatOf takes a beat. Its body is let go, as a hold's is.
func (a *API) beatOf(ctx context.Context, c *call, beat task.Beat) (task.BeatAnswer, error) {
	a.letGo(c)
	if err := c.who.mayBeat(&beat); err != nil {
		return task.BeatAnswer{}, err
	}
	told, err := a.conf.Engine.Beat(ctx, beat)
	if err != nil {
		return task.BeatAnswer{}, err
	}
	for i := range told.Jobs.Add {
		told.Jobs.Add[i].Spec = readable(told.Jobs.Add[i].Spec)
	}
	return told, nil
}

// mayBeatAs tells whether a caller may beat as a worker. It is asked before the body is read.
func mayBeatAs(c *call, location, worker string) error {
	if !limits.ValidName(worker) {
		return wrong(location, "%.40q %s", worker, limits.NameRule)
	}
	return c.who.as(worker)
}
