package rota

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// begun is where and when handlers began.
type begun struct {
	mu  sync.Mutex
	at  map[task.ID]time.Time
	by  map[string]int
	sum int
}

// spread is three nodes on one database, each with a worker of 4 whose handlers wait to be told to
// end.
// offerFor is a Config's.
func spread(
	t testing.TB, nodes map[string]int, offerFor time.Duration,
) (list map[string]*Node, b *begun, end func()) {
	t.Helper()
	dsn := database(t)
	b = &begun{at: map[task.ID]time.Time{}, by: map[string]int{}}
	var mu sync.Mutex
	over := make(chan struct{})
	list = map[string]*Node{}
	for name, capacity := range nodes {
		n, err := Open(t.Context(), Config{
			Store: dsn, Name: name, Capacity: max(capacity, 1), offerFor: offerFor,
		})
		if err != nil {
			t.Fatal(err)
		}
		if capacity > 0 {
			n.Handle("q", func(_ context.Context, h task.Handout) task.Outcome {
				// Which end it waits for is read before it is counted: whoever sees all counted
				// may end them.
				mu.Lock()
				wait := over
				mu.Unlock()
				b.mu.Lock()
				b.at[h.ID] = time.Now()
				b.by[name]++
				b.sum++
				b.mu.Unlock()
				<-wait
				return task.Finish(nil)
			})
		}
		running(t, n)
		list[name] = n
	}
	end = func() {
		mu.Lock()
		defer mu.Unlock()
		close(over)
		over = make(chan struct{})
	}
	t.Cleanup(func() { // for good: a node that stops leaves what it has not begun to the others
		mu.Lock()
		defer mu.Unlock()
		close(over)
	})
	return list, b, end
}

func (b *begun) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.by, b.sum = map[task.ID]time.Time{}, map[string]int{}, 0
}

func (b *begun) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum
}

func six() []task.Submission {
	return slices.Repeat([]task.Submission{{Queue: "q"}}, 6)
}

// A node knows with its beats what room there is elsewhere: then no worker is idle while tasks wait
// for another. A node that looks at the store between a burst and the hint of it takes what it has
// room for, which is right, too; it does not look three times in a row.
func TestBurstIsSharedOutAmongTheNodesWhoseWorkersWait(t *testing.T) {
	// Longer than most pauses of a busy machine: here the question is who gets how many. What two
	// reach for at once one of them gets, and the other leaves what is left for as long.
	nodes, b, end := spread(t, map[string]int{"a": 4, "b": 4, "c": 4}, 5*time.Second)
	even := map[string]int{"a": 2, "b": 2, "c": 2}
	var got []map[string]int
	for range 3 {
		settled(t, "the nodes know of each other's workers", func() bool {
			return nodes["a"].tasks.RoomElsewhere("q") == 8
		})
		b.reset()
		if _, err := nodes["a"].Submit(t.Context(), six()...); err != nil {
			t.Fatal(err)
		}
		settled(t, "all six began", func() bool { return b.count() == 6 })
		b.mu.Lock()
		got = append(got, b.by)
		b.mu.Unlock()
		if maps.Equal(got[len(got)-1], even) {
			return
		}
		end()
	}
	t.Errorf("of each six tasks began %v, want %v", got, even)
}

// BenchmarkBurstOverNodes submits six tasks to a node once a beat, while workers of 4 wait at
// three; ns/op means little, start-p50-ms and start-p99-ms are from the call to the start of each.
func BenchmarkBurstOverNodes(b *testing.B) {
	nodes, begun, end := spread(b, map[string]int{"a": 4, "b": 4, "c": 4}, 0)
	var took []time.Duration
	even := 0
	for b.Loop() {
		for nodes["a"].tasks.RoomElsewhere("q") != 8 {
			time.Sleep(10 * time.Millisecond)
		}
		begun.reset()
		began := time.Now()
		if _, err := nodes["a"].Submit(b.Context(), six()...); err != nil {
			b.Fatal(err)
		}
		for begun.count() < 6 {
			time.Sleep(time.Millisecond)
		}
		begun.mu.Lock()
		for _, at := range begun.at {
			took = append(took, at.Sub(began))
		}
		if begun.by["a"] == 2 && begun.by["b"] == 2 {
			even++
		}
		begun.mu.Unlock()
		end()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "start-p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "start-p99-ms")
	b.ReportMetric(float64(even)/float64(b.N), "2/2/2")
}
