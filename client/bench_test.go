package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// canned is a server that answers every call with the same text.
func canned(b *testing.B, body []byte) *Client {
	b.Helper()
	length := []string{strconv.Itoa(len(body))}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = length
		w.Write(body)
	}))
	b.Cleanup(s.Close)
	c, err := New(Config{Servers: []string{s.URL}, HTTPOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

const perCall = 64 // tasks

func perTask(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perCall), "ns/task")
}

// BenchmarkHold takes tasks over a real connection, the server's part included.
func BenchmarkHold(b *testing.B) {
	held := task.HoldAnswer{PollInterval: 10 * time.Second, Tasks: make([]task.Handout, perCall)}
	for i := range held.Tasks {
		held.Tasks[i] = task.Handout{
			ID: task.ID{Batch: 1 << 40, N: int32(i)}, Queue: "mail", Stage: "send",
			Context: fmt.Appendf(nil, `{"to":"ann-%080d"}`, i), Attempt: 1,
			Token:    task.Token{Span: 1234567, SpanToken: 1, Seal: 99}.String(),
			Deadline: time.Unix(1.8e9, 0),
		}
	}
	c := canned(b, wire.AppendHandouts(nil, held))
	b.ReportAllocs()
	for b.Loop() {
		if a, err := c.Hold(
			b.Context(), task.HoldRequest{Worker: "w", Queues: []string{"mail"}, Limit: perCall},
		); err != nil || len(a.Tasks) != perCall {
			b.Fatal(err)
		}
	}
	perTask(b)
}

// BenchmarkReport reports them.
func BenchmarkReport(b *testing.B) {
	reports := make([]task.Report, perCall)
	answers := make([]wire.Answer, perCall)
	for i := range reports {
		id := task.ID{Batch: 1 << 40, N: int32(i)}
		reports[i] = task.Report{
			ID: id, Token: task.Token{Span: 1234567, SpanToken: 1, Seal: 99}.String(),
			Outcome: task.Finish(nil),
		}
		answers[i] = wire.Answer{IDText: id.String(), Status: task.Recorded}
	}
	c := canned(b, wire.AppendAnswers(nil, answers))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Report(b.Context(), "w", reports); err != nil {
			b.Fatal(err)
		}
	}
	perTask(b)
}

// BenchmarkSubmit submits as many at a time.
func BenchmarkSubmit(b *testing.B) {
	tasks := make([]task.Submission, perCall)
	receipts := make([]task.Receipt, perCall)
	for i := range tasks {
		tasks[i] = task.Submission{
			Queue: "mail", Context: fmt.Appendf(nil, `{"to":"ann-%080d"}`, i),
		}
		receipts[i].ID = task.ID{Batch: 1 << 40, N: int32(i)}
	}
	c := canned(b, wire.AppendReceipts(nil, receipts))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Submit(b.Context(), tasks...); err != nil {
			b.Fatal(err)
		}
	}
	perTask(b)
}
