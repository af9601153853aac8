package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

func TestEngineLearnsThatHandoutsWereWritten(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	ask(t, a, "POST /v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`)
	if f.written != 1 {
		t.Errorf("Written was called %d times", f.written)
	}
	f.hold = func(context.Context, task.HoldRequest) (task.HoldAnswer, error) {
		return task.HoldAnswer{Written: func() { f.written++ }}, errors.New("late failure")
	}
	ask(t, a, "POST /v1/tasks/hold", `{"worker":"w1","queues":["mail"]}`)
	if f.written != 2 {
		t.Errorf("after a failure Written was called %d times in all", f.written)
	}
}

// gone is a caller that cannot be written to.
type gone struct{ header http.Header }

func (g gone) Header() http.Header       { return g.header }
func (g gone) WriteHeader(int)           {}
func (g gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestEngineLearnsThatHandoutsCouldNotBeWritten(t *testing.T) {
	f := newFake()
	a := newAPI(t, f, nil)
	r := httptest.NewRequest("POST", "/v1/tasks/hold",
		strings.NewReader(`{"worker":"w1","queues":["mail"]}`))
	r.Host = "localhost"
	a.Handler().ServeHTTP(gone{http.Header{}}, r)
	if f.written != 1 {
		t.Errorf("Written was called %d times", f.written)
	}
}

// Contexts point into the request's body: the body must not be used again for another request while
// the engine has them.
func TestContextsSurviveTheCall(t *testing.T) {
	kept := &keeper{Engine: newFake()}
	a := newAPI(t, kept, nil)
	for i := range 100 {
		ask(t, a, "POST /v1/tasks",
			fmt.Sprintf(`{"tasks":[{"queue":"mail","context":{"n":%d}}]}`, i))
	}
	for i, c := range kept.contexts {
		if want := fmt.Sprintf(`{"n":%d}`, i); string(c) != want {
			t.Errorf("context %d became %s", i, c)
		}
	}
	if len(kept.contexts) != 100 {
		t.Errorf("%d contexts", len(kept.contexts))
	}
}

type keeper struct {
	Engine
	contexts []json.RawMessage
}

func (k *keeper) Submit(_ context.Context, tasks []task.Submission) ([]task.Receipt, error) {
	k.contexts = append(k.contexts, tasks[0].Context)
	return make([]task.Receipt, len(tasks)), nil
}

func FuzzTaskKeepsContextAndResult(f *testing.F) {
	f.Add(odd, "null", "worker")
	f.Add("\u2028", `" "`, "<&>\x00")
	f.Fuzz(func(t *testing.T, given, result, text string) {
		if !json.Valid([]byte(given)) || !json.Valid([]byte(result)) {
			return
		}
		v := task.View{
			ID: idOf(1), Stage: text, Context: json.RawMessage(given),
			Result: json.RawMessage(result), Steps: []task.Step{{Error: text}},
		}
		b, _ := cutTask(nil, &v)
		var back struct{ Context, Result json.RawMessage }
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if strings.TrimSpace(given) == "null" {
			return // json gives null to a RawMessage as it is, spaces aside
		}
		if string(back.Context) != strings.Trim(given, " \t\r\n") ||
			!strings.Contains(string(b), `"context":`+given+`,"result":`+result+`,`) {
			t.Errorf("%q became %q", given, back.Context)
		}
	})
}

// idle is an Engine that does nothing, quickly.
type idle struct {
	Engine
	receipts []task.Receipt
	held     task.HoldAnswer
	answers  []task.Answer
	waiting  atomic.Int64
}

func (e *idle) Submit(context.Context, []task.Submission) ([]task.Receipt, error) {
	return e.receipts, nil
}

func (e *idle) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	if r.Wait > 0 {
		e.waiting.Add(1)
		<-ctx.Done()
	}
	return e.held, nil
}

func (e *idle) Report(context.Context, string, []task.Report) ([]task.Answer, error) {
	return e.answers, nil
}

// sink is a response that is thrown away.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

func benchCall(b *testing.B, e Engine, path string, body []byte, tasks int) {
	a := newAPI(b, e, nil)
	handler := a.Handler()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
		r.Host = "localhost"
		handler.ServeHTTP(&sink{http.Header{}}, r)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tasks), "ns/task")
}

var sizes = []int{1, 100}

func BenchmarkSubmit(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tasks := make([]task.Submission, n)
			for i := range tasks {
				tasks[i] = task.Submission{
					Queue: "mail", Stage: "send",
					Context: json.RawMessage(`"` + strings.Repeat("x", 98) + `"`),
				}
			}
			benchCall(b, &idle{receipts: make([]task.Receipt, n)}, "/v1/tasks",
				wire.AppendSubmissions(nil, tasks), n)
		})
	}
}

func BenchmarkHold(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			held := task.HoldAnswer{PollInterval: time.Second}
			for i := range n {
				held.Tasks = append(held.Tasks, task.Handout{
					ID: idOf(int32(i)), Queue: "mail",
					Context: json.RawMessage(`"` + strings.Repeat("x", 98) + `"`), Attempt: 1,
					Token: token(0), Deadline: moment,
				})
			}
			benchCall(b, &idle{held: held}, "/v1/tasks/hold",
				wire.AppendHold(nil,
					task.HoldRequest{Worker: "w1", Queues: []string{"mail"}, Limit: n}), n)
		})
	}
}

func BenchmarkReport(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			reports := make([]task.Report, n)
			answers := make([]task.Answer, n)
			for i := range reports {
				reports[i] = task.Report{
					ID: idOf(int32(i)), Token: token(0), Outcome: task.Finish(nil),
				}
				answers[i] = task.Answer{ID: reports[i].ID, Status: task.Recorded}
			}
			benchCall(b, &idle{answers: answers}, "/v1/tasks/report",
				wire.AppendReports(nil, "w1", reports), n)
		})
	}
}

// BenchmarkIdlePolls says what a waiting worker costs in memory, connection and net/http included.
func BenchmarkIdlePolls(b *testing.B) {
	const polls = 1000
	for b.Loop() {
		e := &idle{}
		a := newAPI(b, e, nil)
		server := a.Server()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		before := heap()
		conns := make([]net.Conn, polls)
		body := `{"worker":"w1","queues":["mail"],"wait":"60s"}`
		for i := range conns {
			if conns[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
				b.Fatal(err)
			}
			fmt.Fprintf(conns[i],
				"POST /v1/tasks/hold HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
				len(body), body)
		}
		for e.waiting.Load() < polls {
			runtime.Gosched()
		}
		b.ReportMetric(float64(heap()-before)/polls, "B/poll")
		for _, c := range conns {
			c.Close()
		}
		server.Close()
		<-done
	}
}

// heap is what heap and stacks take.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
