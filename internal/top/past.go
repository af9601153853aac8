package top

import (
	"time"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
)

// maxPast is how many overviews are remembered for what is drawn of them: two minutes.
const maxPast = 120

// sample is what is remembered of an overview.
type sample struct {
	node   string
	since  time.Time
	at     time.Time
	totals view.Totals
	queues map[string][2]int64 // submitted and done
}

func sampleOf(o *view.Overview) sample {
	s := sample{
		node: o.Node, since: o.Totals.Since.Time, at: o.At.Time, totals: o.Totals,
		queues: make(map[string][2]int64, len(o.Queues)),
	}
	for _, q := range o.Queues {
		s.queues[q.Queue] = [2]int64{q.Submitted, q.Done}
	}
	return s
}

// apart is how many seconds lie between two samples; 0 when no difference can be taken.
func apart(a, b sample) float64 {
	if a.node != b.node || !a.since.Equal(b.since) {
		return 0
	}
	return max(b.at.Sub(a.at).Seconds(), 0)
}

// rates are how much of something happened in each second, oldest first.
func rates(past []sample, of func(view.Totals) int64) []float64 {
	var list []float64
	for i := 1; i < len(past); i++ {
		if s := apart(past[i-1], past[i]); s > 0 {
			list = append(list, float64(of(past[i].totals)-of(past[i-1].totals))/s)
		}
	}
	return list
}

// lately is how many seconds a rate is taken over.
const lately = 10

// back is the sample that rates of now are taken from.
func back(past []sample) (from, to sample, seconds float64) {
	if len(past) == 0 {
		return from, to, 0
	}
	to = past[len(past)-1]
	for i := len(past) - 2; i >= 0; i-- {
		s := apart(past[i], to)
		if s == 0 {
			break
		}
		if from, seconds = past[i], s; s >= lately {
			break
		}
	}
	return from, to, seconds
}

// queueRates are how many tasks of a queue are submitted and done in a second; false where nobody
// can say.
func queueRates(from, to sample, seconds float64, queue string) (in, out float64, ok bool) {
	a, known := from.queues[queue]
	b, now := to.queues[queue]
	if seconds == 0 || !known || !now {
		return 0, 0, false
	}
	return float64(b[0]-a[0]) / seconds, float64(b[1]-a[1]) / seconds, true
}

// queueCurves are how many tasks of a queue came in and were done in each second, of the newest
// samples.
func queueCurves(past []sample, queue string, most int) (came, done []float64) {
	past = past[max(len(past)-most-1, 0):]
	for i := 1; i < len(past); i++ {
		a, b := past[i-1], past[i]
		if in, out, known := queueRates(a, b, apart(a, b), queue); known {
			came = append(came, in)
			done = append(done, out)
		}
	}
	return came, done
}

// spark draws the newest values.
func spark(values []float64, width int) string {
	return term.Spark(values[max(len(values)-width, 0):])
}
