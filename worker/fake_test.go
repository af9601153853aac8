package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/task"
)

// fakeQueue is a queue in memory: tasks in order, tokens that fence, back-offs by progress.Decide.
// Its switches stand for servers in trouble.
type fakeQueue struct {
	limits progress.Limits

	fakeBoss

	mu       sync.Mutex
	woken    chan struct{} // closed and replaced at each change
	tasks    map[task.ID]*fakeTask
	order    []task.ID
	logs     map[task.ID][]task.LogLine
	beats    []task.Beat
	answered time.Time // when the last beat came that was answered
	holds    []task.HoldRequest
	reports  []task.Report
	flights  []int // sizes of reports' flights
	down     error // answers everything with it
	logDown  error // answers logs with it
	muteBeat bool  // beats are never answered
	lateHold bool  // holds don't notice that their caller left
	answer   func(task.Report) *task.Answer
	n        int32
}

type fakeTask struct {
	progress.Standing
	queue   string
	context []byte
	result  []byte
	state   task.State
	token   string
	out     bool
	action  task.Action
	due     time.Time
	timeout time.Duration
	steps   []task.Kind
	errs    []string
}

var errDown = errors.New("down")

func newFake() *fakeQueue {
	return &fakeQueue{
		limits: progress.Limits{
			MaxAttempts: 5, Retry: task.Backoff{
				Initial: time.Second, Max: 10 * time.Second, Factor: 2,
			},
		},
		woken: make(chan struct{}), tasks: map[task.ID]*fakeTask{},
		logs: map[task.ID][]task.LogLine{},
	}
}

// wake tells all waiting holds to look again. mu is held.
func (q *fakeQueue) wake() {
	close(q.woken)
	q.woken = make(chan struct{})
}

func (q *fakeQueue) submit(queue, stage, context string) task.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	id := task.ID{Batch: 1 << 40, N: q.n}
	t := &fakeTask{
		Standing: progress.Standing{Stage: stage}, queue: queue, state: task.Ready,
		timeout: limits.DefaultTimeout,
	}
	if context != "" {
		t.context = []byte(context)
	}
	q.tasks[id] = t
	q.order = append(q.order, id)
	q.wake()
	return id
}

func (q *fakeQueue) set(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.wake()
}

func (q *fakeQueue) task(id task.ID) fakeTask {
	q.mu.Lock()
	defer q.mu.Unlock()
	return *q.tasks[id]
}

func (q *fakeQueue) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	end := time.NewTimer(r.Wait)
	defer end.Stop()
	q.mu.Lock()
	q.holds = append(q.holds, r)
	late := q.lateHold
	q.mu.Unlock()
	for {
		q.mu.Lock()
		down, woken := q.down, q.woken
		tasks, next := q.pick(r)
		q.mu.Unlock()
		if down != nil {
			return task.HoldAnswer{}, down
		}
		if len(tasks) > 0 {
			return task.HoldAnswer{Tasks: tasks}, nil
		}
		var due <-chan time.Time
		if next > 0 {
			due = time.After(next)
		}
		done := ctx.Done()
		if late {
			done = nil
		}
		select {
		case <-woken:
		case <-due:
		case <-end.C:
			return task.HoldAnswer{}, nil
		case <-done:
			return task.HoldAnswer{}, context.Cause(ctx)
		}
	}
}

// pick hands out what is due. mu is held.
func (q *fakeQueue) pick(r task.HoldRequest) (tasks []task.Handout, next time.Duration) {
	if q.down != nil {
		return nil, 0
	}
	for _, id := range q.order {
		t := q.tasks[id]
		if t.state.Final() || t.out || !slices.Contains(r.Queues, t.queue) ||
			len(tasks) == r.Limit {
			continue
		}
		if wait := time.Until(t.due); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		t.out, t.state = true, task.Running
		t.token = task.Token{Span: 1, SpanToken: 1, Seq: t.Seq}.String()
		tasks = append(tasks, task.Handout{
			ID: id, Queue: t.queue, Stage: t.Stage, Context: t.context, Attempt: int(t.Attempt) + 1,
			Token:    t.token,
			Deadline: time.Now().Add(t.timeout),
		})
	}
	return tasks, next
}

func (q *fakeQueue) Report(
	_ context.Context, _ string, reports []task.Report,
) ([]task.Answer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flights = append(q.flights, len(reports))
	if q.down != nil {
		return nil, q.down
	}
	answers := make([]task.Answer, len(reports))
	for i, r := range reports {
		q.reports = append(q.reports, r)
		if q.answer != nil {
			if a := q.answer(r); a != nil {
				answers[i] = *a
				continue
			}
		}
		answers[i] = task.Answer{ID: r.ID, Status: q.record(r)}
	}
	q.wake()
	return answers, nil
}

// record lets an outcome stand when the token is the newest. mu is held.
func (q *fakeQueue) record(r task.Report) task.Status {
	t := q.tasks[r.ID]
	switch {
	case t == nil:
		return task.Unknown
	case !t.out || t.token != r.Token:
		return task.Stale
	}
	d := progress.Decide(r.ID, t.Standing, r.Outcome, q.limits)
	t.steps = append(t.steps, r.Kind)
	t.errs = append(t.errs, r.Error)
	t.Stage = d.Stage
	t.Attempt = d.Attempt
	t.out = false
	t.state = task.Ready
	t.due = time.Now().Add(d.Delay)
	t.Seq++
	if r.Context != nil {
		t.context = r.Context
	}
	if d.Final != "" {
		t.state, t.result = d.Final, r.Result
	}
	return task.Recorded
}

func (q *fakeQueue) Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	q.mu.Lock()
	q.beats = append(q.beats, b)
	q.mu.Unlock()
	came := time.Now()
	if b.Wait > 0 {
		q.linger(ctx, b)
	}
	q.mu.Lock()
	mute, down := q.muteBeat, cmp.Or(q.newer, q.down)
	var answer task.BeatAnswer
	if down == nil && !mute {
		answer = task.BeatAnswer{Version: strconv.Itoa(q.version), Jobs: q.orders(b)}
		q.answered = came
	}
	for _, h := range b.Tasks {
		if t := q.tasks[h.ID]; t != nil && t.action != "" {
			answer.Tasks = append(answer.Tasks, task.HeldAction{ID: h.ID, Action: t.action})
		}
	}
	q.mu.Unlock()
	if mute {
		<-ctx.Done()
		return answer, context.Cause(ctx)
	}
	return answer, down
}

func (q *fakeQueue) Log(_ context.Context, id task.ID, lines []task.LogLine) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := cmp.Or(q.down, q.logDown); err != nil {
		return err
	}
	q.logs[id] = append(q.logs[id], lines...)
	return nil
}

func (q *fakeQueue) log(id task.ID) (texts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.logs[id] {
		texts = append(texts, l.Stream+": "+l.Text)
	}
	return texts
}

// said is how many beats came.
func (q *fakeQueue) said() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.beats)
}

func (q *fakeQueue) lastBeat() task.Beat {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.beats[len(q.beats)-1]
}
