package history

import (
	"fmt"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// BenchmarkSettled counts the outcomes of one settlement, and writes down what they changed: 400,
// of four workers.
func BenchmarkSettled(b *testing.B) {
	steps := make([]store.Step, 400)
	for i := range steps {
		steps[i] = store.Step{
			Kind: task.KindDone, Base: store.Final, Ran: "first", Worker: fmt.Sprint("w", i/100),
			Started:  noon.UnixMicro() + int64(i)*37,
			Finished: noon.UnixMicro() + 2000 + int64(i)*41,
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		var c Changes
		for i := range steps {
			c.Settled("mail", steps[i].Started-1000, &steps[i])
		}
		b.SetBytes(int64(len(c.Encode())))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/400, "ns/outcome")
}

// BenchmarkFold adds up what 1,000 submissions and 1,000 settlements of 400 tasks changed.
func BenchmarkFold(b *testing.B) {
	var submitted, settled Changes
	tasks := make([]store.Task, 400)
	submitted.Submitted(noon.UnixMicro(), "mail", tasks)
	for i := range tasks {
		at := noon.UnixMicro() + int64(i)*37
		settled.Settled("mail", at-1000-int64(i)*51, &store.Step{
			Kind: task.KindDone, Base: store.Final, Worker: "w", Started: at,
			Finished: at + 2000 + int64(i)*41,
		})
	}
	bodies := [][]byte{submitted.Encode(), settled.Encode()}
	b.ReportAllocs()
	for b.Loop() {
		f := NewFold(Kept{}.Complete(), noon.UnixMicro())
		for i := range 2000 {
			if err := f.Add(bodies[i%2]); err != nil {
				b.Fatal(err)
			}
		}
		for _, r := range f.Rows() {
			r.Encode()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000/400, "ns/task")
}
