package firing

import (
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"testing"
	"time"
)

// maxHeap is many times what these tests take. A story whose time runs away, or an audit of due
// times over decades, once took all memory there was, and the kernel does not say who waited for
// what.
const maxHeap = 3 << 30

func TestMain(m *testing.M) {
	debug.SetTraceback("all")
	go watchHeap()
	os.Exit(m.Run())
}

// watchHeap ends the process, with the stacks of all goroutines, before the kernel does it without.
// It looks by real time: it is outside of every bubble.
func watchHeap() {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for range time.Tick(time.Second / 4) {
		if metrics.Read(heap); heap[0].Value.Uint64() > maxHeap {
			fmt.Fprintf(os.Stderr, "the tests' heap is larger than %d bytes\n", int64(maxHeap))
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
			os.Exit(2)
		}
	}
}
