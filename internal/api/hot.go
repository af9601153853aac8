package api

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// The calls that come thousands of times a second. Their JSON is read and written by package wire;
// contexts and results are parts of the request's body until the engine has stored them. So submit
// and report wait for the engine even when the caller seems gone: the body's memory is in use until
// then, and a caller that only closed its half of the connection still reads.

func (a *API) registerHot() {
	a.described(submitDoc, a.submit)
	a.described(holdDoc, a.hold)
	a.described(reportDoc, a.report)
	a.described(beatDoc, a.beat)
}

func (a *API) submit(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := a.body(w, r, a.conf.MaxBodies/4)
	if err != nil {
		return err
	}
	tasks, err := wire.ParseSubmissions(body)
	if err != nil {
		return err
	}
	for i := range tasks {
		tasks[i].Queue = names.Canonical(tasks[i].Queue)
		if err := w.who.mayQueue(tasks[i].Queue); err != nil {
			return err
		}
	}
	if err := a.makers.admit(&Caller{who: w.who, from: w.from}, tasks, time.Now()); err != nil {
		return err
	}
	used := 0
	for i := range tasks {
		used += len(tasks[i].Context)
	}
	if wasteful(body, used) {
		for i := range tasks {
			tasks[i].Context = bytes.Clone(tasks[i].Context)
		}
	}
	var receipts []task.Receipt
	err = a.gate.pass(burden(tasks), func() (err error) {
		receipts, err = a.conf.Engine.Submit(context.WithoutCancel(r.Context()), tasks)
		return err
	})
	if err != nil {
		return err
	}
	a.write(w, http.StatusCreated, func(b []byte) []byte {
		return wire.AppendReceipts(b, receipts)
	})
	return nil
}

// wasteful tells whether a body is much more than the contexts in it. A context is a part of its
// body and may be kept for long; then the body would be, too.
func wasteful(body []byte, used int) bool { return len(body) > 64<<10 && len(body) > 4*used }

func (a *API) hold(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := a.body(w, r, 0)
	if err != nil {
		return err
	}
	request, err := wire.ParseHold(body)
	if err != nil {
		return err
	}
	a.letGo(w) // it has only strings, and may wait for long
	if err := w.who.as(request.Worker); err != nil {
		return err
	}
	for _, queue := range request.Queues {
		if err := w.who.mayQueue(queue); err != nil {
			return err
		}
	}
	// for the first task: one that has some must not wait for more, nor any twice
	full, wait := false, patience
	request.Room = func(n int64) bool {
		if n <= 0 {
			a.shrink(w, -n)
			return true
		}
		room := a.keep(r.Context(), w, n, 0, wait)
		full, wait = full || !room, 0
		return room
	}
	held, err := a.conf.Engine.Hold(r.Context(), request)
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
	a.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) {
		return wire.CutHandouts(b, held, smallAnswer)
	})
	if len(held.Tasks) > 0 {
		// before Written; what can't be sent is found by the worker's beats
		http.NewResponseController(w).Flush()
	}
	return nil
}

func (a *API) report(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := a.body(w, r, 0)
	if err != nil {
		return err
	}
	worker, given, err := wire.ParseReports(body)
	if err != nil {
		return err
	}
	if worker = names.Canonical(worker); !limits.ValidName(worker) {
		return wrong("body.worker", "%.40q %s", worker, limits.NameRule)
	}
	if err := w.who.as(worker); err != nil {
		return err
	}
	answers := make([]wire.Answer, len(given))
	for i := range given {
		answers[i].IDText = given[i].IDText
		if given[i].Invalid != "" {
			answers[i].Status, answers[i].Detail = task.Invalid, given[i].Invalid
		}
	}
	if err := a.screen(r, w.who, worker, given, answers); err != nil {
		return err
	}
	reports := make([]task.Report, 0, len(given))
	for i := range given {
		if answers[i].Status == "" {
			reports = append(reports, given[i].Report)
		}
	}
	used := 0
	for i := range reports {
		used += len(reports[i].Context)
	}
	if wasteful(body, used) {
		for i := range reports {
			reports[i].Context = bytes.Clone(reports[i].Context)
		}
	}
	if len(reports) > 0 {
		settled, err := a.conf.Engine.Report(context.WithoutCancel(r.Context()), worker, reports)
		if err != nil {
			return err
		}
		next := 0
		for i := range given {
			if answers[i].Status == "" {
				answers[i].Status, answers[i].Detail = settled[next].Status, settled[next].Detail
				next++
			}
		}
	}
	a.write(w, http.StatusOK, func(b []byte) []byte { return wire.AppendAnswers(b, answers) })
	return nil
}

func (a *API) beat(w *answer, r *http.Request) error {
	query, err := knownQuery(r, "wait", "version")
	if err != nil {
		return err
	}
	wait, err := parseWait(query.Get("wait"))
	if err != nil {
		return err
	}
	worker := r.PathValue("worker")
	if !limits.ValidName(worker) {
		return wrong("path.worker", "%.40q %s", worker, limits.NameRule)
	}
	if err := w.who.as(worker); err != nil {
		return err
	}
	body, err := a.body(w, r, 0)
	if err != nil {
		return err
	}
	beat, err := wire.ParseBeat(body)
	if err != nil {
		return err
	}
	a.letGo(w)
	if err := w.who.mayBeat(&beat); err != nil {
		return err
	}
	beat.Worker, beat.Wait, beat.Version = worker, wait, query.Get("version")
	told, err := a.conf.Engine.Beat(r.Context(), beat)
	if err != nil {
		return err
	}
	for i := range told.Jobs.Add {
		told.Jobs.Add[i].Spec = readable(told.Jobs.Add[i].Spec)
	}
	a.write(w, http.StatusOK, func(b []byte) []byte { return wire.AppendBeatAnswer(b, told) })
	return nil
}

// parseWait reads how long a call may wait.
func parseWait(text string) (time.Duration, error) {
	var d duration
	if text == "" {
		return 0, nil
	}
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return 0, wrong("query.wait", "%v", err)
	}
	return d.Duration, checkWait(d.Duration)
}

func checkWait(d time.Duration) error {
	if d < 0 || d > limits.MaxWait {
		return wrong("query.wait", "must be 0s to %v", limits.MaxWait)
	}
	return nil
}
