package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/seal"
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
func (h *hotCalls) submitTasks(
	ctx context.Context, c *call, body []byte, tasks []task.Submission,
) (receipts []task.Receipt, err error) {
	for i := range tasks {
		tasks[i].Queue = names.Canonical(tasks[i].Queue)
		if err := c.who.mayQueue(tasks[i].Queue); err != nil {
			return nil, err
		}
	}
	if err := h.makers.admit(&Caller{who: c.who, from: c.from}, tasks, time.Now()); err != nil {
		return nil, err
	}
	if err := h.mayWaitFor(ctx, c.who, tasks, "body.tasks"); err != nil {
		return nil, err
	}
	keepAlone(body, tasks)
	err = h.door.gate.pass(burden(tasks), func() (err error) {
		receipts, err = h.work.Submit(context.WithoutCancel(ctx), tasks)
		return err
	})
	return receipts, err
}

// wasteful tells whether a body is much more than the contexts in it. A context is a part of its
// body and may be kept for long; then the body would be, too.
func wasteful(body []byte, used int) bool { return len(body) > 64<<10 && len(body) > 4*used }

// holdTasks takes tasks for a worker, and has them written. The body is let go: it has only
// strings, and the call may wait for long.
func (h *hotCalls) holdTasks(
	ctx context.Context, c *call, request task.HoldRequest, write func(task.HoldAnswer),
) error {
	h.door.letGo(c)
	if err := h.mayBe(c, request.Worker); err != nil {
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
			h.door.shrink(c, -n)
			return true
		}
		room := h.door.keep(ctx, c, n, 0, wait)
		full, wait = full || !room, 0
		return room
	}
	held, err := h.work.Hold(ctx, request)
	if held.Written != nil { // also after a panic: the engine waits for it
		defer held.Written()
	}
	if err != nil {
		return err
	}
	for i := range held.Tasks {
		if t := &held.Tasks[i]; t.ContextBy != "" {
			t.InScope = h.door.tokens.Load().trusts(t.ContextBy, t.Queue)
		}
	}
	if full && len(held.Tasks) == 0 {
		return busy("too many large answers are under way")
	}
	write(held)
	return nil
}

// reportTasks records the outcomes of a body, and answers each.
func (h *hotCalls) reportTasks(
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
	if err := h.screen(ctx, c, worker, given, answers); err != nil {
		return nil, err
	}
	if err := h.screenChildren(ctx, c, given, answers); err != nil {
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
	settled, err := h.work.Report(context.WithoutCancel(ctx), worker, reports)
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
func (h *hotCalls) beatOf(ctx context.Context, c *call, beat task.Beat) (task.BeatAnswer, error) {
	h.door.letGo(c)
	if err := c.who.mayBeat(&beat); err != nil {
		return task.BeatAnswer{}, err
	}
	told, err := h.work.Beat(ctx, beat)
	if err != nil {
		return task.BeatAnswer{}, err
	}
	for i := range told.Jobs.Add {
		told.Jobs.Add[i].Spec = readable(told.Jobs.Add[i].Spec)
	}
	return told, nil
}

// mayBeatAs tells whether a caller may beat as a worker. It is asked before the body is read.
func (h *hotCalls) mayBeatAs(c *call, location, worker string) error {
	if !limits.ValidName(worker) {
		return wrong(location, "%.40q %s", worker, limits.NameRule)
	}
	return h.mayBe(c, worker)
}

// mayBe tells whether a caller may beat and hold as a worker. A beat that says that the worker is
// another process now, or that it leaves, takes all from it that it has in hands, and so does a
// hold of another process: also what is of queues and groups out of the caller's scope. So a token
// with a scope that is for any worker is for none that has a token of its own.
func (h *hotCalls) mayBe(c *call, worker string) error {
	if err := c.who.as(worker); err != nil {
		return err
	}
	if c.who.scope != nil && !c.who.only() && h.door.tokens.Load().owned(worker) {
		return refuse(http.StatusForbidden,
			"worker %.140q has an access token of its own, and this one has a scope: "+
				"it beats and holds for workers without one", worker)
	}
	return nil
}

// notYours answers reports that their sender may not make.
const notYours = "the hand-out is not yours"

// screen answers reports of hand-outs that are not for their sender to report: as stale, each for
// itself. A worker's token that names a worker reports only what was handed out to that one, and
// any token with a scope only what is of its queues. Wrong seals are counted; beyond what their
// address may get wrong they are answered here, without a look into the store.
func (h *hotCalls) screen(
	ctx context.Context, c *call, worker string, given []wire.Report, answers []wire.Answer,
) error {
	who := c.who
	if who.Role != roleWorker && who.scope == nil {
		return nil
	}
	forged := 0
	var ids []task.ID
	var at []int
	for i := range given {
		g := &given[i]
		if g.Invalid != "" {
			continue
		}
		token, err := task.ParseToken(g.Token)
		if err != nil {
			continue // the engine says so
		}
		worth := h.sealer.Check(token, g.ID)
		switch {
		case worth == seal.Forged:
			forged++
			if !h.seals.mayErr(c.remote) {
				answers[i].Status, answers[i].Detail = task.Stale, notYours
				continue
			}
		case worth == seal.Good && who.Role == roleWorker && who.Name != "*" &&
			!h.sealer.Owned(token, g.ID, worker):
			answers[i].Status, answers[i].Detail = task.Stale, notYours
			continue
		}
		if who.scope != nil {
			ids = append(ids, g.ID)
			at = append(at, i)
		}
	}
	if forged > 0 {
		h.seals.note(h.door.conf.Log, "a worker reported by tokens that were never given out",
			c.remote, "caller", who.Name, "worker", worker, "reports", forged)
	}
	if len(ids) == 0 {
		return nil
	}
	queues, err := h.work.QueuesOf(ctx, ids)
	if err != nil {
		return err
	}
	for k, i := range at {
		if queues[k] != "" && !who.scope.queue(queues[k]) {
			answers[i].Status, answers[i].Detail = task.Stale, notYours
		}
	}
	return nil
}

// screenChildren answers reports whose children their sender may not submit: as invalid, each for
// itself.
func (h *hotCalls) screenChildren(
	ctx context.Context, c *call, given []wire.Report, answers []wire.Answer,
) error {
	for i := range given {
		spawn := given[i].Spawn
		if len(spawn) == 0 || answers[i].Status != "" {
			continue
		}
		for k := range spawn {
			spawn[k].Queue = names.Canonical(spawn[k].Queue)
			if problem := c.who.maySpawn(spawn[k].Queue); problem != "" {
				answers[i].Status = task.Invalid
				answers[i].Detail = fmt.Sprintf("spawn[%d].queue: %s", k, problem)
				break
			}
		}
		if answers[i].Status != "" {
			continue
		}
		err := h.makers.admit(&Caller{who: c.who, from: c.from}, spawn, time.Now())
		if err == nil {
			err = h.mayWaitFor(ctx, c.who, spawn, "spawn")
		}
		p, ok := errors.AsType[*problem](err)
		switch {
		case ok && (p.Status == http.StatusUnprocessableEntity ||
			p.Status == http.StatusForbidden):
			answers[i].Status = task.Invalid
			answers[i].Detail = strings.Replace(p.Detail, "body.tasks", "spawn", 1)
		case err != nil:
			return err
		}
	}
	return nil
}

// mayWaitFor tells whether tasks may wait for those that they name by id: they are told what those
// left, so whoever submits them has to reach the queues of those.
func (h *hotCalls) mayWaitFor(
	ctx context.Context, who principal, tasks []task.Submission, location string,
) error {
	if who.scope == nil {
		return nil
	}
	var ids []task.ID
	at := map[task.ID]string{} // where they stand first
	for i := range tasks {
		for k, name := range tasks[i].After {
			id, err := task.ParseID(name) // what reads as one is no ref
			if err != nil || at[id] != "" {
				continue
			}
			at[id] = fmt.Sprintf("%s[%d].after[%d]", location, i, k)
			ids = append(ids, id)
		}
	}
	for part := range slices.Chunk(ids, 1000) {
		queues, err := h.work.QueuesOf(ctx, part)
		if err != nil {
			return err
		}
		for i, queue := range queues { // whether there is the task the engine says
			if queue != "" && !who.scope.queue(queue) {
				return refuse(http.StatusForbidden,
					"%s: task %s is of a queue that is not in the scope of this token",
					at[part[i]], part[i])
			}
		}
	}
	return nil
}
