package api

import (
	chain "container/list"
	"context"
	"sync"
	"time"
)

const (
	// maxHookBodies is the memory in bytes that the bodies of calls of hooks may take. It is their
	// own: whoever reaches a node may send one, and must not keep others from what they have a
	// token for.
	maxHookBodies = 16 << 20

	// firstHookRead is how much of the body of such a call is believed before its bytes arrive.
	firstHookRead = 4 << 10

	// slowBody is how long a body may take when others need its memory.
	slowBody = time.Second
)

// inflow is the memory of bodies from callers whom nobody knows yet. Who announces much and sends
// little would keep all others out for as long as a body may take: so the bodies that take longest
// give way to those that come.
type inflow struct {
	budget

	begun sync.Mutex
	under chain.List // of *incoming that are being read, the oldest first
}

// incoming is a body that is being read.
type incoming struct {
	since time.Time
	cut   func()         // ends the reading
	taken int64          // of the budget
	place *chain.Element // in the list; nil = it was read, or cut off
}

func (f *inflow) begin(cut func()) *incoming {
	f.begun.Lock()
	defer f.begun.Unlock()
	in := &incoming{since: time.Now(), cut: cut}
	in.place = f.under.PushBack(in)
	return in
}

// more takes n bytes more for a body, if need be those of others.
func (f *inflow) more(ctx context.Context, in *incoming, n int64) bool {
	if !f.take(n, 0) && !(f.makeRoom(n) && f.await(ctx, n, 0, patience)) {
		return false
	}
	f.begun.Lock()
	defer f.begun.Unlock()
	in.taken += n
	return true
}

// makeRoom cuts off the bodies that have taken longest, and tells whether n bytes will be free.
func (f *inflow) makeRoom(n int64) bool {
	f.begun.Lock()
	defer f.begun.Unlock()
	for e := f.under.Front(); e != nil && n > 0; e = f.under.Front() {
		in := e.Value.(*incoming)
		if time.Since(in.since) < slowBody {
			break
		}
		n -= in.taken
		f.under.Remove(e)
		in.place = nil
		in.cut()
	}
	return n <= 0
}

// read says that a body is there: from now on nobody cuts it off. False when somebody has.
func (f *inflow) read(in *incoming) bool {
	f.begun.Lock()
	defer f.begun.Unlock()
	if in.place == nil {
		return false
	}
	f.under.Remove(in.place)
	in.place = nil
	return true
}

// end gives back what a body has taken.
func (f *inflow) end(in *incoming) {
	f.read(in) // a panic may have kept others from saying so
	f.give(in.taken)
}
