package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// fake is an Engine that refuses what the real one refuses, notes what it was asked to change, and
// answers from fixed facts.
type fake struct {
	mu      sync.Mutex
	changes []string // accepted calls that change something
	tasks   []task.View
	queues  []task.Queue
	workers []task.Worker
	missing []string // nodes whose workers are not known
	lines   []task.LogLine
	events  []store.Event // besides those that happened before
	asked   int           // calls of Counts
	gates   []store.Gate  // of queues that have limits, as they stand at moment
	gated   []string      // the queues that Gates was asked for, call by call

	keyGates []store.KeyGate // of group keys, as they stand at moment
	keyed    []string        // the queue and the keys that KeyGates was asked for, call by call

	rules map[string]store.KeyRule // by queue/key

	minute int64  // in which all happened
	gone   string // a job that was removed
	err    error  // when set, the answer to everything

	hold    func(context.Context, task.HoldRequest) (task.HoldAnswer, error)
	written int // how often Written was called
}

var moment = time.Date(2026, 10, 1, 12, 0, 0, 123456789, time.UTC)

func idOf(n int32) task.ID { return task.ID{Batch: store.BatchID(moment.UnixMicro(), 7), N: n} }

func token(seq int32) string {
	return task.Token{Span: 5, SpanToken: 1, Seq: seq, Seal: 9}.String()
}

// odd is JSON that every re-encoding would change.
const odd = `{ "a" :1e400, "a":9007199254740993,"s":"<&>` + "\u2028" + `\ud800", "e":[ ] }`

func newFake() *fake {
	done := task.View{
		ID: idOf(0), Queue: "mail", State: task.Done, Stage: "send", Context: json.RawMessage(odd),
		Result:  json.RawMessage(" 1.0"[1:]),
		Attempt: 2, Priority: 30 * time.Second, Due: moment, Created: moment, Worker: "w1",
		Key: "k1", GroupKey: "g",
		Steps: []task.Step{
			{Seq: 0, Kind: task.KindRetry, Stage: "send", Worker: "w2", Started: moment,
				Finished: moment.Add(time.Second), Error: "no\nroute"},
			{Seq: 1, Kind: task.KindDone, Stage: "send", Worker: "w1",
				Started: moment.Add(2 * time.Second), Finished: moment.Add(3 * time.Second)},
		},
	}
	f := &fake{
		tasks: []task.View{
			done,
			{ID: idOf(1), Queue: "mail", State: task.Ready, Attempt: 1, Due: moment,
				Created: moment},
			{ID: idOf(2), Queue: "mail", State: task.Dead, Attempt: 5, Due: moment, Created: moment,
				Worker: "w1"},
			{ID: idOf(3), Queue: "scan", State: task.Running, Attempt: 1, Due: moment,
				Created: moment, Worker: "w1"},
		},
		queues: []task.Queue{limits.DefaultQueue("mail"), limits.DefaultQueue("scan")},
		workers: []task.Worker{
			{Name: "w1", Node: "n1", Active: true, Capacity: 8,
				Load: task.Load{CPU: .5, Memory: .25}, Labels: map[string]string{"gpu": "yes"},
				Zone: "a", Running: 1, Seen: moment},
			{Name: "w2", Node: "n1", Draining: true},
		},
		lines: []task.LogLine{
			{Time: moment, Stream: "stdout", Text: "one"},
			{Time: moment, Stream: "stderr", Text: "two <3\u2028"},
		},
	}
	f.queues[1].Paused = true
	f.rules = map[string]store.KeyRule{
		"mail/acme": {Queue: "mail", Key: "acme", Weight: 5,
			Paused: moment.Add(time.Minute).UnixMicro()},
		"mail/zoo":  {Queue: "mail", Key: "zoo", Paused: store.Never},
		"scan/acme": {Queue: "scan", Key: "acme"},
	}
	return f
}

// change notes an accepted call.
func (f *fake) change(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.changes = append(f.changes, fmt.Sprintf(format, args...))
	}
	return f.err
}

func (f *fake) changed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.changes)
}

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

func (f *fake) find(id task.ID) (*task.View, error) {
	for i := range f.tasks {
		if f.tasks[i].ID == id {
			return &f.tasks[i], nil
		}
	}
	return nil, fmt.Errorf("task %s: %w", id, store.ErrNotFound)
}

func (f *fake) Log(_ context.Context, id task.ID, lines []task.LogLine) error {
	if _, err := f.find(id); err != nil {
		return err
	}
	for i := range lines {
		if time.Since(lines[i].Time) < time.Minute {
			lines[i].Time = time.Time{} // stamped: any time will do
		}
	}
	return f.change("log %s %v", id, lines)
}

func (f *fake) ActOn(_ context.Context, what store.Action, id task.ID) error {
	v, err := f.find(id)
	kind, by, from := what.Kind, what.By, what.Replay
	if err == nil && from.Stage != nil && *from.Stage != v.Stage {
		return fmt.Errorf("task %s never was in stage %q: %w", id, *from.Stage, store.ErrConflict)
	}
	if from.Stage != nil {
		by += " in stage " + *from.Stage
	}
	if what.Tree {
		by += " with the tree"
	}
	if from != (store.Replay{}) {
		return f.change("replay %s %s, whole %v", by, id, from.Whole)
	}
	if err != nil {
		return err
	}
	can := map[task.Kind]bool{
		task.KindCancelled: !v.State.Final(), task.KindReplayed: v.State.Final(),
		task.KindMoved: v.State == task.Ready ||
			v.State == task.Waiting, task.KindRemoved: v.State != task.Running,
	}
	if !can[kind] {
		return fmt.Errorf("task %s is %s, so it can't be %s: %w", id, v.State, kind,
			store.ErrConflict)
	}
	return f.change("act %s %s %s", kind, by, id)
}

// ActAll answers in two pages.
func (f *fake) ActAll(
	_ context.Context, what store.Action, filter store.Filter, after task.ID, dry bool,
) (store.ActedAll, error) {
	all := store.ActedAll{Matched: 4, Changed: 3, Next: task.ID{Batch: 1000}}
	if after != (task.ID{}) {
		all = store.ActedAll{Matched: 3, Changed: 3}
	}
	if dry {
		all.Changed = 0
		return all, f.err
	}
	by := what.By
	if what.Replay.Stage != nil {
		by += " in stage " + *what.Replay.Stage
	}
	if what.Replay.Whole {
		by += " whole"
	}
	return all, f.change("act %s %s %+v after %v", what.Kind, by, filter, after)
}

func (f *fake) Await(context.Context, task.ID, time.Duration) error { return f.err }

func (f *fake) Task(_ context.Context, id task.ID, wait time.Duration) (task.View, error) {
	if f.err != nil {
		return task.View{}, f.err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == idOf(4) {
		return task.View{
			ID: id, Queue: "mail", State: task.Blocked, Stage: "ship", Attempt: 1, Created: moment,
			Awaits: &task.Awaits{Signal: "paid", Key: "order 7", Until: moment, Else: "remind"},
		}, nil
	}
	if id == idOf(5) {
		return task.View{
			ID: id, Queue: "mail", State: task.Blocked, Stage: "join", Attempt: 1, Created: moment,
			Awaits: &task.Awaits{First: true}, Parent: idOf(0),
			Children: &task.Children{Total: 9, Done: 3, Dead: 2, Cancelled: 1, Expired: 1},
		}, nil
	}
	if id == idOf(6) {
		return task.View{
			ID: id, Queue: "mail", State: task.Blocked, Stage: "ship", Attempt: 1, Created: moment,
			Awaits: &task.Awaits{Others: true}, After: []task.Prior{
				{ID: idOf(0), Ref: "pack", If: task.IfDone, State: task.Done},
				{ID: idOf(1), If: task.IfDone},
				{ID: idOf(9), Ref: "<wrap>", If: task.IfEnded},
			},
		}, nil
	}
	v, err := f.find(id)
	if err != nil {
		return task.View{}, err
	}
	return *v, nil
}

func (f *fake) Tasks(
	_ context.Context, filter store.Filter, after task.ID, limit int,
) (page []task.View, next task.ID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range slices.Backward(f.tasks) {
		if s := filter.Stuck; s != nil {
			if v.State != task.Running {
				continue
			}
			v.Stuck = fmt.Sprintf("silent are %v", s.Silent)
		}
		if after != (task.ID{}) && v.ID.Compare(after) >= 0 || filter.Queue != "" &&
			v.Queue != filter.Queue || filter.State != "" && v.State != filter.State ||
			!store.MetaOf(v.Meta).Has(filter.Meta) {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		v.Context, v.Result, v.Steps = nil, nil, nil
		page = append(page, v)
	}
	return page, task.ID{}, f.err
}

func (f *fake) Lines(_ context.Context, id task.ID, from int64, limit int) (store.LogPage, error) {
	if _, err := f.find(id); err != nil {
		return store.LogPage{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	from = min(from, int64(len(f.lines)))
	to := min(from+int64(limit), int64(len(f.lines)))
	return store.LogPage{Lines: slices.Clone(f.lines[from:to]), Next: to}, f.err
}

func (f *fake) QueuesOf(_ context.Context, ids []task.ID) ([]string, error) {
	queues := make([]string, len(ids))
	for i, id := range ids {
		if v, err := f.find(id); err == nil {
			queues[i] = v.Queue
		}
	}
	return queues, f.err
}

func (f *fake) States(_ context.Context, ids []task.ID) ([]task.View, error) {
	views := make([]task.View, len(ids))
	for i, id := range ids {
		views[i].ID = id
		if v, err := f.find(id); err == nil {
			views[i].Queue, views[i].State = v.Queue, v.State
		}
	}
	return views, f.err
}

func (f *fake) Turn(_ context.Context, id task.ID) (store.Turn, error) {
	_, err := f.find(id)
	return store.Turn{
		Now: moment.UnixMicro(), Holder: store.Holder{Node: "n1", Token: 3},
		Ahead: store.Ahead{Tasks: 40}, Usual: 2e6,
	}, err
}

func (f *fake) History(_ context.Context, q history.Question) ([]history.Period, error) {
	return history.NewAnswer(q).Periods(), f.err
}

// Known is a forecast of two queues and of two groups: mail is short of a worker, scan is paused.
func (f *fake) Known(time.Duration) (forecast.Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return forecast.Seen{}, f.err
	}
	facts := forecast.Facts{Workers: []forecast.Worker{{Slots: 4, Queues: []string{"mail", "scan"}}}}
	for _, q := range f.queues[:min(len(f.queues), 2)] {
		record := forecast.Record{Runs: 36_000, Mean: 0.5, Second: 0.5}
		for range forecast.Window {
			record.Arrived = append(record.Arrived, 600)
			record.Waited = append(record.Waited, -1)
			record.Slots = append(record.Slots, -1)
		}
		facts.Queues = append(facts.Queues, forecast.Queue{
			Name: q.Name, Paused: q.Paused, Ready: 11, Running: 2, Record: record,
		})
	}
	return forecast.Seen{
		At: moment, Keep: 1, Model: forecast.New(facts), Missing: f.missing,
		Groups: []forecast.GroupNeed{
			{Group: "crawl", Workers: 3, Wanted: 3, In: -1, Why: "any 2 workers can die at once"},
			{Group: "tails", Workers: 8, Wanted: 9, In: 40, Why: "1 more like w1"},
		},
	}, nil
}

func (f *fake) Counts(_ context.Context, queues ...string) ([]store.QueueCounts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	var counts []store.QueueCounts
	for i, q := range f.queues {
		if len(queues) == 0 || slices.Contains(queues, q.Name) {
			n := int64(10 * (i + 1))
			counts = append(counts, store.QueueCounts{
				Queue: q.Name,
				Counts: task.Counts{Waiting: n, Ready: n + 1, Running: n + 2, Done: n + 3,
					Dead: n + 4, Cancelled: n + 5}, OldestReady: int64(1-i) * moment.UnixMicro(),
			})
		}
	}
	return counts, f.err
}

func (f *fake) Gates(_ context.Context, queues ...string) (int64, []store.Gate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gated = append(f.gated, strings.Join(queues, ","))
	var gates []store.Gate
	for _, g := range f.gates {
		if len(queues) == 0 || slices.Contains(queues, g.Queue) {
			gates = append(gates, g)
		}
	}
	return moment.UnixMicro(), gates, f.err
}

func (f *fake) KeyGates(
	_ context.Context, queue string, keys []string,
) (int64, []store.KeyGate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keyed = append(f.keyed, queue+": "+strings.Join(keys, ","))
	var gates []store.KeyGate
	for _, g := range f.keyGates {
		if g.Queue == queue && slices.Contains(keys, g.Key) {
			gates = append(gates, g)
		}
	}
	return moment.UnixMicro(), gates, f.err
}

func (f *fake) Keys(_ context.Context, queue string) (store.KeyUses, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uses := store.KeyUses{Now: moment.UnixMicro(), Cut: queue == "scan"}
	for _, key := range slices.Sorted(maps.Keys(f.rules)) {
		if rule := f.rules[key]; rule.Queue == queue {
			uses.Keys = append(uses.Keys, store.KeyUse{
				KeyRule: rule, Ready: int64(len(key)), Running: 1,
			})
		}
	}
	return uses, f.err
}

func (f *fake) ChangeKey(_ context.Context, c store.KeyChange) (store.KeyRule, error) {
	if err := f.queue(c.Queue); err != nil {
		return store.KeyRule{}, err
	}
	pause, weight := c.Pause, 0
	if pause == store.Forever {
		pause = 0
	}
	if c.Weight != nil {
		weight = *c.Weight
	}
	var e task.InvalidError
	if limits.CheckKey(c.Key, pause, weight, &e); e.Err() != nil {
		return store.KeyRule{}, e.Err()
	}
	if c.Key == "one-too-many" {
		return store.KeyRule{}, fmt.Errorf("change key: %w", store.ErrKeyRules)
	}
	err := f.change("key %s/%s pause %v resume %v weight %v", c.Queue, c.Key, c.Pause,
		c.Resume, weight)
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.rules[c.Queue+"/"+c.Key]
	was.Queue, was.Key = c.Queue, c.Key
	f.rules[c.Queue+"/"+c.Key] = rules.ChangeKeyRule(was, &c, moment.UnixMicro())
	return f.rules[c.Queue+"/"+c.Key], err
}

// Minutes tells of one minute, which is among those that are asked for first.
func (f *fake) Minutes(
	_ context.Context, from, whole int64,
) (list []history.QueueMinute, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.minute == 0 {
		f.minute = from + 30
	}
	for i, q := range f.queues {
		n := int64(i + 1)
		if f.minute >= from {
			m := history.QueueMinute{Queue: q.Name, Minute: f.minute}
			m.Counts = history.Counts{
				Submitted: 70 * n, Done: 50 * n, Dead: 2 * n, Cancelled: n, Retried: 5 * n,
				Lost: 3 * n,
			}
			for range 57 * min(n, 3) {
				m.Waited.Add(3000)
				m.Run.Add(250_000)
			}
			list = append(list, m)
		}
	}
	return list, f.err
}

func (f *fake) ChangeQueue(
	_ context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	got := store.Changed[task.Queue]{Is: limits.DefaultQueue(name), Created: true}
	for _, known := range f.queues {
		if known.Name == name {
			got = store.Changed[task.Queue]{Is: known}
		}
	}
	err := change(&got.Is, !got.Created)
	if err == nil {
		var e task.InvalidError
		limits.CheckQueue(&got.Is, &e, "body")
		err = e.Err()
	}
	if err == nil {
		err = f.change("put %+v", got.Is)
	}
	return got, err
}

func (f *fake) Queues(context.Context) ([]task.Queue, error) {
	return slices.Clone(f.queues), f.err
}

func (f *fake) queue(name string) error {
	for _, q := range f.queues {
		if q.Name == name {
			return nil
		}
	}
	return fmt.Errorf("queue %q: %w", name, store.ErrNotFound)
}

func (f *fake) PauseQueue(_ context.Context, name string, paused bool) error {
	if err := f.queue(name); err != nil {
		return err
	}
	return f.change("pause %s %v", name, paused)
}

func (f *fake) DeleteQueue(_ context.Context, name string, force bool) error {
	if err := f.queue(name); err != nil {
		return err
	}
	if !force {
		return fmt.Errorf("delete queue %q: %w", name, &store.InUse{
			Count: 1, Noun: "unfinished task",
		})
	}
	return f.change("delete queue %s", name)
}

func (f *fake) Workers(_ context.Context, here bool) ([]task.Worker, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if here {
		return slices.Clone(f.workers), nil, f.err
	}
	return slices.Clone(f.workers), f.missing, f.err
}

func (f *fake) worker(name string) error {
	for _, w := range f.workers {
		if w.Name == name {
			return nil
		}
	}
	return fmt.Errorf("worker %q: %w", name, store.ErrNotFound)
}

func (f *fake) DrainWorker(_ context.Context, name string, drain, here bool) error {
	if err := f.worker(name); err != nil {
		return err
	}
	return f.change("drain %s %v", name, drain)
}

func (f *fake) DeleteWorker(_ context.Context, name string, here bool) error {
	if err := f.worker(name); err != nil {
		return err
	}
	return f.change("delete worker %s", name)
}

// newAPI is an API on e with small limits.
func newAPI(t testing.TB, e Engine, change func(*Config)) *API {
	t.Helper()
	happened, told, called := tellers(e)
	k, c := overseerOf(e), clockworkOf(e)
	conf := Config{
		Engine: e, Cluster: clusterOf(e), Events: happened, Notifiers: told, Hooks: called,
		Groups: k, Jobs: k, Placements: k, Schedules: c, Fires: c, Almanac: c, Version: "1.2.3", Node: "n1",
		StoreMark: "0123456789abcdef", MaxBody: 1 << 20, MaxBodies: 4 << 20,
	}
	if h, ok := e.(History); ok {
		conf.History = h
	}
	if f, ok := e.(Forecasts); ok {
		conf.Forecasts = f
	}
	if change != nil {
		change(&conf)
	}
	a, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tellers are e itself when it knows of events, else a fake.
func tellers(e Engine) (Events, Notifiers, Hooks) {
	type teller interface {
		Events
		Notifiers
		Hooks
	}
	f, ok := e.(teller)
	if !ok {
		f = newFake()
	}
	return f, f, f
}

const tokenFile = `# who may what
root admin     admin-token
ops  operator  operator-token

app  submitter submitter-token
w1   worker    worker-token
*    worker    any-worker-token
eye  viewer    viewer-token
`

func testTokens(t testing.TB) Tokens {
	t.Helper()
	tokens, err := ParseTokens(strings.NewReader(tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func (f *fake) Edit(
	_ context.Context, by string, id task.ID, e task.Edit,
) (task.State, error) {
	if err := limits.CheckEdit(&e, "body"); err != nil {
		return "", err
	}
	v, err := f.find(id)
	if err != nil {
		return "", err
	}
	if v.State != task.Waiting && v.State != task.Ready {
		return "", fmt.Errorf("task %s is %s, so it can't be edited: %w", id, v.State,
			store.ErrConflict)
	}
	with := string(e.Context)
	if e.Meta != nil {
		with = fmt.Sprint(with, e.Meta)
	}
	return v.State, f.change("edit %v %s %s %s", e.Changed(), by, id, with)
}

// EditAll answers in two pages.
func (f *fake) EditAll(
	ctx context.Context, by string, e task.Edit, filter store.Filter, after task.ID, dry bool,
) (store.ActedAll, error) {
	if err := limits.CheckEdit(&e, "body.set"); err != nil {
		return store.ActedAll{}, err
	}
	return f.ActAll(ctx, store.Action{
		Kind: task.KindEdited, By: fmt.Sprint(by, " ", e.Changed()),
	}, filter, after, dry)
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
