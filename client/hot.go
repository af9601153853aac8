package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// The calls of workers and submitters: many per second, their JSON is written by hand (package
// wire).

// submissionSize is about what a submission weighs on the wire.
func submissionSize(s *task.Submission) int {
	n := 96 + len(s.Context) + len(s.Queue) + len(s.Stage) + len(s.Key) + len(s.GroupKey) +
		len(s.Ref)
	for _, name := range s.After {
		n += len(name) + 3
	}
	return n
}

// callOfItsOwn tells whether tasks mean something else in one call with others: refs are names
// within a call, and the server may refuse all of a call because of one task.
func callOfItsOwn(tasks []task.Submission) bool {
	for i := range tasks {
		s := &tasks[i]
		if s.Ref != "" || len(s.After) > 0 || s.OnExisting == task.OnExistingRefuse {
			return true
		}
	}
	return false
}

// allKeyed tells whether the tasks may be submitted twice.
func allKeyed(tasks []task.Submission) bool {
	for i := range tasks {
		if tasks[i].Key == "" {
			return false
		}
	}
	return true
}

// submit is one flight of submissions.
func (c *Client) submit(
	ctx context.Context, tasks []task.Submission, safe bool,
) ([]task.Receipt, error) {
	a, err := c.do(ctx, request{method: http.MethodPost, path: "/v1/tasks", safe: safe, hot: &hot{
		kind: frame.Submit,
		frame: func(b []byte, long int) ([]byte, []wire.Cut) {
			return frame.CutSubmissions(b, tasks, long)
		},
		json: func() []byte {
			size := 32
			for i := range tasks {
				size += submissionSize(&tasks[i])
			}
			return wire.AppendSubmissions(make([]byte, 0, size), tasks)
		},
	}})
	if err != nil {
		return nil, err
	}
	read := wire.ParseReceipts
	if a.header == nil {
		read = frame.ParseReceipts
	}
	receipts, err := read(a.body)
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	return receipts, nil
}

// clockSlack is how far the clocks may be apart, the whole seconds of the Date header included,
// before deadlines are moved.
const clockSlack = 2 * time.Second

// Hold waits up to r.Wait for the first task, then answers with what is there; no tasks is no
// error. Deadlines and ready times are given by the server's clock; when ours differs by more
// than two seconds, they are moved to ours.
func (c *Client) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	a, err := c.do(ctx, request{
		method: http.MethodPost, path: "/v1/tasks/hold", wait: r.Wait, safe: true, hot: &hot{
			kind: frame.Hold,
			frame: func(b []byte, _ int) ([]byte, []wire.Cut) {
				return frame.AppendHold(b, r), nil
			},
			json: func() []byte { return wire.AppendHold(make([]byte, 0, 256), r) },
		},
	})
	if err != nil {
		return task.HoldAnswer{}, fmt.Errorf("hold tasks for %q: %w", r.Worker, err)
	}
	held, err := readHandouts(a)
	if err != nil {
		return task.HoldAnswer{}, fmt.Errorf("read tasks for %q: %w", r.Worker, err)
	}
	if ahead := time.Since(held.Now); !held.Now.IsZero() && ahead.Abs() > clockSlack {
		for i := range held.Tasks {
			for _, at := range []*time.Time{&held.Tasks[i].Deadline, &held.Tasks[i].Ready} {
				if !at.IsZero() {
					*at = at.Add(ahead)
				}
			}
		}
	}
	return held.HoldAnswer, nil
}

// readHandouts reads the answer to a hold, with the server's time where it is known.
func readHandouts(a answer) (held frame.Handouts, err error) {
	if a.header == nil {
		return frame.ParseHandouts(a.body)
	}
	if held.HoldAnswer, err = wire.ParseHandouts(a.body); err == nil {
		held.Now, _ = http.ParseTime(a.header.Get("Date")) // zero where it is none
	}
	return held, err
}

// reportSize is about what a report weighs on the wire. Children weigh so much at least that no
// flight has more of them than a call may have.
func reportSize(r *task.Report) int {
	n := 96 + len(r.Token) + len(r.Stage) + len(r.Context) + len(r.Result) + len(r.Error)
	for i := range r.Spawn {
		n += max(submissionSize(&r.Spawn[i]), gatherBytes/task.MaxSubmissions)
	}
	return n
}

// reportFlights is how many requests with reports of one worker are in flight at a time. One would
// be too few: the server answers after its disk, and a worker's next tasks end long before that.
const reportFlights = 16

// Report records outcomes, durably before it returns; the answers are in the order of the reports.
// Reports of one worker gather: when enough requests are in flight, what comes goes into the next.
// A report may be repeated at any time, and is left as it is until it is answered. One whose
// context or result, or a child's context, is no JSON value is not sent, and answered task.Invalid.
func (c *Client) Report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	sound, refused := soundReports(reports)
	if len(sound) == 0 {
		return refused, nil
	}
	got, err := c.reportsOf(worker).add(ctx, sound)
	if err != nil {
		return nil, fmt.Errorf("report %d outcomes of %q: %w", len(reports), worker, err)
	}
	if refused == nil {
		return got, nil
	}
	for i := range refused {
		if refused[i].Detail == "" {
			refused[i], got = got[0], got[1:]
		}
	}
	return refused, nil
}

// soundReports are those that can be sent, and the answers to all of them, which are still to come
// for these; nil = all can be sent, as is the rule.
func soundReports(reports []task.Report) (sound []task.Report, refused []task.Answer) {
	for i := range reports {
		switch problem := checkReport(&reports[i]); {
		case problem == "" && refused == nil:
		case problem == "":
			sound = append(sound, reports[i])
		default:
			if refused == nil {
				refused = make([]task.Answer, len(reports))
				sound = append(sound, reports[:i]...)
			}
			refused[i] = task.Answer{ID: reports[i].ID, Status: task.Invalid, Detail: problem}
		}
	}
	if refused == nil {
		return reports, nil
	}
	return sound, refused
}

// checkReport says why a report can't be sent: what is no JSON would spoil the others in its
// request.
func checkReport(r *task.Report) string {
	if len(r.Context) > 0 {
		if problem := wire.CheckValue(r.Context); problem != "" {
			return "context: " + problem
		}
	}
	if len(r.Result) > 0 {
		if problem := wire.CheckValue(r.Result); problem != "" {
			return "result: " + problem
		}
	}
	for i := range r.Spawn {
		s := &r.Spawn[i]
		problem := ""
		if s.Err != nil {
			problem = s.Err.Error()
		} else if len(s.Context) > 0 {
			problem = wire.CheckValue(s.Context)
		}
		if problem != "" {
			return fmt.Sprintf("spawn[%d].context: %s", i, problem)
		}
	}
	return ""
}

// reportsOf is the gather of one worker's reports. They are kept: a process has few workers.
func (c *Client) reportsOf(worker string) *gather[task.Report, task.Answer] {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.reports[worker]
	if g == nil {
		g = &gather[task.Report, task.Answer]{
			flights: reportFlights, running: &c.flights, limit: limits.MaxReports, size: reportSize,
			safe: func([]task.Report) bool { return true },
			fly: func(ctx context.Context, reports []task.Report, _ bool) ([]task.Answer, error) {
				return c.report(ctx, worker, reports)
			},
		}
		c.reports[worker] = g
	}
	return g
}

// report is one flight of reports.
func (c *Client) report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	a, err := c.do(ctx, request{
		method: http.MethodPost, path: "/v1/tasks/report", safe: true, hot: &hot{
			kind: frame.Report,
			frame: func(b []byte, long int) ([]byte, []wire.Cut) {
				return frame.CutReports(b, worker, reports, long)
			},
			json: func() []byte {
				size := 64 + len(worker)
				for i := range reports {
					size += reportSize(&reports[i])
				}
				return wire.AppendReports(make([]byte, 0, size), worker, reports)
			},
		},
	})
	if err != nil {
		return nil, err
	}
	answers, err := readAnswers(a, reports)
	if err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	return answers, nil
}

// readAnswers reads the answer to reports. On a stream they have no ids.
func readAnswers(a answer, reports []task.Report) ([]task.Answer, error) {
	if a.header != nil {
		return wire.ParseAnswers(a.body)
	}
	answers, err := frame.ParseAnswers(a.body)
	if err == nil && len(answers) != len(reports) {
		err = fmt.Errorf("%d answers to %d reports", len(answers), len(reports))
	}
	if err != nil {
		return nil, err
	}
	for i := range answers {
		answers[i].ID = reports[i].ID
	}
	return answers, nil
}

// Beat says that a worker lives and what it holds, and answers what to do with it.
func (c *Client) Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	query := url.Values{}
	if b.Wait > 0 {
		query.Set("wait", b.Wait.String())
		query.Set("version", b.Version)
	}
	a, err := c.do(ctx, request{
		method: http.MethodPost, path: workerPath(b.Worker) + "/beat", query: query,
		// while the store is away only who holds the worker's tasks can answer
		wait: b.Wait, safe: true, anywhere: true, hot: &hot{
			kind: frame.Beat,
			frame: func(to []byte, _ int) ([]byte, []wire.Cut) {
				return frame.AppendBeat(to, b), nil
			},
			json: func() []byte {
				return wire.AppendBeat(make([]byte, 0, 256+64*len(b.Tasks)), b)
			},
		},
	})
	if err != nil {
		return task.BeatAnswer{}, fmt.Errorf("beat of %q: %w", b.Worker, err)
	}
	answer, err := wire.ParseBeatAnswer(a.body)
	if err != nil {
		return task.BeatAnswer{}, fmt.Errorf("read answer to the beat of %q: %w", b.Worker, err)
	}
	return answer, nil
}

// Log adds lines to the log of a task. It is not repeated once it may have arrived: whether a line
// twice is better than one too few is for the caller to say.
func (c *Client) Log(ctx context.Context, id task.ID, lines []task.LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	size := 0
	for i := range lines {
		size += 80 + len(lines[i].Text)
	}
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: taskPath(id) + "/logs", lines: true,
		body: wire.AppendLines(make([]byte, 0, size), lines),
	})
	if err != nil {
		return fmt.Errorf("log %d lines of task %v: %w", len(lines), id, err)
	}
	return nil
}
