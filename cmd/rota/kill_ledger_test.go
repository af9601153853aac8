//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// ledgers are what the test was promised: a line for each acknowledged task and each acknowledged
// report, on the disk before anybody goes on.
type ledgers struct {
	tasks, reports *ledger

	mu       sync.Mutex
	doubtful map[string]bool // marks of tasks that may or may not exist
	ahead    atomic.Int64    // acknowledged tasks that no handler has finished yet, about
	repeated atomic.Int64    // reports on used tokens that were answered as they should be
}

// promised is a line of the tasks' ledger.
type promised struct {
	ID   task.ID
	Mark string // in its context; one of its own for each task
}

// reported is a line of the reports' ledger.
type reported struct {
	ID      task.ID
	Token   string
	Outcome task.Kind
	Mark    string // its error text; one of its own for each hand-out
	Status  task.Status
}

func newLedgers(t *testing.T) *ledgers {
	t.Helper()
	folder := t.TempDir()
	return &ledgers{
		tasks: newLedger(t, folder, "tasks"), reports: newLedger(t, folder, "reports"),
		doubtful: map[string]bool{},
	}
}

func (l *ledgers) doubt(tasks []task.Submission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range tasks {
		l.doubtful[markOf(s.Context)] = true
	}
}

// ledger is a file of JSON lines.
type ledger struct {
	t    *testing.T
	mu   sync.Mutex
	file *os.File
}

func newLedger(t *testing.T, folder, name string) *ledger {
	t.Helper()
	f, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &ledger{t: t, file: f}
}

// write returns once the lines are on the disk.
func write[T any](l *ledger, lines []T) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	for _, line := range lines {
		if err := e.Encode(line); err != nil {
			l.t.Errorf("write ledger: %v", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := io.WriteString(l.file, b.String())
	if err := errors.Join(err, l.file.Sync()); err != nil {
		l.t.Errorf("write ledger: %v", err)
	}
}

func read[T any](t *testing.T, l *ledger) (lines []T) {
	t.Helper()
	f, err := os.Open(l.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); ; {
		var line T
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

// readReports checks that no hand-out has two accepted outcomes, and returns one line for each.
func (l *ledgers) readReports(t *testing.T) []reported {
	t.Helper()
	type place struct {
		id  task.ID
		seq int32
	}
	var once []reported
	first := map[place]reported{}
	for _, r := range read[reported](t, l.reports) {
		token, err := task.ParseToken(r.Token)
		if err != nil {
			t.Fatal(err)
		}
		at := place{r.ID, token.Seq}
		f, known := first[at]
		if known && (f.Token != r.Token || f.Outcome != r.Outcome || f.Mark != r.Mark) {
			t.Errorf("task %v, seq %d: two outcomes were accepted: %+v and %+v", r.ID, token.Seq, f,
				r)
		}
		if !known {
			first[at] = r
			once = append(once, r)
		}
	}
	return once
}

// markOf is the mark in a context.
func markOf(text json.RawMessage) string {
	var v struct{ Mark string }
	// without a mark it is unknown to every ledger, and that is said there
	_ = json.Unmarshal(text, &v)
	return v.Mark
}

// submitter submits until it is stopped.
type submitter struct {
	t       *testing.T
	client  *client.Client
	ledgers *ledgers
	luck    *rand.Rand
	name    string
	count   int
}

func (p *submitter) run(ctx context.Context) {
	for ctx.Err() == nil {
		if p.ledgers.ahead.Load() > 1000 {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		p.submit(p.tasks())
		time.Sleep(time.Duration(p.luck.IntN(20)) * time.Millisecond)
	}
}

// tasks makes a submission: some few tasks or many, with keys or without, some with contexts for
// the blob folder.
func (p *submitter) tasks() []task.Submission {
	tasks := make([]task.Submission, 1+p.luck.IntN(1+p.luck.IntN(60)))
	keyed := p.luck.IntN(2) == 0
	for i := range tasks {
		p.count++
		mark, pad := fmt.Sprintf("%s-%d", p.name, p.count), ""
		if p.luck.IntN(100) == 0 {
			pad = strings.Repeat("x", 5000)
		}
		tasks[i] = task.Submission{
			Queue: killQueue, Context: fmt.Appendf(nil, `{"mark":%q,"pad":%q}`, mark, pad),
		}
		if keyed {
			tasks[i].Key = mark
		}
	}
	return tasks
}

// submit submits until the outcome is known. Without keys there is one try only: when its outcome
// stays unknown, the tasks may exist or not.
func (p *submitter) submit(tasks []task.Submission) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		receipts, err := p.client.Submit(context.Background(), tasks...)
		switch {
		case err == nil:
			lines := make([]promised, len(tasks))
			for i := range tasks {
				lines[i] = promised{receipts[i].ID, markOf(tasks[i].Context)}
			}
			write(p.ledgers.tasks, lines)
			p.ledgers.ahead.Add(int64(len(tasks)))
			return
		case tasks[0].Key == "" && errors.Is(err, client.ErrOutcomeUnknown):
			p.ledgers.doubt(tasks)
			return
		case errors.Is(err, client.ErrInvalid), time.Now().After(deadline):
			p.t.Errorf("submit: %v", err)
			return
		}
	}
}

// handleKilled ends a hand-out in one way or another. Its mark is the token, which no two hand-outs
// share.
func handleKilled(ctx context.Context, h task.Handout) task.Outcome {
	token, err := task.ParseToken(h.Token)
	if err != nil {
		return task.Fail(err)
	}
	luck := rand.New(rand.NewPCG(h.ID.Seed(token.Seq), 0))
	pause := time.Duration(0)
	switch luck.IntN(200) {
	case 0:
		pause = 1500 * time.Millisecond // old enough for a running row
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
		pause = time.Duration(luck.IntN(50)) * time.Millisecond
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
	o := task.Finish(json.RawMessage(`"` + h.Token + `"`))
	switch n := luck.IntN(20); {
	case token.Seq > 20: // enough
	case n < 6:
		o = task.Next(fmt.Sprintf("stage-%d", token.Seq), nil)
	case n == 6:
		o = task.Next("padded",
			json.RawMessage(fmt.Sprintf(`{"mark":%q,"pad":"%06000d"}`, markOf(h.Context),
				token.Seq)))
	case n < 9:
		o = task.RetryAfter(time.Duration(luck.IntN(30))*time.Millisecond, nil)
	case n == 9:
		o = task.Snooze(20 * time.Millisecond)
	case n == 10:
		o = task.Release()
	}
	o.Error = h.Token
	return o
}

// ledgerQueue writes down what a worker was answered before the worker learns of it. Now and then
// it says the same again, which must be answered so, or something else, which must be refused.
type ledgerQueue struct {
	*client.Client
	t       *testing.T
	ledgers *ledgers
	mu      sync.Mutex
	luck    *rand.Rand // under mu: a worker reports from several goroutines
}

func (q *ledgerQueue) draw(n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.luck.IntN(n)
}

func (q *ledgerQueue) Report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	answers, err := q.Client.Report(ctx, worker, reports)
	if err != nil {
		return nil, err
	}
	var accepted []task.Report
	lines := q.accepted(reports, answers, func(r task.Report) { accepted = append(accepted, r) })
	write(q.ledgers.reports, lines)
	switch q.draw(10) {
	case 0:
		q.again(ctx, worker, accepted, task.Repeated)
	case 1:
		for i := range accepted {
			accepted[i].Outcome = task.Fail(errors.New("another outcome"))
		}
		q.again(ctx, worker, accepted, task.Stale)
	}
	return answers, nil
}

// accepted are the lines of the reports that were recorded, now or before.
func (q *ledgerQueue) accepted(
	reports []task.Report, answers []task.Answer, each func(task.Report),
) (lines []reported) {
	for i, a := range answers {
		if a.Status != task.Recorded && a.Status != task.Repeated {
			continue
		}
		r := reports[i]
		lines = append(lines, reported{r.ID, r.Token, r.Kind, r.Error, a.Status})
		if r.Kind == task.KindDone {
			q.ledgers.ahead.Add(-1)
		}
		each(r)
	}
	return lines
}

// again reports once more on tokens that are used up; every answer must be want.
func (q *ledgerQueue) again(
	ctx context.Context, worker string, reports []task.Report, want task.Status,
) {
	answers, err := q.Client.Report(ctx, worker, reports)
	if err != nil {
		return // the server is away: it said nothing
	}
	for i, a := range answers {
		if a.Status != want {
			q.t.Errorf("task %v, token %s: a report on a used token (%s) was answered %s, want %s",
				reports[i].ID, reports[i].Token,
				reports[i].Kind, a.Status, want)
		}
	}
	q.ledgers.repeated.Add(int64(len(answers)))
}

// killAudit compares the ledger of tasks with what the server lists: all that was promised is done,
// what was not promised was at least submitted, and nothing is there twice.
func killAudit(t *testing.T, c *client.Client, l *ledgers) {
	t.Helper()
	q, err := c.Queue(t.Context(), killQueue)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[task.ID]string{}
	for _, p := range read[promised](t, l.tasks) {
		if mark, twice := kept[p.ID]; twice && mark != p.Mark {
			t.Errorf("task %v was acknowledged as %s and as %s", p.ID, mark, p.Mark)
		}
		kept[p.ID] = p.Mark
	}
	listed, marks := map[task.ID]bool{}, map[string]task.ID{}
	for cursor := ""; ; {
		views, next, err := c.Tasks(t.Context(), client.TaskFilter{Queue: killQueue}, cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			mark, known := kept[v.ID]
			if !known || len(listed)%16 == 0 { // the list has no contexts
				if v, err = c.Task(t.Context(), v.ID, 0); err != nil {
					t.Fatal(err)
				}
				if known && markOf(v.Context) != mark {
					t.Errorf("task %v was acknowledged as %s and is %s", v.ID, mark, v.Context)
				}
				mark = markOf(v.Context)
			}
			if !known && !l.doubtful[mark] {
				t.Errorf("task %v (%s) is there, but nobody submitted it", v.ID, mark)
			}
			if other, twice := marks[mark]; twice {
				t.Errorf("%s is there twice: tasks %v and %v", mark, other, v.ID)
			}
			if v.State != task.Done {
				t.Errorf("task %v (%s) is %s, want done", v.ID, mark, v.State)
			}
			listed[v.ID], marks[mark] = true, v.ID
		}
		if cursor = next; next == "" {
			break
		}
	}
	for id, mark := range kept {
		if !listed[id] {
			t.Errorf("task %v (%s) was acknowledged and is not there", id, mark)
		}
	}
	if want := (task.Counts{Done: int64(len(listed))}); q.Counts != want {
		t.Errorf("counts %+v, but %d tasks are listed", q.Counts, len(listed))
	}
	if len(kept) == 0 || l.repeated.Load() == 0 {
		t.Errorf("%d tasks acknowledged, %d reports repeated: nothing was tested", len(kept),
			l.repeated.Load())
	}
	t.Logf("%d acknowledged tasks are done, so are %d of %d doubtful ones; %d repeated reports answered right",
		len(kept),
		len(listed)-len(kept), len(l.doubtful), l.repeated.Load())
}

// printUnfinished tells what acknowledged tasks wait for, the first few.
func (l *ledgers) printUnfinished(t *testing.T, c *client.Client) {
	t.Helper()
	told := 0
	for _, p := range read[promised](t, l.tasks) {
		v, err := c.Task(t.Context(), p.ID, 0)
		if err == nil && v.State == task.Done {
			continue
		}
		t.Logf("task %v (%s): %s, last with %q, %+v %v", p.ID, p.Mark, v.State, v.Worker, v.Steps,
			err)
		e, err := c.ExplainTask(t.Context(), p.ID)
		t.Logf("%+v %v", e, err)
		if told++; told == 10 {
			return
		}
	}
}
