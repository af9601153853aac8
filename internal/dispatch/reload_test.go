package dispatch

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A task of a span that killed its holders is read anew, and must wait: its neighbours need not.
func TestWhatIsReadAnewAndMustWaitLetsTheNextOfItsSpanOut(t *testing.T) {
	c := newCrowd(1)
	now := time.UnixMicro(1_000_000)
	c.m.clock.hear(now, now, now.UnixMicro())
	hs := &store.HeldSpan{Span: store.Span{
		ID: 1, Token: 1, Holder: c.m.conf.Holder, Batch: 10, Lo: 0, Hi: 1, Queue: "q", Deaths: 3,
	}, Tasks: []store.Loaded{{N: 0, ContextSeq: -1}, {N: 1, ContextSeq: -1}}}
	c.m.loadSpan(c.q, hs, now.UnixMicro(), now)
	first, second := c.m.item(task.ID{Batch: 10, N: 0}), c.m.item(task.ID{Batch: 10, N: 1})
	if first.place != ready || second.place != parked {
		t.Fatalf("they are %d and %d", first.place, second.place)
	}
	c.m.reloadSoon(first)
	stood := &store.Stood{Found: true, Owner: hs.Span, Loaded: hs.Tasks[0]}
	stood.Due = now.Add(time.Hour).UnixMicro()
	c.m.replace(first, stood, now)
	if second.place != ready {
		t.Errorf("the second is %d while the first waits for an hour", second.place)
	}
	sound(t, c.m)
}
