package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
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

// newAPI is an API on e with small limits.
func newAPI(t testing.TB, e Engine, change func(*Config)) *API {
	t.Helper()
	happened, told, called := tellers(e)
	k, c := overseerOf(e), clockworkOf(e)
	conf := Config{
		Engine: e, Cluster: clusterOf(e), Events: happened, Notifiers: told, Hooks: called,
		Groups: k, Jobs: k, Placements: k, Drains: k, Schedules: c, Fires: c, Almanac: c, Version: "1.2.3", Node: "n1",
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
