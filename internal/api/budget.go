package api

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// budget is something of which all calls under way together may have only so much: memory, mostly.
type budget struct {
	limit int64
	taken atomic.Int64

	mu    sync.Mutex
	freed chan struct{} // closed when something is given back; nil = nobody waits for that
}

// take takes n, unless less than spare would be left.
func (b *budget) take(n, spare int64) bool {
	for {
		taken := b.taken.Load()
		if taken+n > b.limit-spare {
			return false
		}
		if b.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// give gives n back. Whoever waits tries again: who is served first is left to luck, and the wait
// is short.
func (b *budget) give(n int64) {
	if n == 0 {
		return
	}
	b.taken.Add(-n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// await is take that waits until there is enough, for so long at most.
func (b *budget) await(ctx context.Context, n, spare int64, within time.Duration) bool {
	if b.take(n, spare) {
		return true
	}
	if within == 0 {
		return false
	}
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		freed := b.nextFreed()
		if b.take(n, spare) {
			return true
		}
		select {
		case <-freed:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (b *budget) nextFreed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}
