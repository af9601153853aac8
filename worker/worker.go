package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// Why a handler's context ended; see context.Cause.
var (
	ErrCancelled = errors.New("the task was cancelled")
	ErrStale     = errors.New("the hand-out is no longer this worker's")
	ErrDeadline  = errors.New("the attempt's time is over")
	ErrCutOff    = errors.New("no beat was answered for too long")
	ErrStopping  = errors.New("the worker is stopping")
)

// Handler does one stage of one task. Its context ends when the work has become pointless;
// context.Cause tells why.
type Handler func(ctx context.Context, t task.Handout) task.Outcome

// Config says where the work comes from and how much of it is wanted. Only Queue and Name are
// needed.
type Config struct {
	Queue Queue // where the work comes from
	// JobLogs is where the lines of jobs' logs go. Default: Queue, when it is one, as a client is;
	// else they go nowhere.
	JobLogs JobLogs

	// Name is the worker's name, as rota names things, needed. Two workers at a time must not
	// have the same: the server would take them for one that holds and forgets tasks. Host name and
	// process id make a good one. With access tokens it is the name that the token is good for.
	Name     string
	Capacity int // units of load at once: a task costs 1, a job its load; default 8
	// Ahead is how many tasks may wait here for a lane, at most, so that lanes never wait for the
	// network. How many do is a matter of pace: no more than will start within 20 ms, so slow
	// handlers hold nothing ahead. Default 768; -1 = none ever.
	Ahead  int
	Labels map[string]string // shown, and used to place jobs
	Zone   string            // where it stands, as replicas are spread over zones
	// Version is that of the program, for people; nodes of before this field refuse it. Default ""
	Version string
	Load    func() task.Load // of the machine, asked for at each beat; default: none is told
	// Schema is that of the store's tables on PostgreSQL, in which FinishTx records outcomes;
	// default "rota".
	Schema string
	Log    *slog.Logger // default: slog.Default()

	Beat time.Duration // between two beats, unless the server wants it sooner; default 5s
	// so long after the sending of the last answered beat all handlers are stopped; at least
	// 2 × Beat. Default 12s, and for jobs four fifths of their groups' silence, which is the same
	// unless somebody set it
	SelfStop time.Duration
	HoldWait time.Duration // of one long poll; at most a minute; default 30s
	// a busy worker waits so long for more before it asks for tasks or reports; default 1ms
	Linger time.Duration
	// outcomes not yet answered beyond which nothing new is taken; default 1,000 + 2 × Capacity
	Backlog int
	// a job whose handler has lasted so long counts as running; default 250ms
	JobSettle time.Duration
	StopGrace time.Duration // for running tasks once Run's context has ended; default 30s
	SendGrace time.Duration // for the last reports after that; default 10s
}

func (c Config) withDefaults() Config {
	c.Capacity = cmp.Or(c.Capacity, 8)
	c.Schema = cmp.Or(c.Schema, "rota")
	c.Ahead = max(cmp.Or(c.Ahead, 768), 0)
	c.Beat = cmp.Or(c.Beat, 5*time.Second)
	c.SelfStop = cmp.Or(c.SelfStop, 12*time.Second)
	c.HoldWait = cmp.Or(c.HoldWait, 30*time.Second)
	c.Linger = cmp.Or(c.Linger, time.Millisecond)
	c.Backlog = cmp.Or(c.Backlog, min(1000+2*c.Capacity, maxTasks))
	c.JobSettle = cmp.Or(c.JobSettle, 250*time.Millisecond)
	c.StopGrace = cmp.Or(c.StopGrace, 30*time.Second)
	c.SendGrace = cmp.Or(c.SendGrace, 10*time.Second)
	if c.JobLogs == nil {
		c.JobLogs, _ = c.Queue.(JobLogs)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

const (
	// keeps a beat, which names every task, below the server's limits
	maxTasks    = limits.MaxReports / 2
	maxCapacity = int(task.MaxLoad / task.Unit)
)

// validate names everything that is wrong.
func (c Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Queue == nil {
		wrong("queue: needed")
	}
	if !limits.ValidName(c.Name) {
		wrong("name %.40q: %s", c.Name, limits.NameRule)
	}
	if c.Capacity < 1 || c.Capacity > maxCapacity {
		wrong("capacity %d: must be 1 to %d", c.Capacity, maxCapacity)
	}
	if c.Ahead > limits.MaxHold {
		wrong("ahead %d: must be at most %d", c.Ahead, limits.MaxHold)
	}
	if c.Beat <= 0 || c.SelfStop < 2*c.Beat {
		wrong("beat %v, self-stop %v: must be positive, and self-stop at least two beats", c.Beat,
			c.SelfStop)
	}
	if c.HoldWait < 0 || c.HoldWait > limits.MaxWait {
		wrong("hold wait %v: must be at most %v", c.HoldWait, limits.MaxWait)
	}
	if c.Linger < 0 || c.JobSettle < 0 || c.StopGrace < 0 || c.SendGrace < 0 {
		wrong("linger, job settle, stop grace, send grace: must not be negative")
	}
	if !schemaName.MatchString(c.Schema) {
		wrong("schema %.80q: must match %s", c.Schema, schemaName)
	}
	if c.Backlog < 1 || c.Backlog > maxTasks {
		wrong("backlog %d: must be 1 to %d", c.Backlog, maxTasks)
	}
	return errors.Join(errs...)
}

// Worker runs handlers. Make it with New, give it handlers, Run it once.
type Worker struct {
	config      Config
	ownStop     time.Duration // Config.SelfStop as it was given; 0 = it was not
	incarnation string        // tells this start of the worker from others

	handlers map[string]Handler      // by queue; fixed when Run begins
	stages   map[string]Stages       // by queue, of those whose handler they are
	around   []func(Handler) Handler // the outermost first; see Use
	queues   []string                // their names, sorted
	jobs     map[string]JobHandler   // by group; fixed when Run begins
	groups   []string                // their names, sorted
	problems []error                 // with them; Run says so
	began    atomic.Bool
	// how long tasks and jobs go on without an answered beat, in nanoseconds; 0 = not known yet
	goesTasks, goesJobs atomic.Int64

	starts chan *hand // to the lanes; has room for all that may be held, so sending never waits

	// Hints of size 1: something may have changed, look again.
	room    chan struct{} // there is room for more tasks, or they may be taken again
	ended   chan struct{} // an outcome waits to be reported
	settled chan struct{} // reports were answered
	logged  chan struct{} // a task's log has new lines
	queued  chan struct{} // tasks wait for a lane
	look    chan struct{} // a job may begin
	news    chan struct{} // how jobs stand is to be told

	mu         sync.Mutex
	held       []*hand // all hand-outs from their arrival until their report is answered
	unreported []*hand // those with an outcome that no flight carries, oldest first
	flying     int     // requests with reports under way
	failures   int     // of them in a row
	reduced    int     // how many reports a flight may carry after a failure
	unfinished int     // hand-outs that a lane runs, or that wait for one
	finished   int64   // hand-outs that a lane ran, since the worker began
	ahead      int     // how many may wait for one at present, by the pace
	pace       pace
	open       bool   // beats are answered: tasks may be taken, and jobs begin
	halted     bool   // beats were not answered for so long that jobs were stopped, too
	stopHold   func() // ends the hold in flight
	stats      Stats

	// assignments, in the order in which they came, until they have ended
	runs    []*run
	closing sync.WaitGroup // sends the last lines of those that ended between two calls
	// their load, whether they are called or not: tasks get the rest
	reserved task.Units
	cramped  bool                    // one of them waits for tasks or others to end
	signs    bool                    // beats are to tell of the signs of their handlers
	stopping bool                    // no assignment is taken any more
	stopPoll context.CancelCauseFunc // ends the beat in flight, when it is a long poll
}

// Stats are counts since the worker began, and what it does now.
type Stats struct {
	Holds    int64 // answers with tasks
	Taken    int64 // hand-outs
	Recorded int64 // outcomes that count
	Refused  int64 // outcomes that came too late, or that the server knew nothing of
	Panics   int64
	Returned int64 // hand-outs given back because no lane became free in time
	Running  int   // handlers of tasks at work now

	Jobs        int   // assignments here
	JobFailures int64 // calls of jobs' handlers that returned early
}

// New makes a worker.
func New(c Config) (*Worker, error) {
	ownStop := c.SelfStop
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure worker: %w", err)
	}
	return &Worker{
		config: c, ownStop: ownStop, incarnation: rand.Text(), handlers: make(map[string]Handler),
		stages: make(map[string]Stages), jobs: make(map[string]JobHandler),
		stopHold: func() {}, stopPoll: func(error) {},
		room: make(chan struct{}, 1), ended: make(chan struct{}, 1),
		settled: make(chan struct{}, 1), logged: make(chan struct{}, 1),
		queued: make(chan struct{}, 1), look: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}, nil
}

// Handle lets h do the tasks of a queue, whatever their stage. Call it before Run, once per queue.
func (w *Worker) Handle(queue string, h Handler) {
	switch {
	case !limits.ValidName(queue):
		w.problems = append(w.problems, fmt.Errorf("queue %.40q: %s", queue, limits.NameRule))
	case h == nil:
		w.problems = append(w.problems, fmt.Errorf("queue %q: no handler", queue))
	case w.handlers[queue] != nil:
		w.problems = append(w.problems, fmt.Errorf("queue %q: two handlers", queue))
	default:
		w.handlers[queue] = h
	}
}

// HandleStages lets each stage of a queue's tasks have its own handler; the first stage's name is
// what the submission says, often "". A task whose stage has none fails for good.
func (w *Worker) HandleStages(queue string, stages Stages) {
	if len(stages) == 0 {
		w.problems = append(w.problems, fmt.Errorf("queue %q: no stages", queue))
		return
	}
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		w.HandleStage(queue, stage, stages[stage])
	}
}

// HandleStage lets h do one stage of a queue's tasks, as HandleStages does. Call it before Run,
// once per queue and stage.
func (w *Worker) HandleStage(queue, stage string, h Handler) {
	stages := w.stages[queue]
	switch {
	case h == nil:
		w.problems = append(w.problems, fmt.Errorf("queue %q, stage %q: no handler", queue, stage))
		return
	case stages[stage] != nil:
		w.problems = append(w.problems,
			fmt.Errorf("queue %q, stage %q: two handlers", queue, stage))
		return
	case stages == nil:
		stages = Stages{}
		w.stages[queue] = stages
		w.Handle(queue, stages.handle)
	}
	stages[stage] = h
}

// Use puts wrap around each handler of tasks, whichever way it was given: what the first call puts
// around is the outermost. Call it before Run. A panic in a handler passes through what is around
// it, and is a failed attempt.
func (w *Worker) Use(wrap func(Handler) Handler) {
	if wrap == nil {
		w.problems = append(w.problems, errors.New("use: nothing to put around handlers"))
		return
	}
	w.around = append(w.around, wrap)
}

// Stages are handlers by stage.
type Stages map[string]Handler

func (s Stages) handle(ctx context.Context, t task.Handout) task.Outcome {
	if h := s[t.Stage]; h != nil {
		return h(ctx, t)
	}
	return task.Fail(fmt.Errorf("no handler for stage %q of queue %q; known are %q", t.Stage,
		t.Queue, slices.Sorted(maps.Keys(s))))
}

// Stats answers the counts.
func (w *Worker) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Running, s.Jobs = min(w.unfinished, w.config.Capacity), len(w.runs)
	return s
}

// Run takes and runs tasks, and runs jobs, until ctx ends, then stops in two steps as the package
// comment says. It returns an error when the handlers are set up wrongly, when the server does not
// let this worker in (its first beat or hold is answered by an error with a method Denied() bool
// that says so), when a newer worker has its name (a beat is answered by an error with a method
// Superseded() bool that says so; then errors.Is finds ErrSuperseded), or when outcomes could not
// be reported in the end.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.prepare(); err != nil {
		return fmt.Errorf("run worker %q: %w", w.config.Name, err)
	}
	// the second step: running handlers
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	// beats, reports, logs: until nothing is left to say
	speak, endSpeech := context.WithCancel(context.WithoutCancel(ctx))
	defer endSpeech()
	var handlers, loops sync.WaitGroup
	if len(w.queues) > 0 {
		for range w.config.Capacity {
			handlers.Go(func() { w.lane(work, &handlers) })
		}
		loops.Go(func() { w.returns(speak) })
	}
	if len(w.groups) > 0 {
		loops.Go(func() { w.callJobs(speak, work, &handlers) })
	}
	taking, deny := context.WithCancelCause(ctx)
	defer deny(nil)
	loops.Go(func() { w.beats(speak, deny) })
	loops.Go(func() { w.reports(speak) })
	loops.Go(func() { w.logs(speak) })

	if len(w.queues) > 0 {
		w.take(taking, deny)
		w.giveBack(0)
		close(w.starts)
	}
	<-taking.Done()
	refused, why := context.Cause(taking), ErrStopping
	if superseded(refused) {
		why = ErrSuperseded
		stopWork(why) // the tasks here count as lost
	}
	w.endRuns(why)
	grace := time.AfterFunc(w.config.StopGrace, func() { stopWork(ErrStopping) })
	handlers.Wait()
	grace.Stop()
	w.closing.Wait()
	err := w.flush(speak)
	endSpeech()
	loops.Wait()
	w.tellRest()
	switch {
	case denied(refused):
		return fmt.Errorf("run worker %q: %w", w.config.Name, refused)
	case superseded(refused):
		return fmt.Errorf("run worker %q: %w: %w", w.config.Name, ErrSuperseded, refused)
	}
	w.leave(context.WithoutCancel(ctx))
	return err
}

// Check says everything that is wrong with the handlers, as Run would.
func (w *Worker) Check() error {
	wrong := slices.Clone(w.problems)
	if len(w.handlers) == 0 && len(w.jobs) == 0 {
		wrong = append(wrong, errors.New("no handlers"))
	}
	if n := len(w.handlers); n > limits.MaxQueues {
		wrong = append(wrong, fmt.Errorf("%d queues: at most %d", n, limits.MaxQueues))
	}
	if n := len(w.jobs); n > maxGroups {
		wrong = append(wrong, fmt.Errorf("%d groups: at most %d", n, maxGroups))
	}
	if len(w.handlers) > 0 && w.config.Capacity > maxTasks {
		wrong = append(wrong, fmt.Errorf("capacity %d: at most %d for tasks", w.config.Capacity,
			maxTasks))
	}
	if w.began.Load() {
		wrong = append(wrong, errors.New("it ran already"))
	}
	return errors.Join(wrong...)
}

// prepare fixes the handlers when nothing is wrong with them.
func (w *Worker) prepare() error {
	if err := w.Check(); err != nil {
		return err
	}
	if w.began.Swap(true) {
		return errors.New("it ran already")
	}
	for queue, h := range w.handlers {
		for _, wrap := range slices.Backward(w.around) {
			if h = wrap(h); h == nil {
				return fmt.Errorf("queue %q: what was put around its handler is none", queue)
			}
		}
		w.handlers[queue] = h
	}
	w.queues = slices.Sorted(maps.Keys(w.handlers))
	w.groups = slices.Sorted(maps.Keys(w.jobs))
	if len(w.groups) > 0 {
		// what jobs leave of the capacity changes, and who waits for a lane would not know
		w.config.Ahead = 0
	}
	if len(w.queues) > 0 {
		w.starts = make(chan *hand, w.config.Capacity+w.config.Ahead)
	}
	return nil
}

// hint says on a channel of size 1 that something may have changed.
func hint(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
