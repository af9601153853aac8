package wire

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// The messages of the benchmarks: a hundred tasks with contexts of 100 bytes.
const benchTasks = 100

var benchContext = json.RawMessage(
	`{"path":"/srv/files/2026/11/21/0000000042.dat","size":9007199254740993,"digest":"5d41402abc4b2a76b9"}`,
)

func benchSubmissions() []task.Submission {
	subs := make([]task.Submission, benchTasks)
	for i := range subs {
		subs[i] = task.Submission{Queue: "files", Stage: "read", Context: benchContext}
	}
	return subs
}

func benchHandouts() task.HoldAnswer {
	a := task.HoldAnswer{PollInterval: 10 * time.Second}
	for i := range benchTasks {
		a.Tasks = append(a.Tasks, task.Handout{
			ID: task.ID{Batch: 1 << 60, N: int32(i)}, Queue: "files", Stage: "read",
			Context: benchContext, Attempt: 1,
			Token: task.Token{Span: 1 << 40, SpanToken: 3, Seq: int32(i),
				Seal: 1 << 31}.String(),
			Deadline: time.Date(2026, 11, 21, 13, 40, 1, 234e6, time.UTC),
			Ready:    time.Date(2026, 11, 21, 13, 30, 1, 234e6, time.UTC),
		})
	}
	return a
}

func benchReports() []task.Report {
	reports := make([]task.Report, benchTasks)
	for i, h := range benchHandouts().Tasks {
		reports[i] = task.Report{
			ID: h.ID, Token: h.Token, Outcome: task.Next("digest", benchContext),
		}
	}
	return reports
}

// perTask reports the figure that matters: the time of one task in a message of many.
func perTask(b *testing.B, bytes int) {
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchTasks, "ns/task")
}

func BenchmarkAppendSubmissions(b *testing.B) {
	subs := benchSubmissions()
	var buf []byte
	for b.Loop() {
		buf = AppendSubmissions(buf[:0], subs)
	}
	perTask(b, len(buf))
}

func BenchmarkParseSubmissions(b *testing.B) {
	body := AppendSubmissions(nil, benchSubmissions())
	for b.Loop() {
		if _, err := ParseSubmissions(body); err != nil {
			b.Fatal(err)
		}
	}
	perTask(b, len(body))
}

func BenchmarkAppendHandouts(b *testing.B) {
	answer := benchHandouts()
	var buf []byte
	for b.Loop() {
		buf = AppendHandouts(buf[:0], answer)
	}
	perTask(b, len(buf))
}

func BenchmarkParseHandouts(b *testing.B) {
	body := AppendHandouts(nil, benchHandouts())
	for b.Loop() {
		if _, err := ParseHandouts(body); err != nil {
			b.Fatal(err)
		}
	}
	perTask(b, len(body))
}

func BenchmarkAppendReports(b *testing.B) {
	reports := benchReports()
	var buf []byte
	for b.Loop() {
		buf = AppendReports(buf[:0], "w1", reports)
	}
	perTask(b, len(buf))
}

func BenchmarkParseReports(b *testing.B) {
	body := AppendReports(nil, "w1", benchReports())
	for b.Loop() {
		if _, _, err := ParseReports(body); err != nil {
			b.Fatal(err)
		}
	}
	perTask(b, len(body))
}

// A lone submission, as a gathering client without company sends it.
func BenchmarkParseOneSubmission(b *testing.B) {
	body := AppendSubmissions(nil, benchSubmissions()[:1])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseSubmissions(body); err != nil {
			b.Fatal(err)
		}
	}
}

// What encoding/json takes for the same messages.
type (
	jsonSubmissions struct {
		Tasks []jsonSubmission `json:"tasks"`
	}
	jsonSubmission struct {
		Queue   string          `json:"queue"`
		Stage   string          `json:"stage,omitempty"`
		Context json.RawMessage `json:"context,omitempty"`
	}
	jsonHandouts struct {
		Tasks        []jsonHandout `json:"tasks"`
		PollInterval string        `json:"poll_interval"`
	}
	jsonHandout struct {
		ID       task.ID         `json:"id"`
		Queue    string          `json:"queue"`
		Stage    string          `json:"stage"`
		Context  json.RawMessage `json:"context,omitempty"`
		Attempt  int             `json:"attempt"`
		Token    string          `json:"token"`
		Deadline time.Time       `json:"deadline"`
	}
)

func BenchmarkStdlib(b *testing.B) {
	for _, m := range []struct {
		name string
		body []byte
		v    func() any
	}{
		{"Submissions", AppendSubmissions(nil, benchSubmissions()), func() any {
			return new(jsonSubmissions)
		}},
		{"Handouts", AppendHandouts(nil, benchHandouts()), func() any { return new(jsonHandouts) }},
	} {
		v := m.v()
		if err := json.Unmarshal(m.body, v); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("Unmarshal%s", m.name), func(b *testing.B) {
			for b.Loop() {
				if err := json.Unmarshal(m.body, m.v()); err != nil {
					b.Fatal(err)
				}
			}
			perTask(b, len(m.body))
		})
		b.Run(fmt.Sprintf("Marshal%s", m.name), func(b *testing.B) {
			for b.Loop() {
				if _, err := json.Marshal(v); err != nil {
					b.Fatal(err)
				}
			}
			perTask(b, len(m.body))
		})
	}
}
